//! The task that sends batches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use logway_model::{BrokerId, PartitionId, TopicName, TopicPartition};
use logway_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use logway_wire::messages::{ProduceRequest, ProduceResponse};
use logway_wire::{Message, WireString};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::batch::Batch;
use super::fate::Fate;
use super::outcome::{self, Circumstances, Outcome, Setback};
use super::{Acks, ProducerOptions, Shared};
use crate::client::not_ready;
use crate::delay::Delays;
use crate::retry::pause_after;
use crate::{Client, ClientError, Connection, MissingTopic, TopicSelection};

/// How long a broker may wait for its replicas.
const ACK_TIMEOUT_MS: i32 = 20_000;

/// The version that replaced topic names by topic ids, less one.
const LAST_VERSION_WITH_NAMES: i16 = 12;

/// From this version on a partition becomes part of a transaction by being written to (KIP-890).
const FIRST_VERSION_THAT_ADDS_PARTITIONS: i16 = 12;

/// How many bytes of batches go into one request, unless a single batch is larger.
const REQUEST_BYTES: usize = 4 << 20;

/// Takes batches from the accumulator, sends each to its partition's leader, and puts back what
/// has to be sent again. Ends when the producer has failed and what was sent is answered.
///
/// Requests to one broker go over one connection in the order in which the batches were taken.
#[derive(Debug)]
pub(super) struct Sender {
    client: Client,
    topic: TopicName,
    options: ProducerOptions,
    /// With which its batches are written, if any.
    transactional_id: Option<WireString>,
    shared: Arc<Shared>,
    requests: JoinSet<Finished>,
    requests_in_flight: HashMap<BrokerId, usize>,
    /// When to ask for the leaders again, after a sign that they have changed.
    refresh_at: Option<Instant>,
    refreshes_failed: u32,
    last_error: Option<ClientError>,
    /// The partitions that are being waited for.
    delays: Delays<PartitionId>,
}

/// A request that has been answered or has failed.
#[derive(Debug)]
struct Finished {
    leader: BrokerId,
    batches: Vec<Batch>,
    /// No response is what a request with acks 0 gets.
    result: Result<Option<ProduceResponse>, ClientError>,
}

impl Sender {
    pub(super) fn new(
        client: Client,
        topic: TopicName,
        options: ProducerOptions,
        shared: Arc<Shared>,
    ) -> Sender {
        Sender {
            delays: client.delays(),
            client,
            topic,
            transactional_id: options
                .transaction
                .as_ref()
                .map(|transaction| WireString::copy_of(&transaction.id)),
            options,
            shared,
            requests: JoinSet::new(),
            requests_in_flight: HashMap::new(),
            refresh_at: None,
            refreshes_failed: 0,
            last_error: None,
        }
    }

    /// Runs until the producer fails or drops the task.
    pub(super) async fn run(mut self) {
        loop {
            let now = Instant::now();
            if self.refresh_at.is_some_and(|at| at <= now) {
                self.refresh_leaders().await;
            }
            self.send_ready().await;
            let is_alive = {
                let mut accumulator = self.shared.lock();
                accumulator.expire(now, self.last_error.as_ref());
                accumulator.check().is_ok()
            };
            // Whatever has just happened, the producer may be waiting for it.
            self.shared.progress.notify_one();
            if !is_alive {
                return self.settle().await;
            }
            let next_due = self.next_due();
            self.wait(earliest(next_due, self.refresh_at)).await;
        }
    }

    /// Sends nothing more, but hears what became of what was sent.
    async fn settle(&mut self) {
        while let Some(finished) = self.requests.join_next().await {
            if let Ok(finished) = finished {
                self.finish(finished);
            }
            self.shared.progress.notify_one();
        }
    }

    /// When a batch will be due that could be sent. A partition without a leader waits for the
    /// next refresh, and one with a busy leader for a response.
    fn next_due(&self) -> Option<Instant> {
        let leaders = self.leaders();
        self.shared.lock().next_due(|partition| self.may_send(&leaders, partition))
    }

