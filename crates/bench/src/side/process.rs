//! A process that was started here and ends with its owner.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::Context;

/// One process, killed and waited for when this goes.
#[derive(Debug)]
pub(crate) struct OwnedProcess {
    child: Child,
}

impl OwnedProcess {
    /// Starts a command, whose output is appended to a file.
    pub(crate) fn spawn(command: &[String], log_path: &Path) -> anyhow::Result<OwnedProcess> {
        let (program, arguments) = command.split_first().context("an empty command")?;
        let log = OpenOptions::new().create(true).append(true).open(log_path);
        let log = log.with_context(|| format!("cannot write {}", log_path.display()))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C on the terminal is for us: we end what we started.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        Ok(OwnedProcess { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
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
    fn a_command_that_does_not_exist_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let command = ["no-such-program".to_owned()];
        let error = OwnedProcess::spawn(&command, &directory.path().join("log"));
        assert!(error.expect_err("there is none").to_string().contains("no-such-program"));
    }
}
