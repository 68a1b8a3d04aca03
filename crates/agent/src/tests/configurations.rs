//! Configurations: what is taken, what is refused, and in which words.

use super::{flume, toml};
use crate::config::{AgentConfig, ConfigFile};
use crate::error::AgentError;

fn problems(parsed: Result<AgentConfig, AgentError>) -> Vec<String> {
    match parsed {
        Ok(config) => panic!("taken:\n{}", config.tree()),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

const SOUND: &str = "a.sources = r\na.channels = c d\na.sinks = k l\na.sources.r.type = Seq\na.sources.r.channels = c d\n\
    a.channels.c.type = org.apache.flume.channel.MemoryChannel\na.channels.d.type = MEMORY\na.sinks.k.type = null\n\
    a.sinks.k.channel = c\na.sinks.l.type = logger\na.sinks.l.channel = d\na.sinkgroups = g\na.sinkgroups.g.sinks = k\n";

#[test]
fn a_sound_one_is_shown_as_a_tree() {
    let config = flume(SOUND).expect("makes sense");
    let expected = "agent a\n├─ source r (seq)\n│    to c, d (replicating)\n├─ channel c (memory)\n\
        │    to sink k (null, group g (default))\n├─ channel d (memory)\n│    to sink l (logger)\n";
    assert_eq!(config.tree(), expected);
    assert!(config.warnings.is_empty());
}

#[test]
fn what_is_not_listed_is_not_run_and_said() {
    let config = flume(&format!("{SOUND}a.sinks.spare.type = null\n")).expect("makes sense");
    assert_eq!(config.warnings.len(), 1);
    let warning = config.warnings[0].to_string();
    assert_eq!(warning, "flume.conf:14: sinks.spare is not in the list of sinks, and not run");
}

#[test]
fn each_mistake_is_named_with_its_line() {
    for (more, expected) in [
        (
            "a.sources.r.totalEvnts = 5",
            "flume.conf:14: source r (seq) has no key 'totalEvnts'; the nearest is 'totalEvents'",
        ),
        (
            "a.sources.r.type = sec",
            "flume.conf:14: source r: 'sec' is no source that is known; the nearest is 'seq'",
        ),
        (
            "a.sources.r.totalEvents = many",
            "flume.conf:14: source r: totalEvents is 'many', and not a number (events) from 0 to 9223372036854775807",
        ),
        ("a.sources.r.totalEvents =", "flume.conf:14: source r: totalEvents is empty"),
        (
            "a.sources.r.channels = c e",
            "flume.conf:14: source r: there is no channel 'e'; the nearest is 'c'",
        ),
        ("a.sinks.k.channel = x", "flume.conf:14: sink k: there is no channel 'x'"),
        (
            "a.sinks.k.dead-letter = c",
            "flume.conf:8: sink k: what cannot be delivered would come round again",
        ),
        (
            "a.sinkgroups.g.sinks = k l",
            "flume.conf:14: sink group g: the default processor takes one sink, and there are 2",
        ),
        ("a.sinkgroups.g.sinks = m", "flume.conf:14: sink group g: there is no sink 'm'"),
        (
            "a.sink.k.type = null",
            "flume.conf:14: an agent has no 'sink' here; the nearest is 'sinks'",
        ),
        (
            "a.channels.c.capacity = 50",
            "flume.conf:6: channel c: transactionCapacity 100 is above capacity 50",
        ),
        (
            "a.sources.r.batchSize = 101",
            "flume.conf:14: source r: batchSize is 101, above the transactionCapacity of channel c, which is 100",
        ),
        (
            "a.sinks.k.type = file_roll\na.sinks.k.sink.directory = /\na.sinks.k.sink.batchSize = 101",
            "flume.conf:16: sink k: sink.batchSize is 101, above the transactionCapacity of channel c, which is 100",
        ),
        (
            "a.sources.r.totalEvents = ${sys:x}",
            "flume.conf:14: source r: totalEvents refers to '${sys:x}': only ${env:NAME} is known here",
        ),
        (
            "a.sources.r.interceptors = i\na.sources.r.interceptors.i.type = static\na.sources.r.interceptors.i.kye = a",
            "flume.conf:16: source r, interceptor i (static) has no key 'kye'; the nearest is 'key'",
        ),
        (
            "a.sources.r.selector.type = multiplexing\na.sources.r.selector.mapping.x = e",
            "flume.conf:15: source r, selector: there is no channel 'e'; the nearest is 'c'",
        ),
    ] {
        let found = problems(flume(&format!("{SOUND}{more}\n")));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{more}\n{found:#?}");
    }
    let found = problems(flume("b.sources = r\n"));
    assert_eq!(found, ["flume.conf: there is no agent 'a'; it has 'b'"]);
    let found = problems(flume(
        "a.sources = r\na.channels = c\na.sources.r.type = netcat\na.sources.r.channels = c\na.channels.c.type = memory\n",
    ));
    assert_eq!(
        found,
        [
            "flume.conf:3: source r (netcat) needs 'bind'",
            "flume.conf:3: source r (netcat) needs 'port'"
        ]
    );
}

#[test]
fn our_form_takes_other_spellings_and_has_lists() {
    let config = toml(
        "name = 'x'\n[sources.r]\ntype = 'seq'\nchannels = ['c']\nbatch-size = 5\n[sources.r.selector]\nheader = 'h'\n\
         type = 'multiplexing'\ndefault = ['c']\nmapping.a = ['c']\n[[sources.r.interceptors]]\ntype = 'host'\n\
         [channels.c]\ntype = 'memory'\ntransaction-capacity = 20\n",
    )
    .expect("makes sense");
    assert_eq!(config.name, "x");
    assert_eq!(config.sources[0].settings.number("batchSize"), 5);
    assert_eq!(config.sources[0].interceptors.len(), 1);
    let found = problems(toml(
        "[sources.r]\ntype = 'seq'\nchannels = ['c']\nbatch = 1\n[channels.c]\ntype = 'memory'\n",
    ));
    assert_eq!(
        found,
        ["agent.toml:4: source r (seq) has no key 'batch'; the nearest is 'batchSize'"]
    );
}

/// Flume's form in a broker's process: who names no brokers speaks to that one, and who names some to those.
#[test]
fn flumes_form_in_a_brokers_process_needs_no_brokers() {
    let text = "a.sources = r\na.channels = c\na.sinks = k\na.sources.r.type = seq\na.sources.r.channels = c\n\
        a.channels.c.type = memory\na.sinks.k.type = org.apache.flume.sink.kafka.KafkaSink\na.sinks.k.channel = c\n";
    assert!(problems(flume(text))[0].contains("needs 'kafka.bootstrap.servers'"));
    let file = ConfigFile::InBroker {
        path: "flume.conf".into(),
        flume_name: Some("a".to_owned()),
        broker: "127.0.0.1:9092".to_owned(),
    };
    let brokers = |text: &str| {
        let config = file.parse(text).expect("makes sense");
        config.sinks[0].settings.required("kafka.bootstrap.servers").to_owned()
    };
    assert_eq!(brokers(text), "127.0.0.1:9092");
    let named = format!("{text}a.sinks.k.kafka.bootstrap.servers = other:9092\n");
    assert_eq!(brokers(&named), "other:9092");
}

#[test]
fn what_would_come_round_between_topics_is_warned_of() {
    let warnings = |of_source: &str, of_sink: &str| {
        let text = format!(
            "[sources.r]\ntype = 'kafka'\nchannels = ['c']\n'kafka.topics' = 'in'\n\
             'kafka.bootstrap.servers' = 'a:9092, b:9092'\n{of_source}\n[channels.c]\ntype = 'memory'\n\
             transactionCapacity = 1000\ncapacity = 1000\n\
             [sinks.k]\ntype = 'kafka'\nchannel = 'c'\n'kafka.topic' = 'out'\n{of_sink}\n"
        );
        let config = toml(&text).expect("makes sense");
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let same = "'kafka.bootstrap.servers' = 'b:9092'";
    let found = warnings("", same);
    let expected =
        "agent.toml:15: sink k: events go back into the topics that source r has them from";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    for (of_source, of_sink) in [
        ("setTopicHeader = false", same),
        ("topicHeader = 'from'", same),
        ("[[sources.r.interceptors]]\ntype = 'remove_header'\nwithName = 'topic'", same),
        ("", "'kafka.bootstrap.servers' = 'b:9092'\nallowTopicOverride = false"),
        ("", "'kafka.bootstrap.servers' = 'b:9092'\nallowTopicOverride = true"),
        ("", "'kafka.bootstrap.servers' = 'c:9092'"),
    ] {
        assert_eq!(warnings(of_source, of_sink), [] as [&str; 0], "{of_source} {of_sink}");
    }
}
