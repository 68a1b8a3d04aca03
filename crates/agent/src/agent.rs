//! An agent that runs: its channels, and the sources and sinks of one configuration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::channel::Channel;
use crate::config::{AgentConfig, GroupConfig, SinkConfig, SourceConfig};
use crate::counters::{Counted, Registry, SinkCounters, SourceCounters};
use crate::delivery::Delivery;
use crate::error::AgentError;
use crate::interceptor::Interceptor;
use crate::processor::{Gathered, Processor, SinkRunner};
use crate::registry;
use crate::selector::Selector;
use crate::settings::Settings;
use crate::sink::SinkContext;
use crate::source::SourceContext;
use crate::stop::{Stop, Stopper};

/// How long sources and sinks have to end by themselves.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// Channels by name, with what they were told.
pub(crate) type Channels = BTreeMap<String, (Settings, Arc<Channel>)>;

/// What runs. Dropped, it ends at once, as by a kill.
pub(crate) struct RunningAgent {
    config: AgentConfig,
    channels: Channels,
    sources: Part,
    sinks: Part,
}

/// Tasks that end together.
struct Part {
    stopper: Stopper,
    tasks: JoinSet<()>,
}

impl Part {
    async fn end(&mut self, what: &str) {
        self.stopper.stop();
        let until = Instant::now() + END_PATIENCE;
        loop {
            match timeout_at(until, self.tasks.join_next()).await {
                Ok(None) => return,
                Ok(Some(Ok(()))) => {}
                Ok(Some(Err(error))) => tracing::error!(%error, "{what} ended badly"),
                Err(_) => {
                    tracing::warn!("{what} take too long to end, and are cut off");
                    return self.tasks.abort_all();
                }
            }
        }
    }
}

fn refused(component: &str) -> impl FnOnce(String) -> AgentError {
    let component = component.to_owned();
    move |reason| AgentError::Start { component, reason }
}

impl RunningAgent {
    /// Starts all components; those channels that are there already, and were told the same, are taken as they are.
    ///
    /// # Errors
    ///
    /// What cannot be started; then nothing runs, and `channels` are as before.
    pub(crate) async fn start(
        config: AgentConfig,
        known: &Channels,
        registry: &Registry,
    ) -> Result<RunningAgent, AgentError> {
        let channels = open_channels(&config, known).await?;
        let started = start_on(&config, &channels, registry).await;
        let (sources, sinks) = match started {
            Ok(started) => started,
            Err(error) => {
                for (_, (_, channel)) in
                    channels.iter().filter(|(name, _)| !known.contains_key(*name))
                {
                    channel.close().await;
                }
                return Err(error);
            }
        };
        Ok(RunningAgent { config, channels, sources, sinks })
    }

    pub(crate) fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Goes on counting what was lost with channels that were closed: in the channel of the same name, or else
    /// under the name of the old one.
    pub(crate) fn count_losses(&self, closed: Channels, registry: &Registry) {
        for (name, (_, channel)) in closed {
            let lost = usize::try_from(channel.counters.lost.get()).unwrap_or(usize::MAX);
            match self.channels.get(&name) {
                Some((_, next)) => next.counters.lost.add(lost),
                None => registry.add(&name, channel),
            }
        }
    }

    /// Ends the sources.
    pub(crate) async fn end_sources(&mut self) {
        self.sources.end("sources").await;
    }

