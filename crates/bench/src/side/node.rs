//! One process of a side that was started here, and where it has its data.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::{Launch, OwnedProcess};
use crate::measure::Durability;

/// A broker of its own, or a node of a cluster.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) launch: Launch,
    process: Option<OwnedProcess>,
    directory: PathBuf,
}

impl Node {
    /// One that does not run yet.
    pub(super) fn new(launch: Launch, directory: PathBuf) -> Node {
        Node { launch, process: None, directory }
    }

    /// Starts it on its data. What it promises counts where that is decided for the whole broker.
    pub(super) fn start(&mut self, promise: Durability) -> anyhow::Result<()> {
        let Launch { command, synced_command, .. } = &self.launch;
        let command = match promise {
            Durability::Synced => synced_command.as_ref().unwrap_or(command),
            Durability::Unsynced => command,
        };
        self.process = Some(OwnedProcess::spawn(command, &self.log_path())?);
        Ok(())
    }

    /// Starts it without the time that it would wait for itself after a kill; false if it has no such setting.
    pub(super) fn start_at_once(&mut self) -> anyhow::Result<bool> {
        let Some(command) = &self.launch.command_at_once else { return Ok(false) };
        self.process = Some(OwnedProcess::spawn(command, &self.log_path())?);
        Ok(true)
    }

    /// The number of its process, while it has one.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(OwnedProcess::pid)
    }

    /// Asks it to end in good order.
    pub(super) fn ask_to_end(&self) -> anyhow::Result<()> {
        self.process.as_ref().map_or(Ok(()), OwnedProcess::ask_to_end)
    }

    /// How its process ended, if it has.
    pub(super) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.as_mut()?.exit_status()
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        // The process ends when its owner goes.
        self.process = None;
    }

    /// Where its output goes.
    pub(super) fn log_path(&self) -> PathBuf {
        self.directory.join("broker.log")
    }

    /// What it has said so far.
    pub(super) fn log(&self) -> String {
        let log = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

/// Where the nodes of a side have their data: one alone in the side's own directory.
pub(super) fn directories(side: &Path, nodes: usize) -> Vec<PathBuf> {
    match nodes {
        1 => vec![side.to_owned()],
        several => (1..=several).map(|number| side.join(format!("node-{number}"))).collect(),
    }
}
