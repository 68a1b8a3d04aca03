//! What becomes of a broker that loses a log directory.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use logway_log::checkpoint::MetaProperties;
use logway_log::fs::{Fs, OpenMode};
use logway_log::{FailureListener, LogDir, LogError};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::{DirState, LogDirs};
use crate::Node;
use crate::backoff::Backoff;
use crate::failure::Failure;
use crate::tasks::off_thread;

/// How often it is looked whether the directories are still there: a disk can be unmounted under
/// files that are open, and what is written to them then is gone with the next start.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// How long the writer of a directory that has failed is kept at most, for the answer that clients
/// get.
const WRITER_KEPT_MAX: Duration = Duration::from_secs(2);

/// Why the broker cannot go on.
#[derive(Debug, Clone, thiserror::Error)]
#[error("log directory {} has failed, and {}: {error}", dir.display(), match has_metadata {
    true => "it holds the metadata",
    false => "it was the last one",
})]
pub struct LostDirectories {
    /// The directory without which the broker cannot go on.
    pub dir: PathBuf,
    /// Whether it is the one of the metadata; else it was the last that could be used.
    pub has_metadata: bool,
    /// What happened to it.
    pub error: LogError,
}

/// A directory that somebody found to have failed.
struct Failed {
    path: PathBuf,
    error: LogError,
}

/// Where those who find that a directory has failed say so.
#[derive(Clone)]
pub(crate) struct FailureReports(mpsc::UnboundedSender<Failed>);

/// Takes note of failures.
pub(crate) struct FailureWatch {
    failed: mpsc::UnboundedReceiver<Failed>,
    /// Where the probes say so.
    reports: FailureReports,
    fs: Arc<dyn Fs>,
}

impl FailureReports {
    /// Both ends. Each log reports once, so that there are never many.
    pub(crate) fn new(fs: Arc<dyn Fs>) -> (FailureReports, FailureWatch) {
        let (sender, failed) = mpsc::unbounded_channel();
        let reports = FailureReports(sender);
        (reports.clone(), FailureWatch { failed, reports, fs })
    }

    /// For the log directory at `path`.
    pub(crate) fn listener(&self, path: &Path) -> FailureListener {
        let (reports, path) = (self.clone(), path.to_owned());
        Arc::new(move |error| reports.report(&path, error))
    }

    /// The directory at `path` has failed.
    pub(crate) fn report(&self, path: &Path, error: &LogError) {
        // Nobody listens when the broker stops.
        let _ = self.0.send(Failed { path: path.to_owned(), error: error.clone() });
    }
}

impl FailureWatch {
    /// Takes failed directories offline for as long as the broker exists.
    pub(crate) async fn run(self, node: Weak<Node>) {
        let FailureWatch { mut failed, reports, fs } = self;
        let Some(strong) = node.upgrade() else { return };
        for index in 0..strong.log_dirs.dirs.len() {
            let probes =
                probe_again_and_again(Weak::clone(&node), index, fs.clone(), reports.clone());
            tokio::spawn(probes);
        }
        drop(strong);
        // The broker's directories have senders, too.
        drop(reports);
        while let Some(Failed { path, error }) = failed.recv().await {
            let Some(node) = node.upgrade() else { return };
            // At once; what follows from it may wait for another disk.
            let Some(lost) = node.log_dirs.take_offline(&path, &error) else { continue };
            tokio::spawn(lose_directory(node, lost, error));
        }
    }
}

/// Looks at one directory for as long as it is online. A disk that does not answer delays no look at
/// another.
async fn probe_again_and_again(
    node: Weak<Node>,
    index: usize,
    fs: Arc<dyn Fs>,
    reports: FailureReports,
) {
    loop {
        sleep(PROBE_INTERVAL).await;
        let Some(node) = node.upgrade() else { return };
        let Some(dir) = node.log_dirs.dirs[index].online() else { return };
        drop(node);
        let fs = Arc::clone(&fs);
        let (path, error) = off_thread(move || (dir.path().to_owned(), probe(&*fs, &dir))).await;
        if let Some(error) = error {
            reports.report(&path, &error);
        }
    }
}