    async fn wait(&mut self, until: Option<Instant>) {
        let timer = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(finished) = self.requests.join_next() => {
                // A request's task does nothing that could panic, nor is it ever aborted.
                if let Ok(finished) = finished {
                    self.finish(finished);
                }
            }
            () = self.shared.work.notified() => {}
            () = timer => {}
        }
    }

    /// Sends batches until none is left that may be sent.
    async fn send_ready(&mut self) {
        loop {
            let leaders = self.leaders();
            let batches = self
                .shared
                .lock()
                .take_sendable(Instant::now(), |partition| self.may_send(&leaders, partition));
            if batches.is_empty() {
                break;
            }
            let mut by_leader: BTreeMap<BrokerId, Vec<Batch>> = BTreeMap::new();
            for batch in batches {
                by_leader.entry(leaders[&batch.partition]).or_default().push(batch);
            }
            for (leader, batches) in by_leader {
                for batches in into_requests(batches) {
                    self.send(leader, batches).await;
                }
            }
        }
        if not_ready(&self.client.metadata(), &self.topic).is_some() {
            self.refresh_later();
        }
    }

    /// The leaders that are known.
    fn leaders(&self) -> HashMap<PartitionId, BrokerId> {
        let metadata = self.client.metadata();
        let partitions = metadata.topics.get(&self.topic).map(|topic| &topic.partitions);
        let partitions = partitions.into_iter().flatten();
        partitions.filter_map(|partition| Some((partition.id, partition.leader?))).collect()
    }

    fn may_send(&self, leaders: &HashMap<PartitionId, BrokerId>, partition: PartitionId) -> bool {
        let Some(leader) = leaders.get(&partition) else { return false };
        let in_flight = self.requests_in_flight.get(leader).copied().unwrap_or(0);
        in_flight < self.options.in_flight_max()
    }

    /// Writes a request and leaves a task behind that waits for the response.
    async fn send(&mut self, leader: BrokerId, mut batches: Vec<Batch>) {
        *self.requests_in_flight.entry(leader).or_default() += 1;
        let request = match self.request(&mut batches) {
            Ok(request) => request,
            Err(error) => return self.finish(Finished { leader, batches, result: Err(error) }),
        };
        let has_topic_id = !request.topic_data.iter().any(|topic| topic.topic_id.is_zero());
        let version_max = if has_topic_id { i16::MAX } else { LAST_VERSION_WITH_NAMES };
        let version_min = match self.transactional_id {
            Some(_) => FIRST_VERSION_THAT_ADDS_PARTITIONS,
            None => ProduceRequest::VALID_VERSIONS.min,
        };
        let acks = self.options.acks;
        match self.client.broker(leader).await {
            Err(error) => self.finish(Finished { leader, batches, result: Err(error) }),
            Ok(connection) => {
                batches.iter().for_each(|batch| self.shared.lock().sent(batch));
                match start(&connection, &request, version_min..=version_max, acks).await {
                    Err(error) => self.finish(Finished { leader, batches, result: Err(error) }),
                    Ok(response) => {
                        let finished =
                            async move { Finished { leader, batches, result: response.await } };
                        self.requests.spawn(finished);
                    }
                }
            }
        }
    }

    fn request(&self, batches: &mut [Batch]) -> Result<ProduceRequest, ClientError> {
        let metadata = self.client.metadata();
        let identity = self.shared.lock().identity();
        let mut partition_data = Vec::with_capacity(batches.len());
        for batch in batches {
            let records = batch.encode(identity).map_err(|source| {
                let partition = batch.topic_partition(&self.topic);
                ClientError::UnwritableRecord { partition, source }
            })?;
            partition_data.push(PartitionProduceData {
                index: batch.partition.0,
                records: Some(records.into()),
                ..PartitionProduceData::default()
            });
        }
        let topic = TopicProduceData {
            // Each version writes the one of the two that it has.
            name: WireString::copy_of(self.topic.as_str()),
            topic_id: metadata.topic_id(&self.topic).unwrap_or_default().0,
            partition_data,
            ..TopicProduceData::default()
        };
        Ok(ProduceRequest {
            transactional_id: self.transactional_id.clone(),
            acks: self.options.acks.to_wire(),
            timeout_ms: ACK_TIMEOUT_MS,
            topic_data: vec![topic],
            ..ProduceRequest::default()
        })
    }

    /// Does what the answer asks for with each batch.
    fn finish(&mut self, finished: Finished) {
        let Finished { leader, batches, result } = finished;
        if let Some(in_flight) = self.requests_in_flight.get_mut(&leader) {
            *in_flight -= 1;
        }
        for batch in batches {
            let outcome = self.outcome(&batch, &result);
            let mut accumulator = self.shared.lock();
            let partition = batch.partition;
            match outcome {
                Outcome::Stored(base_offset) => {
                    accumulator.acknowledge(batch, base_offset);
                    drop(accumulator);
                    self.delays.succeeded(&partition);
                }
                Outcome::Halve => accumulator.give_back_halved(batch),
                Outcome::Behind => accumulator.give_back_behind(batch),
                Outcome::Lost(setback) => accumulator.lose(&batch, setback),
                Outcome::Again(setback) => {
                    let error = setback.error.clone();
                    accumulator.give_back(batch, setback);
                    if accumulator.check().is_ok() {
                        drop(accumulator);
                        self.delays.failed(&partition, &error);
                        self.refresh_later();
                    }
                }
            }
        }
    }

    fn outcome(
        &self,
        batch: &Batch,
        result: &Result<Option<ProduceResponse>, ClientError>,
    ) -> Outcome {
        let is_idempotent = self.options.is_idempotent();
        let response = match result {
            Err(error) => return outcome::of_failure(error.clone(), is_idempotent),
            Ok(None) => return Outcome::Stored(None),
            Ok(Some(response)) => response,
        };
        // A request has only one topic.
        let mut partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        let partition = TopicPartition::new(self.topic.clone(), batch.partition);
        match partitions.find(|answer| answer.index == batch.partition.0) {
            None => {
                let error = ClientError::NoLeader { partition };
                Outcome::Lost(Setback { error, fate: Fate::Unanswered })
            }
            Some(answer) => {
                let waits_for_earlier = self.shared.lock().waits_for_earlier(batch);
                let circumstances = Circumstances { is_idempotent, waits_for_earlier };
                outcome::of_response(answer, batch, &partition, circumstances)
            }
        }
    }

    fn refresh_later(&mut self) {
        let soon = || Instant::now() + pause_after(self.refreshes_failed);
        self.refresh_at.get_or_insert_with(soon);
    }

    /// Takes note that records wait for leaders: because of `error` nothing was learnt of them, or
    /// their partitions have none.
    fn delay_leaderless(&mut self, error: &ClientError) {
        let leaders = self.leaders();
        let waiting = self.shared.lock().waiting();
        for id in waiting.into_iter().filter(|id| !leaders.contains_key(id)) {
            let partition = TopicPartition::new(self.topic.clone(), id);
            match error {
                ClientError::NoLeader { .. } => {
                    self.delays.failed(&id, &ClientError::NoLeader { partition })
                }
                other => self.delays.failed(&id, other),
            }
        }
    }

    async fn refresh_leaders(&mut self) {
        self.refresh_at = None;
        let names = BTreeSet::from([self.topic.clone()]);
        let selection = TopicSelection::Named(&names);
        let refreshed = self.client.refresh_metadata(selection, MissingTopic::Refuse).await;
        let problem = match refreshed {
            Ok(metadata) => not_ready(&metadata, &self.topic),
            Err(error) => Some(error),
        };
        match problem {
            None => self.refreshes_failed = 0,
            Some(error) if error.is_retriable() => {
                self.delay_leaderless(&error);
                self.last_error = Some(error);
                self.refreshes_failed += 1;
                self.refresh_later();
            }
            Some(error) => self.shared.lock().fail(error),
        }
    }
}

