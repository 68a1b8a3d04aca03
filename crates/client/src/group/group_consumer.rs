//! Reading as a member of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use logway_model::{ErrorCode, Offset, TopicId, TopicName, TopicPartition};
use tokio::time::{Instant, sleep_until};

use super::heartbeat::{Heartbeat, Standing};
use super::membership::{Joined, MemberTimes, Membership};
use super::note::{self, Noted};
use super::offsets::ToCommit;
use crate::{
    Client, ClientError, Consumer, ConsumerOptions, FetchEvent, MissingTopic, OffsetAt, StartAt,
};

/// How a member behaves. The defaults of times are those of the Java consumer.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// After so long without a sign of life the coordinator gives the member's partitions to
    /// others (`session.timeout.ms`).
    pub session_timeout: Duration,
    /// How often to give a sign of life (`heartbeat.interval.ms`).
    pub heartbeat_interval: Duration,
    /// How long the member may be busy with what it got before it counts as stuck
    /// (`max.poll.interval.ms`).
    pub poll_interval_max: Duration,
    /// How often to commit what has been consumed; `None` is never, not even at the end.
    pub commit_interval: Option<Duration>,
    /// How often the leader of the group looks for partitions that were added
    /// (`metadata.max.age.ms`).
    pub topics_check_interval: Duration,
    /// Where to begin in a partition of which nothing is committed, or that holds what is committed
    /// no more.
    pub start_at: StartAt,
    /// How to read.
    pub consumer: ConsumerOptions,
}

impl Default for GroupOptions {
    fn default() -> GroupOptions {
        GroupOptions {
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            poll_interval_max: Duration::from_secs(300),
            commit_interval: Some(Duration::from_secs(5)),
            topics_check_interval: Duration::from_secs(60),
            start_at: StartAt::Start,
            consumer: ConsumerOptions::default(),
        }
    }
}

/// Something that happened to a member.
#[derive(Debug)]
pub enum GroupEvent {
    /// It is to read these partitions, perhaps none, and nothing else.
    Assigned(BTreeSet<TopicPartition>),
    /// It reads nothing until it is assigned something again. What it has consumed is committed,
    /// if the coordinator could be asked.
    Revoked,
    /// It was taken for dead: others read its partitions, and may read again what it has consumed
    /// but not committed.
    Lost,
    /// Records came.
    Fetched(Vec<FetchEvent>),
}

/// A member of a classic group of consumers, with the assignors `range` and `roundrobin`.
///
/// It is for whoever calls [`GroupConsumer::next`] and [`GroupConsumer::consumed`] in turns: only
/// what was said to be consumed is committed, so that nothing is lost when the process dies. Each
/// time the group's members change it gives everything up and joins again (the eager protocol).
#[derive(Debug)]
pub struct GroupConsumer {
    membership: Membership,
    /// Has connections of its own, which long requests to join do not hold up.
    client: Client,
    options: GroupOptions,
    generation: Option<Generation>,
}

/// What a member does while it belongs to a generation.
#[derive(Debug)]
struct Generation {
    heartbeat: Heartbeat,
    /// `None` if there is nothing to read.
    consumer: Option<Consumer>,
    /// What has been consumed and is not committed yet.
    uncommitted: BTreeMap<TopicPartition, Consumed>,
    /// The topics that are read, so that it is committed with an offset which one that is about.
    topic_ids: BTreeMap<TopicName, TopicId>,
    /// What was noted beside the offsets at which it began to read.
    notes: BTreeMap<TopicPartition, Consumed>,
    commit_at: Option<Instant>,
    /// See [`Joined::led`].
    led: Option<BTreeMap<TopicName, usize>>,
    topics_check_at: Instant,
}

/// How far a partition has been consumed.
#[derive(Debug)]
struct Consumed {
    next: Offset,
    note: String,
}

/// Where a member begins to read.
struct Beginning {
    consumer: Consumer,
    /// Where that is elsewhere than what was committed.
    starts: BTreeMap<TopicPartition, Consumed>,
    topic_ids: BTreeMap<TopicName, TopicId>,
    notes: BTreeMap<TopicPartition, Consumed>,
}

/// What to do next.
enum Turn {
    Fetched(Result<Option<Vec<FetchEvent>>, ClientError>),
    Trouble(Standing),
    Commit,
    CheckTopics,
}

