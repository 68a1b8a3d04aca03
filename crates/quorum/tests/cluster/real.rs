//! The same on real disks, real threads and in real time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use logway_metadata::settings::BrokerSettings;
use logway_model::{DirectoryId, Uuid};
use logway_quorum::{JoinRequest, MetadataQuorum, QuorumOptions, Start, join};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::network::Network;
use crate::scenarios::{create, register};

/// As long as a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

struct Machine {
    network: Network,
    root: tempfile::TempDir,
}

impl Machine {
    fn address(number: u8) -> String {
        format!("node-{number}:9093")
    }

    async fn open(&self, number: u8, start: Start) -> Running {
        let (address, is_alive) = (Machine::address(number), Arc::new(AtomicBool::new(true)));
        let settings = BrokerSettings::new([("node.id".to_owned(), number.to_string())]);
        let settings = Arc::new(settings.expect("is valid"));
        let directory = DirectoryId(Uuid([number; 16]));
        let options = QuorumOptions {
            start,
            directory,
            address: address.clone(),
            network: Some(self.network.link(&address, &is_alive)),
            submit_timeout: PATIENCE,
            ..QuorumOptions::new(&self.dir(number), settings)
        };
        let quorum = Arc::new(MetadataQuorum::open(options).await.expect("opens"));
        self.network.listen(&address, &directory.to_string(), &quorum, &is_alive);
        (quorum, is_alive)
    }

    fn dir(&self, number: u8) -> std::path::PathBuf {
        Path::new(self.root.path()).join(format!("node-{number}"))
    }

    async fn admit(&self, number: u8) {
        assert_eq!(self.join(number).await, i32::from(number));
    }

    /// Asks the first node for a number.
    async fn join(&self, number: u8) -> i32 {
        let address = Machine::address(number);
        let directory = DirectoryId(Uuid([number; 16]));
        let link = self.network.link(&address, &Arc::new(AtomicBool::new(true)));
        let request =
            JoinRequest { id: None, directory, address, replaces: false, votes_only: false };
        let joined = join(link, &[Machine::address(1)], request, Duration::from_secs(30)).await;
        joined.expect("is admitted").id.0
    }
}

/// A running node, and whether it is alive.
type Running = (Arc<MetadataQuorum>, Arc<AtomicBool>);

/// Three voters.
async fn three(machine: &Machine) -> Vec<Running> {
    let mut nodes = vec![machine.open(1, Start::Found).await];
    for number in 2..=3 {
        machine.admit(number).await;
        nodes.push(machine.open(number, Start::Join).await);
    }
    let votes = |(quorum, _): &Running| quorum.status().voters.len() == 3;
    until("three vote", || nodes.iter().all(votes)).await;
    register(&nodes[0].0).await.expect("is registered");
    nodes
}

/// The place of the one that leads.
async fn leader(nodes: &[Running]) -> usize {
    let leads = |(quorum, _): &Running| {
        let status = quorum.status();
        quorum.members().iter().any(|member| {
            Some(member.id) == status.leader && member.last_heard == Some(Duration::ZERO)
        })
    };
    until("one leads", || nodes.iter().any(leads)).await;
    nodes.iter().position(leads).expect("one leads")
}

/// Waits for a state.
async fn until(what: &str, is_reached: impl Fn() -> bool) {
    let waiting = async {
        while !is_reached() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

#[test]
fn three_nodes_on_real_disks_lose_their_leader_and_go_on() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("runs").block_on(async {
        let root = tempfile::tempdir().expect("is made");
        let machine = Machine { network: Network::new(1), root };
        let mut nodes = three(&machine).await;
        create(&nodes[2].0, 1).await.expect("is created");
        let leader = leader(&nodes).await;
        let (quorum, is_alive) = nodes.remove(leader);
        is_alive.store(false, std::sync::atomic::Ordering::Relaxed);
        drop(quorum);
        let begin = Instant::now();
        create(&nodes[0].0, 2).await.expect("is created");
        println!("until a command is committed without the leader: {:?}", begin.elapsed());
        for (quorum, _) in &nodes {
            quorum.wait_until_current().await.expect("is current");
            assert!(quorum.image().topic("topic-2").is_some());
        }
        for (quorum, _) in nodes {
            quorum.shutdown().await.expect("stops, and closes its files");
        }
    });
}

#[test]
fn what_the_leader_has_committed_and_not_yet_applied_is_current() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(4).enable_all().build().expect("runs").block_on(async {
        let root = tempfile::tempdir().expect("is made");
        let machine = Machine { network: Network::new(1), root };
        let mut nodes = three(&machine).await;
        let (leader, _is_alive) = nodes.remove(leader(&nodes).await);
        let epoch = leader.status().epoch;
        let follower = &nodes[0].0;

        // What it applies from here on is not done before this is let go.
        let (applied, (send_held, held)) = (leader.watch(), oneshot::channel());
        let (let_go, is_let_go) = std::sync::mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let _held = applied.borrow();
            send_held.send(()).expect("it is waited for");
            _ = is_let_go.recv();
        });
        held.await.expect("it is held");
        let creating = Arc::clone(&leader);
        let creating = tokio::spawn(async move { create(&creating, 1).await });
        until("a follower has it", || follower.image().topic("topic-1").is_some()).await;
        let index = follower.indexed_image().index;
        let current = follower.wait_until_current().await.expect("there is a leader");
        drop(let_go);
        assert_eq!(follower.status().epoch, epoch, "another one leads: nothing was tried");
        assert!(current >= index, "{index} is known here, and {current} was said to be the newest");

        holder.join().expect("has held it");
        creating.await.expect("ends").expect("is created");
        nodes.push((leader, _is_alive));
        for (quorum, _) in nodes {
            quorum.shutdown().await.expect("stops, and closes its files");
        }
    });
}

#[test]
fn nodes_that_ask_at_the_same_moment_get_different_numbers() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("runs").block_on(async {
        let root = tempfile::tempdir().expect("is made");
        let machine = Arc::new(Machine { network: Network::new(1), root });
        let (quorum, _is_alive) = machine.open(1, Start::Found).await;
        let mut asking = JoinSet::new();
        for number in 2..=40 {
            let machine = Arc::clone(&machine);
            asking.spawn(async move { machine.join(number).await });
        }
        let mut given = asking.join_all().await;
        given.sort_unstable();
        assert_eq!(given, (2..=40).collect::<Vec<i32>>());
        quorum.shutdown().await.expect("stops, and closes its files");
    });
}
