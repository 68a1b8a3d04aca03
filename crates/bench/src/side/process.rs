//! A process that was started here and ends with its owner.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// One process, killed and waited for when this goes.
#[derive(Debug)]
pub(crate) struct OwnedProcess {
    child: Child,
}

impl OwnedProcess {
    /// Starts a command, whose output is appended to a file.
    pub(crate) fn spawn(command: &[String], log_path: &Path) -> anyhow::Result<OwnedProcess> {
        let log = OpenOptions::new().create(true).append(true).open(log_path);
        let log = log.with_context(|| format!("cannot write {}", log_path.display()))?;
        OwnedProcess::spawn_with(command, Stdio::null(), log.try_clone()?.into(), log.into())
    }

    /// Starts a command that is spoken with over its standard input and output. What it says on standard error, we say.
    pub(crate) fn spawn_to_talk(
        command: &[String],
    ) -> anyhow::Result<(OwnedProcess, ChildStdin, ChildStdout)> {
        let (input, output) = (Stdio::piped(), Stdio::piped());
        let mut process = OwnedProcess::spawn_with(command, input, output, Stdio::inherit())?;
        let input = process.child.stdin.take().context("a process without an input")?;
        let output = process.child.stdout.take().context("a process without an output")?;
        Ok((process, input, output))
    }

    fn spawn_with(
        command: &[String],
        input: Stdio,
        output: Stdio,
        errors: Stdio,
    ) -> anyhow::Result<OwnedProcess> {
        let (program, arguments) = command.split_first().context("an empty command")?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(input)
            .stdout(output)
            .stderr(errors)
            // Ctrl-C on the terminal is for us: we end what we started.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        Ok(OwnedProcess { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end in good order (SIGTERM).
    pub(crate) fn ask_to_end(&self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("a process without a number")?;
        kill_process(pid, Signal::TERM).context("cannot end a process")
    }

    /// How it ended, if it has.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use super::*;

    #[test]
    fn a_process_ends_with_its_owner() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("log");
        let command = ["sleep".to_owned(), "600".to_owned()];
        let mut process = OwnedProcess::spawn(&command, &log).expect("it starts");
        let proc = format!("/proc/{}", process.pid());
        assert_eq!(process.exit_status(), None);
        assert!(Path::new(&proc).exists());
        drop(process);
        assert!(!Path::new(&proc).exists());
    }

    #[test]
    fn a_process_may_end_by_itself() {
        let directory = tempfile::tempdir().expect("a directory");
        let command = ["sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"];
        let log = directory.path().join("log");
        let mut process =
            OwnedProcess::spawn(&command.map(str::to_owned), &log).expect("it starts");
        while std::fs::read(&log).expect("a log").is_empty() {
            std::thread::yield_now();
        }
        process.ask_to_end().expect("it is there");
        let status = loop {
            match process.exit_status() {
                Some(status) => break status,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn a_process_answers_what_it_is_told() {
        let command = ["sh", "-c", "read line; echo \"$line, too\"; read line; exit 7"];
        let command = command.map(str::to_owned);
        let talk = OwnedProcess::spawn_to_talk(&command).expect("it starts");
        let (mut process, mut input, output) = talk;
        input.write_all(b"you\n").expect("it listens");
        let mut lines = BufReader::new(output).lines();
        assert_eq!(lines.next().expect("it answers").expect("a line"), "you, too");
        assert_eq!(process.exit_status(), None);
        drop(input);
        assert!(lines.next().is_none());
    }

    #[test]
    fn a_command_that_does_not_exist_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let command = ["no-such-program".to_owned()];
        let error = OwnedProcess::spawn(&command, &directory.path().join("log"));
        assert!(error.expect_err("there is none").to_string().contains("no-such-program"));
    }
}
