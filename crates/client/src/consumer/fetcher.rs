//! The task that fetches ahead.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use logway_model::{BrokerId, ErrorCode, Offset, TopicId, TopicPartition};
use logway_wire::messages::FetchResponse;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::aborted::aborted_batches;
use super::position::Position;
use super::request::{Fetch, FetchedPartition, partitions};
use super::start::{self, Starts};
use super::unplaced::Unplaced;
use super::{ConsumerOptions, FetchEvent, FetchedRecords, StartAt};
use crate::admin::topics_of;
use crate::client::not_found;
use crate::delay::Delays;
use crate::error::{check, error_code};
use crate::{Client, ClientError, MissingTopic, OffsetAt, TopicSelection};

/// Fetches partitions from their leaders, one request per broker at a time, and hands over what
/// comes. Ends when all is read, after an error, or when nobody listens.
#[derive(Debug)]
pub(super) struct Fetcher {
    client: Client,
    options: ConsumerOptions,
    positions: BTreeMap<TopicPartition, Position>,
    unplaced: Unplaced,
    /// How far partitions were read whose topics were deleted, until it is known where the new ones begin.
    recreated: BTreeMap<TopicPartition, Offset>,
    /// The ids of topics that were deleted: a broker that still tells of them knows less than others.
    former: BTreeSet<TopicId>,
    /// The partitions that are being waited for.
    delays: Delays<TopicPartition>,
    events: mpsc::Sender<Result<Vec<FetchEvent>, ClientError>>,
    tasks: JoinSet<Done>,
    busy: HashSet<BrokerId>,
    responses: u64,
}

/// What a task of the fetcher has done.
#[derive(Debug)]
enum Done {
    /// A request has been answered or has failed.
    Fetch {
        leader: BrokerId,
        asked: Vec<TopicPartition>,
        result: Result<FetchResponse, ClientError>,
    },
    /// Partitions that had no leader were looked for.
    Place { asked: BTreeMap<TopicPartition, StartAt>, result: Result<Starts, ClientError> },
}

impl Fetcher {
    pub(super) fn new(
        client: Client,
        options: ConsumerOptions,
        events: mpsc::Sender<Result<Vec<FetchEvent>, ClientError>>,
    ) -> Fetcher {
        Fetcher {
            delays: client.delays(),
            client,
            options,
            positions: BTreeMap::new(),
            unplaced: Unplaced::default(),
            recreated: BTreeMap::new(),
            former: BTreeSet::new(),
            events,
            tasks: JoinSet::new(),
            busy: HashSet::new(),
            responses: 0,
        }
    }

    /// Begins where `starts` says.
    pub(super) async fn run(mut self, starts: Starts) {
        if let Err(error) = self.fetch_all(starts).await {
            // Whoever listened may have left, which is no reason to complain.
            drop(self.events.send(Err(error)).await);
        }
    }

    async fn fetch_all(&mut self, starts: Starts) -> Result<(), ClientError> {
        let events = self.begin(starts);
        let mut is_heard = self.hand_over(events).await;
        while is_heard && !(self.positions.is_empty() && self.unplaced.is_empty()) {
            self.leave_former_topics();
            self.find_leaders().await?;
            self.ask_idle_brokers();
            self.place();
            let events = match self.next_done().await {
                Some(done) => self.finish(done).await?,
                None => Vec::new(),
            };
            is_heard = self.hand_over(events).await;
        }
        Ok(())
    }

    /// Hands over what there is to say, with the next request under way while that waits to be
    /// read. Returns whether anybody listens.
    async fn hand_over(&mut self, events: Vec<FetchEvent>) -> bool {
        self.ask_idle_brokers();
        events.is_empty() || self.events.send(Ok(events)).await.is_ok()
    }

    /// Reads from now on where it is known where to begin, and returns what there is to say of that.
    fn begin(&mut self, starts: Starts) -> Vec<FetchEvent> {
        let mut events = starts.skipped;
        for (partition, &to) in &starts.offsets {
            let topic_id = starts.topic_ids.get(&partition.topic).copied();
            if let Some(topic_id) = topic_id
                && let Some(from) = self.recreated.remove(partition)
            {
                let partition = partition.clone();
                events.push(FetchEvent::Recreated { partition, from, to, topic_id });
            }
        }
        self.positions.extend(starts.positions);
        self.unplaced.keep(starts.unplaced);
        events
    }

