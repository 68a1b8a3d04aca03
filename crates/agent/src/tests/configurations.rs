//! Configurations: what is taken, what is refused, and in which words.

use super::{flume, toml};
use crate::config::{AgentConfig, ConfigFile};
use crate::error::AgentError;
use crate::source::listener::above_descriptors;

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
fn the_tree_shows_which_events_go_where() {
    let more = "a.sources.r.selector.type = multiplexing\na.sources.r.selector.header = level\n\
        a.sources.r.selector.mapping.warn = c d\na.sources.r.selector.optional.info = d\n\
        a.sources.r.selector.default = c\na.sinks.k.dead-letter = d\n";
    let tree = flume(&format!("{SOUND}{more}")).expect("makes sense").tree();
    let expected = "agent a\n├─ source r (seq)\n│    to c, d (multiplexing)\n│      level = warn: c, d\n\
        │      level = info, optional: d\n│      others: c\n├─ channel c (memory)\n\
        │    to sink k (null, group g (default)), dead letters to d\n├─ channel d (memory)\n│    to sink l (logger)\n";
    assert_eq!(tree, expected);
}

#[test]
fn what_is_in_another_form_is_told_how_it_is_given() {
    let found = problems(toml(SOUND));
    let hint =
        "this is no TOML, but Flume's form; it is given with --flume-conf agent.toml --name a";
    assert_eq!(found, [format!("agent.toml: {hint}")]);
    assert!(flume(&format!("\u{feff}{SOUND}")).is_ok());
    assert!(
        toml(
            "\u{feff}[sources.r]\ntype = 'seq'\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n"
        )
        .is_ok()
    );
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
            "flume.conf:8: sink k: what cannot be delivered would come round again: channel c, sink k, channel c",
        ),
        (
            "a.sinks.k.dead-letter = d\na.sinks.l.dead-letter = c",
            "flume.conf:8: sink k: what cannot be delivered would come round again: channel c, sink k, channel d, sink l, channel c",
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
            "flume.conf:14: source r: totalEvents has a '${' and no 'env:NAME}' behind it; '$${' stands for a '${' of the value itself",
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
    // Each round is told once, and dead letters of dead letters are no round.
    let round = "a.sinks.k.dead-letter = d\na.sinks.l.dead-letter = c";
    assert_eq!(problems(flume(&format!("{SOUND}{round}\n"))).len(), 1);
    assert!(flume(&format!("{SOUND}a.sinks.k.dead-letter = d\n")).is_ok());
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

#[test]
fn two_that_would_have_one_place_are_refused() {
    let taildir = |name: &str, more: &str| {
        format!(
            "[sources.{name}]\ntype = 'taildir'\nchannels = ['c']\nfilegroups.g = '/l/{name}'\n{more}\n"
        )
    };
    let file = |name: &str, more: &str| format!("[channels.{name}]\ntype = 'file'\n{more}\n");
    let sink = "[sinks.k]\ntype = 'null'\nchannel = 'c'\n";
    let text = format!(
        "{}{}{}{}{}{sink}",
        taildir("a", ""),
        taildir("b", "positionFile = '/p'"),
        taildir("x", "positionFile = '/p'"),
        file("c", "dataDirs = '/d'"),
        file("d", "dataDirs = '/e'"),
    );
    let found = problems(toml(&text));
    assert_eq!(found, ["agent.toml:15: source x: positionFile is /p, which source b has already"]);
    let text = format!(
        "[sources.r]\ntype = 'seq'\nchannels = ['c', 'c']\n{}{}{}{sink}",
        file("c", ""),
        file("d", ""),
        "[channels.e]\ntype = 'spillablememory'\n"
    );
    let found = problems(toml(&text));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert_eq!(found[0], "agent.toml:3: source r: channel 'c' is there twice");
    assert!(found[1].starts_with("agent.toml:8: channel d: dataDirs is /"), "{found:#?}");
    assert!(found[1].ends_with("data, its default, which channel c has already"), "{found:#?}");
    assert!(found[2].starts_with("agent.toml:11: channel e: dataDirs is /"), "{found:#?}");
    // One that does not overflow has no files.
    let text = text.replace("'c', 'c'", "'c'").replace(
        "[channels.d]\ntype = 'file'",
        "[channels.d]\ntype = 'spillablememory'\noverflowCapacity = 0",
    );
    let text = text.replace("[channels.e]", "[channels.e]\noverflowCapacity = 0");
    assert!(toml(&text).is_ok());
}

#[test]
fn channels_that_nobody_empties_are_told() {
    let text = "[sources.r]\ntype = 'seq'\nchannels = ['c', 'd', 't']\n[channels.c]\ntype = 'memory'\n\
        [channels.d]\ntype = 'memory'\n[channels.e]\ntype = 'memory'\n[channels.f]\ntype = 'memory'\n\
        [channels.t]\ntype = 'kafka'\n'kafka.bootstrap.servers' = 'a:1'\n\
        [sinks.k]\ntype = 'null'\nchannel = 'c'\ndead-letter = 'e'\n";
    let config = toml(text).expect("makes sense");
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "agent.toml:7: channel d: no sink takes what source r puts into it: it will be full",
            "agent.toml:9: channel e: no sink takes the dead letters of sink k: it will be full",
            "agent.toml:11: channel f: neither a source nor a sink has it",
        ]
    );
}

