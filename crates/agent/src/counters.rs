//! What is counted: Flume's counters under Flume's names, and what was dropped under ours.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, count: usize) {
        self.0.fetch_sub(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Of a source.
#[derive(Debug, Default)]
pub(crate) struct SourceCounters {
    /// What was read from outside.
    pub(crate) received: Count,
    /// What is in all required channels.
    pub(crate) accepted: Count,
    pub(crate) batches_received: Count,
    pub(crate) batches_accepted: Count,
    /// Puts that a required channel refused.
    pub(crate) channel_failures: Count,
    /// What an optional channel did not take.
    pub(crate) optional_failures: Count,
    /// What interceptors took out.
    pub(crate) intercepted: Count,
    /// What no channel was chosen for.
    pub(crate) unmapped: Count,
    /// What cannot be read again and no channel took: the lines of a socket or a pipe.
    pub(crate) dropped: Count,
    /// What was no event: malformed, too long.
    pub(crate) malformed: Count,
    pub(crate) open_connections: Count,
    /// Connections that were turned away.
    pub(crate) refused_connections: Count,
}

/// Of a channel.
#[derive(Debug, Default)]
pub(crate) struct ChannelCounters {
    pub(crate) put_attempts: Count,
    pub(crate) put_successes: Count,
    pub(crate) take_attempts: Count,
    pub(crate) take_successes: Count,
    /// What was in memory when the channel, or one of this name before it, was closed, and what its files do not give
    /// any more.
    pub(crate) lost: Count,
}

/// Of a sink.
#[derive(Debug, Default)]
pub(crate) struct SinkCounters {
    pub(crate) batches_empty: Count,
    pub(crate) batches_underflow: Count,
    pub(crate) batches_complete: Count,
    pub(crate) drain_attempts: Count,
    pub(crate) drain_successes: Count,
    pub(crate) failures: Count,
    pub(crate) channel_failures: Count,
    pub(crate) connections_created: Count,
    pub(crate) connections_failed: Count,
    /// What went to the dead-letter channel.
    pub(crate) dead_lettered: Count,
    /// What could not be delivered, and was not to be kept.
    pub(crate) dropped: Count,
}

/// What is asked for the counters of one component.
pub(crate) trait Counted: Send + Sync {
    /// `SOURCE`, `CHANNEL` or `SINK`.
    fn role(&self) -> &'static str;
    /// Each counter by Flume's name, or one like those.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

impl Counted for SourceCounters {
    fn role(&self) -> &'static str {
        "SOURCE"
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("EventReceivedCount", self.received.get()),
            ("EventAcceptedCount", self.accepted.get()),
            ("AppendBatchReceivedCount", self.batches_received.get()),
            ("AppendBatchAcceptedCount", self.batches_accepted.get()),
            ("ChannelWriteFail", self.channel_failures.get()),
            ("OptionalChannelWriteFail", self.optional_failures.get()),
            ("EventInterceptedCount", self.intercepted.get()),
            ("EventUnmappedCount", self.unmapped.get()),
            ("EventDroppedCount", self.dropped.get()),
            ("EventReadFail", self.malformed.get()),
            ("OpenConnectionCount", self.open_connections.get()),
            ("RefusedConnectionCount", self.refused_connections.get()),
        ]
    }
}

impl Counted for SinkCounters {
    fn role(&self) -> &'static str {
        "SINK"
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("BatchEmptyCount", self.batches_empty.get()),
            ("BatchUnderflowCount", self.batches_underflow.get()),
            ("BatchCompleteCount", self.batches_complete.get()),
            ("EventDrainAttemptCount", self.drain_attempts.get()),
            ("EventDrainSuccessCount", self.drain_successes.get()),
            ("EventWriteFail", self.failures.get()),
            ("ChannelReadFail", self.channel_failures.get()),
            ("ConnectionCreatedCount", self.connections_created.get()),
            ("ConnectionFailedCount", self.connections_failed.get()),
            ("EventDeadLetterCount", self.dead_lettered.get()),
            ("EventDroppedCount", self.dropped.get()),
        ]
    }
}

