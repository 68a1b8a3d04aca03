//! Reads a topic as a member of a group, and commits what sinks have taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logway_client::{
    Client, ClientError, Consumer, ConsumerOptions, FetchEvent, FetchedRecords, GroupConsumer,
    GroupEvent, GroupOptions, StartAt,
};
use logway_model::{ErrorCode, Offset, PartitionId, TopicName, TopicPartition};
use tokio::sync::{Notify, mpsc, oneshot};

use super::cursor::{Cursor, Waiting};
use super::format::Format;
use super::ground::Ground;
use super::seen::Seen;
use crate::counters::Count;
use crate::event::Event;
use crate::stop::Stop;

/// How long to wait before something is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// What the member shares with the takes.
#[derive(Debug)]
pub(super) struct Shared {
    cursor: Mutex<Cursor>,
    /// Tells takes that there is something.
    pub(super) arrived: Arc<Notify>,
    /// Tells the member that somebody takes.
    pub(super) wanted: Notify,
    /// Tells the member that there is room.
    pub(super) freed: Notify,
    /// Events that were there before, by their ids.
    pub(super) repeated: Count,
    /// Offsets that were gone before they were read.
    pub(super) lost: Count,
}

impl Shared {
    pub(super) fn new(arrived: Arc<Notify>) -> Shared {
        Shared {
            cursor: Mutex::default(),
            arrived,
            wanted: Notify::new(),
            freed: Notify::new(),
            repeated: Count::default(),
            lost: Count::default(),
        }
    }

    pub(super) fn cursor(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers those who wait for a commit. If the group has changed, everything is given up before they hear of it:
    /// or what they took would be taken and sent again and again, until a heartbeat tells of the change.
    fn answer(&self, waiting: Vec<oneshot::Sender<Result<(), String>>>, is_committed: bool) {
        let outcome = match is_committed {
            true => Ok(()),
            false => {
                self.cursor().assign(std::iter::empty());
                Err(REBALANCED.to_owned())
            }
        };
        waiting.into_iter().for_each(|done| drop(done.send(outcome.clone())));
    }
}

/// Offsets to be committed, and who waits for that.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) generation: u64,
    pub(super) next: Vec<(PartitionId, Offset)>,
    /// Without one, it is committed with others, or in time.
    pub(super) done: Option<oneshot::Sender<Result<(), String>>>,
}

/// What the member is to do after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    /// Joins anew, with nothing of what was read.
    JoinAnew,
}

/// A task that reads and commits. It joins the group when somebody takes.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) channel: String,
    pub(super) client: Client,
    pub(super) ground: Arc<Ground>,
    pub(super) topic: TopicName,
    pub(super) options: GroupOptions,
    pub(super) format: Format,
    /// With how many events of a partition an event is compared; 0 for none.
    pub(super) window: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) commits: mpsc::Receiver<Commit>,
    pub(super) stop: Stop,
    pub(super) seen: HashMap<PartitionId, Seen>,
}

pub(super) const REBALANCED: &str =
    "the group has changed: what was taken is read again, here or elsewhere";

