//! The driver, with the least coordinator there can be: it counts.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::{
    Client, CommitToken, Effect, EffectsOf, ElapsedMs, Moment, RecordError, Request, RequestToken,
    StateMachine,
};
use logway_log::fs::SimFs;
use logway_log::{LogConfig, LogDir, LogDirOptions, LogMetrics};
use logway_model::{
    BrokerId, ClusterId, ErrorCode, LeaderEpoch, Offset, PartitionId, ProducerId, TopicId,
    TopicName, TopicPartition, Uuid,
};
use logway_record::{Compression, TransactionOutcome};
use logway_replication::Membership;
use tokio::sync::Semaphore;

use super::driver::ShardHandle;
use super::{Command, Pending, Question, new};
use crate::log_dirs::LocatedLog;
use crate::memory::MemoryBudget;
use crate::metrics::TrafficMetrics;
use crate::replica::{Lead, Replica};

const OWN: BrokerId = BrokerId(1);

/// Adds up numbers; each sum is durable before it is told.
#[derive(Default)]
struct Counter {
    durable: u64,
    is_loaded: bool,
    in_flight: Vec<(CommitToken, RequestToken, u64)>,
}

impl StateMachine for Counter {
    type Body = u64;
    type Reply = Result<u64, ErrorCode>;
    type Record = u64;
    type Errand = Infallible;

    fn decode(_key: &Bytes, value: Option<&Bytes>) -> Result<Option<u64>, RecordError> {
        let bytes = value.and_then(|value| <[u8; 8]>::try_from(&value[..]).ok());
        Ok(bytes.map(u64::from_be_bytes))
    }

    fn encode(record: &u64) -> (Bytes, Option<Bytes>) {
        (Bytes::from_static(b"sum"), Some(Bytes::copy_from_slice(&record.to_be_bytes())))
    }

    fn bytes_max(_record: &u64) -> usize {
        16
    }

    fn waits_for_others(_body: &u64) -> bool {
        false
    }

    fn waited_bytes(_reply: &Self::Reply) -> usize {
        0
    }

    fn no_room(_reply: &Self::Reply) -> ErrorCode {
        ErrorCode::CoordinatorLoadInProgress
    }

    fn answer_bytes(&self, _body: &u64) -> usize {
        0
    }

    fn replay(&mut self, record: &u64) {
        self.durable = *record;
    }

    fn replay_in_transaction(&mut self, _producer: ProducerId, _record: &u64) {}

    fn replay_marker(&mut self, _producer: ProducerId, _outcome: TransactionOutcome) {}

    fn loaded(&mut self, _now: Moment) -> EffectsOf<Self> {
        self.is_loaded = true;
        Vec::new()
    }

    fn request(&mut self, _now: Moment, request: Request<u64>) -> EffectsOf<Self> {
        let token = request.token;
        if !self.is_loaded {
            return vec![Effect::Reply { token, reply: Err(ErrorCode::CoordinatorLoadInProgress) }];
        }
        let last = self.in_flight.last().map_or(self.durable, |(_, _, sum)| *sum);
        let (append, sum) = (CommitToken(token.0), last + request.body);
        self.in_flight.push((append, token, sum));
        vec![Effect::Append { token: append, records: vec![sum] }]
    }

    fn appended(
        &mut self,
        _now: Moment,
        token: CommitToken,
        outcome: Result<(), ErrorCode>,
    ) -> EffectsOf<Self> {
        let (append, token, sum) = match self.in_flight.first() {
            Some((append, ..)) if *append == token => self.in_flight.remove(0),
            other => panic!("appends end in their order: {token:?} before {other:?}"),
        };
        assert_eq!(append, CommitToken(token.0));
        self.durable = sum;
        vec![Effect::Reply { token, reply: outcome.map(|()| sum) }]
    }

    fn tick(&mut self, _now: Moment) -> EffectsOf<Self> {
        Vec::new()
    }

    fn next_deadline(&self) -> Option<ElapsedMs> {
        None
    }

    fn unload(self, _now: Moment) -> EffectsOf<Self> {
        let refused =
            |(_, token, _)| Effect::Reply { token, reply: Err(ErrorCode::NotCoordinator) };
        self.in_flight.into_iter().map(refused).collect()
    }
}

fn replica(fs: &SimFs) -> (LogDir, Arc<Replica>) {
    let options = LogDirOptions {
        fs: Arc::new(fs.clone()),
        ..LogDirOptions::new("data", OWN, ClusterId(Uuid([1; 16])))
    };
    let dir = LogDir::open(options, LogMetrics::new()).expect("opens");
    let name = TopicName::new("sums").expect("a legal name");
    let place = TopicPartition::new(name, PartitionId(0));
    let config = Arc::new(LogConfig { flush_messages: 1, ..LogConfig::default() });
    let log = dir.create_log(place, TopicId(Uuid([2; 16])), config).expect("is made");
    let place = LocatedLog { log, directory: dir.directory_id() };
    let replica = Replica::new(place, TrafficMetrics::default().of_topic("sums"));
    lead(&replica, LeaderEpoch(0));
    (dir, replica)
}

