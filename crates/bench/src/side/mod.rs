//! The brokers that are measured.

mod activemq;
mod data_files;
mod executable;
mod fetch;
mod kafka;
mod launch;
mod logway;
mod nats;
mod node;
mod null;
mod opponent;
mod own_rates;
mod process;
mod rabbitmq;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use logway_client::{BrokerAddress, Client, ClientOptions, MissingTopic, TopicSelection};
use logway_model::TopicName;
use serde::{Deserialize, Serialize};

pub(crate) use data_files::drop_from_memory;
use data_files::segments;
pub(crate) use executable::checksum;
use fetch::cache_directory;
use launch::{Launch, free_address, free_addresses};
use node::Node;
pub(crate) use opponent::Opponent;
pub(crate) use opponent::{ACTIVEMQ, BARE, KAFKA, NATS, NULL, OURS, RABBITMQ, is_limit};
pub(crate) use process::OwnedProcess;

use crate::files::{OwnedDirectory, create_directory};
use crate::load::{MadeTopics, RunTopic};
use crate::measure::Durability;
use crate::peer::Peer;

/// The topic of a run that is over keeps neither the disk nor its space from the next run.
const DELETED_SOON: &str = "log.segment.delete.delay.ms=100";

/// How long a broker may take until it answers.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// How long a broker may take to stop in good order.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// How long a broker may say of a new topic that it does not know it, or is not its leader: Kafka with thousands of
/// partitions that come and go needs more than ten seconds.
const RETRY_PATIENCE: Duration = Duration::from_secs(120);

/// How long a process may take to end after its sockets.
const END_PATIENCE: Duration = Duration::from_millis(300);

/// How long the last nodes of a cluster that stops may look for somebody to hand over to.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(2);

/// How long the files of a deleted topic may stay. A disk needs some seconds for tens of gigabytes, and
/// brokers look for them once in a while.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(300);

/// How often to look for them.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(50);

/// What lines of a log have that say that something is wrong.
const COMPLAINTS: [&str; 6] =
    ["WARN", "ERROR", "FATAL", "panicked", "rror: ", "a connection ends: "];

/// Lines of complaint to show: the last ones.
const COMPLAINTS_MAX: usize = 5;

/// How often a broker that starts is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// One broker under measurement, or one cluster of them: given by its address, or started here on fresh
/// directories.
///
/// What was started here is ended with this value, by its process ids, however the run ends.
#[derive(Debug)]
pub(crate) struct Side {
    /// What the report calls it.
    pub(crate) name: String,
    /// Its version, as far as it is known.
    pub(crate) version: String,
    /// Its address; of a cluster that of the first node.
    pub(crate) address: BrokerAddress,
    /// Of Kafka's protocol.
    pub(crate) client: Client,
    /// What it speaks instead, if it does.
    pub(crate) peer: Option<&'static dyn Peer>,
    /// All its processes that run on this machine.
    pub(crate) pids: Vec<u32>,
    /// The topics of runs that are on it.
    pub(crate) made: MadeTopics,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    /// At least one.
    nodes: Vec<Node>,
    companion: Option<OwnedProcess>,
    /// What the processes that run promise, where that is decided for the whole broker.
    durability: Durability,
    directory: Arc<OwnedDirectory>,
}

impl Own {
    /// How its first node is started: most of that is true of all.
    fn launch(&self) -> &Launch {
        &self.nodes[0].launch
    }

    /// Starts what has to run beside it, unless it runs already.
    fn start_companion(&mut self) -> anyhow::Result<()> {
        let node = &self.nodes[0];
        if let (Some(command), None) = (&node.launch.companion, &self.companion) {
            self.companion = Some(OwnedProcess::spawn(command, &node.log_path())?);
        }
        Ok(())
    }

    /// The text without what is only this machine's and its user's: `$DIR` for the directory of the
    /// side, `$CACHE` for that of what was fetched, and executables by their names.
    fn stated(&self, text: &str) -> String {
        let text = text.replace(&self.directory.path().display().to_string(), "$DIR");
        let text = match cache_directory() {
            Ok(cache) => text.replace(&cache.display().to_string(), "$CACHE"),
            Err(_) => text,
        };
        let program = Path::new(&self.launch().command[0]);
        let Some(name) = program.file_name().filter(|_| program.is_absolute()) else { return text };
        text.replace(&program.display().to_string(), &name.to_string_lossy())
    }
}

