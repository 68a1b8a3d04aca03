//! openraft's view of the metadata: entries are applied to the image, images go into snapshots.

use std::sync::Arc;

use logway_metadata::event::{ClusterEvent, events_of};
use logway_metadata::{MetadataError, MetadataImage};
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageIOError};

use super::batch::{Applied, Batch};
use super::log_store::LogStore;
use super::snapshot_data::SnapshotData;
use super::snapshot_file::{Content, SnapshotFile};
use super::{
    Entry, LogId, Membership, SnapshotMeta, StorageError, StoredMembership, TypeConfig, any_error,
};
use crate::directory::Directory;
use crate::error::QuorumError;
use crate::membership::broker_id;
use crate::options::{DiskWork, Mutation, OnEvents};
use crate::published::{IndexedImage, MetadataIndex, Published};

type Snapshot = openraft::Snapshot<TypeConfig>;

/// The image, how far it has come, and where it is published.
///
/// It lives in memory alone: a restart takes the snapshot and applies the log after it.
pub(super) struct StateMachine {
    state: State,
    published: Arc<Published>,
    snapshot_file: SnapshotFile,
    log: LogStore,
    disk_work: DiskWork,
    on_events: Option<OnEvents>,
    mutation: Option<Mutation>,
}

/// An image and the point in the log that it stands for.
#[derive(Clone, Default)]
struct State {
    image: Arc<MetadataImage>,
    /// The entry that last changed the image.
    image_at: u64,
    last_applied: Option<LogId>,
    membership: StoredMembership,
}

impl State {
    fn of(content: &mut Content) -> State {
        State {
            image: Arc::new(std::mem::take(&mut content.image)),
            image_at: content.image_at,
            last_applied: content.meta.last_log_id,
            membership: content.meta.last_membership.clone(),
        }
    }
}

impl StateMachine {
    /// The state of the snapshot in a directory, or the empty one. Waits for the disk.
    pub(super) fn open(
        directory: Arc<Directory>,
        published: Arc<Published>,
        log: LogStore,
        disk_work: DiskWork,
    ) -> Result<StateMachine, QuorumError> {
        let (snapshot_file, content) = SnapshotFile::open(directory)?;
        let state = match content {
            Some(mut content) => {
                *published.recent() = std::mem::take(&mut content.recent);
                State::of(&mut content)
            }
            None => State::default(),
        };
        let (on_events, mutation) = (None, None);
        let machine =
            StateMachine { state, published, snapshot_file, log, disk_work, on_events, mutation };
        machine.publish();
        Ok(machine)
    }

    /// Tells somebody what commits change.
    pub(super) fn telling(self, on_events: Option<OnEvents>) -> StateMachine {
        StateMachine { on_events, ..self }
    }

    /// Breaks a rule.
    pub(super) fn with_mutation(self, mutation: Option<Mutation>) -> StateMachine {
        StateMachine { mutation, ..self }
    }

    /// Where its snapshots are.
    pub(super) fn snapshot_file(&self) -> SnapshotFile {
        self.snapshot_file.clone()
    }

    fn publish(&self) {
        let index = MetadataIndex(self.state.last_applied.map_or(0, |id| id.index));
        let (image, image_at) = (self.state.image.clone(), self.state.image_at);
        self.published.publish(IndexedImage { image, index, image_at });
    }

    fn apply_entry(&mut self, entry: Entry) -> Result<Applied, MetadataError> {
        let mut applied = Applied::Done;
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(membership) => {
                self.tell_voters(entry.log_id, &membership);
                self.state.membership = StoredMembership::new(Some(entry.log_id), membership);
            }
            EntryPayload::Normal(batch) => applied = self.apply_batch(entry.log_id, batch)?,
        }
        self.state.last_applied = Some(entry.log_id);
        Ok(applied)
    }

    fn apply_batch(&mut self, log_id: LogId, batch: Batch) -> Result<Applied, MetadataError> {
        let Batch { base, records, commands } = batch;
        let is_mutated = self.mutation == Some(Mutation::AppliesToAnyImage);
        if base.is_some_and(|base| base != self.state.image_at) && !is_mutated {
            return Ok(Applied::Overtaken);
        }
        let image = Arc::new(self.state.image.apply(&records)?);
        if let Some(on_events) = &self.on_events {
            tell(on_events, log_id, events_of(&self.state.image, &records));
        }
        self.state.image = image;
        self.state.image_at = log_id.index;
        let mut recent = self.published.recent();
        for command in commands {
            recent.add(log_id.index, command);
        }
        Ok(Applied::Done)
    }
}

