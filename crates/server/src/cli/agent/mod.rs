//! `logway agent`: events from where they arise to where they are wanted.

mod top;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use logway_agent::config::ConfigFile;
use logway_agent::{AgentError, RunOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::shapes::Shape;
use crate::descriptors::raise_descriptor_limit;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum AgentCommand {
    Run(RunArgs),
    Check(CheckArgs),
    Top(top::TopArgs),
}

/// Run the agent of a file until SIGTERM or SIGINT
///
/// When the file changes, the agent changes with it: what the file says as before runs on, and channels that stay keep
/// their events. SIGHUP has the file read at once. `ready` is printed once all components have started.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Serve counters over HTTP at this address, as JSON and for Prometheus
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// How often to look whether the file has changed, in seconds; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    reload_interval: u64,
    /// How long channels in memory may take to become empty at the end, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain: u64,
}

/// Show what would run, and all that is wrong with the file
///
/// Nothing is started: whether ports are free and other servers can be reached is not known. Files and directories that
/// are missing here are warnings, since the agent may run elsewhere.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    file: FileArgs,
}

/// Where the configuration is.
#[derive(Debug, Args)]
struct FileArgs {
    /// The configuration, in TOML
    #[arg(value_name = "FILE", required_unless_present = "flume_conf")]
    file: Option<PathBuf>,
    /// The configuration, in the form of Apache Flume's properties
    #[arg(long, value_name = "FILE", conflicts_with = "file", requires = "name")]
    flume_conf: Option<PathBuf>,
    /// The agent in Flume's file
    #[arg(long, value_name = "NAME", requires = "flume_conf", conflicts_with = "file")]
    name: Option<String>,
}

impl FileArgs {
    fn config_file(self) -> ConfigFile {
        match (self.flume_conf, self.name, self.file) {
            (Some(path), Some(name), _) => ConfigFile::Flume { path, name },
            (_, _, file) => ConfigFile::Toml(file.unwrap_or_default()),
        }
    }
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![Shape::lines::<top::View>("agent top")]
}

/// Carries a command out.
pub(super) async fn run(command: AgentCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        AgentCommand::Run(args) => run_agent(args).await,
        AgentCommand::Check(args) => check(args),
        AgentCommand::Top(args) => top::run(args, global.format).await,
    }
}

async fn run_agent(args: RunArgs) -> Result<(), CliError> {
    raise_descriptor_limit();
    let failed = |source| CliError::Io { what: "wait for signals".to_owned(), source };
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let reload_now = Arc::new(Notify::new());
    let options = RunOptions {
        metrics: args.metrics,
        reload_interval: (args.reload_interval > 0)
            .then(|| Duration::from_secs(args.reload_interval)),
        reload_now: Arc::clone(&reload_now),
        drain_patience: Duration::from_secs(args.drain),
    };
    let file = args.file.config_file();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reload_now.notify_one();
        }
    });
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let end = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let ready = |metrics: Option<std::net::SocketAddr>| {
        let metrics = metrics.map(|address| format!(" metrics={address}")).unwrap_or_default();
        // Who reads nothing of it loses nothing by it.
        let _ = output::print(&format!("ready{metrics}\n"));
    };
    logway_agent::run(&file, &options, ready, end).await.map_err(refused)
}

fn check(args: CheckArgs) -> Result<(), CliError> {
    let file = args.file.config_file();
    let config = file.read().and_then(|text| file.check(&text)).map_err(refused)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    output::print(&config.tree())
}

fn refused(error: AgentError) -> CliError {
    let is_config = matches!(error, AgentError::Config(_));
    let error = CliError::Input(error.to_string());
    match is_config {
        true => error.with_hint("docs/reference/agents.md has all components and keys"),
        false => error,
    }
}
