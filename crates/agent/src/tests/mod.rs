//! What holds across modules: transactions of channels, from configurations to running agents.

mod channels;
mod configurations;
mod objects;
mod objects_read;
mod requests;
mod running;
pub(crate) mod web;

use std::path::Path;

use crate::config::{AgentConfig, ConfigFile};
use crate::error::AgentError;

/// What our own form says.
pub(crate) fn toml(text: &str) -> Result<AgentConfig, AgentError> {
    ConfigFile::Toml(Path::new("agent.toml").to_owned()).parse(text)
}

/// What Flume's form says of agent `a`.
fn flume(text: &str) -> Result<AgentConfig, AgentError> {
    ConfigFile::Flume { path: Path::new("flume.conf").to_owned(), name: "a".to_owned() }.parse(text)
}