fn lead(replica: &Replica, epoch: LeaderEpoch) {
    lead_among(replica, epoch, &[OWN]);
}

fn lead_among(replica: &Replica, epoch: LeaderEpoch, isr: &[BrokerId]) {
    let (replicas, isr, partition_epoch) = (isr.to_vec(), isr.to_vec(), epoch.0);
    let membership = Membership { replicas, isr, has_eligible: false, partition_epoch };
    replica.lead(Lead { own: OWN, epoch, membership: &membership, in_sync_min: 1 });
}

fn start(replica: &Arc<Replica>) -> ShardHandle<Counter> {
    let memory = MemoryBudget::new(1 << 20, Arc::default());
    let loads = Arc::new(Semaphore::new(1));
    let replica = Arc::clone(replica);
    let no_errands = Box::new(|never: Infallible, _: &_| match never {});
    let (handle, driver) =
        new(replica, Counter::default(), Compression::None, memory, loads, no_errands);
    tokio::spawn(driver.run());
    handle
}

fn add(shard: &ShardHandle<Counter>, number: u64) -> Pending<Counter> {
    let client = Client::default();
    Pending::of(Some(shard), Question { version: 0, client, body: number, held: Vec::new() })
}

/// The sum, asked for until the shard is loaded.
async fn sum(shard: &ShardHandle<Counter>) -> u64 {
    loop {
        match add(shard, 0).reply().await.expect("the shard is here") {
            Ok(sum) => return sum,
            Err(code) => assert_eq!(code, ErrorCode::CoordinatorLoadInProgress),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_one_shard_was_told_is_durable_and_the_next_one_knows_it() {
    let (_dir, replica) = replica(&SimFs::new(1));
    let shard = start(&replica);
    assert_eq!(sum(&shard).await, 0);
    let sums = [1, 2, 3].map(|number| add(&shard, number));
    for (pending, expected) in sums.into_iter().zip([1, 3, 6]) {
        assert_eq!(pending.reply().await, Ok(Ok(expected)));
    }
    drop(shard);
    assert_eq!(sum(&start(&replica)).await, 6);
}

#[tokio::test]
async fn a_shard_ends_with_its_leader_epoch() {
    let fs = SimFs::new(1);
    let (_dir, replica) = replica(&fs);
    let shard = start(&replica);
    assert_eq!(sum(&shard).await, 0);
    assert!(shard.drives(&replica));
    fs.hold_syncs();
    let waits = add(&shard, 5);
    // Commands are obeyed in their order: when somebody has looked, the request is on its way to the log.
    let (looked, has_looked) = tokio::sync::oneshot::channel();
    shard.send(Command::Look(Box::new(|counter: &Counter| {
        looked.send(counter.in_flight.len()).expect("is waited for");
    })));
    assert_eq!(has_looked.await, Ok(1));
    replica.follow(LeaderEpoch(1), BrokerId(2));
    fs.release_syncs();
    assert!(!shard.drives(&replica), "it is of an epoch that is over");
    assert_eq!(waits.reply().await, Ok(Err(ErrorCode::NotCoordinator)));

    lead(&replica, LeaderEpoch(2));
    // The append was on its way when the epoch ended: the log has it or not, and the next shard knows which.
    let end = replica.log().begin_epoch(LeaderEpoch(2)).await.expect("the log is open");
    let expected = if end == Offset(2) { 5 } else { 0 };
    assert_eq!(sum(&start(&replica)).await, expected);
}

#[tokio::test]
async fn a_shard_ends_though_no_follower_ever_has_what_it_wrote() {
    let (_dir, replica) = replica(&SimFs::new(1));
    lead_among(&replica, LeaderEpoch(1), &[OWN, BrokerId(2)]);
    let shard = start(&replica);
    while !is_loaded(&shard).await {
        tokio::task::yield_now().await;
    }
    let waits = add(&shard, 5);
    drop(shard);
    assert_eq!(waits.reply().await, Ok(Err(ErrorCode::NotCoordinator)));

    // The next shard finds it, once it is committed.
    lead(&replica, LeaderEpoch(2));
    assert_eq!(sum(&start(&replica)).await, 5);
}

async fn is_loaded(shard: &ShardHandle<Counter>) -> bool {
    let (looked, has_looked) = tokio::sync::oneshot::channel();
    shard.send(Command::Look(Box::new(|counter: &Counter| {
        looked.send(counter.is_loaded).expect("is waited for");
    })));
    has_looked.await.expect("the shard is here")
}