/// A side as the report states it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StatedSide {
    /// What the report calls it.
    pub name: String,
    /// Its version; of a Logway also the [`checksum`] of its executable.
    pub version: String,
    /// The command that started it, with directories as [`Own::stated`] has them; none if it was running.
    pub command: Option<String>,
    /// Of a cluster those that started the other nodes, likewise.
    #[serde(default)]
    pub other_commands: Vec<String>,
    /// The settings it was given in a file, likewise; of a cluster those of the first node.
    pub settings: Vec<String>,
}

impl StatedSide {
    /// Those that started its nodes.
    pub(crate) fn commands(&self) -> Vec<&str> {
        self.command.iter().chain(&self.other_commands).map(String::as_str).collect()
    }
}

impl Side {
    /// A broker that runs already.
    pub(crate) fn given(name: &str, address: BrokerAddress, pid: Option<u32>) -> Side {
        let client = client(vec![address.clone()]);
        let version = "unknown, it was running".to_owned();
        Side {
            name: name.to_owned(),
            version,
            address,
            client,
            peer: None,
            pids: pid.into_iter().collect(),
            made: MadeTopics::default(),
            own: None,
        }
    }

    /// Starts a broker of its own, or a cluster of so many nodes, with its data in a directory of its own below
    /// `directory`. `executable` is our own side's.
    ///
    /// # Errors
    ///
    /// What it runs cannot be fetched or started, or gave no answer in time.
    pub(crate) async fn start(
        opponent: &Opponent,
        executable: &Path,
        directory: &Arc<OwnedDirectory>,
        nodes: usize,
    ) -> anyhow::Result<Side> {
        let directory = OwnedDirectory::for_use(&opponent.directory_name(), directory)?;
        let directories = node::directories(directory.path(), nodes);
        directories.iter().try_for_each(|directory| create_directory(directory))?;
        let (what, its_directories) = (opponent.clone(), directories.clone());
        let executable = executable.to_owned();
        // It may fetch for minutes.
        let launch = move || what.launch(&executable, &its_directories);
        let launches = tokio::task::spawn_blocking(launch).await??;
        let Launch { address, version, peer, .. } = launches[0].clone();
        let nodes = launches.into_iter().zip(directories);
        let nodes = nodes.map(|(launch, directory)| Node::new(launch, directory)).collect();
        let mut side = Side {
            name: opponent.to_string(),
            version,
            client: client(vec![address.clone()]),
            address,
            peer,
            pids: Vec::new(),
            made: MadeTopics::default(),
            own: Some(Own { nodes, companion: None, durability: Durability::Unsynced, directory }),
        };
        side.start_again().await?;
        Ok(side)
    }

    /// Starts the broker, which was started here before and has ended, on the same data; of a cluster all nodes at the
    /// same moment. Returns how long it took until it answered a question for metadata with itself, each node with all.
    pub(crate) async fn start_again(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let own = self.own_mut()?;
        let promise = own.durability;
        own.start_companion()?;
        own.nodes.iter_mut().try_for_each(|node| node.start(promise))?;
        self.await_answer(began).await
    }

    /// The same for a broker that was killed, without the time that it would wait for itself, if it has such a setting.
    pub(crate) async fn start_at_once(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let own = self.own_mut()?;
        let promise = own.durability;
        own.start_companion()?;
        for node in &mut own.nodes {
            if !node.start_at_once()? {
                node.start(promise)?;
            }
        }
        self.await_answer(began).await
    }

