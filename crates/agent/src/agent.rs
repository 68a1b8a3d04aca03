//! An agent that runs: its channels, and the sources and sinks of one configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::channel::{Channel, directory};
use crate::config::{AgentConfig, SourceConfig};
use crate::counters::{Counted, Registry};
use crate::error::AgentError;
use crate::part::{self, Part, SinkPart, Startable, refused, start_source};
use crate::settings::Settings;
use crate::threads::Threads;

/// Channels by name, with what they were told.
pub(crate) type Channels = BTreeMap<String, (Settings, Arc<Channel>)>;

/// What runs. Dropped, it ends at once, as by a kill.
///
/// Parts may be missing that the configuration has, because they cannot start: [`RunningAgent::start_missing`] tries
/// again.
pub(crate) struct RunningAgent {
    config: AgentConfig,
    registry: Registry,
    channels: Channels,
    sources: BTreeMap<String, Part<SourceConfig>>,
    sinks: BTreeMap<String, Part<SinkPart>>,
    /// Threads of sources that were cut off, by their names.
    unended: BTreeMap<String, Threads>,
}

/// What of a running agent another configuration does not have, or has otherwise, and what depends on that.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) channels: BTreeSet<String>,
    sources: BTreeSet<String>,
    sinks: BTreeSet<String>,
}

/// What could be started of what is missing, and does nothing yet.
#[derive(Default)]
struct Prepared {
    channels: Channels,
    sources: Vec<Startable<SourceConfig>>,
    sinks: Vec<(String, Startable<SinkPart>)>,
    errors: Vec<AgentError>,
}

impl RunningAgent {
    /// Starts all components.
    ///
    /// # Errors
    ///
    /// What cannot be started; then nothing runs.
    pub(crate) async fn start(
        config: AgentConfig,
        registry: &Registry,
    ) -> Result<RunningAgent, AgentError> {
        let mut agent = RunningAgent {
            config,
            registry: registry.clone(),
            channels: Channels::new(),
            sources: BTreeMap::new(),
            sinks: BTreeMap::new(),
            unended: BTreeMap::new(),
        };
        let mut errors = agent.start_all().await.into_iter();
        match errors.next() {
            None => Ok(agent),
            Some(first) => {
                errors.for_each(|error| tracing::error!("{error}"));
                Err(first)
            }
        }
    }

    pub(crate) fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Puts another configuration in force: what it does not have has ended.
    pub(crate) fn set_config(&mut self, config: AgentConfig) {
        self.config = config;
        let config = &self.config;
        self.registry.keep(|role, name| match role {
            "SOURCE" => config.sources.iter().any(|source| source.settings.name == name),
            "SINK" => config.sinks.iter().any(|sink| sink.settings.name == name),
            _ => config.channels.contains_key(name),
        });
    }

    /// What of it another configuration does not leave as it is.
    pub(crate) fn leaving(&self, next: &AgentConfig) -> Leaving {
        let changes = |(name, (settings, _)): &(&String, &(Settings, Arc<Channel>))| {
            next.channels.get(*name) != Some(settings)
        };
        let channels: BTreeSet<String> =
            self.channels.iter().filter(changes).map(|(name, _)| name.clone()).collect();
        let next_sinks: BTreeMap<String, SinkPart> = SinkPart::all(next).into_iter().collect();
        let sources = self.sources.iter().filter(|(_, part)| {
            !next.sources.contains(&part.config)
                || part.config.channels.iter().any(|name| channels.contains(name))
        });
        let sinks = self.sinks.iter().filter(|(name, part)| {
            next_sinks.get(*name) != Some(&part.config)
                || part.config.channels().any(|name| channels.contains(name))
        });
        let sources = sources.map(|(name, _)| name.clone()).collect();
        let sinks = sinks.map(|(name, _)| name.clone()).collect();
        Leaving { channels, sources, sinks }
    }