    /// Waits until the channels that a predicate names are empty; `false` if they are not in time.
    pub(crate) async fn drain(
        &self,
        patience: Duration,
        is_meant: impl Fn(&str, &Settings, &Channel) -> bool,
    ) -> bool {
        const LOOK: Duration = Duration::from_millis(20);
        let until = Instant::now() + patience;
        let meant = self
            .channels
            .iter()
            .filter(|(name, (settings, channel))| is_meant(name, settings, channel));
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
    pub(crate) async fn end_sinks(mut self) -> Channels {
        self.sinks.end("sinks").await;
        self.channels
    }
}

/// Whether a channel of a new configuration is the same as one of the old.
pub(crate) fn is_same_channel(old: &Settings, new: Option<&Settings>) -> bool {
    new.is_some_and(|new| old.declaration.name == new.declaration.name && old.values == new.values)
}

async fn open_channels(config: &AgentConfig, known: &Channels) -> Result<Channels, AgentError> {
    let mut channels = Channels::new();
    let mut opened: Vec<Arc<Channel>> = Vec::new();
    for (name, settings) in &config.channels {
        let channel = match known.get(name) {
            Some((old, channel)) if is_same_channel(old, Some(settings)) => Arc::clone(channel),
            _ => match Channel::open(settings).await {
                Ok(channel) => {
                    opened.push(Arc::clone(&channel));
                    channel
                }
                Err(reason) => {
                    for channel in opened {
                        channel.close().await;
                    }
                    return Err(refused(&settings.component)(reason));
                }
            },
        };
        channels.insert(name.clone(), (settings.clone(), channel));
    }
    Ok(channels)
}

/// Sinks first, so that there is room for what sources bring; whatever fails, all of it is undone.
async fn start_on(
    config: &AgentConfig,
    channels: &Channels,
    registry: &Registry,
) -> Result<(Part, Part), AgentError> {
    let (sink_stopper, sink_stop) = Stopper::new();
    let (source_stopper, source_stop) = Stopper::new();
    let mut counted: Vec<(String, Arc<dyn Counted>)> = Vec::new();
    for (name, (_, channel)) in channels {
        counted.push((name.clone(), Arc::clone(channel) as Arc<dyn Counted>));
    }
    let mut runners = Vec::new();
    for sink in &config.sinks {
        let is_grouped = |group: &GroupConfig| {
            group.sinks.len() > 1 && group.sinks.contains(&sink.settings.name)
        };
        let is_alone = !config.groups.iter().any(is_grouped);
        let (runner, counters) = make_sink(sink, channels, is_alone)?;
        counted.push((runner.name.clone(), counters));
        runners.push(runner);
    }
    let mut sources = Vec::new();
    for source in &config.sources {
        let (context, counters) = source_context(source, channels, source_stop.clone())?;
        let component = context.settings.component.clone();
        let start = registry::source_start(context.settings.declaration);
        counted.push((context.settings.name.clone(), counters));
        sources.push(start(context).await.map_err(refused(&component))?);
    }
    let names: Vec<&str> = channels.keys().map(String::as_str).collect();
    registry.keep_channels(&names);
    for (name, counted) in counted {
        registry.add(&name, counted);
    }
    let mut sink_tasks = JoinSet::new();
    for processor in processors(&config.groups, runners) {
        sink_tasks.spawn(processor.run(sink_stop.clone()));
    }
    let mut source_tasks = JoinSet::new();
    for source in sources {
        source_tasks.spawn(source);
    }
    let sources = Part { stopper: source_stopper, tasks: source_tasks };
    Ok((sources, Part { stopper: sink_stopper, tasks: sink_tasks }))
}

fn make_sink(
    sink: &SinkConfig,
    channels: &Channels,
    is_alone: bool,
) -> Result<(SinkRunner, Arc<SinkCounters>), AgentError> {
    let settings = &sink.settings;
    let counters = Arc::new(SinkCounters::default());
    let context = SinkContext { settings: settings.clone(), counters: Arc::clone(&counters) };
    let make = registry::sink_maker(settings.declaration);
    let made = make(context).map_err(refused(&settings.component))?;
    let channel = |name: &String| Arc::clone(&channels[name].1);
    let batch = registry::batch(settings).map_or(1, |(_, batch)| batch);
    let runner = SinkRunner {
        name: settings.name.clone(),
        sink: made,
        channel: channel(&sink.channel),
        batch_max: usize::try_from(batch).unwrap_or(1),
        counters: Arc::clone(&counters),
        dead_letters: sink.dead_letter.as_ref().map(channel),
        is_alone,
        gathered: Gathered::Nothing,
    };
    Ok((runner, counters))
}

fn source_context(
    source: &SourceConfig,
    channels: &Channels,
    stop: Stop,
) -> Result<(SourceContext, Arc<SourceCounters>), AgentError> {
    let settings = source.settings.clone();
    let refuse = || refused(&settings.component);
    let selector = Selector::new(&source.selector, &source.channels).map_err(refuse())?;
    let interceptors = source
        .interceptors
        .iter()
        .map(|settings| Interceptor::new(settings).map_err(refused(&settings.component)));
    let interceptors = interceptors.collect::<Result<Vec<Interceptor>, AgentError>>()?;
    let own = source.channels.iter().map(|name| Arc::clone(&channels[name].1)).collect();
    let counters = Arc::new(SourceCounters::default());
    let delivery =
        Delivery::new(&settings.name, own, selector, interceptors, Arc::clone(&counters));
    Ok((SourceContext { settings, delivery, stop }, counters))
}

/// One for each group, and one for each sink that is in none.
fn processors(groups: &[GroupConfig], runners: Vec<SinkRunner>) -> Vec<Processor> {
    let mut left: BTreeMap<String, SinkRunner> =
        runners.into_iter().map(|runner| (runner.name.clone(), runner)).collect();
    let mut processors = Vec::new();
    for group in groups {
        let members = group.sinks.iter().filter_map(|name| left.remove(name)).collect();
        processors.push(Processor::new(&group.processor, members));
    }
    processors.extend(left.into_values().map(|runner| Processor::One(Box::new(runner))));
    processors
}
