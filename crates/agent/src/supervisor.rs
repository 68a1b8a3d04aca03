//! Runs an agent for as long as it is wanted, and brings it in line with its file when that changes.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::agent::{Channels, RunningAgent, is_same_channel};
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

/// Runs the agent of a file until `end`. `ready` is called when all components have started, with the address for
/// counters.
///
/// # Errors
///
/// What keeps the agent from its first start. Later a file that makes no sense is told of, and the agent runs on as
/// it was.
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
    let mut agent = RunningAgent::start(config, &Channels::new(), &registry).await?;
    ready(address);
    tokio::pin!(end);
    loop {
        let look = async {
            match options.reload_interval {
                Some(interval) => tokio::time::sleep(interval).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut end => break,
            () = look => {}
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
                agent = reload(agent, config, &registry).await?;
            }
            Err(error) => {
                tracing::error!(%error, "the new configuration makes no sense; the agent runs on as it was")
            }
        }
    }
    finish(agent, options.drain_patience).await;
    Ok(())
}

fn warn_of(config: &AgentConfig) {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

/// How long channels that the new configuration does not have may take to become empty.
const RELOAD_DRAIN: Duration = Duration::from_secs(30);

/// Puts another configuration in force. Channels that stay keep what they hold; one that goes, or changes, is emptied
/// first, and if it does not become empty the old configuration stays.
pub(crate) async fn reload(
    mut agent: RunningAgent,
    config: AgentConfig,
    registry: &Registry,
) -> Result<RunningAgent, AgentError> {
    tracing::info!("the configuration has changed");
    let old = agent.config().clone();
    agent.end_sources().await;
    let goes =
        |name: &str, settings: &crate::settings::Settings, channel: &crate::channel::Channel| {
            !is_same_channel(settings, config.channels.get(name)) && !channel.is_durable()
        };
    let is_drained = agent.drain(RELOAD_DRAIN, goes).await;
    let channels = agent.end_sinks().await;
    let next = match is_drained {
        true => config,
        false => {
            tracing::error!(
                "a channel that is to go holds events, and its sinks do not take them; the agent runs on as it was"
            );
            old.clone()
        }
    };
    let (kept, gone): (Channels, Channels) = channels
        .into_iter()
        .partition(|(name, (settings, _))| is_same_channel(settings, next.channels.get(name)));
    let mut with_losses = Channels::new();
    for (name, (settings, channel)) in gone {
        if channel.close().await > 0 {
            with_losses.insert(name, (settings, channel));
        }
    }
    let agent = match RunningAgent::start(next, &kept, registry).await {
        Ok(agent) => agent,
        Err(error) => {
            tracing::error!(%error, "the new configuration cannot be run; the agent runs on as it was");
            RunningAgent::start(old, &kept, registry).await?
        }
    };
    agent.count_losses(with_losses, registry);
    Ok(agent)
}

/// Ends in good order: what is in memory is delivered, as far as sinks take it in time.
async fn finish(mut agent: RunningAgent, patience: Duration) {
    agent.end_sources().await;
    agent.drain(patience, |_, _, channel| !channel.is_durable()).await;
    let channels = agent.end_sinks().await;
    for (_, channel) in channels.values() {
        channel.close().await;
    }
}
