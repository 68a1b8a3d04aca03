//! What holds across modules: transactions of channels, from configurations to running agents.

mod channels;
mod configurations;
mod objects;
mod objects_read;
mod requests;
mod running;
pub(crate) mod web;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::channel::Channel;
use crate::config::{AgentConfig, ConfigFile};
use crate::counters::SourceCounters;
use crate::delivery::Delivery;
use crate::error::AgentError;
use crate::event::Event;
use crate::selector::Selector;
use crate::source::SourceContext;
use crate::stop::Stop;

/// What our own form says.
pub(crate) fn toml(text: &str) -> Result<AgentConfig, AgentError> {
    ConfigFile::Toml(Path::new("agent.toml").to_owned()).parse(text)
}

/// What Flume's form says of agent `a`.
pub(crate) fn flume(text: &str) -> Result<AgentConfig, AgentError> {
    ConfigFile::Flume { path: Path::new("flume.conf").to_owned(), name: "a".to_owned() }.parse(text)
}

/// What a source is given that has these lines, and the channel in memory into which it puts events.
pub(crate) async fn source_with_channel(lines: &str, stop: Stop) -> (SourceContext, Arc<Channel>) {
    let text = format!(
        "[sources.r]\nchannels = ['c']\n{lines}\n\
         [channels.c]\ntype = 'memory'\ncapacity = 100000\ntransactionCapacity = 10000\n"
    );
    let config = toml(&text).expect("makes sense");
    let source = &config.sources[0];
    let channel = Channel::open(&config.channels["c"]).await.expect("opens");
    let selector = Selector::new(&source.selector, &source.channels).expect("is one");
    let counters = Arc::new(SourceCounters::default());
    let delivery = Delivery::new("r", vec![Arc::clone(&channel)], selector, Vec::new(), counters);
    (SourceContext { settings: source.settings.clone(), delivery, stop }, channel)
}

/// Takes all that a channel holds.
pub(crate) async fn take_all(channel: &Arc<Channel>) -> Vec<Event> {
    const SOON: Duration = Duration::from_millis(200);
    let mut found = Vec::new();
    while channel.len() > 0 {
        let taken = channel.take(100, SOON).await.expect("is taken");
        found.extend(taken.events.clone());
        taken.commit().await.expect("is committed");
    }
    found
}