impl LogDirs {
    /// Takes a directory offline; returns it, if it was online.
    fn take_offline(&self, path: &Path, error: &LogError) -> Option<Arc<LogDir>> {
        let dir = self.dirs.iter().find(|dir| dir.path == path)?;
        let mut state = dir.state.write().unwrap_or_else(PoisonError::into_inner);
        let DirState::Online(log_dir) = &*state else { return None };
        let id = Some(log_dir.directory_id());
        match std::mem::replace(&mut *state, DirState::Offline { id, error: error.clone() }) {
            DirState::Online(log_dir) => Some(log_dir),
            DirState::Offline { .. } => None,
        }
    }
}

/// Looks whether a directory is still what was opened, and can be written to: a file system is made
/// read-only when it has found an error. A look that fails for another reason says nothing: there may
/// be no descriptor left.
fn probe(fs: &dyn Fs, dir: &LogDir) -> Option<LogError> {
    let path = dir.path().join(MetaProperties::FILE);
    match MetaProperties::read(fs, &path) {
        Ok(Some(found)) if found.directory_id == dir.directory_id() => {
            let source = Arc::new(fs.open(&path, OpenMode::ReadWrite).err()?);
            Some(LogError::Io { op: "open", path, source }).filter(LogError::is_device_failure)
        }
        Ok(_) => {
            let (dir, id) = (dir.path().to_owned(), dir.directory_id());
            Some(LogError::DirectoryEmptied { dir, id })
        }
        Err(error) => error.is_device_failure().then_some(error),
    }
}

/// Goes on without a directory, or ends if that is not possible.
async fn lose_directory(node: Arc<Node>, lost: Arc<LogDir>, error: LogError) {
    let path = lost.path();
    tracing::error!(path = %path.display(), %error,
        "a log directory has failed; the partitions in it are offline");
    let has_metadata = path == node.log_dirs.dirs[0].path;
    if has_metadata || node.log_dirs.online().next().is_none() {
        let lost = LostDirectories { dir: path.to_owned(), has_metadata, error };
        node.lost_directories.send_replace(Some(lost));
    }
    // Its partitions go before its writer does, so that clients are told why; unless that has to
    // wait for too long, perhaps for this disk.
    let reconciling = tokio::spawn({
        let node = Arc::clone(&node);
        async move { node.reconciliation.look_at_all().await }
    });
    // If it panics, that is in the log.
    let _ = timeout(WRITER_KEPT_MAX, reconciling).await;
    // The disk may never answer again: nobody waits for that.
    tokio::task::spawn_blocking(move || lost.abort());
    let weak = Arc::downgrade(&node);
    drop(node);
    tell_of_loss(Backoff::new(), || {
        let node = weak.upgrade();
        async move {
            match node {
                Some(node) => node.register().await,
                None => Ok(()),
            }
        }
    })
    .await;
}

/// Tells the metadata which directories there still are, again and again until that succeeds: until
/// then others take this broker for the leader of partitions that it has lost.
async fn tell_of_loss<F>(mut backoff: Backoff, mut tell: impl FnMut() -> F)
where
    F: Future<Output = Result<(), Failure>>,
{
    while let Err(failure) = tell().await {
        tracing::error!(
            reason = failure.message,
            "the loss of a log directory cannot be told to the metadata yet"
        );
        sleep(backoff.pause()).await;
    }
}

#[cfg(test)]
mod tests {
    use logway_model::ErrorCode;

    use super::*;

    #[tokio::test]
    async fn a_loss_is_told_until_somebody_takes_note() {
        let mut refusals = 5;
        tell_of_loss(Backoff::starting_at(Duration::from_millis(1)), || {
            let refused = Failure::new(ErrorCode::KafkaStorageError, "the disk is full");
            refusals -= 1;
            std::future::ready(if refusals > 0 { Err(refused) } else { Ok(()) })
        })
        .await;
        assert_eq!(refusals, 0);
    }
}
