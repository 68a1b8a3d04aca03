//! A shard with a log in memory, and what it has others do.

use std::collections::VecDeque;

use bytes::Bytes;
use logway_coordinator::transactions::{
    MarkerOrder, TransactionEffect, TransactionRecord, TransactionReply, TransactionRequest,
    TransactionSettings, TransactionShard,
};
use logway_coordinator::{
    Client, CommitToken, Effect, ElapsedMs, GroupMemory, Moment, Request, RequestToken,
};
use logway_model::{ErrorCode, TimestampMs};

/// The wall clock's time at the beginning.
pub(crate) const WALL_ZERO_MS: i64 = 1_000_000;

/// One shard after the other, on one log.
pub(crate) struct Driver {
    pub(crate) shard: TransactionShard,
    pub(crate) settings: TransactionSettings,
    pub(crate) log: Vec<(Bytes, Option<Bytes>)>,
    pub(crate) in_flight: VecDeque<(CommitToken, Vec<TransactionRecord>)>,
    pub(crate) orders: VecDeque<MarkerOrder>,
    pub(crate) replies: VecDeque<(RequestToken, TransactionReply)>,
    pub(crate) elapsed_ms: u64,
    /// Counts the shards: the coordinator's epoch.
    pub(crate) epoch: i32,
    next_token: u64,
}

impl Driver {
    pub(crate) fn new(settings: TransactionSettings) -> Driver {
        let mut driver = Driver {
            shard: new_shard(&settings),
            settings,
            log: Vec::new(),
            in_flight: VecDeque::new(),
            orders: VecDeque::new(),
            replies: VecDeque::new(),
            elapsed_ms: 0,
            epoch: 0,
            next_token: 0,
        };
        driver.load();
        driver
    }

    pub(crate) fn now(&self) -> Moment {
        let wall_ms = i64::try_from(self.elapsed_ms).expect("a short time");
        Moment { elapsed: ElapsedMs(self.elapsed_ms), wall: TimestampMs(WALL_ZERO_MS + wall_ms) }
    }

    /// The shard is gone with all that was on its way; another one reads the log.
    pub(crate) fn crash(&mut self) {
        self.in_flight.clear();
        self.orders.clear();
        self.replies.clear();
        self.epoch += 1;
        self.shard = new_shard(&self.settings);
        self.load();
    }

    fn load(&mut self) {
        for (key, value) in &self.log {
            let record = TransactionRecord::decode(key, value.as_ref());
            self.shard.replay(&record.expect("is ours").expect("is ours"));
        }
        let effects = self.shard.loaded(self.now());
        self.apply(effects);
    }

    /// Asks the shard; the reply comes at once or later.
    pub(crate) fn ask(&mut self, body: TransactionRequest) -> RequestToken {
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        let request = Request { token, version: 0, client: Client::default(), body };
        let effects = self.shard.request(self.now(), request);
        self.apply(effects);
        token
    }

    pub(crate) fn take_reply(&mut self, token: RequestToken) -> Option<TransactionReply> {
        let place = self.replies.iter().position(|(of, _)| *of == token)?;
        self.replies.remove(place).map(|(_, reply)| reply)
    }

    /// Ends the oldest append; the records that have come into the log.
    pub(crate) fn settle(&mut self, outcome: Result<(), ErrorCode>) -> Vec<TransactionRecord> {
        let Some((token, records)) = self.in_flight.pop_front() else { return Vec::new() };
        if outcome.is_ok() {
            self.log.extend(records.iter().map(TransactionRecord::encode));
        }
        let effects = self.shard.appended(self.now(), token, outcome);
        self.apply(effects);
        records
    }

    pub(crate) fn markers_written(&mut self, order: &MarkerOrder) {
        let effects = self.shard.markers_written(self.now(), order);
        self.apply(effects);
    }

    pub(crate) fn wait_ms(&mut self, ms: u64) {
        self.elapsed_ms += ms;
        let effects = self.shard.tick(self.now());
        self.apply(effects);
    }

    fn apply(&mut self, effects: Vec<TransactionEffect>) {
        for effect in effects {
            match effect {
                Effect::Append { token, records } => {
                    assert!(!records.is_empty(), "an append has records");
                    self.in_flight.push_back((token, records));
                }
                Effect::Reply { token, reply } => self.replies.push_back((token, reply)),
                Effect::Errand(order) => self.orders.push_back(order),
                other => panic!("is no effect of transactions: {other:?}"),
            }
        }
    }
}

fn new_shard(settings: &TransactionSettings) -> TransactionShard {
    TransactionShard::new(settings.clone(), GroupMemory::new(1 << 20))
}
