//! Offsets that consumers commit by their producers' transactions (KIP-98, KIP-447).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::transactions::{Producer, TransactionOutcome};
use logway_coordinator::{
    Client, CommitToken, Effect, ElapsedMs, EmptyCluster, GroupMemory, GroupRecord, GroupSettings,
    GroupShard, InTransaction, Marker, Moment, Reply, Request, RequestBody, RequestToken,
    TxnOffsetCommit,
};
use logway_model::{ErrorCode, ProducerEpoch, ProducerId, TimestampMs, TransactionVersion, Uuid};
use logway_wire::WireString;
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use logway_wire::messages::{JoinGroupRequest, OffsetCommitRequest, TxnOffsetCommitRequest};

const COMMIT: TransactionOutcome = TransactionOutcome::Commit;
const ABORT: TransactionOutcome = TransactionOutcome::Abort;

#[derive(Debug, Clone)]
enum Entry {
    Record(Option<ProducerId>, (Bytes, Option<Bytes>)),
    Marker(ProducerId, TransactionOutcome),
}

/// A shard of groups with its log.
struct Groups {
    shard: GroupShard,
    memory: GroupMemory,
    log: Vec<Entry>,
    in_flight: VecDeque<(CommitToken, Vec<Entry>)>,
    replies: VecDeque<(RequestToken, Reply)>,
    next_token: u64,
    elapsed_ms: u64,
}

impl Groups {
    fn new() -> Groups {
        let memory = GroupMemory::new(1 << 20);
        let mut groups = Groups {
            shard: GroupShard::new(
                GroupSettings::default(),
                memory.clone(),
                Arc::new(EmptyCluster),
            ),
            memory,
            log: Vec::new(),
            in_flight: VecDeque::new(),
            replies: VecDeque::new(),
            next_token: 0,
            elapsed_ms: 0,
        };
        groups.load();
        groups
    }

    fn now(&self) -> Moment {
        let wall = TimestampMs(i64::try_from(self.elapsed_ms).expect("a short time"));
        Moment { elapsed: ElapsedMs(self.elapsed_ms), wall }
    }

    /// The shard is gone with what was on its way; another one reads the log.
    fn load(&mut self) {
        self.in_flight.clear();
        self.shard =
            GroupShard::new(GroupSettings::default(), self.memory.clone(), Arc::new(EmptyCluster));
        for entry in &self.log {
            match entry {
                Entry::Record(producer, (key, value)) => {
                    let record = GroupRecord::decode(key, value.as_ref());
                    let record = record.expect("is ours").expect("is ours");
                    match producer {
                        Some(producer) => self.shard.replay_in_transaction(*producer, &record),
                        None => self.shard.replay(&record),
                    }
                }
                Entry::Marker(producer, outcome) => self.shard.replay_marker(*producer, *outcome),
            }
        }
        let effects = self.shard.loaded(self.now());
        self.apply(effects);
    }

    fn send(&mut self, version: i16, body: RequestBody) -> RequestToken {
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        let request = Request { token, version, client: Client::default(), body };
        let effects = self.shard.request(self.now(), request);
        self.apply(effects);
        token
    }

    fn ask(&mut self, version: i16, body: RequestBody) -> Reply {
        let token = self.send(version, body);
        while self.settle(Ok(())) {}
        self.take_reply(token).expect("it is answered at once")
    }

    fn take_reply(&mut self, token: RequestToken) -> Option<Reply> {
        let place = self.replies.iter().position(|(of, _)| *of == token)?;
        self.replies.remove(place).map(|(_, reply)| reply)
    }

    fn settle(&mut self, outcome: Result<(), ErrorCode>) -> bool {
        let Some((token, entries)) = self.in_flight.pop_front() else { return false };
        if outcome.is_ok() {
            self.log.extend(entries);
        }
        let effects = self.shard.appended(self.now(), token, outcome);
        self.apply(effects);
        true
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        let entries = |producer: Option<ProducerId>, records: Vec<GroupRecord>| {
            records.iter().map(|record| Entry::Record(producer, record.encode())).collect()
        };
        for effect in effects {
            match effect {
                Effect::Append { token, records } => {
                    self.in_flight.push_back((token, entries(None, records)));
                }
                Effect::AppendInTransaction { token, part, records } => {
                    let InTransaction { producer, guard } = part;
                    assert_eq!(guard, Some(5), "the guard comes along");
                    self.in_flight.push_back((token, entries(Some(producer.id), records)));
                }
                Effect::AppendMarker { token, marker } => {
                    let marker = Entry::Marker(marker.producer.id, marker.outcome);
                    self.in_flight.push_back((token, vec![marker]));
                }
                Effect::Reply { token, reply } => self.replies.push_back((token, reply)),
                Effect::Errand(never) => match never {},
            }
        }
    }

    fn txn_commit(&mut self, producer: i64, partition: i32, offset: i64) -> ErrorCode {
        let request = txn_commit_request(producer, partition, offset);
        self.txn_commit_with(request)
    }