impl GroupConsumer {
    /// A member to be; it joins when it is first asked for events.
    ///
    /// # Errors
    ///
    /// A topic that does not exist. Later a topic may come and go.
    pub async fn open(
        client: &Client,
        group: &str,
        topics: BTreeSet<TopicName>,
        options: GroupOptions,
    ) -> Result<GroupConsumer, ClientError> {
        let times = MemberTimes {
            session_timeout: options.session_timeout,
            rebalance_timeout: options.poll_interval_max,
            patience: options.consumer.patience,
        };
        let client = client.fork();
        client.find_topics(&topics, MissingTopic::Refuse).await?;
        let membership = Membership::new(client.fork(), group.to_owned(), topics, times);
        Ok(GroupConsumer { membership, client, options, generation: None })
    }

    /// What happens next, or `None` when all that was assigned has been read to its end, if that
    /// is where to stop. Cancel safe: what was not returned will be.
    ///
    /// # Errors
    ///
    /// What keeps it from being a member, or from reading.
    pub async fn next(&mut self) -> Result<Option<GroupEvent>, ClientError> {
        self.advance(true).await
    }

    /// As [`GroupConsumer::next`], without reading: for a member that is to stay one while it has
    /// no room for more records. Cancel safe.
    ///
    /// # Errors
    ///
    /// What keeps it from being a member.
    pub async fn hold(&mut self) -> Result<Option<GroupEvent>, ClientError> {
        self.advance(false).await
    }

    async fn advance(&mut self, is_reading: bool) -> Result<Option<GroupEvent>, ClientError> {
        loop {
            let Some(generation) = &mut self.generation else {
                return self.join().await.map(|partitions| Some(GroupEvent::Assigned(partitions)));
            };
            if generation.consumer.is_none() && self.options.consumer.stops_at_end {
                return Ok(None);
            }
            generation.heartbeat.polled();
            match generation.turn(is_reading).await {
                Turn::Fetched(events) => {
                    let events = events?;
                    events.iter().flatten().for_each(|event| generation.note_recreated(event));
                    return Ok(events.map(GroupEvent::Fetched));
                }
                Turn::Trouble(Standing::Refused(error)) => return Err(error),
                Turn::Trouble(Standing::Lost) => {
                    self.lose();
                    return Ok(Some(GroupEvent::Lost));
                }
                Turn::Trouble(Standing::Good | Standing::Rebalancing) => {
                    return self.revoke().await;
                }
                Turn::Commit => match self.commit().await {
                    Ok(Committed::AsMember) => {}
                    Ok(Committed::AsNobody) => {
                        self.lose();
                        return Ok(Some(GroupEvent::Lost));
                    }
                    // There is time to try again.
                    Err(error) if error.is_retriable() => {}
                    Err(error) => return Err(error),
                },
                Turn::CheckTopics => {
                    if self.has_other_partitions().await {
                        return self.revoke().await;
                    }
                }
            }
        }
    }

    /// Notes that everything before an offset is dealt with. What is no longer this member's is
    /// none of its business.
    pub fn consumed(&mut self, partition: &TopicPartition, next: Offset) {
        self.consumed_noting(partition, next, String::new());
    }

    /// The same, with a note for the member that reads on there: see [`GroupConsumer::note`]. Brokers refuse notes above 4096
    /// bytes (`offset.metadata.max.bytes`). Of these, 32 are the client's own. Brokers without topic ids keep no note.
    pub fn consumed_noting(&mut self, partition: &TopicPartition, next: Offset, note: String) {
        if let Some(generation) = &mut self.generation {
            generation.uncommitted.insert(partition.clone(), Consumed { next, note });
        }
    }

    /// What was noted when the offset was committed at which this member has begun to read a partition, and that offset.
    pub fn note(&self, partition: &TopicPartition) -> Option<(Offset, &str)> {
        let consumed = self.generation.as_ref()?.notes.get(partition)?;
        Some((consumed.next, &consumed.note))
    }

    /// Commits what has been consumed at once. `false` if some of it is not committed, because the
    /// group is between two generations or does not know the member any more.
    ///
    /// # Errors
    ///
    /// Why the coordinator could not be asked, or refused.
    pub async fn commit_now(&mut self) -> Result<bool, ClientError> {
        let committed = self.commit().await?;
        let is_all = self.generation.as_ref().is_some_and(|g| g.uncommitted.is_empty());
        Ok(is_all && committed == Committed::AsMember)
    }

    /// Commits what has been consumed, if it is time to (`commit_interval`): for who takes long over what one
    /// [`GroupConsumer::next`] has given. `false` if it was taken for dead: others read what is left of that.
    ///
    /// # Errors
    ///
    /// As [`GroupConsumer::commit_now`].
    pub async fn commit_in_time(&mut self) -> Result<bool, ClientError> {
        let commit_at = self.generation.as_ref().and_then(|generation| generation.commit_at);
        if commit_at.is_some_and(|at| at <= Instant::now())
            && self.commit().await? == Committed::AsNobody
        {
            self.lose();
        }
        Ok(self.generation.is_some())
    }

