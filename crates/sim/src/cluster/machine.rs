//! A machine of the cluster: a disk that survives, and the process that runs on it now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logway_log::fs::SimFs;
use logway_log::fs::sim::Fault;
use logway_metadata::settings::{BrokerSettings, UNNAMED_LISTENER};
use logway_node::Node;
use logway_node::cluster::{BoundListener, ClusterOptions, Mutation};
use logway_node::log_levels::LogLevels;
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::life::{End, Life};
use super::network::{Network, address_of};
use super::oracle::Oracle;
use super::transactions::topics;
use crate::violation::Violation;

/// A stop in good order takes no longer, whatever the network does.
const STOP_MAX: Duration = Duration::from_secs(20);

/// A node that has started, and where its work is done.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) node: Arc<Node>,
    pub(super) runtime: Handle,
    pub(super) life: Life,
}

/// The nodes that serve clients now, by number. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Serving(Arc<Mutex<BTreeMap<usize, Served>>>);

impl Serving {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Served>> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, number: usize) -> Option<Served> {
        self.lock().get(&number).cloned()
    }

    /// Of these, one alone, if it serves. Who serves later is not known.
    pub(super) fn only(&self, number: usize) -> Serving {
        let served = self.get(number).map(|served| (number, served));
        Serving(Arc::new(Mutex::new(served.into_iter().collect())))
    }

    pub(super) fn all(&self) -> Vec<Served> {
        self.lock().values().cloned().collect()
    }

    /// Adds a process that serves, unless it has ended meanwhile.
    fn add(&self, number: usize, served: Served) {
        let mut serving = self.lock();
        if served.life.is_alive() {
            serving.insert(number, served);
        }
    }

    fn remove(&self, number: usize) -> Option<Served> {
        self.lock().remove(&number)
    }
}

/// One machine.
pub(super) struct Machine {
    number: usize,
    fs: SimFs,
    /// Some sync has failed or will: nobody but a power cut knows what is on the disk then.
    is_faulty: bool,
    process: Option<Process>,
    /// Somebody is about to remove the node from the cluster. Gives whether that is done: then it gets an empty disk.
    removal: Option<JoinHandle<bool>>,
    /// It has been started with an empty disk, after others.
    is_replaced: bool,
}

/// A process: all that runs in it runs on threads of its own, and ends with them.
struct Process {
    runtime: Runtime,
    life: Life,
}

/// What each process of a world is started with.
pub(super) struct Surroundings {
    pub(super) network: Network,
    pub(super) serving: Serving,
    pub(super) oracle: Oracle,
    pub(super) inline_appends: bool,
    pub(super) answer_bytes_max: u32,
    pub(super) journal_bytes: u64,
    pub(super) mutation: Option<Mutation>,
}

impl Machine {
    pub(super) fn new(number: usize, seed: u64) -> Machine {
        let fs = SimFs::new(seed.wrapping_add(number as u64));
        Machine { number, fs, is_faulty: false, process: None, removal: None, is_replaced: false }
    }

    /// Its disk is lost, if it can be removed from the cluster: until that is known, it does not start.
    pub(super) fn await_removal(&mut self, removal: JoinHandle<bool>) {
        self.removal = Some(removal);
    }

    /// Whether it is known what became of its removal, if there is any.
    pub(super) fn can_start(&self) -> bool {
        self.removal.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for what becomes of its removal, and puts an empty disk into a machine whose node was removed.
    pub(super) async fn settle_removal(&mut self, surroundings: &Surroundings) {
        let Some(removal) = self.removal.take() else { return };
        if matches!(removal.await, Ok(true)) {
            surroundings.oracle.count(|report| report.replaced += 1);
            self.fs = SimFs::new(surroundings.network.number());
            self.is_replaced = true;
        }
    }

    /// Whether it votes, if its disk was lost: until it does, with an empty one, the others are a majority of no more than
    /// themselves.
    pub(super) fn has_joined_again(&self, serving: &Serving) -> bool {
        let votes = |served: Served| {
            let id = served.node.settings.node_id;
            served.node.quorum.status().voters.iter().any(|voter| voter.id == id)
        };
        let is_lost = self.removal.is_some() || self.is_replaced;
        !is_lost || serving.get(self.number).is_some_and(votes)
    }

    /// The disk, as it is now.
    pub(super) fn disk(&self) -> &SimFs {
        &self.fs
    }

    /// Lets something fail on the disk.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.is_faulty = true;
        self.fs.inject(fault);
    }

    /// Whether the disk has failed, or will.
    pub(super) fn is_faulty(&self) -> bool {
        self.is_faulty
    }