    /// Gives up the positions in topics that were deleted and made again. An offset says nothing about another topic: as
    /// soon as that is longer, it would pass over what is before. The new topic is read from its start.
    fn leave_former_topics(&mut self) {
        if self.unplaced.is_looked_for() {
            // They are not asked for meanwhile.
            return;
        }
        let metadata = self.client.metadata();
        let is_former = |(partition, position): (&TopicPartition, &Position)| {
            let topic_id = metadata.topic_id(&partition.topic);
            let is_new = topic_id.is_some_and(|id| !self.former.contains(&id));
            (is_new && !position.is_in(topic_id)).then(|| partition.clone())
        };
        let partitions: Vec<TopicPartition> = self.positions.iter().filter_map(is_former).collect();
        for partition in &partitions {
            if let Some(position) = self.positions.remove(partition) {
                self.former.extend(position.topic_id);
                self.recreated.insert(partition.clone(), position.next);
            }
        }
        self.unplaced.add(partitions.into_iter().map(|partition| (partition, StartAt::Start)));
    }

    /// Has somebody look whether the partitions that had no leader have one, if it is time to: a
    /// leader that does not know yet that it is one may be asked for as long as the client is
    /// patient, and the other partitions need not wait for that.
    fn place(&mut self) {
        let Some(asked) = self.unplaced.take_due() else { return };
        for partition in asked.keys() {
            let error = ClientError::NoLeader { partition: partition.clone() };
            self.delays.failed(partition, &error);
        }
        let (client, options) = (self.client.clone(), self.options.clone());
        self.tasks.spawn(async move {
            let result = start::resolve(&client, &asked, &options).await;
            Done::Place { asked, result }
        });
    }

