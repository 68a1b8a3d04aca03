//! Consumers that read from followers (KIP-392).

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::cluster::{TestNode, until};
use common::held_calls::HeldCalls;
use common::*;
use logway_client::Connection;
use logway_metadata::settings::broker::RACK_AWARE_SELECTOR;
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId};
use logway_node::replica::Replica;
use logway_peers::{PeerListener, TcpCarrier};
use logway_wire::WireString;
use logway_wire::messages::fetch_response::PartitionData;
use logway_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use logway_wire::messages::{FetchRequest, FetchResponse, ListOffsetsRequest};

/// The last version that names topics by name.
const BY_NAME: i16 = 12;
/// A follower hears of a higher watermark so late, where nothing else comes.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
const NOBODY: i32 = -1;

/// Three nodes, each in a rack of its own, and a topic of one partition with a replica on each.
struct Racks {
    nodes: Vec<TestNode>,
    held: Vec<Arc<HeldCalls>>,
}

fn rack_of(id: BrokerId) -> String {
    format!("rack-{id}")
}

impl Racks {
    async fn start(dir: &Path, settings: &[(&str, &str)]) -> Racks {
        let mut racks = Racks { nodes: Vec::new(), held: Vec::new() };
        for number in 1..=3 {
            let listener = PeerListener::bind("127.0.0.1:0").await.expect("a free port");
            let held = Arc::new(HeldCalls::new(TcpCarrier::new(listener, None)));
            let rack = rack_of(BrokerId(number));
            // A follower that gets nothing stays in sync for as long as a test takes.
            let own = [
                ("broker.rack", rack.as_str()),
                ("replica.lag.time.max.ms", "600000"),
                ("logway.replica.stall.max.ms", "600000"),
            ];
            let settings: Vec<_> = own.iter().chain(settings).copied().collect();
            let join = racks.nodes.first().map(|node| node.address.clone());
            let join: Vec<&str> = join.as_deref().into_iter().collect();
            let path = dir.join(number.to_string());
            let node = TestNode::try_start_with(&path, held.clone(), &join, &settings).await;
            racks.nodes.push(node.expect("starts"));
            racks.held.push(held);
        }
        let is_active = |node: &TestNode| {
            let image = node.broker.node().image();
            (1..=3).all(|id| image.is_active(BrokerId(id)))
        };
        until("three brokers are active", || racks.nodes.iter().all(is_active)).await;
        let connection = racks.nodes[0].broker.connect().await;
        create_replicated(&connection, "t", 1, 3, &[("min.insync.replicas", "2")]).await;
        until("one leads and two follow", || racks.roles().is_some()).await;
        racks
    }

    /// The leader's place, and those of its followers.
    fn roles(&self) -> Option<(usize, [usize; 2])> {
        let places = 0..self.nodes.len();
        let replicas: Option<Vec<_>> = places.clone().map(|at| self.replica(at)).collect();
        let replicas = replicas?;
        let leader = places.clone().find(|at| replicas[*at].is_leading())?;
        let followers: Vec<_> = places.filter(|at| replicas[*at].is_following()).collect();
        Some((leader, followers.try_into().ok()?))
    }

    fn replica(&self, at: usize) -> Option<Arc<Replica>> {
        let topics = self.nodes[at].broker.node().topics();
        topics.by_name("t").ok()?.replica(PartitionId(0)).cloned()
    }

    fn ends(&self, at: usize) -> (Offset, Offset) {
        let replica = self.replica(at).expect("is there");
        (replica.high_watermark().get(), replica.log().log_end_offset())
    }

    fn id(&self, at: usize) -> BrokerId {
        self.nodes[at].id()
    }

    async fn connect(&self, at: usize) -> Connection {
        self.nodes[at].broker.connect().await
    }

