//! The quorum as the broker sees it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_log::fs::{Fs, RealFs};
use logway_metadata::settings::BrokerSettings;
use logway_metadata::{Command, MetadataImage};
use tokio::sync::{mpsc, oneshot, watch};

use crate::directory::LOG_FILE;
use crate::error::QuorumError;
use crate::proposer::{self, Committed, SUBMISSIONS_MAX, Submission};
use crate::published::{IndexedImage, MetadataIndex, Published};
use crate::raft::Consensus;
use crate::status::QuorumStatus;

/// How often the log is replaced by a snapshot, unless said otherwise.
const SNAPSHOT_INTERVAL_ENTRIES: u64 = 10_000;

/// How to open a quorum.
#[derive(Clone)]
pub struct QuorumOptions {
    /// The directory of the quorum's own log and snapshots; created if need be.
    pub dir: PathBuf,
    /// This node's settings: its number, and what the controller goes by.
    pub settings: Arc<BrokerSettings>,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// A snapshot is written, and the log before it dropped, every so many committed entries.
    pub snapshot_interval_entries: u64,
}

impl QuorumOptions {
    /// The usual options for a directory.
    pub fn new(dir: &Path, settings: Arc<BrokerSettings>) -> QuorumOptions {
        QuorumOptions {
            dir: dir.to_owned(),
            settings,
            fs: Arc::new(RealFs),
            snapshot_interval_entries: SNAPSHOT_INTERVAL_ENTRIES,
        }
    }
}

/// This node's part in the metadata quorum.
///
/// Reads ([`image`](MetadataQuorum::image)) never wait. Writes ([`submit`](MetadataQuorum::submit))
/// return when their records are on stable storage and in the image, so that whoever asked sees
/// what it asked for.
///
/// Must be used within a tokio runtime with timers. Dropping it stops the quorum as a crash would;
/// [`shutdown`](MetadataQuorum::shutdown) also waits until its files are closed. No committed
/// record is lost by either, nor by a power cut.
pub struct MetadataQuorum {
    published: Arc<Published>,
    submissions: mpsc::Sender<Submission>,
    consensus: Consensus,
}

impl Drop for MetadataQuorum {
    fn drop(&mut self) {
        self.consensus.give_up_waiting();
    }
}

impl fmt::Debug for MetadataQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataQuorum").finish_non_exhaustive()
    }
}

impl MetadataQuorum {
    /// Where a quorum in the directory `dir` has its log. Without that file
    /// [`open`](MetadataQuorum::open) begins new metadata, unless there is a snapshot.
    pub fn log_path(dir: &Path) -> PathBuf {
        dir.join(LOG_FILE)
    }

    /// Opens the quorum of this node alone, or creates it where the directory is empty.
    ///
    /// Fails with [`QuorumError::Log`] or [`QuorumError::Snapshot`] where one of the two is missing
    /// or older than the other tells.
    ///
    /// Returns when this node leads and every record that was ever committed is in the image.
    pub async fn open(options: QuorumOptions) -> Result<MetadataQuorum, QuorumError> {
        let published = Arc::new(Published::new());
        let settings = options.settings.clone();
        let consensus = Consensus::open(options, published.clone()).await?;
        let (submissions, receiver) = mpsc::channel(SUBMISSIONS_MAX);
        tokio::spawn(proposer::run(receiver, consensus.clone(), published.clone(), settings));
        Ok(MetadataQuorum { published, submissions, consensus })
    }

    /// The newest image.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.published.image()
    }

    /// The newest image, with the index of the last commit in it.
    pub fn indexed_image(&self) -> IndexedImage {
        self.published.indexed_image()
    }

    /// Tells of new images: when its value has changed, [`image`](MetadataQuorum::image) returns the
    /// image of that index or a newer one.
    pub fn watch(&self) -> watch::Receiver<MetadataIndex> {
        self.published.watch()
    }

    /// Has the controller judge a command and commits what it decides.
    ///
    /// Fails with [`QuorumError::Refused`] if the controller refuses the whole command, and with
    /// [`QuorumError::DiskFull`], [`QuorumError::WaitsForSpace`], [`QuorumError::NotLeader`] or
    /// [`QuorumError::Stopped`] if nothing can be committed.
    pub async fn submit<C: Command>(&self, command: C) -> Result<Committed<C::Reply>, QuorumError> {
        let (answer, outcome) = oneshot::channel();
        let stopped = || QuorumError::Stopped { reason: "it is shutting down".to_owned() };
        let submission = Submission { command: command.into(), answer };
        self.submissions.send(submission).await.map_err(|_| stopped())?;
        let Committed { reply, index } = outcome.await.map_err(|_| stopped())??;
        let Ok(reply) = C::Reply::try_from(reply) else {
            unreachable!("the controller answers a command with its own kind of reply")
        };
        Ok(Committed { reply, index })
    }

    /// Who leads, and how far everybody is.
    pub fn status(&self) -> QuorumStatus {
        self.consensus.status()
    }

    /// Why nothing can be committed any more, if the quorum has stopped. A stopped quorum does not
    /// start again by itself; its last image stays readable.
    pub fn check_running(&self) -> Result<(), QuorumError> {
        self.consensus.check_running()
    }

    /// Writes a snapshot now and drops the log before it, instead of waiting for the next
    /// interval. Returns when the snapshot is on stable storage.
    pub async fn snapshot(&self) -> Result<(), QuorumError> {
        self.consensus.snapshot().await
    }

    /// Stops, and returns when the files are closed. What is submitted from now on fails with
    /// [`QuorumError::Stopped`]; the last image stays readable.
    pub async fn shutdown(&self) -> Result<(), QuorumError> {
        self.consensus.shutdown().await
    }
}
