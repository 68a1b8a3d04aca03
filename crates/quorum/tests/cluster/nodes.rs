//! Nodes of a cluster in one process: each has a simulated disk and an address, and can be killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logway_log::fs::SimFs;
use logway_log::fs::sim::Rng;
use logway_metadata::settings::BrokerSettings;
use logway_model::{BrokerId, DirectoryId, Uuid};
use logway_quorum::{
    DiskWork, JoinRequest, MetadataQuorum, Mutation, QuorumError, QuorumOptions, Start, join,
};
use tokio::time::{sleep, timeout};

use crate::network::Network;

/// Few enough that snapshots are taken and sent all the time.
const SNAPSHOT_INTERVAL_ENTRIES: u64 = 40;

/// How slow a disk is, in milliseconds. Chances are in thousands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskPace {
    pub(crate) pause_max_ms: usize,
    pub(crate) stalls: usize,
    pub(crate) stall_max_ms: usize,
}

impl DiskPace {
    pub(crate) const FAST: DiskPace = DiskPace { pause_max_ms: 2, stalls: 0, stall_max_ms: 1 };
}

/// A node, running or not.
pub(crate) struct Node {
    pub(crate) address: String,
    pub(crate) directory: DirectoryId,
    pub(crate) id: Option<BrokerId>,
    fs: SimFs,
    start: Start,
    /// Whether it takes the place of the node that has its id.
    pub(crate) replaces: bool,
    pub(crate) quorum: Option<Arc<MetadataQuorum>>,
    is_alive: Arc<AtomicBool>,
    lives: u64,
}

/// All nodes of a world, by a number that is not their id: node 3 may come back as another one.
pub(crate) struct Nodes {
    pub(crate) network: Network,
    pub(crate) all: BTreeMap<usize, Node>,
    seed: u64,
    pub(crate) mutation: Option<Mutation>,
    pace: Arc<Mutex<DiskPace>>,
    /// The node whose disk hangs, after so many pieces of work.
    hung: Arc<Mutex<Option<(usize, usize)>>>,
    pub(crate) submit_timeout: Duration,
    pub(crate) snapshot_interval_entries: u64,
}

impl Nodes {
    pub(crate) fn new(seed: u64) -> Nodes {
        Nodes {
            network: Network::new(seed),
            all: BTreeMap::new(),
            seed,
            mutation: None,
            pace: Arc::new(Mutex::new(DiskPace::FAST)),
            hung: Arc::default(),
            submit_timeout: Duration::from_secs(5),
            snapshot_interval_entries: SNAPSHOT_INTERVAL_ENTRIES,
        }
    }

    pub(crate) fn set_disk_pace(&self, pace: DiskPace) {
        *self.pace.lock().expect("no panic") = pace;
    }

    /// Has the disk of one node, or of none, take a minute for each piece of work after so many. To judge a command is one,
    /// too.
    pub(crate) fn hang_disk(&self, of: Option<(usize, usize)>) {
        *self.hung.lock().expect("no panic") = of;
    }

    fn disk_work(&self, number: usize, seed: u64) -> DiskWork {
        let (pace, hung) = (Arc::clone(&self.pace), Arc::clone(&self.hung));
        let rng = Mutex::new(Rng::new(seed ^ 0x6469_736b));
        DiskWork::Inline(Arc::new(move || {
            match &mut *hung.lock().expect("no panic") {
                Some((of, 0)) if *of == number => return Duration::from_secs(60),
                Some((of, before)) if *of == number => *before -= 1,
                _ => {}
            }
            let DiskPace { pause_max_ms, stalls, stall_max_ms } = *pace.lock().expect("no panic");
            let mut rng = rng.lock().expect("no panic");
            let ms = match rng.below(1_000) < stalls {
                true => rng.below(stall_max_ms),
                false => rng.below(pause_max_ms + 1),
            };
            Duration::from_millis(ms as u64)
        }))
    }

    /// A new node with an empty disk; it does not run yet.
    pub(crate) fn add(&mut self, number: usize, id: Option<i32>, start: Start) {
        let directory = DirectoryId(Uuid([number as u8 + 1; 16]));
        let node = Node {
            address: format!("node-{number}:9093"),
            directory,
            id: id.map(BrokerId),
            fs: SimFs::new(self.seed.wrapping_mul(31).wrapping_add(number as u64)),
            start,
            replaces: false,
            quorum: None,
            is_alive: Arc::default(),
            lives: 0,
        };
        self.all.insert(number, node);
    }

    /// Founds a cluster of one with node 1.
    pub(crate) async fn found(&mut self) {
        self.add(1, Some(1), Start::Found);
        self.start(1).await.expect("founds a cluster");
    }

    /// Starts a node that has its id.
    pub(crate) async fn start(&mut self, number: usize) -> Result<(), QuorumError> {
        let options = self.options(number);
        let quorum = Arc::new(MetadataQuorum::open(options).await?);
        let node = self.all.get_mut(&number).expect("was added");
        let directory = node.directory.to_string();
        self.network.listen(&node.address, &directory, &quorum, &node.is_alive);
        node.quorum = Some(quorum);
        Ok(())
    }