    fn txn_commit_with(&mut self, request: TxnOffsetCommitRequest) -> ErrorCode {
        let commit = TxnOffsetCommit { request, topic_ids: Vec::new(), guard: Some(5) };
        match self.ask(4, RequestBody::TxnOffsetCommit(commit)) {
            Reply::TxnOffsetCommit(response) => code(response.topics[0].partitions[0].error_code),
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, partition: i32, offset: i64) {
        let partitions = vec![OffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: offset,
            ..Default::default()
        }];
        let topic = OffsetCommitRequestTopic { name: "t".into(), partitions, ..Default::default() };
        let request =
            OffsetCommitRequest { group_id: "g".into(), topics: vec![topic], ..Default::default() };
        self.ask(8, RequestBody::OffsetCommit(request));
    }

    fn end(&mut self, producer: i64, outcome: TransactionOutcome) {
        let reply = self.ask(0, RequestBody::WriteMarker(marker(producer, outcome)));
        assert_eq!(reply, Reply::WriteMarker(Ok(())));
    }

    /// The offset of a partition, as both kinds of readers see it.
    fn offset(&mut self, partition: i32) -> (i64, Result<i64, ErrorCode>) {
        let request = OffsetFetchRequestGroup {
            group_id: "g".into(),
            topics: Some(vec![OffsetFetchRequestTopics {
                name: "t".into(),
                partition_indexes: vec![partition],
                ..Default::default()
            }]),
            ..Default::default()
        };
        let mut fetch = |body| match self.ask(8, body) {
            Reply::OffsetFetch(mut response) => response.topics.remove(0).partitions.remove(0),
            other => panic!("{other:?}"),
        };
        let any = fetch(RequestBody::OffsetFetch(request.clone()));
        assert_eq!(any.error_code, 0);
        let stable = fetch(RequestBody::StableOffsetFetch(request));
        let stable = match code(stable.error_code) {
            ErrorCode::None => Ok(stable.committed_offset),
            code => Err(code),
        };
        (any.committed_offset, stable)
    }

    fn is_settled_at(&mut self, partition: i32, offset: i64) {
        assert_eq!(self.offset(partition), (offset, Ok(offset)));
    }

    fn is_unstable_at(&mut self, partition: i32, offset: i64) {
        let unstable = Err(ErrorCode::UnstableOffsetCommit);
        assert_eq!(self.offset(partition), (offset, unstable));
    }
}

fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).expect("is one of Kafka's")
}

fn marker(producer: i64, outcome: TransactionOutcome) -> Marker {
    Marker {
        producer: Producer { id: ProducerId(producer), epoch: ProducerEpoch(1) },
        outcome,
        coordinator_epoch: 3,
        version: TransactionVersion::EPOCH_BUMP,
    }
}