impl StateMachine {
    /// Tells of other voters, when they alone vote: not while those before them do as well.
    fn tell_voters(&self, log_id: LogId, membership: &Membership) {
        let before = self.state.membership.membership().get_joint_config();
        let (Some(on_events), [voters]) = (&self.on_events, &membership.get_joint_config()[..])
        else {
            return;
        };
        if before.last() == Some(voters) && before.len() == 1 {
            return;
        }
        let voters = voters.iter().copied().map(broker_id);
        tell(on_events, log_id, vec![ClusterEvent::voters_changed(voters)]);
    }
}

fn tell(on_events: &OnEvents, log_id: LogId, events: Vec<ClusterEvent>) {
    if !events.is_empty() {
        on_events(MetadataIndex(log_id.index), events);
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.state.last_applied, self.state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Applied>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut replies = Vec::new();
        for entry in entries {
            let log_id = entry.log_id;
            let applied = self.apply_entry(entry);
            let applied =
                applied.map_err(|error| StorageIOError::apply(log_id, any_error(error)))?;
            replies.push(applied);
        }
        self.publish();
        Ok(replies)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        SnapshotBuilder {
            state: self.state.clone(),
            recent: self.published.recent().clone(),
            snapshot_file: self.snapshot_file.clone(),
            disk_work: self.disk_work.clone(),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<SnapshotData>, StorageError> {
        let file = self.snapshot_file.clone();
        let data = self.disk_work.try_run(move || file.begin_receiving()).await;
        let data = data.map_err(|error| StorageIOError::write_snapshot(None, any_error(error)))?;
        Ok(Box::new(data))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<SnapshotData>,
    ) -> Result<(), StorageError> {
        let (file, log) = (self.snapshot_file.clone(), self.log.clone());
        let wanted = meta.clone();
        let installed = self.disk_work.try_run(move || {
            // A crash between this and the end of the purge that follows leaves a snapshot ahead
            // of the log, and the next start knows that it is no sign of a lost log.
            file.install(&wanted, &snapshot, |log_id| log.set_installing(log_id))
        });
        let mut content = installed.await.map_err(|error| {
            StorageIOError::write_snapshot(Some(meta.signature()), any_error(error))
        })?;
        *self.published.recent() = std::mem::take(&mut content.recent);
        self.state = State::of(&mut content);
        self.publish();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let file = self.snapshot_file.clone();
        let current = self.disk_work.try_run(move || file.current()).await;
        let current =
            current.map_err(|error| StorageIOError::read_snapshot(None, any_error(error)))?;
        Ok(current.map(|(meta, data)| Snapshot { meta, snapshot: Box::new(data) }))
    }
}

/// Writes a snapshot of the state as it was when the builder was made.
pub(super) struct SnapshotBuilder {
    state: State,
    recent: crate::command_id::RecentCommands,
    snapshot_file: SnapshotFile,
    disk_work: DiskWork,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let State { image, image_at, last_applied, membership } = self.state.clone();
        let snapshot_id = last_applied.map_or_else(String::new, |id| id.to_string());
        let meta =
            SnapshotMeta { last_log_id: last_applied, last_membership: membership, snapshot_id };
        let content = Content {
            meta: meta.clone(),
            image: MetadataImage::clone(&image),
            image_at,
            recent: self.recent.clone(),
        };
        let file = self.snapshot_file.clone();
        let written = self.disk_work.try_run(move || file.write(&content)).await;
        let data = written.map_err(|error| {
            StorageIOError::write_snapshot(Some(meta.signature()), any_error(error))
        })?;
        Ok(Snapshot { meta, snapshot: Box::new(data) })
    }
}
