//! Appending to and reading from a log over the log service, which clients of all languages reach by gRPC.
//!
//! The streams run on a thread of their own, as the generator of Kafka's protocol does, and what they cost is that thread's.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use logway_client::{BrokerAddress, ConnectionOptions};
use logway_logservice::messages::log::append_reply::Reply;
use logway_logservice::messages::log::{
    self, Acknowledgement, Append, Format, NewRecord, OpenAppend, ReadRequest,
};
use logway_logservice::{AppendSender, LogClient, Replies};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep_until;

use super::fetch::{FetchLoad, Reading};
use super::topic::RunTopic;
use super::{Load, Run};
use crate::generator::{
    Acks, BatchShape, EncodedBatch, Observed, Pace, Payload, STOP_CHECK_INTERVAL, Window, filler,
};
use crate::measure::{Durability, Parameters, Snapshot, Usage};
use crate::side::{Side, drop_from_memory};

/// Why a side cannot be given these loads.
const NO_LOG_SERVICE: &str = "has no log service, or --log-service does not say where it is";

/// Appenders of one record each, over some streams.
#[derive(Debug, Clone)]
pub(crate) struct GrpcAppendLoad {
    /// Where a broker that runs already serves, if it does.
    pub(crate) given: Option<BrokerAddress>,
    /// Bytes of each value.
    pub(crate) record_bytes: usize,
    /// Connections, with a stream each.
    pub(crate) streams: usize,
    /// Appends of each stream that are without a reply.
    pub(crate) in_flight: usize,
    pub(crate) durability: Durability,
}

/// A log that is read once, from its start to its end, as batches.
#[derive(Debug, Clone)]
pub(crate) struct GrpcReadLoad {
    /// Where a broker that runs already serves, if it does.
    pub(crate) given: Option<BrokerAddress>,
    /// What is stored before, of one partition.
    pub(crate) like: FetchLoad,
}

fn refusal(side: &Side, given: Option<&BrokerAddress>) -> Option<&'static str> {
    side.log_service(given).is_none().then_some(NO_LOG_SERVICE)
}

impl Load for GrpcAppendLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        // As the log has it.
        let batch = EncodedBatch::of_size(BatchShape::Records(1), self.record_bytes)?;
        Ok(Parameters {
            durability: Some(self.durability),
            acks: Some(Acks::All.name()),
            partitions: 1,
            producers: self.streams,
            in_flight: self.in_flight,
            ..Parameters::of_batch(batch.size(), self.record_bytes)
        })
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        refusal(side, self.given.as_ref())
    }

    fn is_warmed_up(&self) -> bool {
        true
    }

    fn written_bytes_max(&self, _side: &Side, run: &Run) -> anyhow::Result<u64> {
        Ok(run.sent_bytes_max.unwrap_or(u64::MAX))
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let address = side.log_service(self.given.as_ref()).context(NO_LOG_SERVICE)?;
        let topic = RunTopic::create(side, 1, self.durability).await?;
        let run = run.of_new_topic(1, Acks::All);
        let (load, pids, log) = (self.clone(), side.pids.clone(), topic.name.to_string());
        let drive = move || on_this_thread(load.append_all(&address, &log, &run, &pids));
        let observed =
            tokio::task::spawn_blocking(drive).await.context("the appenders failed")??;
        topic.ensure_has(observed.entrusted_records, Acks::All).await?;
        topic.delete().await?;
        Ok(observed)
    }
}

/// What all streams of a run share.
struct Shared {
    observed: RefCell<Observed>,
    window: Window,
}

impl GrpcAppendLoad {
    async fn append_all(
        &self,
        address: &BrokerAddress,
        log: &str,
        run: &Run,
        pids: &[u32],
    ) -> anyhow::Result<Observed> {
        let mut streams = Vec::with_capacity(self.streams);
        for _ in 0..self.streams {
            let mut client = LogClient::connect(address, ConnectionOptions::default()).await?;
            let acknowledgement = Acknowledgement::Committed.into();
            let open = OpenAppend { acknowledgement, ..OpenAppend::default() };
            let (appends, replies) = client.append(open).await?;
            streams.push((client, appends, replies));
        }
        let append_bytes = self.parameters()?.batch_bytes;
        let appends_max = run.requests_max(append_bytes, self.streams).unwrap_or(u64::MAX);
        let window = run.window(Instant::now());
        let shared = Rc::new(Shared { observed: RefCell::new(Observed::new(window)), window });
        let value = bytes::Bytes::from(filler(self.record_bytes));
        let tasks: Vec<_> = streams
            .into_iter()
            .map(|(client, appends, replies)| {
                let appender = Appender {
                    appends,
                    next: Append {
                        sequence: 0,
                        log: log.to_owned(),
                        to: Some(log::append::To::Partition(0)),
                        records: vec![NewRecord {
                            value: Some(value.clone()),
                            ..NewRecord::default()
                        }],
                    },
                    sent_at: VecDeque::new(),
                    shared: Rc::clone(&shared),
                };
                let in_flight = self.in_flight;
                spawn_local(async move {
                    let _connected = client;
                    appender.run(replies, in_flight, appends_max).await
                })
            })
            .collect();
        let usage = watched(run, window, pids).await?;
        for task in tasks {
            task.await.context("an appender failed")??;
        }
        let shared = Rc::into_inner(shared).context("an appender goes on")?;
        let mut observed = shared.observed.into_inner();
        observed.usage = usage;
        Ok(observed)
    }
}