    fn options(&mut self, number: usize) -> QuorumOptions {
        let node = self.all.get_mut(&number).expect("was added");
        node.lives += 1;
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(number as u64 * 100 + node.lives);
        let disk_work = self.disk_work(number, seed);
        let node = self.all.get_mut(&number).expect("was added");
        node.is_alive = Arc::new(AtomicBool::new(true));
        let id = node.id.expect("has a number").to_string();
        let settings = BrokerSettings::new([("node.id".to_owned(), id)]).expect("is valid");
        QuorumOptions {
            fs: Arc::new(node.fs.clone()),
            snapshot_interval_entries: self.snapshot_interval_entries,
            entries_kept_behind_snapshot: 10,
            start: node.start,
            directory: node.directory,
            address: node.address.clone(),
            network: Some(self.network.link(&node.address, &node.is_alive)),
            submit_timeout: self.submit_timeout,
            disk_work,
            seed: Some(seed),
            mutation: self.mutation,
            ..QuorumOptions::new(Path::new("data/metadata"), Arc::new(settings))
        }
    }

    /// Has the cluster admit a node that was added, and starts it.
    pub(crate) async fn join(&mut self, number: usize) -> Result<(), QuorumError> {
        self.admit(number).await?;
        self.start(number).await
    }

    /// Has the cluster admit a node that was added.
    pub(crate) async fn admit(&mut self, number: usize) -> Result<(), QuorumError> {
        let node = &self.all[&number];
        let request = JoinRequest {
            id: node.id,
            directory: node.directory,
            address: node.address.clone(),
            replaces: node.replaces,
            votes_only: false,
        };
        let others: Vec<String> = self.all.values().map(|node| node.address.clone()).collect();
        let others: Vec<String> = others.into_iter().filter(|at| *at != node.address).collect();
        let link = self.network.link(&node.address, &Arc::new(AtomicBool::new(true)));
        let joined = join(link, &others, request, Duration::from_secs(5)).await?;
        let node = self.all.get_mut(&number).expect("was added");
        node.id = Some(joined.id);
        Ok(())
    }

    /// A cluster of so many nodes that has grown from one, and whose voters have settled.
    pub(crate) async fn grow_to(&mut self, count: usize, voters: usize) {
        self.found().await;
        for number in 2..=count {
            self.add(number, None, Start::Join);
            self.join(number).await.unwrap_or_else(|error| panic!("node {number}: {error}"));
        }
        self.until("the voters have settled", |nodes| {
            nodes.running().all(|(_, quorum)| quorum.status().voters.len() == voters)
        })
        .await;
    }

    /// Waits for a state, in virtual time.
    pub(crate) async fn until(&self, what: &str, is_reached: impl Fn(&Nodes) -> bool) {
        self.try_until(what, is_reached).await.unwrap_or_else(|error| panic!("{error}"));
    }

    async fn try_until(
        &self,
        what: &str,
        is_reached: impl Fn(&Nodes) -> bool,
    ) -> Result<(), String> {
        let waiting = async {
            while !is_reached(self) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let reached = timeout(Duration::from_secs(30), waiting).await;
        reached.map_err(|_| format!("{what}: {:#?}", self.statuses()))
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, &Arc<MetadataQuorum>)> {
        self.all.iter().filter_map(|(&number, node)| Some((number, node.quorum.as_ref()?)))
    }

    pub(crate) fn quorum(&self, number: usize) -> Arc<MetadataQuorum> {
        self.all[&number].quorum.clone().expect("runs")
    }

    pub(crate) fn address(&self, number: usize) -> String {
        self.all[&number].address.clone()
    }

    /// The node that leads in the latest term by its own word.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leads = |(number, quorum): (usize, &Arc<MetadataQuorum>)| {
            let status = quorum.status();
            let id = self.all[&number].id;
            (status.leader.is_some() && status.leader == id).then_some((status.epoch, number))
        };
        self.running().filter_map(leads).max().map(|(_, number)| number)
    }

    pub(crate) fn statuses(&self) -> Vec<String> {
        let status = |(number, quorum): (usize, &Arc<MetadataQuorum>)| {
            format!("node {number}: {:?} {:?}", quorum.status(), quorum.check_running().err())
        };
        self.running().map(status).collect()
    }

    /// Waits until a running node leads, and all that run agree; gives its number.
    pub(crate) async fn led(&self) -> usize {
        self.try_led().await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Nodes::led`]; the error is who says what.
    pub(crate) async fn try_led(&self) -> Result<usize, String> {
        self.try_until("a node leads", |nodes| {
            let Some(leader) = nodes.leader() else { return false };
            let id = nodes.all[&leader].id;
            nodes.running().all(|(_, quorum)| quorum.status().leader == id)
        })
        .await?;
        self.leader().ok_or_else(|| "nobody leads".to_owned())
    }

    /// Ends a process. What it has written stays.
    pub(crate) fn kill(&mut self, number: usize) {
        self.end(number, SimFs::kill);
    }

    /// Cuts a node's power. What it has not synced is lost or not.
    pub(crate) fn power_cut(&mut self, number: usize) {
        self.end(number, SimFs::crash);
    }

    /// Stops a node's machine in the middle of a change of its disk, that many from now.
    pub(crate) fn crash_at_change(&self, number: usize, change: u64) {
        self.all[&number].fs.crash_at_change(change);
    }

    fn end(&mut self, number: usize, end: impl FnOnce(&SimFs) -> SimFs) {
        let node = self.all.get_mut(&number).expect("was added");
        node.is_alive.store(false, Ordering::Relaxed);
        node.quorum = None;
        node.fs = end(&node.fs);
    }
}
