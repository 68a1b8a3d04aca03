//! A driver without a broker: a log in memory, and a clock that is moved by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::{
    Client, CommitToken, CommittedOffset, Effect, ElapsedMs, GroupMemory, GroupMetadata,
    GroupRecord, GroupSettings, GroupShard, Moment, Reply, Request, RequestBody, RequestToken,
};
use logway_model::{ErrorCode, TimestampMs, Uuid};
use logway_wire::{Encoder, Message, WireString};

use crate::cluster::TestCluster;

/// The wall clock's time at which tests begin.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// A shard with its log.
pub(crate) struct Driver {
    pub(crate) shard: GroupShard,
    pub(crate) memory: GroupMemory,
    settings: GroupSettings,
    pub(crate) elapsed_ms: u64,
    /// The records that are durable, as bytes.
    pub(crate) log: Vec<(Bytes, Option<Bytes>)>,
    /// Appends that are neither durable nor failed.
    pub(crate) in_flight: VecDeque<(CommitToken, Vec<GroupRecord>)>,
    /// Requests that wait for their reply.
    pub(crate) open: BTreeSet<RequestToken>,
    /// Replies that nobody has taken yet.
    pub(crate) replies: VecDeque<(RequestToken, Reply)>,
    /// The cluster that the shard sees.
    pub(crate) cluster: TestCluster,
    requests: u64,
    ids: u64,
}

/// What the log makes a shard know.
pub(crate) type Durable =
    BTreeMap<String, (Option<GroupMetadata>, BTreeMap<(String, i32), CommittedOffset>)>;

impl Driver {
    /// A shard with an empty log, loaded.
    pub(crate) fn new(settings: GroupSettings) -> Driver {
        Driver::with_memory(settings, 256 << 20)
    }

    /// The same where groups have so much memory.
    pub(crate) fn with_memory(settings: GroupSettings, memory_bytes: usize) -> Driver {
        let memory = GroupMemory::new(memory_bytes);
        let mut driver = Driver {
            shard: GroupShard::new(
                settings.clone(),
                memory.clone(),
                Arc::new(TestCluster::default()),
            ),
            settings,
            memory,
            elapsed_ms: 0,
            log: Vec::new(),
            in_flight: VecDeque::new(),
            open: BTreeSet::new(),
            replies: VecDeque::new(),
            cluster: TestCluster::default(),
            requests: 0,
            ids: 0,
        };
        driver.load();
        driver
    }

    pub(crate) fn now(&self) -> Moment {
        Moment {
            elapsed: ElapsedMs(self.elapsed_ms),
            wall: TimestampMs(START_MS + self.elapsed_ms as i64),
        }
    }

    /// An id that counts up, in place of a random one.
    pub(crate) fn fresh_id(&mut self) -> Uuid {
        self.ids += 1;
        let mut bits = [0; 16];
        bits[8..].copy_from_slice(&self.ids.to_be_bytes());
        Uuid(bits)
    }

    /// Sends a request, and takes note of what follows.
    pub(crate) fn send(&mut self, client: &str, version: i16, body: RequestBody) -> RequestToken {
        self.requests += 1;
        let token = RequestToken(self.requests);
        self.open.insert(token);
        let client =
            Client { id: WireString::copy_of(client), host: WireString::from("/127.0.0.1") };
        let effects = self.shard.request(self.now(), Request { token, version, client, body });
        self.apply(effects);
        token
    }

    /// Sends a request, lets all appends succeed, and returns the reply.
    pub(crate) fn ask(&mut self, client: &str, version: i16, body: RequestBody) -> Reply {
        let token = self.send(client, version, body);
        self.settle_all();
        self.take_reply(token).expect("the request is answered at once")
    }

    /// The reply to a request, if it has come.
    pub(crate) fn take_reply(&mut self, token: RequestToken) -> Option<Reply> {
        let place = self.replies.iter().position(|(of, _)| *of == token)?;
        self.replies.remove(place).map(|(_, reply)| reply)
    }