    /// Waits until the leader sends readers of a rack to its node.
    async fn until_named(&self, leader: usize, follower: usize, offset: i64) {
        let connection = self.connect(leader).await;
        let rack = rack_of(self.id(follower));
        let asking = async {
            while preferred(&ask(&connection, BY_NAME, &wish(offset, &rack)).await) == NOBODY {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(UNTIL_MAX, asking).await.expect("it is sent there");
    }
}

fn wish(offset: i64, rack: &str) -> FetchRequest {
    FetchRequest { rack_id: WireString::copy_of(rack), ..fetch_request("t", &[(0, offset)]) }
}

/// The same in the leader epoch that the reader believes in.
fn wish_in(epoch: LeaderEpoch, offset: i64) -> FetchRequest {
    let mut request = fetch_request("t", &[(0, offset)]);
    request.topics[0].partitions[0].current_leader_epoch = epoch.0;
    request
}

fn waiting(wish: FetchRequest) -> FetchRequest {
    let max_wait_ms = i32::try_from(UNTIL_MAX.as_millis()).expect("is short");
    FetchRequest { max_wait_ms, ..wish }
}

async fn respond(connection: &Connection, version: i16, request: &FetchRequest) -> FetchResponse {
    let pending = connection.send(request, version).await.expect("is sent");
    pending.response().await.expect("is answered")
}

async fn ask(connection: &Connection, version: i16, request: &FetchRequest) -> PartitionData {
    let mut response = respond(connection, version, request).await;
    assert_eq!(response.error_code, 0);
    response.responses.remove(0).partitions.remove(0)
}

fn preferred(data: &PartitionData) -> i32 {
    assert_eq!(data.error_code, 0);
    data.preferred_read_replica
}

fn code(data: &PartitionData) -> ErrorCode {
    ErrorCode::from_code(data.error_code).expect("is known")
}

fn is_empty(data: &PartitionData) -> bool {
    data.records.as_ref().is_none_or(|records| records.is_empty())
}

async fn produce_to_leader(connection: &Connection, value: &str) -> i64 {
    let mut request = produce_request("t", 0, batch(&[value]));
    request.acks = 1;
    let mut response =
        connection.send(&request, 9).await.expect("is sent").response().await.expect("is answered");
    let produced = response.responses.remove(0).partition_responses.remove(0);
    assert_eq!(produced.error_code, 0);
    produced.base_offset
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_in_the_rack_of_a_follower_reads_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let selector = [("replica.selector.class", RACK_AWARE_SELECTOR)];
    let racks = Racks::start(dir.path(), &selector).await;
    let (leader, [near, other]) = racks.roles().expect("has them");
    let leading = racks.connect(leader).await;
    assert_eq!(produce(&leading, "t", 0, batch(&["a", "b"])).await.error_code, 0);
    let (near_rack, other_rack) = (rack_of(racks.id(near)), rack_of(racks.id(other)));
    racks.until_named(leader, near, 0).await;
    racks.until_named(leader, other, 2).await;

    // Also one that would wait is sent on at once, and gets no records on the way.
    let begun = Instant::now();
    let told = ask(&leading, BY_NAME, &waiting(wish(2, &near_rack))).await;
    assert!(begun.elapsed() < UNTIL_MAX / 2);
    assert_eq!((preferred(&told), is_empty(&told)), (racks.id(near).0, true));
    assert_eq!((told.high_watermark, told.last_stable_offset, told.log_start_offset), (2, 2, 0));
    assert_eq!(told.aborted_transactions, None);
    assert_eq!(preferred(&ask(&leading, 11, &wish(0, &other_rack)).await), racks.id(other).0);

    for rack in ["", "elsewhere", &rack_of(racks.id(leader))] {
        let read = ask(&leading, BY_NAME, &wish(0, rack)).await;
        assert_eq!((preferred(&read), values(&read).len()), (NOBODY, 2), "{rack}");
    }
    let read = ask(&leading, 10, &fetch_request("t", &[(0, 0)])).await;
    assert_eq!(values(&read).len(), 2, "who cannot say where it is");

    let following = racks.connect(near).await;
    until("the follower shows them", || racks.ends(near) == (Offset(2), Offset(2))).await;
    let read = ask(&following, BY_NAME, &wish(0, &near_rack)).await;
    assert_eq!(preferred(&read), NOBODY, "a follower sends nobody elsewhere");
    assert_eq!(values(&read), [(Offset(0), "a".to_owned()), (Offset(1), "b".to_owned())]);
    let refused = ask(&following, 10, &fetch_request("t", &[(0, 0)])).await;
    assert_eq!(code(&refused), ErrorCode::NotLeaderOrFollower, "versions that know no followers");
    let counted = racks.nodes[near].broker.metrics();
    let bytes_out = |line: &&str| line.starts_with("logway_topic_bytes_out_total");
    let line = counted.lines().find(bytes_out).expect("there is such a metric");
    assert!(!line.ends_with(" 0"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_hears_each_time_that_another_replica_is_nearer() {
    let dir = tempfile::tempdir().expect("a directory");
    let selector = [("replica.selector.class", RACK_AWARE_SELECTOR)];
    let racks = Racks::start(dir.path(), &selector).await;
    let (leader, [near, _]) = racks.roles().expect("has them");
    racks.until_named(leader, near, 0).await;
    let leading = racks.connect(leader).await;
    let begins = FetchRequest { session_epoch: 0, ..wish(0, &rack_of(racks.id(near))) };
    let begun = respond(&leading, BY_NAME, &begins).await;
    assert_ne!(begun.session_id, 0);
    for session_epoch in 1..3 {
        let next = FetchRequest {
            session_id: begun.session_id,
            session_epoch,
            topics: Vec::new(),
            ..begins.clone()
        };
        let told = ask(&leading, BY_NAME, &next).await;
        assert_eq!(preferred(&told), racks.id(near).0, "{session_epoch}");
    }

    // The follower's session goes on like a leader's: nothing is said of what has not changed.
    let following = racks.connect(near).await;
    let begun = respond(&following, BY_NAME, &begins).await;
    let next = |session_epoch| FetchRequest {
        session_id: begun.session_id,
        session_epoch,
        topics: Vec::new(),
        ..begins.clone()
    };
    assert!(respond(&following, BY_NAME, &next(1)).await.responses.is_empty());
    assert_eq!(produce(&leading, "t", 0, batch(&["a"])).await.error_code, 0);
    let read = ask(&following, BY_NAME, &waiting(next(2))).await;
    assert_eq!(values(&read), [(Offset(0), "a".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unless_a_selector_is_set_nobody_is_sent_elsewhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let racks = Racks::start(dir.path(), &[]).await;
    let (leader, [near, _]) = racks.roles().expect("has them");
    let leading = racks.connect(leader).await;
    assert_eq!(produce(&leading, "t", 0, batch(&["a"])).await.error_code, 0);
    let rack = rack_of(racks.id(near));
    let read = ask(&leading, BY_NAME, &wish(0, &rack)).await;
    assert_eq!((preferred(&read), values(&read).len()), (NOBODY, 1));
    until("the follower shows it", || racks.ends(near).0 == Offset(1)).await;
    let read = ask(&racks.connect(near).await, BY_NAME, &wish(0, &rack)).await;
    assert_eq!(values(&read).len(), 1, "as in Kafka, who asks a follower is served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_shows_what_is_committed_and_sends_back_who_asks_for_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let selector = [("replica.selector.class", RACK_AWARE_SELECTOR)];
    let racks = Racks::start(dir.path(), &selector).await;
    let (leader, [near, held]) = racks.roles().expect("has them");
    let leading = racks.connect(leader).await;
    assert_eq!(produce(&leading, "t", 0, batch(&["a"])).await.error_code, 0);
    racks.until_named(leader, near, 1).await;
    racks.until_named(leader, held, 1).await;
    until("all show it", || (0..3).all(|at| racks.ends(at) == (Offset(1), Offset(1)))).await;

    racks.held[leader].hold_fetches_of(racks.id(held));
    // What was asked before is answered, and then nothing is.
    let mut end = produce_to_leader(&leading, "b").await + 1;
    end = end.max(produce_to_leader(&leading, "c").await + 1);
    until("one follower has it", || racks.ends(near).1 == Offset(end)).await;
    let (watermark, has) = racks.ends(held);
    assert!(has < Offset(end), "the other has {has} of {end}");
    assert!(racks.ends(near).0 <= watermark.max(Offset(2)), "what one lacks is not committed");

    // It has the record and does not show it.
    let following = racks.connect(near).await;
    let (watermark, _) = racks.ends(near);
    let unseen = ask(&following, BY_NAME, &wish(watermark.0, "")).await;
    assert_eq!((code(&unseen), is_empty(&unseen)), (ErrorCode::None, true));
    assert_eq!(unseen.high_watermark, watermark.0);
    let beyond = ask(&following, BY_NAME, &wish(end, "")).await;
    assert_eq!((code(&beyond), is_empty(&beyond)), (ErrorCode::None, true));
    let beyond = ask(&following, BY_NAME, &wish(end + 1, "")).await;
    assert_eq!(code(&beyond), ErrorCode::OffsetOutOfRange);

    // One that has less does not get who wants more, and sends it back.
    let rack = rack_of(racks.id(held));
    assert_eq!(preferred(&ask(&leading, BY_NAME, &wish(end, &rack)).await), NOBODY);
    assert_eq!(preferred(&ask(&leading, BY_NAME, &wish(0, &rack)).await), racks.id(held).0);
    let lagging = racks.connect(held).await;
    let told = ask(&lagging, BY_NAME, &wish(end, "")).await;
    assert_eq!(code(&told), ErrorCode::OffsetOutOfRange);

    // Who waits there is woken when it is committed.
    let begun = Instant::now();
    let request = waiting(wish(watermark.0, ""));
    let reading = ask(&following, BY_NAME, &request);
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        racks.held[leader].release();
    };
    let (read, ()) = tokio::join!(reading, releasing);
    assert!(!values(&read).is_empty() && begun.elapsed() < UNTIL_MAX / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_wakes_who_waits_and_compares_epochs() {
    let dir = tempfile::tempdir().expect("a directory");
    let racks = Racks::start(dir.path(), &[]).await;
    let (leader, [near, _]) = racks.roles().expect("has them");
    let (leading, following) = (racks.connect(leader).await, racks.connect(near).await);
    let epoch = racks.replica(near).expect("is there").leader_epoch();
    let refused = |data: &PartitionData, expected| {
        assert_eq!((code(data), is_empty(data)), (expected, true));
    };
    let older = ask(&following, BY_NAME, &wish_in(LeaderEpoch(epoch.0 - 1), 0)).await;
    refused(&older, if epoch.0 > 0 { ErrorCode::FencedLeaderEpoch } else { ErrorCode::None });
    let newer = ask(&following, BY_NAME, &wish_in(LeaderEpoch(epoch.0 + 1), 0)).await;
    refused(&newer, ErrorCode::UnknownLeaderEpoch);

    let request = waiting(wish_in(epoch, 0));
    let producing = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(produce(&leading, "t", 0, batch(&["a"])).await.error_code, 0);
        Instant::now()
    };
    let (read, produced_at) = tokio::join!(ask(&following, BY_NAME, &request), producing);
    assert_eq!(values(&read), [(Offset(0), "a".to_owned())]);
    assert!(produced_at.elapsed() < TOLD_WITHIN, "{:?}", produced_at.elapsed());

    // Another leads: who waits is told at once.
    let mut nodes = racks.nodes;
    let request = waiting(wish_in(epoch, 1));
    let stopped = nodes.remove(leader);
    drop(leading);
    let (told, ()) = tokio::join!(ask(&following, BY_NAME, &request), stopped.broker.stop());
    refused(&told, ErrorCode::FencedLeaderEpoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_tools_ask_a_follower_for_offsets() {
    let dir = tempfile::tempdir().expect("a directory");
    let racks = Racks::start(dir.path(), &[]).await;
    let (leader, [near, _]) = racks.roles().expect("has them");
    let leading = racks.connect(leader).await;
    assert_eq!(produce(&leading, "t", 0, batch(&["a"])).await.error_code, 0);
    let following = racks.connect(near).await;
    for (replica_id, expected) in
        [(-1, ErrorCode::NotLeaderOrFollower), (2, ErrorCode::NotLeaderOrFollower)]
    {
        assert_eq!(latest(&following, replica_id).await, (expected, -1), "{replica_id}");
    }
    assert_eq!(latest(&following, -2).await, (ErrorCode::None, 1));
}

async fn latest(connection: &Connection, replica_id: i32) -> (ErrorCode, i64) {
    let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
    let topic =
        ListOffsetsTopic { name: "t".into(), partitions: vec![partition], ..Default::default() };
    let request = ListOffsetsRequest { replica_id, topics: vec![topic], ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    let told = &response.topics[0].partitions[0];
    (ErrorCode::from_code(told.error_code).expect("is known"), told.offset)
}
