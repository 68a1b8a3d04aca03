//! Commands that sources run.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::SourceContext;
use crate::codec::lines::{Line, LineReader};

/// How long a command has to end when it is told to.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// A command that runs, with the ends of its pipes. It leads a process group of its own, in which are all that it starts:
/// a shell has children. Dropped, the whole group is killed.
///
/// The command is not waited for before its group is told to end. Until then its number cannot be another group's.
pub(super) struct RunningCommand {
    child: Child,
    /// Whether nobody is left in the group.
    is_over: bool,
    pub(super) stdout: Option<Receiver>,
    pub(super) stderr: Option<Receiver>,
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if !self.is_over {
            // An error says that nobody is left; the wait is for a process that was killed.
            let _ = kill_process_group(self.group(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

impl RunningCommand {
    /// Runs a command, whose pipes are those that it was told to have.
    pub(super) fn spawn(mut command: Command) -> io::Result<RunningCommand> {
        let mut child = command.process_group(0).spawn()?;
        let (stdout, stderr) = (pipe(child.stdout.take()), pipe(child.stderr.take()));
        let mut running = RunningCommand { child, is_over: false, stdout: None, stderr: None };
        (running.stdout, running.stderr) = (stdout?, stderr?);
        Ok(running)
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for a command whose output has ended. Cancel safe.
    pub(super) async fn wait(&self) -> io::Result<()> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(self.group()), options)?.is_none() {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Ends the command, if it has not ended, and what it has started: all are told to, and killed if they do not.
    pub(super) async fn end(mut self) -> io::Result<ExitStatus> {
        let until = Instant::now() + END_PATIENCE;
        let group = self.group();
        let _ = kill_process_group(group, Signal::TERM);
        // As long as one is left in the group, its number is no other group's.
        while self.child.try_wait()?.is_none() || test_kill_process_group(group).is_ok() {
            if Instant::now() >= until {
                let _ = kill_process_group(group, Signal::KILL);
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        self.is_over = true;
        self.child.wait()
    }
}

fn pipe(end: Option<impl Into<OwnedFd>>) -> io::Result<Option<Receiver>> {
    end.map(|end| Receiver::from_owned_fd(end.into())).transpose()
}

/// Tells what a command writes to stderr, line by line.
pub(super) async fn log_errors(context: SourceContext, stderr: Receiver) {
    const LINE_BYTES_MAX: usize = 4096;
    let mut lines = LineReader::new(stderr, LINE_BYTES_MAX);
    while let Ok(Some(Line::Whole(line) | Line::TooLong(line))) = lines.next().await {
        let line = String::from_utf8_lossy(&line);
        tracing::warn!(source = context.delivery.source(), %line, "the command's stderr");
    }
}
