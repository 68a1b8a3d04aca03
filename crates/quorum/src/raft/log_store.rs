//! openraft's view of the log: entries, vote and log ids as JSON in the [`LogFile`].

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader, StorageIOError};
use redb::Durability;
use serde::de::DeserializeOwned;

use super::snapshot_file::SnapshotFile;
use super::{Entry, LogId, StorageError, TypeConfig, Vote, any_error};
use crate::disk_work::DiskProgress;
use crate::error::QuorumError;
use crate::log_file::LogFile;
use crate::options::{DiskWork, Mutation};

const VOTE: &str = "vote";
const PURGED: &str = "purged";
const COMMITTED: &str = "committed";
const INSTALLING: &str = "installing";

/// Entries that go to another node at once have so many bytes, unless one alone has more.
const APPEND_BYTES: usize = 1 << 20;

/// The log, the vote and what goes with them. Clones share one file.
#[derive(Clone)]
pub(super) struct LogStore {
    file: Arc<LogFile>,
    disk_work: DiskWork,
    progress: Arc<DiskProgress>,
    /// Where the snapshot is that must have what is purged here.
    snapshot_file: Option<SnapshotFile>,
    mutation: Option<Mutation>,
}

impl LogStore {
    pub(super) fn new(file: LogFile, disk_work: DiskWork) -> LogStore {
        let (file, progress) = (Arc::new(file), Arc::default());
        LogStore { file, disk_work, progress, snapshot_file: None, mutation: None }
    }

    /// Tells whether its disk makes progress.
    pub(super) fn with_progress(self, progress: Arc<DiskProgress>) -> LogStore {
        LogStore { progress, ..self }
    }

    /// Breaks a rule.
    pub(super) fn with_mutation(self, mutation: Option<Mutation>) -> LogStore {
        LogStore { mutation, ..self }
    }

    /// How a change gets to the disk: at once, unless a mutation leaves its sync out.
    fn durability(&self, without: Mutation) -> Durability {
        if self.mutation == Some(without) { Durability::None } else { Durability::Immediate }
    }

    /// From now on nothing is purged that is not in the snapshot on stable storage.
    pub(super) fn with_snapshots(self, snapshot_file: SnapshotFile) -> LogStore {
        LogStore { snapshot_file: Some(snapshot_file), ..self }
    }

    /// Puts down that a snapshot from another node is about to take its name. Waits for the disk.
    pub(super) fn set_installing(&self, log_id: LogId) -> Result<(), QuorumError> {
        let value = serde_json::to_vec(&log_id).map_err(|error| self.file.error(error))?;
        self.file.set_value(Durability::Immediate, INSTALLING, &value)
    }

    /// The last snapshot from another node.
    pub(super) async fn installing(&self) -> Result<Option<LogId>, QuorumError> {
        self.value(INSTALLING).await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LogFile) -> Result<T, QuorumError> + Send + 'static,
    ) -> Result<T, QuorumError> {
        let file = self.file.clone();
        let _under_way = self.progress.begin();
        self.disk_work.try_run(move || work(&file)).await
    }

    async fn set_value(
        &self,
        durability: Durability,
        key: &'static str,
        value: Vec<u8>,
    ) -> Result<(), QuorumError> {
        self.run(move |file| file.set_value(durability, key, &value)).await
    }

    async fn value<T: DeserializeOwned + Send + 'static>(
        &self,
        key: &'static str,
    ) -> Result<Option<T>, QuorumError> {
        self.run(move |file| {
            let value = file.value(key)?;
            let decode = |bytes: Vec<u8>| {
                serde_json::from_slice(&bytes)
                    .map_err(|error| file.error(format!("{key}: {error}")))
            };
            value.map(decode).transpose()
        })
        .await
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        let range: (Bound<u64>, Bound<u64>) =
            (range.start_bound().cloned(), range.end_bound().cloned());
        let read = self.run(move |file| {
            let entries = file.entries(range)?;
            entries.iter().map(|(index, entry)| decode_entry(file, *index, entry)).collect()
        });
        read.await.map_err(|error| StorageIOError::read_logs(any_error(error)).into())
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, StorageError> {
        let read = self.run(move |file| {
            let entries = file.entries_within(start..end, APPEND_BYTES)?;
            entries.iter().map(|(index, entry)| decode_entry(file, *index, entry)).collect()
        });
        read.await.map_err(|error| StorageIOError::read_logs(any_error(error)).into())
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let failed = |error| StorageError::from(StorageIOError::read_logs(any_error(error)));
        let purged: Option<LogId> = self.value(PURGED).await.map_err(failed)?;
        let last = self.run(|file| {
            let last = file.last_entry()?;
            last.map(|(index, entry)| decode_entry(file, index, &entry)).transpose()
        });
        let last = last.await.map_err(failed)?.map(|entry| entry.log_id);
        Ok(LogState { last_purged_log_id: purged, last_log_id: last.or(purged) })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let saved = match serde_json::to_vec(vote) {
            Ok(vote) => {
                let durability = self.durability(Mutation::VotesWithoutSync);
                self.set_value(durability, VOTE, vote).await
            }
            Err(error) => Err(self.file.error(error)),
        };
        saved.map_err(|error| StorageIOError::write_vote(any_error(error)).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        let vote = self.value(VOTE).await;
        vote.map_err(|error| StorageIOError::read_vote(any_error(error)).into())
    }

    /// Not synced: it only lets a restart apply entries before it knows the leader again.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        let saved = match serde_json::to_vec(&committed) {
            Ok(committed) => self.set_value(Durability::None, COMMITTED, committed).await,
            Err(error) => Err(self.file.error(error)),
        };
        saved.map_err(|error| StorageIOError::write_logs(any_error(error)).into())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        let committed: Result<Option<Option<LogId>>, _> = self.value(COMMITTED).await;
        let committed = committed.map(Option::flatten);
        committed.map_err(|error| StorageIOError::read_logs(any_error(error)).into())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let encode = |entry: Entry| Ok((entry.log_id.index, serde_json::to_vec(&entry)?));
        let encoded: Result<Vec<_>, serde_json::Error> = entries.into_iter().map(encode).collect();
        let appended = match encoded {
            Ok(encoded) => {
                let durability = self.durability(Mutation::AppendsWithoutSync);
                self.run(move |file| file.append(durability, &encoded)).await
            }
            Err(error) => Err(self.file.error(error)),
        };
        callback.log_io_completed(appended.clone().map_err(io::Error::other));
        appended.map_err(|error| StorageIOError::write_logs(any_error(error)).into())
    }

    async fn truncate(&mut self, from: LogId) -> Result<(), StorageError> {
        let truncated = self.run(move |file| file.truncate(from.index)).await;
        truncated.map_err(|error| StorageIOError::write_logs(any_error(error)).into())
    }

    async fn purge(&mut self, to: LogId) -> Result<(), StorageError> {
        if let Some(snapshot_file) = &self.snapshot_file {
            let is_there = snapshot_file.wait_for(to).await;
            is_there.map_err(|error| StorageIOError::write_logs(any_error(error)))?;
        }
        let purged = match serde_json::to_vec(&to) {
            Ok(id) => self.run(move |file| file.purge(to.index, PURGED, &id)).await,
            Err(error) => Err(self.file.error(error)),
        };
        purged.map_err(|error| StorageIOError::write_logs(any_error(error)).into())
    }
}

fn decode_entry(file: &LogFile, index: u64, bytes: &[u8]) -> Result<Entry, QuorumError> {
    serde_json::from_slice(bytes).map_err(|error| file.error(format!("entry {index}: {error}")))
}