    /// Commits what has been consumed, and leaves the group.
    ///
    /// # Errors
    ///
    /// Why something could not be committed, or the group not be left.
    pub async fn close(mut self) -> Result<(), ClientError> {
        let committed = match self.generation {
            Some(_) => self.commit().await.map(|_| ()),
            None => Ok(()),
        };
        self.generation = None;
        let left = self.membership.leave().await;
        committed.and(left)
    }

    /// Joins, and begins to read; tries again while a broker cannot be asked.
    async fn join(&mut self) -> Result<BTreeSet<TopicPartition>, ClientError> {
        let mut backoff = self.client.backoff_within(self.options.consumer.patience);
        loop {
            let error = match self.join_once().await {
                Ok(partitions) => return Ok(partitions),
                Err(error) => error,
            };
            if !error.is_retriable() || !backoff.pause(&error).await {
                return Err(error);
            }
        }
    }

    async fn join_once(&mut self) -> Result<BTreeSet<TopicPartition>, ClientError> {
        let Joined { partitions, led } = self.membership.join().await?;
        // From here on the coordinator expects signs of life.
        let heartbeat = Heartbeat::start(
            self.membership.clone(),
            self.options.heartbeat_interval,
            self.options.poll_interval_max,
        );
        let beginning = match partitions.is_empty() {
            true => None,
            false => Some(self.open_consumer(&partitions).await?),
        };
        let (consumer, uncommitted, topic_ids, notes) = match beginning {
            None => Default::default(),
            Some(Beginning { consumer, starts, topic_ids, notes }) => {
                (Some(consumer), starts, topic_ids, notes)
            }
        };
        let now = Instant::now();
        self.generation = Some(Generation {
            heartbeat,
            consumer,
            uncommitted,
            topic_ids,
            notes,
            commit_at: self.options.commit_interval.map(|interval| now + interval),
            led,
            topics_check_at: now + self.options.topics_check_interval,
        });
        Ok(partitions)
    }

