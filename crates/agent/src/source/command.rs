//! Commands that sources run.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};

use tokio::net::unix::pipe::Receiver;

use super::SourceContext;
use crate::codec::lines::{Line, LineReader};

/// A command that runs, with the ends of its pipes. Dropped, it is killed.
pub(super) struct RunningCommand {
    child: Child,
    pub(super) stdout: Option<Receiver>,
    pub(super) stderr: Option<Receiver>,
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // It has ended already, or ends now; the wait is for a process that was killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl RunningCommand {
    /// Runs a command, whose pipes are those that it was told to have.
    pub(super) fn spawn(mut command: Command) -> io::Result<RunningCommand> {
        let mut child = command.spawn()?;
        let (stdout, stderr) = (pipe(child.stdout.take()), pipe(child.stderr.take()));
        let mut running = RunningCommand { child, stdout: None, stderr: None };
        (running.stdout, running.stderr) = (stdout?, stderr?);
        Ok(running)
    }

    /// Waits for a command whose output has ended.
    pub(super) async fn wait(mut self) -> io::Result<ExitStatus> {
        const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None => tokio::time::sleep(LOOK).await,
            }
        }
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