/// Hands a request to the connection, and returns what becomes its response.
async fn start(
    connection: &Connection,
    request: &ProduceRequest,
    versions: RangeInclusive<i16>,
    acks: Acks,
) -> Result<impl Future<Output = Result<Option<ProduceResponse>, ClientError>> + use<>, ClientError>
{
    let version =
        connection.version_between::<ProduceRequest>(*versions.start(), *versions.end())?;
    let (written, pending) = match acks {
        Acks::None => (Some(connection.send_unanswered(request, version).await?), None),
        Acks::Leader | Acks::All => (None, Some(connection.send(request, version).await?)),
    };
    Ok(async move {
        if let Some(written) = written {
            written.frame().await?;
        }
        match pending {
            Some(pending) => pending.response().await.map(Some),
            None => Ok(None),
        }
    })
}

/// Packs batches of different partitions into requests of a moderate size.
fn into_requests(batches: Vec<Batch>) -> Vec<Vec<Batch>> {
    let mut requests = Vec::new();
    let mut request: Vec<Batch> = Vec::new();
    let mut request_bytes = 0;
    for batch in batches {
        if !request.is_empty() && request_bytes + batch.plain_bytes > REQUEST_BYTES {
            requests.push(std::mem::take(&mut request));
            request_bytes = 0;
        }
        request_bytes += batch.plain_bytes;
        request.push(batch);
    }
    requests.push(request);
    requests
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    [a, b].into_iter().flatten().min()
}
