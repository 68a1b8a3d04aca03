//! Runs an agent for as long as it is wanted, and brings it in line with its file when that changes.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

use crate::agent::RunningAgent;
use crate::channel::Channel;
use crate::config::{AgentConfig, ConfigFile};
use crate::counters::Registry;
use crate::error::AgentError;
use crate::metrics;

/// How to run an agent.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Where to serve counters, as `HOST:PORT`, if anywhere.
    pub metrics: Option<String>,
    /// How often to look whether the file has changed; `None` for never. Flume looks every 30 s.
    pub reload_interval: Option<Duration>,
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
        tokio::select! {
            () = &mut end => break,
            _ = look => {}
            _ = retries.tick(), if !agent.is_whole() => {
                agent.start_missing().await;
                continue;
            }
        }
        // A file that is not there for a moment is being replaced.
        let Ok(new) = file.read() else { continue };
        if new == text {
            continue;
        }
        text = new;
        match file.parse(&text) {
            Ok(config) => {
                warn_of(&config);
                reload(&mut agent, config).await;
                retries.reset();
            }
            Err(error) => {
                tracing::error!(%error, "the new configuration makes no sense; the agent runs on as it was")
            }
        }
    }
    finish(agent, options.drain_patience).await;
    Ok(())
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
}

/// How long channels that the new configuration does not have may take to become empty.
const RELOAD_DRAIN: Duration = Duration::from_secs(30);

/// Puts another configuration in force. What it has as it was runs on. Channels that stay keep what they hold; one that
/// goes, or changes, is emptied first, and if it does not become empty the old configuration stays.
///
/// It also stays if the new one cannot be started. What of the old one cannot be started then is left out for now.
pub(crate) async fn reload(agent: &mut RunningAgent, config: AgentConfig) {
    tracing::info!("the configuration has changed");
    let leaving = agent.leaving(&config);
    agent.end_before_drain(&leaving).await;
    let goes =
        |name: &str, channel: &Channel| leaving.channels.contains(name) && !channel.is_durable();
    if !agent.drain(RELOAD_DRAIN, goes).await {
        tracing::error!(
            "a channel that is to go holds events, and its sinks do not take them; the agent runs on as it was"
        );
        return agent.start_missing().await;
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
