//! Events that would come round: a source `kafka` says in a header which topic an event is from, and a sink `kafka` writes
//! events into the topic that this header names.

use std::collections::BTreeSet;

use super::{AgentConfig, SourceConfig};
use crate::kafka_cluster::BROKERS;
use crate::settings::Settings;

/// Warnings, with the lines that they are about.
pub(super) fn warnings(config: &AgentConfig) -> Vec<(usize, String)> {
    let mut warnings = Vec::new();
    for sink in &config.sinks {
        let sources =
            config.sources.iter().filter(|source| source.channels.contains(&sink.channel));
        for source in sources.filter(|source| comes_round(source, &sink.settings)) {
            let header = sink.settings.required("topicHeader").trim();
            let text = format!(
                "{}: events go back into the topics that {} has them from, because they have the header '{header}': \
                 say allowTopicOverride = false here, or setTopicHeader = false there",
                sink.settings.component, source.settings.component
            );
            let line = sink.settings.lines.get(BROKERS).copied().unwrap_or(0);
            warnings.push((line, text));
        }
    }
    warnings
}

/// Whether all of it is as by default. Who says `allowTopicOverride`, or changes the header on the way, means it.
fn comes_round(source: &SourceConfig, sink: &Settings) -> bool {
    let from = &source.settings;
    if from.declaration.name != "kafka" || sink.declaration.name != "kafka" {
        return false;
    }
    let header = from.required("topicHeader").trim();
    let is_changed =
        source.interceptors.iter().any(|interceptor| match interceptor.declaration.name {
            "remove_header" => true,
            "static" => {
                interceptor.required("key").trim() == header
                    && !interceptor.flag("preserveExisting")
            }
            "expression" => interceptor.is_set(&format!("set.{header}")),
            _ => false,
        });
    from.flag("setTopicHeader")
        && !sink.is_set("allowTopicOverride")
        && header == sink.required("topicHeader").trim()
        && !is_changed
        && !brokers(from).is_disjoint(&brokers(sink))
}

fn brokers(settings: &Settings) -> BTreeSet<&str> {
    settings.required(BROKERS).split(',').map(str::trim).collect()
}