impl Member {
    /// Runs until it is told to stop; after an error it joins again.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.wait() => return,
            () = self.shared.wanted.notified() => {}
        }
        while !stop.is_set() {
            let outcome = self.serve().await;
            if let Err(error) = &outcome
                && error.code() == Some(ErrorCode::UnknownTopicOrPartition)
            {
                let waiting = self.shared.cursor().waiting(|_| true);
                self.lose(waiting);
            }
            self.give_up();
            if let Err(error) = outcome {
                tracing::warn!(channel = self.channel, %error, "the topic of a channel cannot be read; trying again");
                stop.sleep(PAUSE).await;
            }
        }
    }

    async fn serve(&mut self) -> Result<(), ClientError> {
        self.ground.prepare().await?;
        let topics = BTreeSet::from([self.topic.clone()]);
        let group = self.ground.group.clone();
        let mut member =
            GroupConsumer::open(&self.client, &group, topics, self.options.clone()).await?;
        let (stop, shared) = (self.stop.clone(), Arc::clone(&self.shared));
        loop {
            let has_room = shared.cursor().has_room();
            let event = async {
                match has_room {
                    true => member.next().await,
                    false => member.hold().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.wait() => {
                    if let Ok(commit) = self.commits.try_recv() {
                        self.commit(&mut member, commit).await?;
                    }
                    return member.close().await;
                }
                Some(commit) = self.commits.recv() => self.commit(&mut member, commit).await?,
                () = shared.freed.notified(), if !has_room => {}
                event = event => {
                    if self.note(&mut member, event?).await? == Then::JoinAnew {
                        return member.close().await;
                    }
                }
            }
        }
    }

    async fn note(
        &mut self,
        member: &mut GroupConsumer,
        event: Option<GroupEvent>,
    ) -> Result<Then, ClientError> {
        let mut then = Then::GoOn;
        match event {
            Some(GroupEvent::Assigned(partitions)) => {
                self.remember(&partitions).await?;
                self.assign(&partitions);
                self.begin_with_notes(member, &partitions);
            }
            Some(GroupEvent::Revoked) => self.assign(&BTreeSet::new()),
            Some(GroupEvent::Lost) => self.give_up(),
            Some(GroupEvent::Fetched(events)) => {
                for event in events {
                    match event {
                        FetchEvent::Records(records) => self.add(member, &records)?,
                        FetchEvent::Skipped { partition, from, to } => {
                            self.shared.lost.add(usize::try_from(to.0 - from.0).unwrap_or(0));
                            tracing::error!(channel = self.channel, %partition, from = from.0, to = to.0, "events are gone before they were taken: the topic keeps them for too short a time");
                        }
                        FetchEvent::Recreated { partition, from, to, .. } => {
                            let waiting =
                                self.shared.cursor().waiting(|id| id == partition.partition);
                            tracing::error!(channel = self.channel, %partition, from = from.0, to = to.0, "the topic was deleted and made again: events that were in it are gone, and the new one is read from its start");
                            self.lose(waiting);
                            then = Then::JoinAnew;
                        }
                    }
                }
            }
            None => {}
        }
        Ok(then)
    }

    /// Events were read, and not taken before their topic was deleted.
    fn lose(&self, events: usize) {
        if events > 0 {
            self.shared.lost.add(events);
            tracing::error!(
                channel = self.channel,
                events,
                "events are lost with their topic, which was deleted"
            );
        }
    }

    /// Leaves out what was done with before although events before it were not.
    fn begin_with_notes(&self, member: &GroupConsumer, partitions: &BTreeSet<TopicPartition>) {
        let mut cursor = self.shared.cursor();
        for partition in partitions {
            if let Some((from, note)) = member.note(partition) {
                cursor.begin_with_note(partition.partition, from, note);
            }
        }
    }

    fn assign(&self, partitions: &BTreeSet<TopicPartition>) {
        self.shared.cursor().assign(partitions.iter().map(|partition| partition.partition));
    }

    /// Others may read on: what they read is not known here.
    fn give_up(&mut self) {
        self.assign(&BTreeSet::new());
        self.seen.clear();
    }

    /// Decodes records, leaves out what was there before, and wakes the takes.
    fn add(
        &mut self,
        member: &mut GroupConsumer,
        records: &FetchedRecords,
    ) -> Result<(), ClientError> {
        let (partition, next) = (records.partition(), records.next_offset());
        let mut events = Vec::new();
        for record in records.records() {
            let record = record?;
            let event = self.format.decode(partition, &record);
            if self.is_again(partition.partition, &event, record.offset) {
                self.shared.repeated.add(1);
                continue;
            }
            let (offset, timestamp) = (record.offset, record.timestamp);
            events.push(Waiting { offset, timestamp, event });
        }
        let is_all_done = self.shared.cursor().add(partition.partition, events, next);
        if is_all_done {
            member.consumed(partition, next);
        }
        self.shared.arrived.notify_waiters();
        Ok(())
    }

    fn is_again(&mut self, id: PartitionId, event: &Event, offset: Offset) -> bool {
        is_again(&mut self.seen, &self.format, self.window, id, event, offset)
    }

    /// Reads the ids of what was committed last, so that what is put again is known after a restart, too. After an
    /// error nothing of it is known: what is half known would be taken for all.
    async fn remember(&mut self, partitions: &BTreeSet<TopicPartition>) -> Result<(), ClientError> {
        self.seen.retain(|id, _| partitions.iter().any(|p| p.partition == *id));
        if self.window == 0 {
            return Ok(());
        }
        let committed = self.client.committed_offsets(&self.ground.group).await?;
        let mut left: BTreeMap<TopicPartition, Offset> = BTreeMap::new();
        for partition in partitions.iter().filter(|p| !self.seen.contains_key(&p.partition)) {
            let offset = committed.get(partition).map(|committed| committed.offset);
            left.extend(offset.filter(|offset| offset.0 > 0).map(|o| (partition.clone(), o)));
        }
        if !left.is_empty() {
            match self.read_ids(left).await {
                Ok(seen) => self.seen.extend(seen),
                // What was committed is of a topic that was deleted since, and longer.
                Err(ClientError::OffsetOutOfRange { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the ids before these offsets.
    async fn read_ids(
        &self,
        mut left: BTreeMap<TopicPartition, Offset>,
    ) -> Result<HashMap<PartitionId, Seen>, ClientError> {
        let mut seen = HashMap::new();
        let back = i64::try_from(self.window).unwrap_or(i64::MAX);
        let starts = left.iter().map(|(partition, offset)| {
            (partition.clone(), StartAt::Offset(Offset((offset.0 - back).max(0))))
        });
        let starts: BTreeMap<TopicPartition, StartAt> = starts.collect();
        let options = ConsumerOptions { stops_at_end: true, ..self.options.consumer.clone() };
        let mut consumer = Consumer::open(&self.client, &starts, options).await?;
        while !left.is_empty()
            && let Some(events) = consumer.next().await?
        {
            for event in events {
                let FetchEvent::Records(records) = event else { continue };
                let partition = records.partition();
                let Some(&end) = left.get(partition) else { continue };
                for record in records.records() {
                    let record = record?;
                    if record.offset < end {
                        let (id, event) =
                            (partition.partition, self.format.decode(partition, &record));
                        is_again(&mut seen, &self.format, self.window, id, &event, record.offset);
                    }
                }
                if records.next_offset() >= end {
                    left.remove(partition);
                }
            }
        }
        Ok(seen)
    }

    /// Commits for all who wait. Who does not hear that it was done has events that are read again.
    async fn commit(
        &mut self,
        member: &mut GroupConsumer,
        first: Commit,
    ) -> Result<(), ClientError> {
        let generation = self.shared.cursor().generation;
        let mut waiting = Vec::new();
        let mut next = Some(first);
        while let Some(commit) = next {
            if commit.generation == generation {
                for (id, offset) in &commit.next {
                    let partition = TopicPartition::new(self.topic.clone(), *id);
                    let note = self.shared.cursor().note(*id, *offset);
                    member.consumed_noting(&partition, *offset, note);
                }
                waiting.extend(commit.done);
            } else if let Some(done) = commit.done {
                let _ = done.send(Err(REBALANCED.to_owned()));
            }
            next = self.commits.try_recv().ok();
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let is_committed = loop {
            match member.commit_now().await {
                Ok(is_committed) => break is_committed,
                Err(error) if error.is_retriable() && !self.stop.is_set() => {
                    tracing::warn!(channel = self.channel, %error, "what was taken cannot be committed; trying again");
                    self.stop.sleep(PAUSE).await;
                }
                Err(error) => {
                    let reason = error.to_string();
                    waiting.into_iter().for_each(|done| drop(done.send(Err(reason.clone()))));
                    return Err(error);
                }
            }
        };
        self.shared.answer(waiting, is_committed);
        Ok(())
    }
}

/// Notes an event's id, if it has one. `true` if it was there before.
fn is_again(
    seen: &mut HashMap<PartitionId, Seen>,
    format: &Format,
    window: usize,
    id: PartitionId,
    event: &Event,
    offset: Offset,
) -> bool {
    let Some(event_id) = format.id(event).filter(|_| window > 0) else { return false };
    seen.entry(id).or_insert_with(|| Seen::new(window)).is_again(event_id, offset)
}

#[cfg(test)]
mod tests {
    use logway_model::TimestampMs;

    use super::*;

    #[test]
    fn after_a_commit_in_a_group_that_has_changed_nothing_is_handed_out_until_it_is_assigned() {
        let shared = Shared::new(Arc::new(Notify::new()));
        let id = PartitionId(0);
        let waiting =
            || Waiting { offset: Offset(0), timestamp: TimestampMs(0), event: Event::new("a") };
        shared.cursor().assign([id].into_iter());
        shared.cursor().add(id, vec![waiting()], Offset(1));
        let (take, events) = shared.cursor().take(1);
        assert_eq!(events.len(), 1);
        let (done, mut outcome) = oneshot::channel();
        shared.answer(vec![done], false);
        assert!(matches!(outcome.try_recv(), Ok(Err(reason)) if reason == REBALANCED));
        // The sink gives back what it took, and the fetch under way comes.
        shared.cursor().end(&take, events);
        assert!(shared.cursor().take(1).1.is_empty());
        shared.cursor().add(id, vec![waiting()], Offset(1));
        assert!(shared.cursor().take(1).1.is_empty());
        shared.cursor().assign([id].into_iter());
        shared.cursor().add(id, vec![waiting()], Offset(1));
        assert_eq!(shared.cursor().take(1).1.len(), 1);

        let (done, mut outcome) = oneshot::channel();
        shared.answer(vec![done], true);
        assert_eq!(outcome.try_recv(), Ok(Ok(())));
        shared.cursor().add(id, vec![waiting()], Offset(2));
        assert!(shared.cursor().take(1).1.is_empty(), "its transaction is not at its end");
    }
}
