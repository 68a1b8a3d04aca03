//! Every component that there is: its declaration, and how it begins.

use crate::declaration::{Declaration, Role};
use crate::settings::Settings;
use crate::sink::MakeSink;
use crate::source::StartSource;
use crate::{channel, interceptor, processor, selector, sink, source};

/// Sources.
const SOURCES: &[(&Declaration, StartSource)] = &[
    (&source::avro::DECLARATION, source::avro::start),
    (&source::thrift::DECLARATION, source::thrift::start),
    (&source::netcat::TCP, source::netcat::start_tcp),
    (&source::netcat::UDP, source::netcat::start_udp),
    (&source::syslog_tcp::ONE, source::syslog_tcp::start_one),
    (&source::syslog_tcp::MANY, source::syslog_tcp::start_many),
    (&source::syslog_udp::DECLARATION, source::syslog_udp::start),
    (&source::http::DECLARATION, source::http::start),
    (&source::otlp::DECLARATION, source::otlp::start),
    (&source::forward::DECLARATION, source::forward::start),
    (&source::exec::DECLARATION, source::exec::start),
    (&source::journald::DECLARATION, source::journald::start),
    (&source::spooldir::DECLARATION, source::spooldir::start),
    (&source::taildir::DECLARATION, source::taildir::start),
    (&source::object_store::DECLARATION, source::object_store::start),
    (&source::kafka::DECLARATION, source::kafka::start),
    (&source::generated::SEQ, source::generated::start_seq),
    (&source::generated::STRESS, source::generated::start_stress),
];

/// Sinks.
const SINKS: &[(&Declaration, MakeSink)] = &[
    (&sink::avro::DECLARATION, sink::avro::make),
    (&sink::thrift::DECLARATION, sink::thrift::make),
    (&sink::kafka::DECLARATION, sink::kafka::make),
    (&sink::file_roll::DECLARATION, sink::file_roll::make),
    (&sink::hdfs::DECLARATION, sink::hdfs::make),
    (&sink::http::DECLARATION, sink::http::make),
    (&sink::elasticsearch::DECLARATION, sink::elasticsearch::make),
    (&sink::loki::DECLARATION, sink::loki::make),
    (&sink::otlp::DECLARATION, sink::otlp::make),
    (&sink::object_store::DECLARATION, sink::object_store::make),
    (&sink::plain::LOGGER, sink::plain::make_logger),
    (&sink::plain::NULL, sink::plain::make_null),
];

/// What has no start of its own here.
const OTHERS: &[&Declaration] = &[
    &channel::memory::DECLARATION,
    &channel::file::DECLARATION,
    &channel::spillable::DECLARATION,
    &channel::topic::KAFKA,
    &channel::topic::LOGWAY,
    &interceptor::TIMESTAMP,
    &interceptor::HOST,
    &interceptor::STATIC,
    &interceptor::REGEX_FILTER,
    &interceptor::REGEX_EXTRACTOR,
    &interceptor::REMOVE_HEADER,
    &interceptor::UUID,
    &interceptor::SEARCH_REPLACE,
    &interceptor::EXPRESSION,
    &selector::REPLICATING,
    &selector::MULTIPLEXING,
    &processor::DEFAULT,
    &processor::FAILOVER,
    &processor::LOAD_BALANCE,
];

/// Keys that say how many events are put or taken at once.
const BATCH_KEYS: &[&str] =
    &["batchSize", "batch-size", "flumeBatchSize", "sink.batchSize", "hdfs.batchSize"];

/// All declarations.
pub(crate) fn all() -> impl Iterator<Item = &'static Declaration> + Clone {
    let sources = SOURCES.iter().map(|(declaration, _)| *declaration);
    let sinks = SINKS.iter().map(|(declaration, _)| *declaration);
    sources
        .chain(OTHERS.iter().copied().filter(|other| other.role == Role::Channel))
        .chain(sinks)
        .chain(OTHERS.iter().copied().filter(|other| other.role != Role::Channel))
}

/// The one that a `type` names.
pub(crate) fn find(role: Role, name: &str) -> Option<&'static Declaration> {
    all().find(|known| known.role == role && known.is_called(name.trim()))
}

/// How many events a component puts or takes at once, and the key that says so: of several the one that has a value.
pub(crate) fn batch(settings: &Settings) -> Option<(&'static str, u64)> {
    let is_declared = |name: &str| settings.declaration.all_keys().any(|key| key.name == name);
    let mut declared = BATCH_KEYS.iter().copied().filter(|name| is_declared(name));
    declared.find_map(|name| Some((name, settings.limit(name)?)))
}

/// How a source begins.
pub(crate) fn source_start(declaration: &Declaration) -> StartSource {
    let found = SOURCES.iter().find(|(known, _)| known.name == declaration.name);
    found.expect("declarations of sources come from here").1
}

/// How a sink is made.
pub(crate) fn sink_maker(declaration: &Declaration) -> MakeSink {
    let found = SINKS.iter().find(|(known, _)| known.name == declaration.name);
    found.expect("declarations of sinks come from here").1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declaration::{Fallback, Kind};

    #[test]
    fn names_are_unique_and_defaults_are_sound() {
        let mut names = std::collections::BTreeSet::new();
        for declaration in all() {
            for name in declaration.aliases.iter().chain([&declaration.name]) {
                let name = name.to_lowercase();
                assert!(names.insert((declaration.role, name.clone())), "{name} is there twice");
            }
            let mut keys = std::collections::BTreeSet::new();
            for key in declaration.all_keys() {
                assert!(keys.insert(key.name), "{}: {} is there twice", declaration.name, key.name);
                if let Fallback::Is(value) = key.fallback {
                    let checked = key.kind.check(value);
                    assert_eq!(checked, Ok(()), "{}: {}", declaration.name, key.name);
                    assert!(
                        !matches!(key.kind, Kind::Ignored(_)),
                        "{}: {}",
                        declaration.name,
                        key.name
                    );
                }
            }
        }
    }
}