/// Waits until the window is over; says what was used in it.
async fn watched(run: &Run, window: Window, pids: &[u32]) -> anyhow::Result<Usage> {
    sleep_until(window.from.into()).await;
    let before = Snapshot::take(pids);
    while Instant::now() < window.to {
        ensure!(!run.stop.load(Ordering::Relaxed), "the run was called off");
        let next = Instant::now() + STOP_CHECK_INTERVAL;
        sleep_until(next.min(window.to).into()).await;
    }
    Ok(before.until_now())
}

/// A stream of appends in a closed loop.
struct Appender {
    appends: AppendSender,
    /// The next one, but for its sequence.
    next: Append,
    sent_at: VecDeque<Instant>,
    shared: Rc<Shared>,
}

impl Appender {
    /// Appends until the window is over or so many are sent, and waits for the replies to all of them.
    async fn run(
        mut self,
        mut replies: Replies<log::AppendReply>,
        in_flight: usize,
        appends_max: u64,
    ) -> anyhow::Result<()> {
        let payload =
            Payload { records: 1, value_bytes: self.next.records[0].value().len() as u64 };
        let opened = replies.next().await?;
        let is_opened = opened.is_some_and(|it| matches!(it.reply, Some(Reply::Opened(_))));
        ensure!(is_opened, "the stream of appends was not opened");
        for _ in 0..in_flight {
            self.send(appends_max).await;
        }
        while let Some(sent) = self.sent_at.front().copied() {
            let reply = replies.next().await?.context("the stream of appends has ended")?;
            match reply.reply {
                Some(Reply::Appended(_)) => {}
                other => bail!("an append was not taken: {other:?}"),
            }
            self.sent_at.pop_front();
            let now = Instant::now();
            {
                let mut observed = self.shared.observed.borrow_mut();
                observed.count_answer(Pace::Closed(in_flight), (sent, now), payload);
                observed.entrusted_records += 1;
            }
            if now < self.shared.window.to {
                self.send(appends_max).await;
            }
        }
        Ok(())
    }

    /// Sends one more. What becomes of it, the replies say.
    async fn send(&mut self, appends_max: u64) {
        if self.next.sequence < appends_max {
            self.next.sequence += 1;
            self.sent_at.push_back(Instant::now());
            self.appends.send(self.next.clone()).await;
        }
    }
}

impl Load for GrpcReadLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        // The server decides how much comes at once.
        Ok(Parameters { fetch_bytes: 0, ..self.like.parameters()? })
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        refusal(side, self.given.as_ref())
    }

    fn writes(&self) -> bool {
        self.like.writes()
    }

    fn written_bytes_max(&self, side: &Side, run: &Run) -> anyhow::Result<u64> {
        self.like.written_bytes_max(side, run)
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let address = side.log_service(self.given.as_ref()).context(NO_LOG_SERVICE)?;
        let stored = self.like.store(side, run).await?;
        if self.like.reading == Reading::Uncached {
            drop_from_memory(&side.segments(&stored.topic)?)?;
        }
        let (pids, log, run) = (side.pids.clone(), stored.topic.name.to_string(), run.clone());
        let read = move || on_this_thread(read_all(&address, &log, &run, &pids));
        let mut observed =
            tokio::task::spawn_blocking(read).await.context("the reader failed")??;
        // What came has more around the values: this way it is counted as a fetch of the same.
        let payload = stored.batch.payload().times(stored.batches);
        let batch_bytes = stored.batch.bytes.len() as u64 * stored.batches;
        ensure!(
            observed.value_bytes >= batch_bytes,
            "{} of {batch_bytes} bytes of batches came",
            observed.value_bytes
        );
        (observed.records, observed.value_bytes) = (payload.records, payload.value_bytes);
        stored.topic.delete().await?;
        Ok(observed)
    }
}

/// Reads to the end of now.
async fn read_all(
    address: &BrokerAddress,
    log: &str,
    run: &Run,
    pids: &[u32],
) -> anyhow::Result<Observed> {
    let mut client = LogClient::connect(address, ConnectionOptions::default()).await?;
    let request = ReadRequest {
        log: log.to_owned(),
        until_end: true,
        format: Format::Batches.into(),
        ..ReadRequest::default()
    };
    let (before, start) = (Snapshot::take(pids), Instant::now());
    let mut observed = Observed::new(Window { from: start, to: start + LONGEST_READ });
    let mut replies = client.read(&request).await?;
    while let Some(reply) = replies.next().await? {
        ensure!(!run.stop.load(Ordering::Relaxed), "the run was called off");
        let value_bytes = reply.batches.len() as u64;
        observed.count(Instant::now(), Payload { records: 0, value_bytes });
    }
    observed.counted = Some(start.elapsed());
    observed.usage = before.until_now();
    Ok(observed)
}

/// A read ends by itself long before.
const LONGEST_READ: Duration = Duration::from_secs(3600);

fn on_this_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    LocalSet::new().block_on(&runtime, work)
}
