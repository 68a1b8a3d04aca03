//! Reads from followers, in a cluster of three nodes.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Client, Door, Ended, UNTIL_MAX, append};
use logway_logservice::messages::log::read_request::From;
use logway_logservice::messages::log::{OpenAppend, ReadReply, ReadRequest, Source};
use logway_model::{BrokerId, Offset, PartitionId};
use logway_node::cluster::{BoundListener, ClusterOptions};
use logway_node::replica::Replica;
use logway_peers::{Carrier as _, PeerListener, TcpCarrier};
use tokio::time::{sleep, timeout};

const LOG: &str = "near";
const UNAVAILABLE: i32 = 14;
const INVALID: i32 = 3;

/// Three nodes, each in a rack of its own, and a log of one partition with a replica on each.
struct Cluster {
    doors: Vec<Door>,
    carriers: Vec<Arc<TcpCarrier>>,
}

fn rack_of(id: BrokerId) -> String {
    format!("rack-{id}")
}

async fn until(what: &str, is_reached: impl Fn() -> bool) {
    let waiting = async {
        while !is_reached() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(UNTIL_MAX, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

impl Cluster {
    async fn start(dir: &Path) -> Cluster {
        let (mut doors, mut carriers, mut first) = (Vec::<Door>::new(), Vec::new(), Vec::new());
        for number in 1..=3 {
            let listener = PeerListener::bind("127.0.0.1:0").await.expect("a free port");
            let carrier = Arc::new(TcpCarrier::new(listener, None));
            let address = carrier.address().to_string();
            carriers.push(Arc::clone(&carrier));
            // No Kafka client comes, and each node has to have an address for some.
            let clients = vec![BoundListener {
                name: "PLAINTEXT".to_owned(),
                ip: Some([127, 0, 0, 1].into()),
                port: 9,
            }];
            let options = ClusterOptions {
                carrier,
                host: None,
                clients,
                join: first.clone(),
                replaces: false,
                find_nodes: Arc::new(|_| Box::pin(async { None })),
                secure: None,
                mutation: None,
            };
            let rack = rack_of(BrokerId(number));
            let settings = [("broker.rack", rack.as_str())];
            let path = dir.join(number.to_string());
            doors.push(Door::open_in(&path, &settings, Some(options)).await);
            first = vec![first.first().cloned().unwrap_or(address)];
        }
        let all_active = |door: &Door| {
            let image = door.node.image();
            (1..=3).all(|id| image.is_active(BrokerId(id)))
        };
        until("three brokers are active", || doors.iter().all(all_active)).await;
        doors[0].create_replicated(LOG, (1, 3), &[("min.insync.replicas", "2")]).await;
        let cluster = Cluster { doors, carriers };
        until("one leads and two follow", || cluster.roles().is_some()).await;
        cluster
    }

    fn replica(&self, at: usize) -> Option<Arc<Replica>> {
        let topics = self.doors[at].node.topics();
        topics.by_name(LOG).ok()?.replica(PartitionId(0)).cloned()
    }

    /// The leader's place, and those of its followers.
    fn roles(&self) -> Option<(usize, [usize; 2])> {
        let replicas: Option<Vec<_>> = (0..3).map(|at| self.replica(at)).collect();
        let replicas = replicas?;
        let leader = (0..3).find(|at| replicas[*at].is_leading())?;
        let followers: Vec<_> = (0..3).filter(|at| replicas[*at].is_following()).collect();
        Some((leader, followers.try_into().ok()?))
    }

    fn id(&self, at: usize) -> BrokerId {
        self.doors[at].node.settings.node_id
    }

    async fn fill(&self, at: usize, count: u64) {
        let mut client = self.doors[at].client().await;
        let mut appending = client.open_append(OpenAppend::default()).await;
        appending.opened().await;
        for sequence in 1..=count {
            appending.append(append(LOG, sequence, &[&(sequence - 1).to_string()]));
        }
        appending.0.close();
        for _ in 0..count {
            appending.appended().await;
        }
    }

    async fn until_all_show(&self, end: i64) {
        let shows =
            |at| self.replica(at).is_some_and(|it| it.high_watermark().get() >= Offset(end));
        until("all show all", || (0..3).all(shows)).await;
    }

    fn bytes_out(&self) -> Vec<u64> {
        self.doors.iter().map(|door| door.bytes_out(LOG)).collect()
    }
}

/// Reads the first records, from a follower that may be so stale.
fn from_follower(count: u64, staleness_max_ms: u32) -> ReadRequest {
    ReadRequest {
        log: LOG.to_owned(),
        from: Some(From::Offset(0)),
        records_max: count,
        source: Source::Follower.into(),
        staleness_max_ms,
        ..ReadRequest::default()
    }
}

fn nearest(count: u64, rack: String) -> ReadRequest {
    ReadRequest { source: Source::Nearest.into(), rack, ..from_follower(count, 0) }
}

async fn offsets(client: &mut Client, request: ReadRequest) -> Result<Vec<i64>, Ended> {
    let mut call = client.read(request).await;
    let mut offsets = Vec::new();
    while let Some(reply) = call.next::<ReadReply>().await? {
        offsets.extend(reply.records.iter().map(|record| record.offset));
    }
    Ok(offsets)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_node_is_asked_a_follower_or_the_rack_of_the_reader_serves() {
    const COUNT: u64 = 50;
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::start(dir.path()).await;
    let (leader, [first, second]) = cluster.roles().expect("has them");
    cluster.fill(leader, COUNT).await;
    cluster.until_all_show(50).await;
    let all: Vec<i64> = (0..50).collect();
    let mut clients = Vec::new();
    for door in &cluster.doors {
        clients.push(door.client().await);
    }
    let served_by = async |client: &mut Client, request: ReadRequest| {
        let before = cluster.bytes_out();
        assert_eq!(offsets(client, request).await.as_ref(), Ok(&all));
        let after = cluster.bytes_out();
        (0..3).filter(|at| after[*at] > before[*at]).collect::<Vec<_>>()
    };
    for (asked, expected) in [(first, vec![first]), (second, vec![second])] {
        let served = served_by(&mut clients[asked], from_follower(COUNT, 0)).await;
        assert_eq!(served, expected, "its own replica");
    }
    let served = served_by(&mut clients[leader], from_follower(COUNT, 0)).await;
    assert!(served == [first] || served == [second], "{served:?}, asked by the leader");
    for (asked, client) in clients.iter_mut().enumerate() {
        for near in 0..3 {
            let request = nearest(COUNT, rack_of(cluster.id(near)));
            assert_eq!(served_by(client, request).await, [near], "asked at {asked}");
        }
        let elsewhere = nearest(COUNT, "elsewhere".to_owned());
        assert_eq!(served_by(client, elsewhere).await, [leader]);
    }

    // Who waits at a follower gets what comes.
    let waiting = ReadRequest { from: Some(From::End(true)), ..from_follower(1, 0) };
    let mut call = clients[first].read(waiting).await;
    let told: ReadReply = call.next().await.expect("goes on").expect("tells where it is");
    assert_eq!((told.next_offset, told.records.len()), (50, 0));
    cluster.fill(leader, 1).await;
    let came: ReadReply = call.next().await.expect("goes on").expect("comes");
    assert_eq!(came.records.iter().map(|record| record.offset).collect::<Vec<_>>(), [50]);

    // What no replica has the leader knows.
    let beyond = ReadRequest { from: Some(From::Offset(99)), ..from_follower(1, 0) };
    let refused = offsets(&mut clients[first], beyond).await.expect_err("is beyond the end");
    assert!(refused.details.contains("BEYOND_END"), "{refused:?}");
    for (request, wrong) in [
        (nearest(1, String::new()), "NEAREST needs the rack"),
        (ReadRequest { rack: "a".to_owned(), ..from_follower(1, 0) }, "rack is for"),
    ] {
        let refused = offsets(&mut clients[first], request).await.expect_err("is wrong");
        assert!(refused.code == INVALID && refused.message.contains(wrong), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_without_a_leader_serves_who_bears_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::start(dir.path()).await;
    let (leader, [left, _]) = cluster.roles().expect("has them");
    cluster.fill(leader, 20).await;
    cluster.until_all_show(20).await;
    let replica = cluster.replica(left).expect("is there");
    let is_fresh = || replica.staleness().is_some_and(|it| it < Duration::from_secs(2));
    until("the follower knows that it has all", is_fresh).await;
    let rack = rack_of(cluster.id(left));
    // It waits for more than there is, and it shall not wait without an end.
    const PATIENCE_MS: u32 = 5_000;
    let waiting = ReadRequest { records_max: 0, ..from_follower(0, PATIENCE_MS) };
    let mut waiter = cluster.doors[left].client().await;
    let mut waiting = waiter.read(waiting).await;
    let told: ReadReply = waiting.next().await.expect("goes on").expect("has records");
    assert_eq!(told.next_offset, 20);
    // No node hears another one: nobody can be elected, and the follower follows who tells it nothing.
    let [one, two, three] = &cluster.carriers[..] else { panic!("there are three") };
    tokio::join!(one.stop(), two.stop(), three.stop());
    let mut client = cluster.doors[left].client().await;
    let all: Vec<i64> = (0..20).collect();
    let bearing = from_follower(20, 600_000);
    assert_eq!(offsets(&mut client, bearing.clone()).await.as_ref(), Ok(&all));
    let near = ReadRequest { source: Source::Nearest.into(), rack, ..bearing };
    assert_eq!(offsets(&mut client, near).await.as_ref(), Ok(&all));

    let begun = Instant::now();
    let is_stale = || replica.staleness().is_none_or(|it| it > Duration::from_millis(200));
    until("time has passed", is_stale).await;
    let refused = offsets(&mut client, from_follower(20, 200)).await.expect_err("it is too stale");
    assert_eq!(refused.code, UNAVAILABLE, "{refused:?}");
    assert!(refused.details.contains("TOO_STALE"), "{refused:?}");
    assert!(refused.message.contains("200 ms are allowed"), "{refused:?}");
    assert!(begun.elapsed() < UNTIL_MAX);

    let refused = loop {
        match waiting.next::<ReadReply>().await {
            Ok(reply) => assert_eq!(reply.expect("has no end").records, [], "nothing comes"),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code, UNAVAILABLE, "{refused:?}");
    for word in ["TOO_STALE", LOG, "remedy", "staleness_max_ms"] {
        assert!(refused.details.contains(word), "{word} in {refused:?}");
    }
    assert!(refused.message.contains("5000 ms are allowed"), "{refused:?}");
    assert!(replica.staleness().is_none_or(|it| it > Duration::from_millis(PATIENCE_MS.into())));
}
