//! What components would refuse at their start, as far as that shows without one.

use std::sync::Arc;

use super::{AgentConfig, SinkConfig, SourceConfig};
use crate::counters::SinkCounters;
use crate::error::StartError;
use crate::interceptor::Interceptor;
use crate::registry;
use crate::settings::Settings;
use crate::sink::SinkContext;
use crate::source::{object_store, taildir};
use crate::tls;

/// Keys of what has to be there on the machine where the agent runs, which may be another.
const OF_MACHINE: &[&str] = &["keystore", "truststore", "sink.directory"];

/// Something that a component would refuse.
pub(super) struct Refusal {
    pub(super) line: usize,
    pub(super) text: String,
    /// Something is missing here that may be there where the agent is to run.
    pub(super) is_of_machine: bool,
}

/// What would be refused. Nothing is connected to, written or listened at.
pub(super) fn try_out(config: &AgentConfig) -> Vec<Refusal> {
    let sources = config.sources.iter().flat_map(|source| {
        let interceptors = source.interceptors.iter();
        let interceptors =
            interceptors.map(|settings| (settings, Interceptor::new(settings).map(drop)));
        interceptors.chain([(&source.settings, try_source(source))])
    });
    let sinks = config.sinks.iter().map(|sink| (&sink.settings, try_sink(sink)));
    let refusal = |(settings, tried): (&Settings, Result<(), StartError>)| {
        let text = format!("{} cannot start: {}", settings.component, tried.err()?);
        Some(Refusal { line: settings.line, text, is_of_machine: is_of_machine(settings) })
    };
    sources.chain(sinks).filter_map(refusal).collect()
}

/// A sink is made without a look at where it sends to.
fn try_sink(sink: &SinkConfig) -> Result<(), StartError> {
    let counters = Arc::new(SinkCounters::default());
    let make = registry::sink_maker(sink.settings.declaration);
    make(SinkContext { settings: sink.settings.clone(), counters }).map(drop)
}

/// A source is not started: it would listen, or note what it has read.
fn try_source(source: &SourceConfig) -> Result<(), StartError> {
    let settings = &source.settings;
    if settings.declaration.key("ssl").is_some() && settings.declaration.key("keystore").is_some() {
        tls::of_source(settings, &[])?;
    }
    if settings.declaration.key("filegroups").is_some() {
        taildir::try_settings(settings)?;
    }
    if settings.declaration.key("url").is_some() {
        object_store::try_settings(settings)?;
    }
    Ok(())
}

fn is_of_machine(settings: &Settings) -> bool {
    let is_declared = |key: &&str| settings.declaration.key(key).is_some();
    let mut files = OF_MACHINE.iter().copied().filter(is_declared);
    let is_missing = |key| settings.text(key).is_some() && !settings.path(key).exists();
    // Without a host, Hadoop's configuration on that machine says where it is.
    let is_hadoops = |url: &str| {
        let hosted = url.trim().split_once("://");
        hosted.is_none_or(|(scheme, rest)| scheme != "file" && rest.starts_with('/'))
    };
    files.any(is_missing)
        || (is_declared(&"hdfs.path") && settings.text("hdfs.path").is_some_and(is_hadoops))
}
