//! The brokers that are measured.

mod activemq;
mod data_files;
mod executable;
mod fetch;
mod kafka;
mod launch;
mod logway;
mod nats;
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
use launch::{Launch, free_address};
pub(crate) use opponent::Opponent;
pub(crate) use opponent::{ACTIVEMQ, BARE, KAFKA, NATS, NULL, OURS, RABBITMQ, is_limit};
pub(crate) use process::OwnedProcess;

use crate::files::OwnedDirectory;
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

/// One broker under measurement: given by its address, or started here on a fresh directory.
///
/// A broker that was started here is ended with this value, by its process id, however the run
/// ends.
#[derive(Debug)]
pub(crate) struct Side {
    /// What the report calls it.
    pub(crate) name: String,
    /// Its version, as far as it is known.
    pub(crate) version: String,
    /// Its address.
    pub(crate) address: BrokerAddress,
    /// Of Kafka's protocol.
    pub(crate) client: Client,
    /// What it speaks instead, if it does.
    pub(crate) peer: Option<&'static dyn Peer>,
    pub(crate) pid: Option<u32>,
    /// The topics of runs that are on it.
    pub(crate) made: MadeTopics,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    launch: Launch,
    process: Option<OwnedProcess>,
    companion: Option<OwnedProcess>,
    /// What the process that runs promises, where that is decided for the whole broker.
    durability: Durability,
    directory: Arc<OwnedDirectory>,
}

impl Own {
    /// Where its processes' output goes.
    fn log_path(&self) -> PathBuf {
        self.directory.path().join("broker.log")
    }

    /// The text without what is only this machine's and its user's: `$DIR` for the directory of the
    /// side, `$CACHE` for that of what was fetched, and executables by their names.
    fn stated(&self, text: &str) -> String {
        let text = text.replace(&self.directory.path().display().to_string(), "$DIR");
        let text = match cache_directory() {
            Ok(cache) => text.replace(&cache.display().to_string(), "$CACHE"),
            Err(_) => text,
        };
        let program = Path::new(&self.launch.command[0]);
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
    /// The settings it was given in a file, likewise.
    pub settings: Vec<String>,
}

impl Side {
    /// A broker that runs already.
    pub(crate) fn given(name: &str, address: BrokerAddress, pid: Option<u32>) -> Side {
        let client = client(&address);
        let version = "unknown, it was running".to_owned();
        Side {
            name: name.to_owned(),
            version,
            address,
            client,
            peer: None,
            pid,
            made: MadeTopics::default(),
            own: None,
        }
    }

    /// Starts a broker of its own, with its data in a directory of its own below `directory`. `executable` is our
    /// own side's.
    ///
    /// # Errors
    ///
    /// What it runs cannot be fetched or started, or gave no answer in time.
    pub(crate) async fn start(
        opponent: &Opponent,
        executable: &Path,
        directory: &Arc<OwnedDirectory>,
    ) -> anyhow::Result<Side> {
        let directory = OwnedDirectory::for_use(&opponent.directory_name(), directory)?;
        let (what, its_directory) = (opponent.clone(), Arc::clone(&directory));
        let executable = executable.to_owned();
        // It may fetch for minutes.
        let launch = move || what.launch(&executable, its_directory.path());
        let launch = tokio::task::spawn_blocking(launch).await??;
        let address = launch.address.clone();
        let mut side = Side {
            name: opponent.to_string(),
            version: launch.version.clone(),
            client: client(&address),
            address,
            peer: launch.peer,
            pid: None,
            made: MadeTopics::default(),
            own: Some(Own {
                launch,
                process: None,
                companion: None,
                durability: Durability::Unsynced,
                directory,
            }),
        };
        side.start_again().await?;
        Ok(side)
    }

    /// Starts the broker, which was started here before and has ended, on the same data.
    /// Returns how long it took until it answered a question for metadata with itself.
    pub(crate) async fn start_again(&mut self) -> anyhow::Result<Duration> {
        let own = self.own_mut()?;
        let Launch { command, synced_command, .. } = &own.launch;
        let command = match own.durability {
            Durability::Synced => synced_command.as_ref().unwrap_or(command),
            Durability::Unsynced => command,
        };
        let command = command.clone();
        self.start_by(&command).await
    }

    /// The same for a broker that was killed, without the time that it would wait for itself, if it has such a setting.
    pub(crate) async fn start_at_once(&mut self) -> anyhow::Result<Duration> {
        match self.own_mut()?.launch.command_at_once.clone() {
            Some(command) => self.start_by(&command).await,
            None => self.start_again().await,
        }
    }