    /// Begins to read where the group has committed that it is. An offset that was committed of a topic that was deleted
    /// since says nothing: the one that has its name now is read from its start.
    ///
    /// Together with the consumer comes where it begins elsewhere than what was committed. It is to be committed even when nothing comes from
    /// there: or the next member would begin after what came between the two, or nobody could tell
    /// that the group is behind.
    async fn open_consumer(
        &self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<Beginning, ClientError> {
        let topics: BTreeSet<TopicName> =
            partitions.iter().map(|partition| partition.topic.clone()).collect();
        let metadata = self.client.find_topics(&topics, MissingTopic::Await).await?;
        let group = self.membership.group();
        let committed = self.membership.client().committed_offsets_of(group, partitions).await?;
        let led = partitions.iter().filter(|p| metadata.leader(p).is_some()).cloned().collect();
        let ends = self.client.list_offsets(&led, OffsetAt::End).await?;
        let (mut assignment, mut notes) = (BTreeMap::new(), BTreeMap::new());
        for partition in partitions {
            let end = ends.get(partition).and_then(|listed| listed.offset);
            let topic_id = metadata.topic_id(&partition.topic);
            let found = committed.get(partition);
            let noted = found.and_then(|committed| Noted::read(&committed.metadata));
            let is_former = noted.as_ref().is_some_and(|noted| noted.is_of_other(topic_id));
            let exists = |offset: &Offset| end.is_none_or(|end| *offset <= end);
            let start_at = match found.map(|committed| committed.offset).filter(exists) {
                _ if is_former => StartAt::Start,
                Some(offset) => {
                    let noted = noted.filter(|noted| !noted.note.is_empty());
                    notes.extend(noted.map(|noted| {
                        let note = noted.note.to_owned();
                        (partition.clone(), Consumed { next: offset, note })
                    }));
                    StartAt::Offset(offset)
                }
                None => self.options.start_at,
            };
            assignment.insert(partition.clone(), start_at);
        }
        let options = self.options.consumer.clone();
        let consumer = Consumer::open(&self.client, &assignment, options).await?;
        let is_elsewhere = |(partition, start): &(&TopicPartition, &Offset)| {
            committed.get(*partition).is_none_or(|committed| committed.offset != **start)
        };
        let starts = consumer.starts().iter().filter(is_elsewhere);
        let starts = starts.map(|(partition, start)| {
            (partition.clone(), Consumed { next: *start, note: String::new() })
        });
        let starts = starts.collect();
        let ids = topics.into_iter().filter_map(|topic| {
            let id = metadata.topic_id(&topic)?;
            Some((topic, id))
        });
        Ok(Beginning { consumer, starts, topic_ids: ids.collect(), notes })
    }

    /// Gives everything up, so that it can be assigned anew.
    async fn revoke(&mut self) -> Result<Option<GroupEvent>, ClientError> {
        let event = match self.commit().await {
            Ok(Committed::AsMember) => GroupEvent::Revoked,
            Ok(Committed::AsNobody) => {
                self.membership.forget();
                GroupEvent::Lost
            }
            // Whoever reads on from the last commit reads some records twice, and misses none.
            Err(error) if error.is_retriable() => GroupEvent::Revoked,
            Err(error) => return Err(error),
        };
        self.generation = None;
        Ok(Some(event))
    }

    fn lose(&mut self) {
        self.generation = None;
        self.membership.forget();
    }

    /// Commits what has been consumed since the last time.
    async fn commit(&mut self) -> Result<Committed, ClientError> {
        let Some(generation) = &mut self.generation else { return Ok(Committed::AsMember) };
        let Some(interval) = self.options.commit_interval else { return Ok(Committed::AsMember) };
        generation.commit_at = Some(Instant::now() + interval);
        if generation.uncommitted.is_empty() {
            return Ok(Committed::AsMember);
        }
        let (client, group) = (self.membership.client(), self.membership.group());
        let committer = self.membership.committer();
        let offsets = generation.to_commit();
        let outcomes = client.commit_offsets_as(&committer, group, &offsets).await?;
        for (partition, outcome) in outcomes {
            let Err(error) = outcome else {
                generation.uncommitted.remove(&partition);
                continue;
            };
            match error.code() {
                Some(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) => {
                    return Ok(Committed::AsNobody);
                }
                // Between two generations: nothing can be committed, and others may read it again.
                Some(ErrorCode::RebalanceInProgress) => {}
                // The topic was deleted: there is nothing to remember.
                Some(ErrorCode::UnknownTopicOrPartition) => {
                    generation.uncommitted.remove(&partition);
                }
                _ => return Err(error),
            }
        }
        Ok(Committed::AsMember)
    }

    /// Whether topics have got partitions that nobody reads, or lost some. Only the group's leader
    /// looks, because only it can do something about it. What cannot be found out now will be later.
    async fn has_other_partitions(&mut self) -> bool {
        let Some(generation) = &mut self.generation else { return false };
        generation.topics_check_at = Instant::now() + self.options.topics_check_interval;
        let Some(led) = &generation.led else { return false };
        let topics = led.keys().cloned().collect();
        let counted = self.membership.count_partitions(&topics).await;
        counted.is_ok_and(|counted| topics.iter().any(|topic| counted.get(topic) != led.get(topic)))
    }
}

/// In which quality a member has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Committed {
    AsMember,
    /// The coordinator did not take it, as it does not know the member any more.
    AsNobody,
}

impl Generation {
    /// Takes note that a topic is another one now. What was consumed of the former one is not committed any more, and where
    /// the new one begins is: as long as nothing of that has been consumed, too.
    fn note_recreated(&mut self, event: &FetchEvent) {
        if let FetchEvent::Recreated { partition, to, topic_id, .. } = event {
            self.topic_ids.insert(partition.topic.clone(), *topic_id);
            self.notes.remove(partition);
            let consumed = Consumed { next: *to, note: String::new() };
            self.uncommitted.insert(partition.clone(), consumed);
        }
    }

    fn to_commit(&self) -> BTreeMap<TopicPartition, ToCommit> {
        let to_commit = |(partition, consumed): (&TopicPartition, &Consumed)| {
            let topic_id = self.topic_ids.get(&partition.topic).copied();
            let metadata = note::write(topic_id, &consumed.note);
            (partition.clone(), ToCommit { offset: consumed.next, metadata })
        };
        self.uncommitted.iter().map(to_commit).collect()
    }

    /// Waits for whatever comes first. Cancel safe.
    async fn turn(&mut self, is_reading: bool) -> Turn {
        let (commit_at, consumer) = (self.commit_at, &mut self.consumer);
        let consumer = consumer.as_mut().filter(|_| is_reading);
        let fetched = async {
            match consumer {
                Some(consumer) => consumer.next().await,
                None => std::future::pending().await,
            }
        };
        let commit = async {
            match commit_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Whoever reads fast must not forget to commit, nor to hear of a rebalance.
            biased;
            standing = self.heartbeat.trouble() => Turn::Trouble(standing),
            () = commit => Turn::Commit,
            () = sleep_until(self.topics_check_at) => Turn::CheckTopics,
            fetched = fetched => Turn::Fetched(fetched),
        }
    }
}