/// In a runtime, as sinks are made in one.
#[tokio::test]
async fn what_components_would_refuse_is_known_before_a_start() {
    let folder = tempfile::tempdir().expect("is made");
    let check = |source: &str, sink: &str| {
        let text = format!(
            "[sources.r]\nchannels = ['c']\n{source}\n[channels.c]\ntype = 'memory'\ncapacity = 10000\n\
             transactionCapacity = 10000\n[sinks.k]\nchannel = 'c'\n{sink}\n"
        );
        ConfigFile::Toml("agent.toml".into()).check(&text)
    };
    let seq = "type = 'seq'";
    let null = "type = 'null'";
    let loki = |more: &str| format!("type = 'loki'\nlabels.a = 'b'\n{more}");
    let groups = |pattern: &str| format!("type = 'taildir'\nfilegroups.a = '{pattern}'");
    for (source, sink, words) in [
        (seq, &*loki("endpoint = 'ftp://x'"), "sink k: endpoint is not taken: 'ftp://x'"),
        (seq, &loki("endpoint = 'http://x'\n'header.a b' = 'c'"), "header.a b"),
        (seq, "type = 'hdfs'\n'hdfs.path' = 'file:///tmp/x'", "not of HDFS"),
        (seq, "type = 'object_store'\nurl = 'ftp://x'", "begins neither with s3://"),
        (seq, "type = 'object_store'\nurl = 'https://a:SECRET@b/'", "url has an '@'"),
        (seq, "type = 'object_store'\nurl = 's3://a:SECRET@b/'", "url has an '@'"),
        (
            "type = 'object_store'\nurl = 'https://a:SECRET@b/'\npositionFile = '/tmp/none'",
            null,
            "url has an '@'",
        ),
        (seq, "type = 'kafka'\n'kafka.bootstrap.servers' = 'a:SECRET@b:x'", "servers has an '@'"),
        (
            &groups("/var/log/*.log"),
            null,
            "agent.toml:2: source r cannot start: filegroups.a ends in",
        ),
        (&groups("log/a"), null, "has to be absolute"),
    ] {
        let found = problems(check(source, sink));
        assert!(found.len() == 1 && found[0].contains(words), "{source} {sink}\n{found:#?}");
        assert!(!found[0].contains("SECRET"), "{found:#?}");
    }
    let there = format!("type = 'file_roll'\n'sink.directory' = '{}'", folder.path().display());
    assert!(check(&groups(r"/var/log/.*\.log"), &there).expect("makes sense").warnings.is_empty());
    // Where it is checked may not be where it is to run.
    let missing = "ssl = true\ntruststore = '/no/such/file.pem'";
    let avro = format!("type = 'avro'\nhostname = 'h'\nport = 1\n{missing}");
    for sink in ["type = 'file_roll'\n'sink.directory' = '/no/such/directory'", &avro] {
        let config = check(seq, sink).expect("makes sense");
        let warning = config.warnings[0].to_string();
        assert!(
            warning.contains("sink k cannot start: ") && warning.contains("/no/such/"),
            "{warning}"
        );
    }
}

/// `PATH` is in every environment; what is behind `:-` is for one that has no such name.
#[test]
fn the_environment_is_in_all_values() {
    let text = SOUND
        .replace("a.sinks = k l", "a.sinks = ${env:NO_SUCH_SINKS:-k l}")
        .replace("a.sources.r.type = Seq", "a.sources.r.type = ${env:NO_SUCH_TYPE:-seq}")
        .replace(
            "a.sources.r.channels = c d",
            "a.sources.r.channels = ${env:NO_SUCH_CHANNELS:-c d}",
        )
        .replace("a.sinks.k.channel = c", "a.sinks.k.channel = ${env:NO_SUCH_CHANNEL:-c}");
    assert_ne!(text, SOUND);
    let config = flume(&text).expect("makes sense");
    assert_eq!(config.tree(), flume(SOUND).expect("makes sense").tree());
    let literal = "a.sources.r.interceptors = i\na.sources.r.interceptors.i.type = static\n\
        a.sources.r.interceptors.i.key = $${env:PATH}\n";
    let config = flume(&format!("{SOUND}{literal}")).expect("makes sense");
    assert_eq!(config.sources[0].interceptors[0].text("key"), Some("${env:PATH}"));
    let found = problems(flume(&format!("{SOUND}a.sources.r.type = ${{SECRET}}\n")));
    assert!(found.iter().all(|line| !line.contains("SECRET")), "{found:?}");
    // Nobody asks what is not run.
    assert!(flume(&format!("{SOUND}a.sinks.spare.type = ${{sys:x}}\n")).is_ok());
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

/// With all of them open, a source could accept nothing because of its neighbour.
#[test]
fn connections_that_could_take_all_descriptors_are_told_of() {
    let netcat = |name: &str| {
        format!("[sources.{name}]\ntype = 'netcat'\nbind = 'b'\nport = 1\nchannels = ['c']\n")
    };
    let seq = "[sources.s]\ntype = 'seq'\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n";
    let two = toml(&format!("{}{}{seq}", netcat("n"), netcat("m"))).expect("makes sense");
    let told = above_descriptors(&two.sources, 2048).expect("are too many");
    assert!(told.contains("2048 connections") && told.contains("2048 open files"), "{told}");
    assert_eq!(above_descriptors(&two.sources, 4096), None);
    assert_eq!(above_descriptors(&toml(seq).expect("makes sense").sources, 0), None);
}