fn txn_commit_request(producer: i64, partition: i32, offset: i64) -> TxnOffsetCommitRequest {
    TxnOffsetCommitRequest {
        transactional_id: "x".into(),
        group_id: "g".into(),
        producer_id: producer,
        producer_epoch: 0,
        topics: vec![TxnOffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![TxnOffsetCommitRequestPartition {
                partition_index: partition,
                committed_offset: offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn offsets_of_a_transaction_count_when_it_is_committed() {
    let mut groups = Groups::new();
    groups.commit(0, 5);
    assert_eq!(groups.txn_commit(1, 0, 10), ErrorCode::None);
    assert_eq!(groups.txn_commit(1, 1, 11), ErrorCode::None);
    groups.is_unstable_at(0, 5);
    groups.is_unstable_at(1, -1);
    groups.is_settled_at(2, -1);
    groups.end(2, COMMIT);
    groups.is_unstable_at(0, 5);
    groups.load();
    groups.is_unstable_at(0, 5);
    groups.end(1, COMMIT);
    groups.is_settled_at(0, 10);
    groups.is_settled_at(1, 11);
    groups.load();
    groups.is_settled_at(0, 10);
    groups.is_settled_at(1, 11);
}

#[test]
fn offsets_of_an_aborted_transaction_leave_nothing() {
    let mut groups = Groups::new();
    groups.commit(0, 5);
    let before = groups.memory.used_bytes();
    groups.txn_commit(1, 0, 10);
    assert!(groups.memory.used_bytes() > before, "they are counted");
    groups.end(1, ABORT);
    groups.is_settled_at(0, 5);
    assert_eq!(groups.memory.used_bytes(), before);
    groups.txn_commit(1, 0, 20);
    groups.end(1, COMMIT);
    groups.is_settled_at(0, 20);
}

#[test]
fn of_two_transactions_each_has_its_own_offsets() {
    let mut groups = Groups::new();
    groups.txn_commit(1, 0, 10);
    groups.txn_commit(2, 0, 20);
    groups.end(1, COMMIT);
    groups.is_unstable_at(0, 10);
    groups.end(2, ABORT);
    groups.is_settled_at(0, 10);
}

#[test]
fn the_last_offset_in_the_log_counts_whichever_transaction_ends_first() {
    for (first, second) in [(1, 2), (2, 1)] {
        for has_moved in [false, true] {
            let mut groups = Groups::new();
            groups.txn_commit(1, 0, 20);
            groups.txn_commit(2, 0, 10);
            groups.end(first, COMMIT);
            if has_moved {
                groups.load();
            }
            groups.end(second, COMMIT);
            groups.is_settled_at(0, 10);
            groups.load();
            groups.is_settled_at(0, 10);
        }
    }
    let mut groups = Groups::new();
    groups.txn_commit(1, 0, 20);
    groups.txn_commit(2, 0, 10);
    groups.end(2, ABORT);
    groups.end(1, COMMIT);
    groups.is_settled_at(0, 20);
}

#[test]
fn what_is_committed_behind_a_pending_offset_stays() {
    for has_moved in [false, true] {
        let mut groups = Groups::new();
        groups.txn_commit(1, 0, 10);
        groups.commit(0, 30);
        if has_moved {
            groups.load();
        }
        groups.is_unstable_at(0, 30);
        groups.end(1, COMMIT);
        groups.is_settled_at(0, 30);
    }
}

#[test]
fn a_group_that_is_deleted_takes_its_pending_offsets_along() {
    let mut groups = Groups::new();
    groups.txn_commit(1, 0, 10);
    let delete = RequestBody::DeleteGroups { groups: vec!["g".into()] };
    match groups.ask(2, delete) {
        Reply::DeleteGroups(results) => assert_eq!(results[0].error_code, 0),
        other => panic!("{other:?}"),
    }
    groups.end(1, COMMIT);
    groups.is_settled_at(0, -1);
    assert_eq!(groups.shard.group_count(), 0);
    groups.load();
    groups.is_settled_at(0, -1);
    assert_eq!(groups.memory.used_bytes(), 0);
}

#[test]
fn a_failed_commit_and_a_failed_marker_are_told() {
    let mut groups = Groups::new();
    let request = txn_commit_request(1, 0, 10);
    let commit = TxnOffsetCommit { request, topic_ids: Vec::new(), guard: Some(5) };
    let token = groups.send(4, RequestBody::TxnOffsetCommit(commit));
    assert!(groups.take_reply(token).is_none(), "not before it is durable");
    groups.settle(Err(ErrorCode::InvalidProducerEpoch));
    match groups.take_reply(token) {
        Some(Reply::TxnOffsetCommit(response)) => {
            let told = code(response.topics[0].partitions[0].error_code);
            assert_eq!(told, ErrorCode::InvalidProducerEpoch);
        }
        other => panic!("{other:?}"),
    }
    let token = groups.send(0, RequestBody::WriteMarker(marker(1, COMMIT)));
    groups.settle(Err(ErrorCode::TransactionCoordinatorFenced));
    let failed = Reply::WriteMarker(Err(ErrorCode::TransactionCoordinatorFenced));
    assert_eq!(groups.take_reply(token), Some(failed));
    groups.is_settled_at(0, -1);
}

#[test]
fn a_consumer_that_was_replaced_commits_nothing_more() {
    let mut groups = Groups::new();
    let join = |member_id: &str| JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".into(),
        member_id: WireString::copy_of(member_id),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), ..Default::default() }],
        ..Default::default()
    };
    let request = join("");
    let token = groups.send(3, RequestBody::JoinGroup { request, fresh_id: Uuid([1; 16]) });
    groups.elapsed_ms += 3_000;
    let effects = groups.shard.tick(groups.now());
    groups.apply(effects);
    let (member_id, generation) = match groups.take_reply(token) {
        Some(Reply::JoinGroup(joined)) => (joined.member_id, joined.generation_id),
        other => panic!("{other:?}"),
    };
    let as_member = |member_id: &WireString, generation_id: i32| TxnOffsetCommitRequest {
        generation_id,
        member_id: member_id.clone(),
        ..txn_commit_request(1, 0, 10)
    };
    let stranger = WireString::from("stranger");
    assert_eq!(groups.txn_commit_with(as_member(&member_id, generation)), ErrorCode::None);
    let stale = groups.txn_commit_with(as_member(&member_id, generation - 1));
    assert_eq!(stale, ErrorCode::IllegalGeneration);
    let unknown = groups.txn_commit_with(as_member(&stranger, generation));
    assert_eq!(unknown, ErrorCode::UnknownMemberId);
    assert_eq!(groups.txn_commit(1, 0, 11), ErrorCode::None, "it tells of no membership");
    let other = TxnOffsetCommitRequest { group_id: "h".into(), ..as_member(&stranger, 3) };
    assert_eq!(groups.txn_commit_with(other), ErrorCode::IllegalGeneration);
}