    /// Ends the parts that leave, but for sinks that empty a channel which leaves, too.
    pub(crate) async fn end_before_drain(&mut self, leaving: &Leaving) {
        let sources = self.sources.extract_if(.., |name, _| leaving.sources.contains(name));
        self.unended.extend(part::end(sources.collect()).await);
        let sinks = self.sinks.extract_if(.., |name, part| {
            let empties = part.config.emptied().any(|name| leaving.channels.contains(name));
            leaving.sinks.contains(name) && !empties
        });
        part::end(sinks.collect()).await;
    }

    /// Ends the rest of what leaves. Returns its channels, which are closed.
    pub(crate) async fn end_after_drain(&mut self, leaving: &Leaving) -> Channels {
        let sinks = self.sinks.extract_if(.., |name, _| leaving.sinks.contains(name));
        part::end(sinks.collect()).await;
        let channels = self.channels.extract_if(.., |name, _| leaving.channels.contains(name));
        let channels: Channels = channels.collect();
        for (_, channel) in channels.values() {
            channel.close().await;
        }
        channels
    }

    /// Starts what is missing, if all of it can be started; or else says why not, and nothing of it runs.
    pub(crate) async fn start_all(&mut self) -> Vec<AgentError> {
        let mut prepared = self.prepare().await;
        let errors = std::mem::take(&mut prepared.errors);
        if errors.is_empty() {
            self.run(prepared);
            return errors;
        }
        let channels = std::mem::take(&mut prepared.channels);
        drop(prepared);
        for (_, channel) in channels.values() {
            channel.close().await;
        }
        errors
    }

    /// Starts what is missing, as far as it can be started; what cannot is told of.
    pub(crate) async fn start_missing(&mut self) {
        let mut prepared = self.prepare().await;
        for error in std::mem::take(&mut prepared.errors) {
            tracing::error!("{error}; it is tried again");
        }
        self.run(prepared);
    }

    /// Whether all runs that the configuration has.
    pub(crate) fn is_whole(&self) -> bool {
        self.channels.len() == self.config.channels.len()
            && self.sources.len() == self.config.sources.len()
            && self.sinks.len() == SinkPart::all(&self.config).len()
    }

    /// Sinks before sources, so that there is room for what sources bring. What needs a channel that cannot be opened is
    /// left out.
    async fn prepare(&self) -> Prepared {
        let mut prepared = Prepared::default();
        for (name, settings) in &self.config.channels {
            if self.channels.contains_key(name) {
                continue;
            }
            match Channel::open(settings).await {
                Ok(channel) => {
                    prepared.channels.insert(name.clone(), (settings.clone(), channel));
                }
                Err(reason) => prepared.errors.push(refused(&settings.component)(reason)),
            }
        }
        let mut channels = self.channels.clone();
        channels.extend(prepared.channels.clone());
        for (name, sinks) in SinkPart::all(&self.config) {
            let is_ready = sinks.channels().all(|name| channels.contains_key(name));
            if self.sinks.contains_key(&name) || !is_ready {
                continue;
            }
            match sinks.start(&channels) {
                Ok(startable) => prepared.sinks.push((name, startable)),
                Err(error) => prepared.errors.push(error),
            }
        }
        for source in &self.config.sources {
            let is_ready = source.channels.iter().all(|name| channels.contains_key(name));
            let component = &source.settings.component;
            if self.sources.contains_key(component) || !is_ready {
                continue;
            }
            if self.unended.get(component).is_some_and(Threads::run) {
                // Two would read the same, and write the same files.
                tracing::warn!("{component} starts when its thread of before has ended");
                continue;
            }
            match start_source(source.clone(), &channels).await {
                Ok(startable) => prepared.sources.push(startable),
                Err(error) => prepared.errors.push(error),
            }
        }
        prepared
    }