    /// Begins to read those that have a leader now.
    fn placed(
        &mut self,
        asked: BTreeMap<TopicPartition, StartAt>,
        result: Result<Starts, ClientError>,
    ) -> Result<Vec<FetchEvent>, ClientError> {
        match result {
            Ok(starts) => {
                let events = self.begin(starts);
                self.unplaced.check(self.options.patience).map(|()| events)
            }
            Err(error) if error.is_retriable() => {
                self.unplaced.keep(asked);
                self.unplaced.check(self.options.patience).map_err(|_| error)?;
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Pauses the partitions that have no leader, so that every partition is asked for, or paused,
    /// or waits for its leader's response.
    async fn find_leaders(&mut self) -> Result<(), ClientError> {
        let now = Instant::now();
        let metadata = self.client.metadata();
        let is_paused = |position: &Position| position.retry_at.is_some_and(|at| at > now);
        let unpaused = self.positions.iter().filter(|(_, position)| !is_paused(position));
        let leaderless: Vec<TopicPartition> = unpaused
            .map(|(partition, _)| partition.clone())
            .filter(|partition| {
                let topic_id = metadata.topic_id(&partition.topic);
                metadata.leader(partition).is_none() || !self.positions[partition].is_in(topic_id)
            })
            .collect();
        for partition in &leaderless {
            // A topic that was deleted has no leaders, either, which says less.
            let missing = not_found(&metadata, &partition.topic);
            let error = missing.unwrap_or(ClientError::NoLeader { partition: partition.clone() });
            self.pause(partition, &error)?;
        }
        match leaderless.is_empty() {
            true => Ok(()),
            false => self.refresh_topics(&leaderless).await,
        }
    }

    /// Asks each broker that has nothing to do for those of its partitions that are not paused.
    fn ask_idle_brokers(&mut self) {
        let now = Instant::now();
        let metadata = self.client.metadata();
        let mut by_leader: BTreeMap<BrokerId, Vec<(u64, TopicPartition, Offset)>> = BTreeMap::new();
        for (partition, position) in &self.positions {
            let is_paused = position.retry_at.is_some_and(|at| at > now);
            let Some(leader) = metadata.leader(partition) else { continue };
            let is_known = position.is_in(metadata.topic_id(&partition.topic));
            if is_known && !is_paused && !self.busy.contains(&leader) {
                let wanted = (position.served, partition.clone(), position.next);
                by_leader.entry(leader).or_default().push(wanted);
            }
        }
        for (leader, mut wanted) in by_leader {
            wanted.sort();
            let wanted: Vec<_> = wanted.into_iter().map(|(_, p, offset)| (p, offset)).collect();
            let fetch = Fetch::new(&wanted, &metadata, &self.options);
            let (client, options) = (self.client.clone(), self.options.clone());
            self.busy.insert(leader);
            self.tasks.spawn(async move {
                let result = match client.broker(leader).await {
                    Ok(connection) => fetch.run(&connection, &options).await,
                    Err(error) => Err(error),
                };
                let asked = wanted.into_iter().map(|(partition, _)| partition).collect();
                Done::Fetch { leader, asked, result }
            });
        }
    }

    /// What the next task has done, or `None` when it is time to ask again for a partition.
    async fn next_done(&mut self) -> Option<Done> {
        let now = Instant::now();
        let paused = self.positions.values().filter_map(|position| position.retry_at);
        let retry_at = paused.filter(|&at| at > now).chain(self.unplaced.due()).min();
        let timer = async {
            match retry_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // A task does nothing that could panic, nor is it ever aborted.
            Some(done) = self.tasks.join_next() => done.ok(),
            () = timer => None,
        }
    }

    async fn finish(&mut self, done: Done) -> Result<Vec<FetchEvent>, ClientError> {
        match done {
            Done::Fetch { leader, asked, result } => self.fetched(leader, asked, result).await,
            Done::Place { asked, result } => self.placed(asked, result),
        }
    }

    /// Deals with the answer to a request.
    async fn fetched(
        &mut self,
        leader: BrokerId,
        asked: Vec<TopicPartition>,
        result: Result<FetchResponse, ClientError>,
    ) -> Result<Vec<FetchEvent>, ClientError> {
        self.busy.remove(&leader);
        self.responses += 1;
        let what = || format!("fetch from broker {leader}");
        let result =
            result.and_then(|response| check(what, response.error_code, None).map(|()| response));
        let mut events = Vec::new();
        match result {
            Err(error) => self.retry(asked, error).await?,
            Ok(response) => {
                for fetched in partitions(response) {
                    events.extend(self.partition(fetched).await?);
                }
            }
        }
        self.positions.retain(|_, position| !position.is_at_stop());
        Ok(events)
    }

    /// Deals with the answer about one partition.
    async fn partition(
        &mut self,
        fetched: FetchedPartition,
    ) -> Result<Option<FetchEvent>, ClientError> {
        let FetchedPartition { partition, topic_id, error_code: code, records, aborted } = fetched;
        let position = self.positions.get_mut(&partition);
        // What was asked of a topic that was deleted since says nothing about the one that is read now.
        let Some(position) = position.filter(|position| position.is_in(topic_id)) else {
            return Ok(None);
        };
        if let Err(error) = check(|| format!("read {partition}"), code, None) {
            return match error_code(code) {
                ErrorCode::OffsetOutOfRange => self.relocate(partition).await,
                ErrorCode::CorruptMessage => Err(self.damaged(partition).await),
                _ => self.retry(vec![partition], error).await.map(|()| None),
            };
        }
        position.succeeded();
        self.delays.succeeded(&partition);
        let (from, until) = (position.next, position.stop);
        let batches = position.advance(&partition, records)?;
        if batches.is_empty() {
            return Ok(None);
        }
        position.served = self.responses;
        let decode_limit = self.options.decode_limit;
        let aborted = aborted_batches(&batches, &aborted);
        let records = FetchedRecords { partition, batches, aborted, from, until, decode_limit };
        Ok(Some(FetchEvent::Records(records)))
    }

    /// The error for records that are damaged where the broker has them: trying again does not help.
    async fn damaged(&self, partition: TopicPartition) -> ClientError {
        let offset = self.positions[&partition].next;
        // Without an answer to that, the error says less.
        let next = self.behind_damage(&partition, offset).await.ok();
        ClientError::DamagedRecords { partition, offset, next }
    }

    /// Where the records behind damaged ones begin: the first offset that can be read from.
    async fn behind_damage(
        &self,
        partition: &TopicPartition,
        from: Offset,
    ) -> Result<Offset, ClientError> {
        let only = BTreeSet::from([partition.clone()]);
        let end = self.client.list_offsets(&only, OffsetAt::End).await?;
        let end = end[partition].offset.unwrap_or(from.next());
        let (mut damaged, mut distance) = (from.0, 1);
        // In steps that grow, and then between the last two.
        let mut good = loop {
            let tried = (damaged + distance).min(end.0);
            if tried == end.0 || !self.is_damaged(partition, Offset(tried)).await? {
                break tried;
            }
            (damaged, distance) = (tried, distance * 2);
        };
        while good - damaged > 1 {
            let middle = damaged + (good - damaged) / 2;
            match self.is_damaged(partition, Offset(middle)).await? {
                true => damaged = middle,
                false => good = middle,
            }
        }
        Ok(Offset(good))
    }

    async fn is_damaged(
        &self,
        partition: &TopicPartition,
        offset: Offset,
    ) -> Result<bool, ClientError> {
        let metadata = self.client.metadata();
        let no_leader = || ClientError::NoLeader { partition: partition.clone() };
        let leader = metadata.leader(partition).ok_or_else(no_leader)?;
        let options = ConsumerOptions { wait_max: Duration::ZERO, ..self.options.clone() };
        let fetch = Fetch::new(&[(partition.clone(), offset)], &metadata, &options);
        let response = fetch.run(&self.client.broker(leader).await?, &options).await?;
        let is_corrupt = |code| error_code(code) == ErrorCode::CorruptMessage;
        Ok(partitions(response).any(|fetched| is_corrupt(fetched.error_code)))
    }

    /// Goes on at the first record there is when those to be read next are gone.
    async fn relocate(
        &mut self,
        partition: TopicPartition,
    ) -> Result<Option<FetchEvent>, ClientError> {
        let only = BTreeSet::from([partition.clone()]);
        let start = self.client.list_offsets(&only, OffsetAt::Start).await?;
        let end = self.client.list_offsets(&only, OffsetAt::End).await?;
        let start = start[&partition].offset.unwrap_or(Offset::ZERO);
        let end = end[&partition].offset.unwrap_or(Offset::ZERO);
        let Some(position) = self.positions.get_mut(&partition) else { return Ok(None) };
        let from = position.next;
        if from > end {
            return Err(ClientError::OffsetOutOfRange { partition, offset: from, start, end });
        }
        if from >= start {
            // It was out of range for a broker that knows less than its followers: ask again.
            position.failed();
            return Ok(None);
        }
        position.next = start;
        Ok(Some(FetchEvent::Skipped { partition, from, to: start }))
    }

    /// Lets partitions pause and finds their leaders again.
    ///
    /// # Errors
    ///
    /// The given one, if it will not pass, or has not within the consumer's patience.
    async fn retry(
        &mut self,
        asked: Vec<TopicPartition>,
        error: ClientError,
    ) -> Result<(), ClientError> {
        if !error.is_retriable() {
            return Err(error);
        }
        asked.iter().try_for_each(|partition| self.pause(partition, &error))?;
        self.refresh_topics(&asked).await
    }

    /// Lets a partition pause.
    ///
    /// # Errors
    ///
    /// The given one, if it has not passed within the consumer's patience.
    fn pause(
        &mut self,
        partition: &TopicPartition,
        error: &ClientError,
    ) -> Result<(), ClientError> {
        let Some(position) = self.positions.get_mut(partition) else { return Ok(()) };
        if position.failed().elapsed() > self.options.patience {
            return Err(error.clone());
        }
        self.delays.failed(partition, error);
        Ok(())
    }

    /// Finds the leaders of partitions again.
    async fn refresh_topics(&self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        let topics = topics_of(partitions);
        let selection = TopicSelection::Named(&topics);
        match self.client.refresh_metadata(selection, MissingTopic::Refuse).await {
            Err(error) if !error.is_retriable() => Err(error),
            // The pause is over soon enough to try again.
            Err(_) | Ok(_) => Ok(()),
        }
    }
}
