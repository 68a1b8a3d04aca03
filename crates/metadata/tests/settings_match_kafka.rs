//! The tables of settings against what Apache Kafka 4.3 says of its own.

use std::collections::BTreeMap;

use logway_metadata::settings::broker::{broker_settings, topic_setting_of_default};
use logway_metadata::settings::client_metrics::CLIENT_METRICS_SETTINGS;
use logway_metadata::settings::group::GROUP_SETTINGS;
use logway_metadata::settings::topic::{TOPIC_SETTINGS, topic_setting};
use logway_metadata::settings::{Effect, Setting};

const TOPIC_CONFIGS: &str = include_str!("data/kafka-4.3-topic-configs.tsv");
const BROKER_CONFIGS: &str = include_str!("data/kafka-4.3-broker-configs.tsv");
const GROUP_CONFIGS: &str = include_str!("data/kafka-4.3-group-configs.tsv");
const SYNONYMS: &str = include_str!("data/kafka-4.3-synonyms.tsv");
const VALUES: &str = include_str!("data/kafka-4.3-topic-values.tsv");

/// Defaults that differ on purpose; the documentation says why.
const OTHER_DEFAULTS: &[&str] = &[
    // Acknowledged means on disk.
    "flush.messages",
    "log.flush.interval.messages",
    // It can be tried without any flag, on the machine itself only.
    "listeners",
    "log.dirs",
    "node.id",
    // A dead broker is noticed within a second.
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    // A node that was started again leads again, before the next one is stopped.
    "leader.imbalance.check.interval.seconds",
    // Bounds for a small machine, where Kafka has none.
    "group.max.size",
    "group.consumer.max.size",
    "group.streams.max.size",
    "max.connections",
    "queued.max.request.bytes",
    // A client that has not said who it is gets little.
    "sasl.server.max.receive.size",
    // As many replicas as other topics have, which are three where there are three brokers.
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    // There is no GSSAPI.
    "sasl.enabled.mechanisms",
    // Keys and certificates are PEM files.
    "ssl.keystore.type",
    "ssl.truststore.type",
];

/// Types that differ on purpose: a text that is a list of one, files that may be several, and numbers of 16 bits.
const OTHER_TYPES: &[&str] = &[
    "broker.rack",
    "ssl.keystore.location",
    "ssl.truststore.location",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
];

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

fn default_text(setting: &Setting) -> &'static str {
    match setting.default {
        None => "(none)",
        Some("") => "(empty)",
        Some(text) => text,
    }
}

fn check_rows(ours: &BTreeMap<&str, &Setting>, kafkas: &'static str) {
    for row in rows(kafkas) {
        let [name, kind, default] = row[..] else { panic!("{row:?}") };
        let setting = ours.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        if !OTHER_TYPES.contains(&name) {
            assert_eq!(setting.kind.type_name(), kind, "{name}");
        }
        let differs = default_text(setting) != default;
        assert_eq!(differs, OTHER_DEFAULTS.contains(&name), "{name}: Kafka's default is {default}");
    }
}

#[test]
fn topic_settings_are_kafkas() {
    let ours: BTreeMap<&str, &Setting> = TOPIC_SETTINGS.iter().map(|s| (s.name, s)).collect();
    assert!(ours.keys().copied().eq(rows(TOPIC_CONFIGS).map(|row| row[0])));
    check_rows(&ours, TOPIC_CONFIGS);
}

#[test]
fn broker_settings_are_kafkas_or_marked_as_ours() {
    let ours: BTreeMap<&str, &Setting> = broker_settings().iter().map(|s| (s.name, s)).collect();
    let shared = ours.keys().copied().filter(|name| {
        !["logway.", "kinesis.", "logservice."].iter().any(|own| name.starts_with(own))
    });
    assert!(shared.eq(rows(BROKER_CONFIGS).map(|row| row[0])));
    check_rows(&ours, BROKER_CONFIGS);
}

#[test]
fn settings_of_groups_and_subscriptions_are_kafkas() {
    let tables = GROUP_SETTINGS.iter().chain(CLIENT_METRICS_SETTINGS);
    assert!(tables.clone().map(|setting| setting.name).eq(rows(GROUP_CONFIGS).map(|row| row[0])));
    check_rows(&tables.map(|setting| (setting.name, setting)).collect(), GROUP_CONFIGS);
}

#[test]
fn synonyms_are_kafkas() {
    let ours =
        TOPIC_SETTINGS.iter().filter(|setting| !setting.synonyms.is_empty()).map(|setting| {
            let synonyms = setting.synonyms.iter().map(|synonym| synonym.name);
            std::iter::once(setting.name).chain(synonyms).collect::<Vec<_>>()
        });
    assert!(ours.eq(rows(SYNONYMS)));
}

#[test]
fn values_are_taken_and_refused_as_by_kafka() {
    for row in rows(VALUES) {
        let [verdict, name, value] = row[..] else { panic!("{row:?}") };
        let ours = topic_setting(name).and_then(|setting| setting.parse(value));
        let stricter = match (name, value) {
            ("retention.bytes", "-2") | ("min.cleanable.dirty.ratio", "NaN") => true,
            _ => topic_setting(name).is_ok_and(|s| matches!(s.effect, Effect::DefaultOnly(_))),
        };
        if verdict == "refused" {
            assert!(ours.is_err(), "{name}={value}: Kafka refuses it, we read {ours:?}");
        } else if !stricter {
            assert!(ours.is_ok(), "{name}={value}: Kafka takes it, we say {ours:?}");
        }
    }
}

#[test]
fn a_default_in_another_unit_is_the_topics_default() {
    for setting in broker_settings() {
        let Some((topic, synonym)) = topic_setting_of_default(setting.name) else { continue };
        let Some(default) = synonym.default else { continue };
        let default: i128 = default.parse().expect("is a number");
        let own: i128 = topic.default.expect("there is one").parse().expect("is a number");
        assert_eq!(default * i128::from(synonym.factor), own, "{}", setting.name);
    }
}

#[test]
fn names_are_sorted_and_given_once() {
    assert!(TOPIC_SETTINGS.is_sorted_by(|a, b| a.name < b.name));
    assert!(broker_settings().is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn canonical_values_read_back_as_themselves() {
    for setting in TOPIC_SETTINGS.iter().chain(broker_settings()) {
        let Some(default) = setting.default_value() else { continue };
        assert_eq!(setting.parse(&default.to_string()).as_ref(), Ok(&default), "{}", setting.name);
    }
}