    async fn await_answer(&mut self, began: Instant) -> anyhow::Result<Duration> {
        let own = self.own_mut()?;
        let pids = own.nodes.iter().filter_map(Node::pid).collect();
        let addresses = own.nodes.iter().map(|node| node.launch.address.clone()).collect();
        self.pids = pids;
        self.client = client(addresses);
        while !self.answers().await {
            let ended = self.own_mut()?.nodes.iter_mut().find_map(Node::exit_status);
            if let Some(status) = ended {
                bail!("{} ended with {status}:\n{}", self.name, self.log_end());
            }
            if began.elapsed() > START_PATIENCE {
                bail!("{} gave no answer:\n{}", self.name, self.log_end());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(began.elapsed())
    }

    /// Has the broker stop in good order; of a cluster all nodes at once. When a majority has ended, the others may wait
    /// for a controller that is gone, and are killed.
    ///
    /// # Errors
    ///
    /// It was not started here, or goes on for too long.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        let name = self.name.clone();
        let nodes = &mut self.own_mut()?.nodes;
        ensure!(nodes.iter().all(|node| node.pid().is_some()), "{name} does not run");
        nodes.iter().try_for_each(Node::ask_to_end)?;
        let asked = Instant::now();
        let mut majority_ended = None;
        loop {
            let ended = nodes.iter_mut().filter_map(Node::exit_status).count();
            if ended > nodes.len() / 2 {
                majority_ended.get_or_insert_with(Instant::now);
            }
            let is_left_alone =
                majority_ended.is_some_and(|moment| moment.elapsed() > HAND_OVER_PATIENCE);
            if ended == nodes.len() || is_left_alone {
                return self.kill();
            }
            ensure!(asked.elapsed() < STOP_PATIENCE, "{name} does not end in good order");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// `kill -9`, of all processes.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.own_mut()?.nodes.iter_mut().for_each(Node::kill);
        self.pids.clear();
        Ok(())
    }

    /// Has the broker keep what its acknowledgements are to promise: starts it anew where that is a
    /// setting of the whole broker.
    pub(crate) async fn promise(&mut self, durability: Durability) -> anyhow::Result<()> {
        let Some(own) = &mut self.own else { return Ok(()) };
        if own.launch().synced_command.is_none() || own.durability == durability {
            return Ok(());
        }
        own.durability = durability;
        self.kill()?;
        self.start_again().await?;
        Ok(())
    }

    /// Whether a client can ask about it by Kafka's protocol, and it names a broker; or whether it
    /// greets in its own. Of a cluster each node must name all as brokers that serve, and as voters.
    async fn answers(&self) -> bool {
        if let Some(peer) = self.peer {
            let address = self.address.clone();
            let greeted = tokio::task::spawn_blocking(move || peer.connect(&address));
            return greeted.await.is_ok_and(|conversation| conversation.is_ok());
        }
        let Some(own) = &self.own else { return true };
        for node in &own.nodes {
            if !names_all(&node.launch.address, own.nodes.len()).await {
                return false;
            }
        }
        true
    }

    /// Where its log service is: `given`, of a broker that runs already. Of a cluster that of the first node.
    pub(crate) fn log_service(&self, given: Option<&BrokerAddress>) -> Option<BrokerAddress> {
        match &self.own {
            Some(own) => own.launch().log_service.clone(),
            None => given.cloned(),
        }
    }

    /// Of how many nodes it consists, as far as that is known: each partition of a run's topic has a replica on each.
    pub(crate) fn nodes(&self) -> usize {
        self.own.as_ref().map_or(1, |own| own.nodes.len())
    }

    /// Whether it was started here, so that it can be killed and started again.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Whether it is slow at first in each work.
    pub(crate) fn is_compiled_as_it_runs(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.launch().is_compiled_as_it_runs)
    }

    /// A directory on the broker's disk that the broker does not use.
    ///
    /// # Errors
    ///
    /// It was not started here.
    pub(crate) fn scratch_directory(&self) -> anyhow::Result<PathBuf> {
        let own = self.own.as_ref().context("only a broker that was started here has a place")?;
        Ok(own.directory.path().join("scratch"))
    }

    /// The files in which it keeps a topic's records.
    ///
    /// # Errors
    ///
    /// It was not started here, or there are none.
    pub(crate) fn segments(&self, topic: &RunTopic) -> anyhow::Result<Vec<PathBuf>> {
        let own = self.own.as_ref().context("only a broker that was started here shows files")?;
        let found = segments_of(own.directory.path(), &topic.name)?;
        ensure!(!found.is_empty(), "{} has no segments", self.name);
        Ok(found)
    }

    /// Waits until a deleted topic's files are gone, so that the next one to fill the disk finds it
    /// empty.
    ///
    /// # Errors
    ///
    /// It was not started here, or keeps them.
    pub(crate) async fn await_removal(&self, topic: &TopicName) -> anyhow::Result<()> {
        let own = self.own.as_ref().context("only a broker that was started here shows files")?;
        let began = Instant::now();
        // A file that goes while it is looked for is an error, and then it is looked for again.
        while !segments_of(own.directory.path(), topic).is_ok_and(|found| found.is_empty()) {
            ensure!(
                began.elapsed() < REMOVAL_PATIENCE,
                "{} still has files of the deleted topic '{topic}'",
                self.name
            );
            tokio::time::sleep(REMOVAL_INTERVAL).await;
        }
        Ok(())
    }

    /// What may explain a run that failed: how a process ended, if one did, and what its log complains of.
    pub(crate) async fn last_words(&mut self) -> Option<String> {
        let name = self.name.clone();
        let nodes = &mut self.own.as_mut()?.nodes;
        let began = Instant::now();
        // Its sockets are closed a moment before it has ended.
        while began.elapsed() < END_PATIENCE
            && nodes.iter_mut().all(|node| node.pid().is_some() && node.exit_status().is_none())
        {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let mut words = Vec::new();
        for node in nodes {
            let who = format!("{name} (process {})", node.pid().unwrap_or(0));
            if let Some(status) = node.exit_status() {
                words.push(format!("{who} ended with {status}"));
            }
            let log = node.log();
            let is_complaint = |line: &&str| COMPLAINTS.iter().any(|word| line.contains(word));
            let lines: Vec<&str> =
                log.lines().rev().filter(is_complaint).take(COMPLAINTS_MAX).collect();
            if !lines.is_empty() {
                words.push(format!("the log of {who} has"));
                words.extend(lines.iter().rev().map(|line| format!("  {line}")));
            }
        }
        (!words.is_empty()).then(|| words.join("\n"))
    }

    /// What the report says about it.
    pub(crate) fn stated(&self) -> StatedSide {
        let own = self.own.as_ref();
        let command = |own: &Own, node: &Node| own.stated(&node.launch.command.join(" "));
        let others = |own: &Own| own.nodes[1..].iter().map(|node| command(own, node)).collect();
        let settings =
            |own: &Own| own.launch().settings.iter().map(|line| own.stated(line)).collect();
        StatedSide {
            name: self.name.clone(),
            version: self.version.clone(),
            command: own.map(|own| command(own, &own.nodes[0])),
            other_commands: own.map(others).unwrap_or_default(),
            settings: own.map(settings).unwrap_or_default(),
        }
    }

    fn own_mut(&mut self) -> anyhow::Result<&mut Own> {
        let name = &self.name;
        self.own.as_mut().with_context(|| format!("{name} was not started by the benchmark"))
    }

    /// The last lines of each process.
    fn log_end(&self) -> String {
        let mut end = Vec::new();
        for node in self.own.iter().flat_map(|own| &own.nodes) {
            let log = node.log();
            let lines: Vec<&str> = log.lines().collect();
            end.push(lines[lines.len().saturating_sub(20)..].join("\n"));
        }
        end.join("\n\n")
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some(mut own) = self.own.take() {
            own.nodes.clear();
            own.companion = None;
            // Its directory goes after it.
        }
    }
}

/// Of what is below a directory, the segments of one topic.
fn segments_of(directory: &Path, topic: &TopicName) -> std::io::Result<Vec<PathBuf>> {
    let mut found = segments(directory)?;
    // Both brokers have a directory `TOPIC-PARTITION` for each partition.
    found.retain(|path| path.to_string_lossy().contains(&format!("/{topic}-")));
    Ok(found)
}

fn client(addresses: Vec<BrokerAddress>) -> Client {
    let options = ClientOptions { retry_patience: RETRY_PATIENCE, ..Default::default() };
    Client::new(addresses, options)
}

/// Whether a broker names all nodes of its cluster, each serving and, if there are several, voting.
async fn names_all(address: &BrokerAddress, nodes: usize) -> bool {
    // The one who waits asks again.
    let options = ClientOptions { retry_patience: Duration::ZERO, ..Default::default() };
    let client = Client::new(vec![address.clone()], options);
    let no_topics = BTreeSet::new();
    let asked = client.refresh_metadata(TopicSelection::Named(&no_topics), MissingTopic::Refuse);
    if !asked.await.is_ok_and(|metadata| metadata.brokers.len() >= nodes) {
        return false;
    }
    nodes == 1 || client.describe_quorum().await.is_ok_and(|quorum| quorum.voters.len() >= nodes)
}
