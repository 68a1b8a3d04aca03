//! A part of an agent that starts and ends by itself: a source, or the sinks that share a processor.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::agent::Channels;
use crate::config::{AgentConfig, GroupConfig, SinkConfig, SourceConfig};
use crate::counters::{Counted, SinkCounters, SourceCounters};
use crate::delivery::Delivery;
use crate::error::AgentError;
use crate::interceptor::Interceptor;
use crate::processor::{Gathered, Processor, SinkRunner};
use crate::registry;
use crate::selector::Selector;
use crate::sink::SinkContext;
use crate::source::SourceContext;
use crate::stop::{Stop, Stopper};
use crate::threads::Threads;

/// How long parts have to end by themselves.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// What runs, and what it was told. Dropped, it ends at once, as by a kill.
pub(crate) struct Part<C> {
    pub(crate) config: C,
    stopper: Stopper,
    threads: Threads,
    tasks: JoinSet<()>,
}

/// A part that could be started, and does nothing yet. Dropped, it never was.
pub(crate) struct Startable<C> {
    config: C,
    stopper: Stopper,
    running: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Its counters, by the names of its components.
    pub(crate) counted: Vec<(String, Arc<dyn Counted>)>,
}

impl<C> Startable<C> {
    pub(crate) fn run(self) -> Part<C> {
        let mut tasks = JoinSet::new();
        let threads = Threads::default();
        tasks.spawn(threads.of(self.running));
        Part { config: self.config, stopper: self.stopper, threads, tasks }
    }
}

/// Ends parts together. Returns the threads of those that have to be cut off, by their names: a thread runs on. Nothing must be
/// started in place of such a part while [`Threads::run`].
pub(crate) async fn end<C>(parts: Vec<(String, Part<C>)>) -> Vec<(String, Threads)> {
    parts.iter().for_each(|(_, part)| part.stopper.stop());
    let until = Instant::now() + END_PATIENCE;
    let mut unended = Vec::new();
    for (name, mut part) in parts {
        loop {
            match timeout_at(until, part.tasks.join_next()).await {
                Ok(None) => break,
                Ok(Some(Ok(()))) => {}
                Ok(Some(Err(error))) => tracing::error!(%error, "{name} ended badly"),
                Err(_) => {
                    tracing::warn!("{name} takes too long to end, and is cut off");
                    if part.threads.run() {
                        unended.push((name, part.threads));
                    }
                    break;
                }
            }
        }
    }
    unended
}

/// Sinks that one processor gives batches to: those of a group, or one that is in none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SinkPart {
    group: Option<GroupConfig>,
    sinks: Vec<SinkConfig>,
}

impl SinkPart {
    /// Those of a configuration, by their names.
    pub(crate) fn all(config: &AgentConfig) -> Vec<(String, SinkPart)> {
        let named =
            |name: &String| config.sinks.iter().find(|sink| sink.settings.name == *name).cloned();
        let grouped = config.groups.iter().map(|group| {
            let sinks = group.sinks.iter().filter_map(named).collect();
            (group.processor.component.clone(), SinkPart { group: Some(group.clone()), sinks })
        });
        let is_grouped = |sink: &SinkConfig| {
            config.groups.iter().any(|group| group.sinks.contains(&sink.settings.name))
        };
        let single = config.sinks.iter().filter(|sink| !is_grouped(sink)).map(|sink| {
            (sink.settings.component.clone(), SinkPart { group: None, sinks: vec![sink.clone()] })
        });
        grouped.chain(single).collect()
    }

    /// The channels that it takes from.
    pub(crate) fn emptied(&self) -> impl Iterator<Item = &String> {
        self.sinks.iter().map(|sink| &sink.channel)
    }

    /// And those that it puts dead letters into.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &String> {
        self.emptied().chain(self.sinks.iter().filter_map(|sink| sink.dead_letter.as_ref()))
    }

    /// Makes its sinks.
    ///
    /// # Errors
    ///
    /// A sink that cannot be made.
    pub(crate) fn start(self, channels: &Channels) -> Result<Startable<SinkPart>, AgentError> {
        let (stopper, stop) = Stopper::new();
        let mut counted: Vec<(String, Arc<dyn Counted>)> = Vec::new();
        let mut runners = Vec::new();
        for sink in &self.sinks {
            let (runner, counters) = make_sink(sink, channels, self.sinks.len() == 1)?;
            counted.push((runner.name.clone(), counters));
            runners.push(runner);
        }
        let processor = match &self.group {
            Some(group) => Processor::new(&group.processor, runners),
            None => Processor::One(Box::new(runners.remove(0))),
        };
        let running = Box::pin(processor.run(stop));
        Ok(Startable { config: self, stopper, running, counted })
    }
}

/// Starts a source: what it needs is there when this returns.
///
/// # Errors
///
/// What it needs and cannot have.
pub(crate) async fn start_source(
    config: SourceConfig,
    channels: &Channels,
) -> Result<Startable<SourceConfig>, AgentError> {
    let (stopper, stop) = Stopper::new();
    let (context, counters) = source_context(&config, channels, stop)?;
    let start = registry::source_start(config.settings.declaration);
    let running = start(context).await.map_err(refused(&config.settings.component))?;
    let counted = vec![(config.settings.name.clone(), counters as Arc<dyn Counted>)];
    Ok(Startable { config, stopper, running, counted })
}

pub(crate) fn refused(component: &str) -> impl FnOnce(String) -> AgentError {
    let component = component.to_owned();
    move |reason| AgentError::Start { component, reason }
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