    async fn start_by(&mut self, command: &[String]) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let own = self.own_mut()?;
        let companion = &own.launch.companion;
        let log_path = own.log_path();
        if let (Some(companion), None) = (companion, &own.companion) {
            own.companion = Some(OwnedProcess::spawn(companion, &log_path)?);
        }
        let process = OwnedProcess::spawn(command, &log_path)?;
        let pid = process.pid();
        own.process = Some(process);
        self.pid = Some(pid);
        self.client = client(&self.address);
        while !self.answers().await {
            let process = self.own_mut()?.process.as_mut();
            if let Some(status) = process.and_then(OwnedProcess::exit_status) {
                bail!("{} ended with {status}:\n{}", self.name, self.log_end());
            }
            if began.elapsed() > START_PATIENCE {
                bail!("{} gave no answer:\n{}", self.name, self.log_end());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(began.elapsed())
    }

    /// Has the broker stop in good order.
    ///
    /// # Errors
    ///
    /// It was not started here, or goes on for too long.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        let name = self.name.clone();
        let process = self.own_mut()?.process.as_mut().context("it does not run")?;
        process.ask_to_end()?;
        let asked = Instant::now();
        while process.exit_status().is_none() {
            ensure!(asked.elapsed() < STOP_PATIENCE, "{name} does not end in good order");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.kill()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        // The process ends when its owner goes.
        self.own_mut()?.process = None;
        self.pid = None;
        Ok(())
    }

    /// Has the broker keep what its acknowledgements are to promise: starts it anew where that is a
    /// setting of the whole broker.
    pub(crate) async fn promise(&mut self, durability: Durability) -> anyhow::Result<()> {
        let Some(own) = &mut self.own else { return Ok(()) };
        if own.launch.synced_command.is_none() || own.durability == durability {
            return Ok(());
        }
        own.durability = durability;
        self.kill()?;
        self.start_again().await?;
        Ok(())
    }

    /// Whether a client can ask about it by Kafka's protocol, and it names a broker; or whether it
    /// greets in its own.
    async fn answers(&self) -> bool {
        if let Some(peer) = self.peer {
            let address = self.address.clone();
            let greeted = tokio::task::spawn_blocking(move || peer.connect(&address));
            return greeted.await.is_ok_and(|conversation| conversation.is_ok());
        }
        // The one who waits asks again.
        let options = ClientOptions { retry_patience: Duration::ZERO, ..Default::default() };
        let client = Client::new(vec![self.address.clone()], options);
        let no_topics = BTreeSet::new();
        let asked =
            client.refresh_metadata(TopicSelection::Named(&no_topics), MissingTopic::Refuse);
        asked.await.is_ok_and(|metadata| !metadata.brokers.is_empty())
    }

    /// Whether it was started here, so that it can be killed and started again.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Whether it is slow at first in each work.
    pub(crate) fn is_compiled_as_it_runs(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.launch.is_compiled_as_it_runs)
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

    /// What may explain a run that failed: how the process ended, if it did, and what its log complains of.
    pub(crate) async fn last_words(&mut self) -> Option<String> {
        let (name, log_path) = (self.name.clone(), self.own.as_ref()?.log_path());
        let began = Instant::now();
        let mut words = Vec::new();
        // Its sockets are closed a moment before it has ended.
        while let Some(process) = self.own.as_mut().and_then(|own| own.process.as_mut()) {
            if let Some(status) = process.exit_status() {
                words.push(format!("{name} (process {}) ended with {status}", process.pid()));
                break;
            }
            if began.elapsed() > END_PATIENCE {
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let log = std::fs::read(log_path).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let is_complaint = |line: &&str| COMPLAINTS.iter().any(|word| line.contains(word));
        let lines: Vec<&str> =
            log.lines().rev().filter(is_complaint).take(COMPLAINTS_MAX).collect();
        if !lines.is_empty() {
            words.push(format!("the log of {name} has"));
            words.extend(lines.iter().rev().map(|line| format!("  {line}")));
        }
        (!words.is_empty()).then(|| words.join("\n"))
    }

    /// What the report says about it.
    pub(crate) fn stated(&self) -> StatedSide {
        let settings =
            |own: &Own| own.launch.settings.iter().map(|line| own.stated(line)).collect();
        StatedSide {
            name: self.name.clone(),
            version: self.version.clone(),
            command: self.own.as_ref().map(|own| own.stated(&own.launch.command.join(" "))),
            settings: self.own.as_ref().map(settings).unwrap_or_default(),
        }
    }

    fn own_mut(&mut self) -> anyhow::Result<&mut Own> {
        let name = &self.name;
        self.own.as_mut().with_context(|| format!("{name} was not started by the benchmark"))
    }

    fn log_end(&self) -> String {
        let Some(own) = &self.own else { return String::new() };
        let log = std::fs::read(own.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some(mut own) = self.own.take() {
            own.process = None;
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

fn client(address: &BrokerAddress) -> Client {
    let options = ClientOptions { retry_patience: RETRY_PATIENCE, ..Default::default() };
    Client::new(vec![address.clone()], options)
}
