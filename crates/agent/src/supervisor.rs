//! Runs an agent for as long as it is wanted, and brings it in line with its file when that changes.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

use crate::agent::RunningAgent;
use crate::channel::Channel;
use crate::config::{AgentConfig, ConfigFile};
use crate::counters::Registry;
use crate::error::AgentError;
use crate::metrics;
use crate::source::listener::above_descriptors;

/// How to run an agent.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Where to serve counters, as `HOST:PORT`, if anywhere.
    pub metrics: Option<String>,
    /// How often to look whether the file has changed; `None` for never. Flume looks every 30 s.
    pub reload_interval: Option<Duration>,
    /// Wakes the agent to read the file at once, also if its text is the same.
    pub reload_now: Arc<Notify>,
    /// How long channels in memory have to become empty at the end.
    pub drain_patience: Duration,
}

/// How often what cannot be started is tried again. At the first start there is no such thing.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Runs the agent of a file until `end`. `ready` is called when all components have started, with the address for
/// counters.
///
/// # Errors
///
/// What keeps the agent from its first start. Later a file that makes no sense, or cannot be run, is told of, and the
/// agent runs on as it was.
pub async fn run(
    file: &ConfigFile,
    options: &RunOptions,
    ready: impl FnOnce(Option<SocketAddr>),
    end: impl Future<Output = ()>,
) -> Result<(), AgentError> {
    let mut text = file.read()?;
    let config = file.parse(&text)?;
    warn_of(&config);
    let registry = Registry::default();
    let mut tasks = JoinSet::new();
    let mut address = None;
    if let Some(wanted) = &options.metrics {
        let listener = metrics::bind(wanted).await?;
        address = listener.local_addr().ok();
        tasks.spawn(metrics::serve(listener, registry.clone()));
    }
    let mut agent = RunningAgent::start(config, &registry).await?;
    ready(address);
    tokio::pin!(end);
    let mut looks = options.reload_interval.map(ticks);
    let mut retries = ticks(RETRY_INTERVAL);
    loop {
        let look = async {
            match &mut looks {
                Some(looks) => looks.tick().await,
                None => std::future::pending().await,
            }
        };
        let is_asked = tokio::select! {
            () = &mut end => break,
            () = options.reload_now.notified() => true,
            _ = look => false,
            _ = retries.tick(), if !agent.is_whole() => {
                agent.start_missing().await;
                continue;
            }
        };
        let Some(config) = changed(file, &mut text, is_asked) else { continue };
        warn_of(&config);
        if reload(&mut agent, config, end.as_mut()).await == Reloaded::HasToEnd {
            break;
        }
        retries.reset();
    }
    finish(agent, options.drain_patience).await;
    Ok(())
}

/// What the file says now, if it is not the same text as before, or if somebody asks for it.
fn changed(file: &ConfigFile, text: &mut String, is_asked: bool) -> Option<AgentConfig> {
    let new = match file.read() {
        Ok(new) => new,
        // A file that is not there for a moment is being replaced.
        Err(_) if !is_asked => return None,
        Err(error) => {
            tracing::error!(%error, "there is no new configuration; the agent runs on as it was");
            return None;
        }
    };
    if new == *text && !is_asked {
        return None;
    }
    *text = new;
    let parsed = file.parse(text);
    if let Err(error) = &parsed {
        tracing::error!(%error, "the new configuration makes no sense; the agent runs on as it was");
    }
    parsed.ok()
}

/// The first is a period from now.
fn ticks(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}

fn warn_of(config: &AgentConfig) {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if let Some(warning) = above_descriptors(&config.sources, descriptors) {
        tracing::warn!("{warning}");
    }
}

/// How long channels that the new configuration does not have may take to become empty.
const RELOAD_DRAIN: Duration = Duration::from_secs(30);

/// What a reload came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// The agent runs, as the new configuration or the old one has it.
    RunsOn,
    /// The end came before a channel was empty.
    HasToEnd,
}

/// Puts another configuration in force. What it has as it was runs on. Channels that stay keep what they hold; one that
/// goes, or changes, is emptied first, and if it does not become empty the old configuration stays.
///
/// It also stays if the new one cannot be started. What of the old one cannot be started then is left out for now.
pub(crate) async fn reload(
    agent: &mut RunningAgent,
    config: AgentConfig,
    end: Pin<&mut impl Future<Output = ()>>,
) -> Reloaded {
    tracing::info!("the configuration is read again");
    let leaving = agent.leaving(&config);
    agent.end_before_drain(&leaving).await;
    let goes =
        |name: &str, channel: &Channel| leaving.channels.contains(name) && !channel.is_durable();
    let is_drained = tokio::select! {
        is_drained = agent.drain(RELOAD_DRAIN, goes) => is_drained,
        () = end => return Reloaded::HasToEnd,
    };
    if !is_drained {
        tracing::error!(
            "a channel that is to go holds events, and its sinks do not take them; the agent runs on as it was"
        );
        agent.start_missing().await;
        return Reloaded::RunsOn;
    }
    let closed = agent.end_after_drain(&leaving).await;
    let old = agent.config().clone();
    agent.set_config(config);
    let errors = agent.start_all().await;
    if !errors.is_empty() {
        for error in errors {
            tracing::error!(%error, "the new configuration cannot be run; the agent runs on as it was");
        }
        agent.set_config(old);
        agent.start_missing().await;
    }
    agent.count_losses(&closed);
    for (channel, events, path) in agent.left_behind(&closed) {
        tracing::warn!(
            channel, events, path = %path.display(),
            "a channel is gone, and its events stay on the disk; a channel of this directory gives them"
        );
    }
    Reloaded::RunsOn
}

/// Ends in good order: what is in memory is delivered, as far as sinks take it in time.
async fn finish(mut agent: RunningAgent, patience: Duration) {
    agent.end_sources().await;
    agent.drain(patience, |_, channel| !channel.is_durable()).await;
    let channels = agent.end_sinks().await;
    for (_, channel) in channels.values() {
        channel.close().await;
    }
}