    fn run(&mut self, prepared: Prepared) {
        let count = |counted: &[(String, Arc<dyn Counted>)]| {
            counted.iter().for_each(|(name, counted)| self.registry.add(name, Arc::clone(counted)));
        };
        for (name, (settings, channel)) in prepared.channels {
            count(&[(name.clone(), Arc::clone(&channel) as Arc<dyn Counted>)]);
            self.channels.insert(name, (settings, channel));
        }
        for (name, sinks) in prepared.sinks {
            count(&sinks.counted);
            self.sinks.insert(name, sinks.run());
        }
        for source in prepared.sources {
            count(&source.counted);
            let source = source.run();
            self.sources.insert(source.config.settings.component.clone(), source);
        }
    }

    /// Goes on counting what was lost in channels that were closed: in the channel of the same name, or else under the
    /// name of the old one.
    pub(crate) fn count_losses(&self, closed: &Channels) {
        for (name, (_, channel)) in closed {
            let lost = usize::try_from(channel.counters.lost.get()).unwrap_or(usize::MAX);
            match self.channels.get(name) {
                Some((_, next)) => next.counters.lost.add(lost),
                None if lost == 0 => {}
                None => self.registry.add(name, Arc::clone(channel) as Arc<dyn Counted>),
            }
        }
    }

    /// What channels that were closed have on the disk, where no channel has its files any more: how many events, and in
    /// which directory.
    pub(crate) fn left_behind(&self, closed: &Channels) -> Vec<(String, u64, PathBuf)> {
        let used: BTreeSet<PathBuf> =
            self.channels.values().filter_map(|(settings, _)| directory(settings)).collect();
        let left = closed.iter().filter_map(|(name, (settings, channel))| {
            let path = directory(settings).filter(|path| !used.contains(path))?;
            let events = channel.len_on_disk();
            (events > 0).then(|| (name.clone(), events, path))
        });
        left.collect()
    }

    /// Ends the sources.
    pub(crate) async fn end_sources(&mut self) {
        part::end(std::mem::take(&mut self.sources).into_iter().collect()).await;
    }

    /// Waits until the channels that a predicate names are empty; `false` if they are not in time.
    pub(crate) async fn drain(
        &self,
        patience: Duration,
        is_meant: impl Fn(&str, &Channel) -> bool,
    ) -> bool {
        const LOOK: Duration = Duration::from_millis(20);
        let until = Instant::now() + patience;
        let meant = self.channels.iter().filter(|(name, (_, channel))| is_meant(name, channel));
        let meant: Vec<&Arc<Channel>> = meant.map(|(_, (_, channel))| channel).collect();
        meant.iter().for_each(|channel| channel.set_draining(true));
        let is_empty = loop {
            if meant.iter().all(|channel| channel.len() == 0) {
                break true;
            }
            if Instant::now() >= until {
                break false;
            }
            tokio::time::sleep(LOOK).await;
        };
        meant.iter().for_each(|channel| channel.set_draining(false));
        is_empty
    }

    /// Ends the sinks; the channels are left.
    pub(crate) async fn end_sinks(self) -> Channels {
        part::end(self.sinks.into_iter().collect()).await;
        self.channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::toml;
    use crate::threads::Held;

    /// Both would read the same files, and write the same positions.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_source_starts_when_the_thread_of_the_one_before_has_ended() {
        let text = "[sources.r]\ntype = 'seq'\ntotalEvents = 1\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n";
        let config = toml(text).expect("makes sense");
        let mut agent = RunningAgent::start(config, &Registry::default()).await.expect("starts");
        let threads = Threads::default();
        let held = threads.of(async { Held::new() }).await;
        agent.end_sources().await;
        agent.unended.insert("source r".to_owned(), threads);
        agent.start_missing().await;
        assert!(!agent.is_whole());
        assert!(agent.start_all().await.is_empty(), "it is not an error of the configuration");
        assert!(!agent.is_whole());
        drop(held);
        agent.start_missing().await;
        assert!(agent.is_whole());
        agent.end_sinks().await;
    }
}