    pub(super) fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.life.is_alive())
    }

    /// Starts a process, if none runs. It serves some time later.
    pub(super) fn start(&mut self, surroundings: &Surroundings) -> Result<(), Violation> {
        if self.is_running() {
            return Ok(());
        }
        if self.process.is_some() {
            // It has ended by itself, because of its disk.
            self.end(surroundings, End::PowerCut);
        }
        let number = self.number;
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(2).thread_name(format!("node-{number}")).enable_all();
        let runtime = runtime.build();
        let runtime =
            runtime.map_err(|error| Violation::new(format!("no runtime for a node: {error}")))?;
        let life = Life::begin();
        let carrier = surroundings.network.carrier(number, &life, runtime.handle());
        let is_founder = number == 1 && !self.is_replaced;
        let seeds = (1..=3).filter(|seed| *seed != number && !is_founder);
        let options = ClusterOptions {
            carrier,
            host: None,
            clients: vec![BoundListener {
                name: UNNAMED_LISTENER.to_owned(),
                ip: Some(address_of(number).ip()),
                port: 9_092,
            }],
            join: seeds.map(|seed| address_of(seed).to_string()).collect(),
            replaces: false,
            find_nodes: Arc::new(|_| Box::pin(async { None })),
            secure: None,
            mutation: surroundings.mutation,
        };
        let settings = settings(number, surroundings)?;
        let (fs, oracle) = (self.fs.clone(), surroundings.oracle.clone());
        let (serving, own_life) = (surroundings.serving.clone(), life.clone());
        let handle = runtime.handle().clone();
        runtime.spawn(async move {
            let (levels, mut registry) = (LogLevels::default(), Registry::default());
            let started =
                Node::start_on(Arc::new(fs), settings, Some(options), levels, &mut registry).await;
            let node = match started {
                Ok(node) => node,
                Err(error) => {
                    if own_life.is_alive() {
                        tracing::info!(number, %error, "a node does not start");
                        oracle.node_failed(number, &format!("it does not start: {error}"));
                        own_life.end_by(End::Process);
                    }
                    return;
                }
            };
            tracing::info!(number, "a node serves");
            let (node, life) = (Arc::clone(&node), own_life.clone());
            let failing = Arc::clone(&node);
            serving.add(number, Served { node, runtime: handle, life });
            let error = failing.failed().await;
            if own_life.is_alive() {
                oracle.node_failed(number, &format!("it has ended: {error}"));
                serving.remove(number);
                own_life.end_by(End::Process);
            }
        });
        self.process = Some(Process { runtime, life });
        Ok(())
    }

    /// Ends the process as by `kill -9`, or with its machine.
    pub(super) fn end(&mut self, surroundings: &Surroundings, end: End) {
        let Some(Process { runtime, life }) = self.process.take() else {
            // No process has met what was to fail, so that nothing is lost. It does not wait for the next one.
            self.fs.heal();
            self.is_faulty = false;
            return;
        };
        let end = if self.is_faulty { End::PowerCut } else { end };
        self.is_faulty = false;
        life.end_by(end);
        surroundings.serving.remove(self.number);
        self.fs = match end {
            End::Process => self.fs.kill(),
            End::PowerCut => self.fs.crash(),
        };
        runtime.shutdown_background();
    }

    /// Stops the process in good order, if it serves; else it is killed.
    pub(super) async fn stop(&mut self, surroundings: &Surroundings) -> Result<(), Violation> {
        let served = surroundings.serving.remove(self.number).filter(|_| !self.is_faulty);
        let Some(served) = served else {
            self.end(surroundings, End::Process);
            return Ok(());
        };
        self.fs.release_syncs();
        let Served { node, runtime, life } = served;
        let stopping = runtime.spawn(async move {
            node.leave().await;
            node.begin_stop();
            node.stop().await
        });
        let number = self.number;
        match timeout(STOP_MAX, stopping).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                surroundings.oracle.node_failed(number, &format!("it does not stop: {error}"));
            }
            Ok(Err(error)) => {
                return Err(Violation::new(format!("node {number} panics as it stops: {error}")));
            }
            Err(_elapsed) => {
                return Err(Violation::new(format!("node {number} does not stop in {STOP_MAX:?}")));
            }
        }
        life.end_by(End::Process);
        self.end(surroundings, End::Process);
        Ok(())
    }
}

fn settings(number: usize, surroundings: &Surroundings) -> Result<BrokerSettings, Violation> {
    let node_id = number.to_string();
    let answer_bytes_max = surroundings.answer_bytes_max.to_string();
    let journal_bytes = surroundings.journal_bytes.to_string();
    let coordinator_partitions = topics::PARTITIONS.to_string();
    let settings = [
        ("log.dirs", "/data"),
        ("node.id", &node_id),
        ("broker.heartbeat.interval.ms", "50"),
        ("broker.session.timeout.ms", "700"),
        ("replica.lag.time.max.ms", "1500"),
        ("logway.replica.stall.max.ms", "500"),
        ("offsets.topic.num.partitions", &coordinator_partitions),
        ("transaction.state.log.num.partitions", &coordinator_partitions),
        ("replica.fetch.wait.max.ms", "100"),
        ("replica.fetch.response.max.bytes", &answer_bytes_max),
        ("logway.journal.bytes", &journal_bytes),
        ("logway.append.inline", if surroundings.inline_appends { "true" } else { "false" }),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    BrokerSettings::new(settings).map_err(|error| Violation::new(error.to_string()))
}