impl Counted for crate::channel::Channel {
    fn role(&self) -> &'static str {
        "CHANNEL"
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let capacity = self.capacity().map(|capacity| ("ChannelCapacity", capacity));
        let age = self.oldest_age().unwrap_or_default();
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let mut counts = vec![
            ("ChannelSize", self.len()),
            ("OldestEventAgeMs", age),
            ("EventPutAttemptCount", self.counters.put_attempts.get()),
            ("EventPutSuccessCount", self.counters.put_successes.get()),
            ("EventTakeAttemptCount", self.counters.take_attempts.get()),
            ("EventTakeSuccessCount", self.counters.take_successes.get()),
        ];
        counts.extend(capacity);
        counts.extend(self.own_counts());
        counts
    }
}

/// What has a size and does not only grow.
const GAUGES: &[&str] =
    &["ChannelSize", "ChannelCapacity", "OldestEventAgeMs", "OpenConnectionCount"];

/// The counters of all components that run.
#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<BTreeMap<String, Entry>>>);

struct Entry {
    counted: Arc<dyn Counted>,
    name: String,
    since_ms: u128,
}

impl Registry {
    /// Counts of a component of this name begin, in place of an earlier one's.
    pub(crate) fn add(&self, name: &str, counted: Arc<dyn Counted>) {
        let key = format!("{}.{name}", counted.role());
        let since =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let entry = Entry { counted, name: name.to_owned(), since_ms: since };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, entry);
    }

    /// Forgets components, unless their role and name are to be kept.
    pub(crate) fn keep(&self, is_kept: impl Fn(&str, &str) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, entry| is_kept(entry.counted.role(), &entry.name));
    }

    /// As Flume's HTTP reporter: numbers are texts.
    pub(crate) fn json(&self) -> Value {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = Map::new();
        for (key, entry) in all.iter() {
            let mut fields = Map::new();
            fields.insert("Type".to_owned(), json!(entry.counted.role()));
            fields.insert("StartTime".to_owned(), json!(entry.since_ms.to_string()));
            fields.insert("StopTime".to_owned(), json!("0"));
            let counts = entry.counted.counts();
            let value = |name| counts.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
            if let (Some(size), Some(capacity)) = (value("ChannelSize"), value("ChannelCapacity")) {
                let percentage = size as f64 * 100.0 / capacity.max(1) as f64;
                fields.insert("ChannelFillPercentage".to_owned(), json!(percentage.to_string()));
            }
            for (name, value) in counts {
                fields.insert(name.to_owned(), json!(value.to_string()));
            }
            page.insert(key.clone(), Value::Object(fields));
        }
        Value::Object(page)
    }

    /// For Prometheus, text 0.0.4.
    pub(crate) fn prometheus(&self) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut families: BTreeMap<String, (bool, String)> = BTreeMap::new();
        for entry in all.values() {
            let role = entry.counted.role().to_lowercase();
            for (count, value) in entry.counted.counts() {
                let is_gauge = GAUGES.contains(&count);
                let suffix = if is_gauge { "" } else { "_total" };
                let name = format!("logway_agent_{role}_{}{suffix}", snake(count));
                let (_, samples) =
                    families.entry(name.clone()).or_insert((is_gauge, String::new()));
                let label = entry.name.replace('\\', "\\\\").replace('"', "\\\"");
                let _ = writeln!(samples, "{name}{{component=\"{label}\"}} {value}");
            }
        }
        let family = |(name, (is_gauge, samples)): (String, (bool, String))| {
            let kind = if is_gauge { "gauge" } else { "counter" };
            format!("# TYPE {name} {kind}\n{samples}")
        };
        families.into_iter().map(family).collect()
    }
}

/// `EventReceivedCount` as `event_received`, and the channel's words without their own.
fn snake(name: &str) -> String {
    let name = name.strip_suffix("Count").unwrap_or(name);
    let name = name
        .strip_prefix("Channel")
        .filter(|rest| *rest == "Size" || *rest == "Capacity")
        .unwrap_or(name);
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_flumes_names_and_prometheus_names() {
        let registry = Registry::default();
        let source = Arc::new(SourceCounters::default());
        source.received.add(3);
        registry.add("r\"1", Arc::clone(&source) as Arc<dyn Counted>);
        assert_eq!(registry.json()["SOURCE.r\"1"]["EventReceivedCount"], json!("3"));
        let text = registry.prometheus();
        let line = "logway_agent_source_event_received_total{component=\"r\\\"1\"} 3\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("# TYPE logway_agent_source_open_connection gauge\n"), "{text}");
    }
}
