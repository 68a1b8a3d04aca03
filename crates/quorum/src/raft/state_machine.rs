//! openraft's view of the metadata: entries are applied to the image, images go into snapshots.

use std::io::Cursor;
use std::sync::Arc;

use logway_metadata::{MetadataError, MetadataImage};
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageIOError};

use super::snapshot_file::{SnapshotFile, encode};
use super::{
    Entry, LogId, SnapshotMeta, StorageError, StoredMembership, TypeConfig, any_error, blocking,
};
use crate::directory::Directory;
use crate::error::QuorumError;
use crate::published::{IndexedImage, MetadataIndex, Published};

type Snapshot = openraft::Snapshot<TypeConfig>;

/// The image, how far it has come, and where it is published.
///
/// It lives in memory alone: a restart takes the snapshot and applies the log after it.
pub(super) struct StateMachine {
    state: State,
    published: Arc<Published>,
    snapshot_file: SnapshotFile,
}

/// An image and the point in the log that it stands for.
#[derive(Clone, Default)]
struct State {
    image: Arc<MetadataImage>,
    last_applied: Option<LogId>,
    membership: StoredMembership,
}

impl StateMachine {
    /// The state of the snapshot in a directory, or the empty one. Waits for the disk.
    pub(super) fn open(
        directory: Arc<Directory>,
        published: Arc<Published>,
    ) -> Result<StateMachine, QuorumError> {
        let (snapshot_file, snapshot) = SnapshotFile::open(directory)?;
        let state = match snapshot {
            Some(snapshot) => State {
                image: Arc::new(snapshot_file.image(&snapshot)?),
                last_applied: snapshot.meta.last_log_id,
                membership: snapshot.meta.last_membership,
            },
            None => State::default(),
        };
        let machine = StateMachine { state, published, snapshot_file };
        machine.publish();
        Ok(machine)
    }

    fn publish(&self) {
        let index = MetadataIndex(self.state.last_applied.map_or(0, |id| id.index));
        self.published.publish(IndexedImage { image: self.state.image.clone(), index });
    }

    fn apply_entry(&mut self, entry: Entry) -> Result<(), MetadataError> {
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(membership) => {
                self.state.membership = StoredMembership::new(Some(entry.log_id), membership);
            }
            EntryPayload::Normal(batch) => {
                self.state.image = Arc::new(self.state.image.apply(&batch.0)?);
            }
        }
        self.state.last_applied = Some(entry.log_id);
        Ok(())
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.state.last_applied, self.state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut replies = Vec::new();
        for entry in entries {
            let log_id = entry.log_id;
            let applied = self.apply_entry(entry);
            applied.map_err(|error| StorageIOError::apply(log_id, any_error(error)))?;
            replies.push(());
        }
        self.publish();
        Ok(replies)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        SnapshotBuilder { state: self.state.clone(), snapshot_file: self.snapshot_file.clone() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let (file, meta_to_write) = (self.snapshot_file.clone(), meta.clone());
        let installed = blocking(move || {
            let snapshot = file.check(snapshot.into_inner())?;
            let image = file.image(&snapshot)?;
            file.write(&meta_to_write, &snapshot.bytes)?;
            Ok(image)
        });
        let image = installed.await.map_err(|error| {
            StorageIOError::write_snapshot(Some(meta.signature()), any_error(error))
        })?;
        self.state = State {
            image: Arc::new(image),
            last_applied: meta.last_log_id,
            membership: meta.last_membership.clone(),
        };
        self.publish();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let file = self.snapshot_file.clone();
        let snapshot = blocking(move || file.read())
            .await
            .map_err(|error| StorageIOError::read_snapshot(None, any_error(error)))?;
        Ok(snapshot.map(|snapshot| Snapshot {
            meta: snapshot.meta,
            snapshot: Box::new(Cursor::new(snapshot.bytes)),
        }))
    }
}

/// Writes a snapshot of the state as it was when the builder was made.
pub(super) struct SnapshotBuilder {
    state: State,
    snapshot_file: SnapshotFile,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let State { image, last_applied, membership } = self.state.clone();
        let snapshot_id = last_applied.map_or_else(String::new, |id| id.to_string());
        let meta =
            SnapshotMeta { last_log_id: last_applied, last_membership: membership, snapshot_id };
        let (file, meta_to_write) = (self.snapshot_file.clone(), meta.clone());
        let written = blocking(move || {
            let bytes = encode(&meta_to_write, &image)
                .map_err(|error| QuorumError::Stopped { reason: error.to_string() })?;
            file.write(&meta_to_write, &bytes)?;
            Ok(bytes)
        });
        let bytes = written.await.map_err(|error| {
            StorageIOError::write_snapshot(Some(meta.signature()), any_error(error))
        })?;
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}
