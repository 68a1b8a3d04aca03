//! An agent in the broker's process (`serve --agent`). It speaks Kafka's protocol to the broker's listener, as one outside
//! does, so that it may do what its user may and no more.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use logway_agent::config::ConfigFile;
use logway_agent::{AgentError, RunOptions};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// How often to look whether the agent's file has changed.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// How long channels in memory may take to become empty at the end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// What the command line says of an agent.
#[derive(Debug)]
pub(crate) struct AgentOptions {
    /// Its configuration, in TOML or in Flume's form.
    pub(crate) path: PathBuf,
    /// The agent in Flume's form.
    pub(crate) flume_name: Option<String>,
    /// Where to serve its counters, if anywhere.
    pub(crate) metrics: Option<String>,
}

impl AgentOptions {
    fn file(&self, broker: String) -> ConfigFile {
        ConfigFile::InBroker {
            path: self.path.clone(),
            flume_name: self.flume_name.clone(),
            broker,
        }
    }

    /// Whether there is anything wrong with the file, so that this is known before a broker starts.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let file = self.file("localhost".to_owned());
        let config = file.read().and_then(|text| file.parse(&text));
        config.map(drop).context("the agent's configuration makes no sense")
    }
}

/// An agent that runs.
pub(crate) struct BrokersAgent {
    end: oneshot::Sender<()>,
    task: JoinHandle<Result<(), AgentError>>,
}

impl BrokersAgent {
    /// Starts it beside the broker that listens at an address; returns when all components have started. `reload_now` has its file
    /// read at once.
    pub(crate) async fn start(
        options: AgentOptions,
        broker: SocketAddr,
        reload_now: Arc<Notify>,
    ) -> anyhow::Result<BrokersAgent> {
        let file = options.file(reachable(broker).to_string());
        let run = RunOptions {
            metrics: options.metrics,
            reload_interval: Some(RELOAD_INTERVAL),
            reload_now,
            drain_patience: DRAIN_PATIENCE,
        };
        let (end, ended) = oneshot::channel::<()>();
        let (ready, is_ready) = oneshot::channel();
        let task = tokio::spawn(async move {
            let ready = |metrics: Option<SocketAddr>| {
                tracing::info!(file = %file.path().display(), ?metrics, "the agent runs");
                let _ = ready.send(());
            };
            let end = async {
                // A sender that is gone ends it, too.
                let _ = ended.await;
            };
            logway_agent::run(&file, &run, ready, end).await
        });
        let mut agent = BrokersAgent { end, task };
        match is_ready.await {
            Ok(()) => Ok(agent),
            Err(_) => Err(agent.failed().await),
        }
    }

    /// Waits until it cannot go on, which may never be; why.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.task).await {
            Ok(Ok(())) => anyhow::anyhow!("the agent has ended"),
            Ok(Err(error)) => anyhow::Error::new(error).context("the agent cannot run"),
            Err(error) => anyhow::Error::new(error).context("the agent ended badly"),
        }
    }

    /// Ends it in good order: what is in memory is delivered, as far as sinks take it in time.
    pub(crate) async fn stop(self) {
        let _ = self.end.send(());
        if let Ok(Err(error)) = self.task.await {
            tracing::error!(%error, "the agent did not end in good order");
        }
    }
}

/// The address at which this machine itself reaches a listener.
fn reachable(listener: SocketAddr) -> SocketAddr {
    match listener.ip() {
        ip if !ip.is_unspecified() => listener,
        ip if ip.is_ipv4() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), listener.port()),
        _ => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), listener.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_by_loopback() {
        let reached = |text: &str| reachable(text.parse().expect("is one")).to_string();
        assert_eq!(reached("0.0.0.0:9092"), "127.0.0.1:9092");
        assert_eq!(reached("[::]:9092"), "[::1]:9092");
        assert_eq!(reached("10.1.2.3:9092"), "10.1.2.3:9092");
    }
}
