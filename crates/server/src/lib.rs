//! The command line: `logway serve`, and the commands that talk to brokers or look into files.
//!
//! It is a library so that the reference pages can be made from it (`examples/reference`).

mod agent;
mod cli;
mod descriptors;
mod log;
mod nodes;
mod notify;
mod running;
mod secure;
mod serve;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

pub use cli::shapes::{Shape as JsonShape, shapes as json_shapes};
pub use running::{BrokerError, RunningBroker};
pub use serve::start_broker;

/// The version, with the commit that it is built of.
pub(crate) const VERSION: &str = env!("LOGWAY_VERSION");

/// Does what the process's arguments say.
pub fn run() -> ExitCode {
    cli::run(cli::Cli::parse())
}

/// The commit alone, or `unknown`.
pub(crate) const COMMIT: &str = env!("LOGWAY_BUILT_OF");

/// The definition of the command line.
pub fn command() -> clap::Command {
    cli::Cli::command()
}