    pub(crate) fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append { token, records } => {
                    assert!(!records.is_empty(), "an append has records");
                    self.in_flight.push_back((token, records));
                }
                Effect::Reply { token, reply } => {
                    assert!(self.open.remove(&token), "{token:?} is answered twice: {reply:?}");
                    self.replies.push_back((token, reply));
                }
                other => panic!("there are no transactions here: {other:?}"),
            }
        }
    }

    /// Ends the oldest append; false if there is none.
    pub(crate) fn settle(&mut self, outcome: Result<(), ErrorCode>) -> bool {
        let Some((token, records)) = self.in_flight.pop_front() else { return false };
        if outcome.is_ok() {
            self.log.extend(records.iter().map(GroupRecord::encode));
        }
        let effects = self.shard.appended(self.now(), token, outcome);
        self.apply(effects);
        true
    }

    /// Lets all appends succeed, those too that follow from them.
    pub(crate) fn settle_all(&mut self) {
        while self.settle(Ok(())) {}
    }

    /// Moves the clock, waking the shard on its way when it wants to be.
    pub(crate) fn advance_ms(&mut self, delay_ms: u64, mut on_tick: impl FnMut(&mut Driver)) {
        let end = self.elapsed_ms + delay_ms;
        while let Some(deadline) = self.shard.next_deadline().filter(|next| next.0 <= end) {
            self.elapsed_ms = self.elapsed_ms.max(deadline.0);
            self.tick();
            on_tick(self);
        }
        self.elapsed_ms = end;
        self.tick();
    }

    fn tick(&mut self) {
        let effects = self.shard.tick(self.now());
        self.apply(effects);
    }

    /// The machine dies. Of the appends on their way, so many are in the log nevertheless. Nobody gets a reply.
    pub(crate) fn crash(&mut self, appends_kept: usize) {
        for (_, records) in self.in_flight.drain(..).take(appends_kept) {
            self.log.extend(records.iter().map(GroupRecord::encode));
        }
        self.in_flight.clear();
        self.open.clear();
        self.replies.clear();
        self.load();
    }

    /// The shard ends in order, with nothing on its way, and another is loaded.
    pub(crate) fn unload(&mut self) {
        let next = GroupShard::new(self.settings.clone(), self.memory.clone(), self.view());
        let shard = std::mem::replace(&mut self.shard, next);
        let effects = shard.unload(self.now());
        self.apply(effects);
        assert!(self.open.is_empty(), "unanswered after the unload: {:?}", self.open);
        self.in_flight.clear();
    }

    /// Leaves in the log what a cleaner would: the last record of each key, and no old tombstones.
    pub(crate) fn compact(&mut self) {
        let mut last = BTreeMap::new();
        for (place, (key, _)) in self.log.iter().enumerate() {
            last.insert(key.clone(), place);
        }
        let mut place = 0;
        self.log.retain(|(key, value)| {
            place += 1;
            last[key] == place - 1 && value.is_some()
        });
    }

    fn view(&self) -> Arc<TestCluster> {
        Arc::new(self.cluster.clone())
    }

    /// The cluster's metadata changes.
    pub(crate) fn change_cluster(&mut self, change: impl FnOnce(&mut TestCluster)) {
        let before = self.cluster.clone();
        change(&mut self.cluster);
        self.cluster.version += 1;
        let after = self.cluster.clone();
        let has_new = after.topics.keys().any(|name| !before.topics.contains_key(name));
        let has_changed = |name: &str| {
            before.topics.get(name) != after.topics.get(name)
                || before.racks.get(name) != after.racks.get(name)
        };
        let view = Arc::new(after.clone());
        let effects = self.shard.cluster_changed(self.now(), view, has_changed, has_new);
        self.apply(effects);
    }

    /// Loads a shard from the log.
    pub(crate) fn load(&mut self) {
        self.shard = self.replayed();
        let effects = self.shard.loaded(self.now());
        self.apply(effects);
    }

    /// A shard that has read the log, but is not in use.
    pub(crate) fn replayed(&self) -> GroupShard {
        let mut shard = GroupShard::new(self.settings.clone(), self.memory.clone(), self.view());
        for (key, value) in &self.log {
            let record = GroupRecord::decode(key, value.as_ref()).expect("the log is ours");
            shard.replay(&record.expect("the log has our records only"));
        }
        shard
    }
}

/// What the log has made the shard know.
pub(crate) fn durable(shard: &GroupShard) -> Durable {
    let groups = shard.groups().map(|group| {
        let metadata = group.metadata().map(|metadata| GroupMetadata::clone(metadata));
        let offsets = group
            .offsets()
            .map(|(topic, partition, offset)| ((topic.as_str().to_owned(), partition.0), offset));
        (group.id().as_str().to_owned(), (metadata, offsets.collect()))
    });
    let is_kept = |(metadata, offsets): &(Option<_>, BTreeMap<_, _>)| {
        metadata.is_some() || !offsets.is_empty()
    };
    groups.filter(|(_, state)| is_kept(state)).collect()
}

/// A consumer's metadata, as the Java client writes it: a version, topics, no user data.
pub(crate) fn subscription(topics: &[&str]) -> Bytes {
    let subscription = logway_wire::messages::ConsumerProtocolSubscription {
        topics: topics.iter().map(|topic| WireString::copy_of(topic)).collect(),
        ..Default::default()
    };
    let mut to = Encoder::new();
    to.i16(1);
    subscription.encode(&mut to, 1).expect("a subscription can be written");
    to.into_bytes().expect("it holds no records")
}
