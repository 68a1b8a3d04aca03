//! Consumer groups: what members say, and the records that a coordinator reads at its start.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::{
    Client, Effect, ElapsedMs, EmptyCluster, GroupMemory, GroupRecord, GroupSettings, GroupShard,
    Moment, Reply, Request, RequestBody, RequestToken,
};
use logway_model::{ErrorCode, TimestampMs, Uuid};
use logway_wire::WireString;
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use logway_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use logway_wire::messages::{JoinGroupRequest, OffsetDeleteRequest, SyncGroupRequest};

use crate::allocation::within;
use crate::messages::survive_as;
use crate::parts;

/// What groups may take, and what handling an input may.
const GROUPS_BYTES_MAX: usize = 1 << 20;

/// Kafka answers JoinGroup before version 4 without a round for the member's id.
const JOIN_VERSION: i16 = 3;

/// What a member says of its subscription, and its leader of the assignment: a version, then a message. Both are kept
/// for it as they are, and its group goes on whatever they are.
pub fn consumer_protocol(bytes: &[u8]) {
    if let Some((version, message)) = bytes.split_first_chunk() {
        let (version, message) = (i16::from_be_bytes(*version), Bytes::copy_from_slice(message));
        survive_as("ConsumerProtocolSubscription", &message, version);
        survive_as("ConsumerProtocolAssignment", &message, version);
    }
    let said = Bytes::copy_from_slice(bytes);
    within(8 * GROUPS_BYTES_MAX + 64 * bytes.len(), || {
        let mut group = Group::load(&[]);
        let member_id = group.join(said.clone());
        assert_eq!(group.sync(member_id, said.clone()), said);
        group.delete_offsets("t");
        group.end_all_sessions();
        assert_eq!(group.shard.group_count(), 0, "a group without members and offsets is none");
    });
}

/// Records of `__consumer_offsets`: keys and values in turns, an empty one for no value. What is understood is written
/// as it reads and takes no more than it says; a coordinator that has read them does its work.
pub fn group_records(input: &[u8]) {
    let pieces: Vec<_> = parts::unpack(input).map(Bytes::copy_from_slice).collect();
    within(8 * GROUPS_BYTES_MAX + 64 * input.len(), || {
        let mut records = Vec::new();
        for record in pieces.chunks(2) {
            let value = record.get(1).filter(|value| !value.is_empty());
            let Ok(Some(record)) = GroupRecord::decode(&record[0], value) else { continue };
            let (key, value) = record.encode();
            let record_bytes = key.len() + value.as_ref().map_or(0, Bytes::len);
            assert!(record_bytes <= record.bytes_max(), "{record_bytes} bytes: {record:?}");
            assert_eq!(GroupRecord::decode(&key, value.as_ref()), Ok(Some(record.clone())));
            records.push(record);
        }
        let mut group = Group::load(&records);
        group.join(Bytes::new());
        group.delete_offsets("t");
        group.end_all_sessions();
    });
}

/// A coordinator with one group that is talked to.
struct Group {
    shard: GroupShard,
    now: Moment,
    requests: u64,
    replies: BTreeMap<RequestToken, Reply>,
}

impl Group {
    fn load(records: &[GroupRecord]) -> Group {
        let settings = GroupSettings { initial_rebalance_delay_ms: 0, ..GroupSettings::default() };
        let shard =
            GroupShard::new(settings, GroupMemory::new(GROUPS_BYTES_MAX), Arc::new(EmptyCluster));
        let now = Moment { elapsed: ElapsedMs(0), wall: TimestampMs(1_700_000_000_000) };
        let mut group = Group { shard, now, requests: 0, replies: BTreeMap::new() };
        records.iter().for_each(|record| group.shard.replay(record));
        let effects = group.shard.loaded(now);
        group.settle(effects);
        group
    }

    /// Does what the shard wants done: all appends succeed.
    fn settle(&mut self, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Append { token, .. } => {
                    effects.extend(self.shard.appended(self.now, token, Ok(())));
                }
                Effect::Reply { token, reply } => {
                    let earlier = self.replies.insert(token, reply);
                    assert_eq!(earlier, None, "{token:?} is answered twice");
                }
                other => unreachable!("nobody commits by a transaction here: {other:?}"),
            }
        }
    }

    /// The answer to a request, unless it has to wait.
    fn ask(&mut self, version: i16, body: RequestBody) -> Option<Reply> {
        self.requests += 1;
        let token = RequestToken(self.requests);
        let request = Request { token, version, client: Client::default(), body };
        let effects = self.shard.request(self.now, request);
        self.settle(effects);
        self.tick();
        self.replies.get(&token).cloned()
    }

    fn tick(&mut self) {
        let effects = self.shard.tick(self.now);
        self.settle(effects);
    }

    /// Joins the group; gives the member's id.
    fn join(&mut self, metadata: Bytes) -> WireString {
        let protocol =
            JoinGroupRequestProtocol { name: "range".into(), metadata, ..Default::default() };
        let request = JoinGroupRequest {
            group_id: "g".into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            ..Default::default()
        };
        let body = RequestBody::JoinGroup { request, fresh_id: Uuid([1; 16]) };
        match self.ask(JOIN_VERSION, body) {
            Some(Reply::JoinGroup(response)) => response.member_id,
            // Members that the log knows are waited for.
            _ => WireString::default(),
        }
    }

    /// Assigns something to the only member; gives what it gets.
    fn sync(&mut self, member_id: WireString, assignment: Bytes) -> Bytes {
        let assigned = SyncGroupRequestAssignment {
            member_id: member_id.clone(),
            assignment,
            ..Default::default()
        };
        let request = SyncGroupRequest {
            group_id: "g".into(),
            generation_id: 1,
            member_id,
            assignments: vec![assigned],
            ..Default::default()
        };
        match self.ask(0, RequestBody::SyncGroup(request)) {
            Some(Reply::SyncGroup(response)) => {
                assert_eq!(response.error_code, ErrorCode::None.code());
                response.assignment
            }
            other => panic!("{other:?}"),
        }
    }

    /// Forgets the offset of a partition, which members must not be subscribed to.
    fn delete_offsets(&mut self, topic: &str) {
        let partitions = vec![OffsetDeleteRequestPartition::default()];
        let topic = OffsetDeleteRequestTopic {
            name: WireString::copy_of(topic),
            partitions,
            ..Default::default()
        };
        let request =
            OffsetDeleteRequest { group_id: "g".into(), topics: vec![topic], ..Default::default() };
        let reply = self.ask(0, RequestBody::OffsetDelete(request));
        assert!(matches!(reply, Some(Reply::OffsetDelete(_))), "{reply:?}");
    }

    /// Lets time pass until nobody can be a member any more and no offset is kept.
    fn end_all_sessions(&mut self) {
        const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1000;
        for _ in 0..8 {
            self.now.elapsed = self.now.elapsed.after_ms(YEAR_MS);
            self.now.wall = TimestampMs(self.now.wall.0 + YEAR_MS as i64);
            self.tick();
        }
    }
}
