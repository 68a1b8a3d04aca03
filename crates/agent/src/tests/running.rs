//! Whole agents, in this process.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};

use super::toml;
use crate::agent::RunningAgent;
use crate::config::{AgentConfig, ConfigFile};
use crate::counters::Registry;
use crate::event::Event;
use crate::interceptor::Interceptor;
use crate::supervisor::{Reloaded, RunOptions, reload, run};

pub(super) fn count(registry: &Registry, component: &str, counter: &str) -> u64 {
    let json = registry.json();
    let text = json[component][counter]
        .as_str()
        .unwrap_or_else(|| panic!("{component} {counter}: {json}"));
    text.parse().expect("is a number")
}

pub(super) async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Puts a configuration in force, and nobody ends the agent meanwhile.
async fn change(agent: &mut RunningAgent, config: AgentConfig) {
    let reloaded = reload(agent, config, pin!(std::future::pending())).await;
    assert_eq!(reloaded, Reloaded::RunsOn);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expression_sets_headers_and_takes_events_out() {
    let text = "[sources.r]\ntype = 'seq'\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n\
                [[sources.r.interceptors]]\ntype = 'expression'\nkeep = \"value.level in ['warn', 'error'] && headers.from == 'a'\"\n\
                [sources.r.interceptors.set]\nuser = 'value.user.name'\nstatus = 'value.status'\nfrom = \"'b'\"\nnone = 'value.none'\n";
    let config = toml(text).expect("makes sense");
    let interceptor = Interceptor::new(&config.sources[0].interceptors[0]).expect("is made");
    let event = |body: &'static str, from: &str| {
        let mut event = Event::new(body);
        event.headers.set("from", from);
        event
    };
    let events = interceptor.intercept(vec![
        event(r#"{"level": "warn", "user": {"name": "Ann"}, "status": 503, "none": null}"#, "a"),
        event(r#"{"level": "error"}"#, "a"),
        event(r#"{"level": "error"}"#, "x"),
        event(r#"{"level": "info"}"#, "a"),
        event("no JSON", "a"),
    ]);
    let headers: Vec<Vec<(&str, &str)>> =
        events.iter().map(|event| event.headers.iter().collect()).collect();
    // Settings are in the order of their names.
    assert_eq!(
        headers,
        [vec![("from", "b"), ("status", "503"), ("user", "Ann")], vec![("from", "b")]]
    );
    let text = "[sources.r]\ntype = 'seq'\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n\
                [[sources.r.interceptors]]\ntype = 'expression'\nbody = 'value.message'\n\
                [sources.r.interceptors.set]\nlevel = 'value.level'\n";
    let config = toml(text).expect("makes sense");
    let interceptor = Interceptor::new(&config.sources[0].interceptors[0]).expect("is made");
    let lines =
        [r#"{"level": "warn", "message": "hot"}"#, r#"{"message": {"a": 1}}"#, "{}", "no JSON"];
    let events = interceptor.intercept(lines.map(Event::new).to_vec());
    let bodies: Vec<&[u8]> = events.iter().map(|event| &event.body[..]).collect();
    assert_eq!(bodies, [&b"hot"[..], br#"{"a":1}"#, b"{}", b"no JSON"]);
    assert_eq!(events[0].headers.get("level"), Some("warn"));
    for wrong in ["keep = 'value.level =='", "set.a = 'nothing'", ""] {
        let text = format!(
            "[sources.r]\ntype = 'seq'\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n\
             [[sources.r.interceptors]]\ntype = 'expression'\n{wrong}\n"
        );
        let made = toml(&text).map_err(|error| error.to_string());
        let made = made.and_then(|config| Interceptor::new(&config.sources[0].interceptors[0]));
        let error = made.expect_err("is wrong");
        assert!(error.contains(if wrong.is_empty() { "neither" } else { "at byte" }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_routed_by_their_headers_and_each_arrives_once() {
    let folder = tempfile::tempdir().expect("is made");
    let (odd, even) = (folder.path().join("odd"), folder.path().join("even"));
    std::fs::create_dir(&odd).expect("is made");
    std::fs::create_dir(&even).expect("is made");
    let text = format!(
        "[sources.r]\ntype = 'seq'\ntotalEvents = 1000\nbatchSize = 10\nchannels = ['o', 'e']\n\
         [[sources.r.interceptors]]\ntype = 'regex_extractor'\nregex = '([0-9])$'\n\
         [sources.r.interceptors.serializers.s]\nname = 'last'\n\
         [[sources.r.interceptors]]\ntype = 'regex_filter'\nregex = '^99'\nexcludeEvents = true\n\
         [sources.r.selector]\ntype = 'multiplexing'\nheader = 'last'\ndefault = 'o'\nmapping.0 = 'e'\nmapping.2 = 'e'\n\
         mapping.4 = 'e'\nmapping.6 = 'e'\n\
         [channels.o]\ntype = 'memory'\n[channels.e]\ntype = 'file'\ndataDirs = '{}'\nminimumRequiredSpace = 1048576\n\
         [sinks.o]\ntype = 'file_roll'\nchannel = 'o'\n'sink.directory' = '{}'\n\
         [sinks.e]\ntype = 'file_roll'\nchannel = 'e'\n'sink.directory' = '{}'\n'sink.serializer' = 'JSON'\n",
        folder.path().join("channel").display(),
        odd.display(),
        even.display()
    );
    let registry = Registry::default();
    let config = toml(&text).expect("makes sense");
    let agent = RunningAgent::start(config, &registry).await.expect("starts");
    // 990 to 999, and 99, are filtered out.
    wait_for("all events", || {
        count(&registry, "SINK.o", "EventDrainSuccessCount")
            + count(&registry, "SINK.e", "EventDrainSuccessCount")
            == 989
    })
    .await;
    assert_eq!(count(&registry, "SOURCE.r", "EventInterceptedCount"), 11);
    let channels = agent.end_sinks().await;
    for (_, (_, channel)) in channels {
        assert_eq!(channel.len(), 0);
        channel.close().await;
    }
    let lines = |folder: &std::path::Path| -> Vec<String> {
        let files =
            std::fs::read_dir(folder).expect("is there").map(|file| file.expect("is there").path());
        files
            .flat_map(|file| {
                std::fs::read_to_string(file)
                    .expect("is text")
                    .lines()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect()
    };
    let is_even = |number: &u32| matches!(number % 10, 0 | 2 | 4 | 6);
    let all = (0..990).filter(|number| *number != 99);
    let (evens, odds): (Vec<u32>, Vec<u32>) = all.partition(is_even);
    let mut found: Vec<u32> =
        lines(&odd).iter().map(|line| line.parse().expect("is a number")).collect();
    found.sort();
    assert_eq!(found, odds);
    assert_eq!(lines(&even).len(), evens.len());
    assert_eq!(lines(&even)[0], r#"{"body":"0","headers":{"last":"0"}}"#);
}

/// The source puts its events by tens, so that a sink which takes ten at once never finds fewer.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_roll_sink_takes_as_many_events_at_once_as_it_was_told() {
    let folder = tempfile::tempdir().expect("is made");
    let text = format!(
        "[sources.r]\ntype = 'seq'\ntotalEvents = 30\nbatchSize = 10\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n\
         [sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{}'\n'sink.batchSize' = 10\n",
        folder.path().display()
    );
    let registry = Registry::default();
    let config = toml(&text).expect("makes sense");
    let agent = RunningAgent::start(config, &registry).await.expect("starts");
    wait_for("all events", || count(&registry, "SINK.k", "EventDrainSuccessCount") == 30).await;
    assert_eq!(count(&registry, "SINK.k", "BatchCompleteCount"), 3);
    assert_eq!(count(&registry, "SINK.k", "BatchUnderflowCount"), 0);
    agent.end_sinks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why_and_leaves_nothing_open() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = taken.local_addr().expect("has one").port();
    let folder = tempfile::tempdir().expect("is made");
    let text = format!(
        "[sources.r]\ntype = 'netcat'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c']\n\
         [channels.c]\ntype = 'file'\ndataDirs = '{}'\n",
        folder.path().display()
    );
    let config = toml(&text).expect("makes sense");
    for _ in 0..2 {
        let started = RunningAgent::start(config.clone(), &Registry::default()).await;
        let error = started.err().expect("the port is taken").to_string();
        assert!(error.starts_with("source r cannot start: cannot listen at 127.0.0.1:"), "{error}");
    }
}

/// Nothing takes the events, and of twenty the disk has room for five.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_reload_loses_with_a_channel_is_counted() {
    let folder = tempfile::tempdir().expect("is made");
    let configuration = |channel: &str, capacity: u32| {
        let text = format!(
            "[sources.r]\ntype = 'seq'\nchannels = ['{channel}']\ntotalEvents = 20\n\
             [channels.{channel}]\ntype = 'spillablememory'\nmemoryCapacity = {capacity}\noverflowCapacity = 5\n\
             dataDirs = '{}'\nminimumRequiredSpace = 1048576\n",
            folder.path().display()
        );
        toml(&text).expect("makes sense")
    };
    let registry = Registry::default();
    let first = configuration("c", 100);
    let mut agent = RunningAgent::start(first, &registry).await.expect("starts");
    wait_for("all events", || count(&registry, "CHANNEL.c", "EventPutSuccessCount") == 20).await;
    let next = configuration("c", 101);
    change(&mut agent, next).await;
    assert_eq!(count(&registry, "CHANNEL.c", "EventLostCount"), 15);
    // Five are on the disk, and those that the source makes are twenty again.
    wait_for("all events", || count(&registry, "CHANNEL.c", "ChannelSize") == 25).await;
    let other = configuration("d", 100);
    change(&mut agent, other).await;
    assert_eq!(count(&registry, "CHANNEL.c", "EventLostCount"), 15 + 20);
    assert_eq!(count(&registry, "CHANNEL.c", "ChannelSize"), 5);
    for (_, (_, channel)) in agent.end_sinks().await {
        channel.close().await;
    }
}

/// A port on which nobody listens.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    listener.local_addr().expect("has one").port()
}

/// A sender has its connection, and the source and the sink count on.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_leaves_alone_what_does_not_change() {
    let folder = tempfile::tempdir().expect("is made");
    let port = free_port();
    let first = format!(
        "[sources.r]\ntype = 'netcat'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c']\n\
         [channels.c]\ntype = 'memory'\n\
         [sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{}'\n",
        folder.path().display()
    );
    let registry = Registry::default();
    let config = toml(&first).expect("makes sense");
    let mut agent = RunningAgent::start(config, &registry).await.expect("starts");
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("connects");
    let mut socket = tokio::io::BufStream::new(socket);
    let mut say = async |line: &str| {
        let mut answer = String::new();
        socket.write_all(line.as_bytes()).await.expect("is sent");
        socket.flush().await.expect("is sent");
        socket.read_line(&mut answer).await.expect("is answered");
        answer
    };
    assert_eq!(say("one\n").await, "OK\n");
    // More, and then the same in other lines, and less.
    let more =
        format!("{first}[channels.d]\ntype = 'memory'\n[sinks.l]\ntype = 'null'\nchannel = 'd'\n");
    for text in [more, format!("# no more\n{first}")] {
        change(&mut agent, toml(&text).expect("makes sense")).await;
        assert_eq!(say("two\n").await, "OK\n");
    }
    assert_eq!(count(&registry, "SOURCE.r", "EventReceivedCount"), 3);
    wait_for("all events", || count(&registry, "SINK.k", "EventDrainSuccessCount") == 3).await;
    assert!(registry.json().get("SINK.l").is_none());
    // What it depends on changes: then it begins anew.
    let other = first.replace("type = 'memory'", "type = 'memory'\ncapacity = 200");
    change(&mut agent, toml(&other).expect("makes sense")).await;
    let mut rest = String::new();
    let ended = tokio::time::timeout(Duration::from_secs(60), socket.read_line(&mut rest)).await;
    assert_eq!(ended.expect("ends").ok(), Some(0), "the connection is closed");
    assert_eq!(count(&registry, "SOURCE.r", "EventReceivedCount"), 0);
    agent.end_sinks().await;
}

/// Neither the new configuration can be started nor a part of the old one, whose directory is gone.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_after_a_reload_is_left_out_and_the_rest_keeps_its_events() {
    let folder = tempfile::tempdir().expect("is made");
    let out = folder.path().join("out");
    std::fs::create_dir(&out).expect("is made");
    let configuration = |interval: u32| {
        let text = format!(
            "[sources.r]\ntype = 'seq'\ntotalEvents = 50\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n\
             [channels.d]\ntype = 'memory'\n\
             [sinks.k]\ntype = 'file_roll'\nchannel = 'd'\n'sink.directory' = '{}'\n'sink.rollInterval' = {interval}\n",
            out.display()
        );
        toml(&text).expect("makes sense")
    };
    let registry = Registry::default();
    let mut agent = RunningAgent::start(configuration(10), &registry).await.expect("starts");
    wait_for("all events", || count(&registry, "CHANNEL.c", "ChannelSize") == 50).await;
    std::fs::remove_dir_all(&out).expect("is removed");
    change(&mut agent, configuration(20)).await;
    assert!(!agent.is_whole());
    assert_eq!(*agent.config(), configuration(10));
    assert_eq!(count(&registry, "CHANNEL.c", "ChannelSize"), 50);
    agent.start_missing().await;
    assert!(!agent.is_whole());
    std::fs::create_dir(&out).expect("is made");
    agent.start_missing().await;
    assert!(agent.is_whole());
    change(&mut agent, configuration(20)).await;
    assert!(agent.is_whole());
    assert_eq!(*agent.config(), configuration(20));
    assert_eq!(count(&registry, "CHANNEL.c", "ChannelSize"), 50);
    agent.end_sinks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_channel_leaves_on_the_disk_is_told_when_no_channel_has_its_directory() {
    let folder = tempfile::tempdir().expect("is made");
    let source = "[sources.r]\ntype = 'seq'\ntotalEvents = 20\nchannels = ['c']\n";
    let file = |name: &str, capacity: u32| {
        format!(
            "[channels.{name}]\ntype = 'file'\ncapacity = {capacity}\ndataDirs = '{}'\nminimumRequiredSpace = 1048576\n",
            folder.path().display()
        )
    };
    let configuration = |text: String| toml(&text).expect("makes sense");
    let registry = Registry::default();
    let first = configuration(format!("{source}{}", file("c", 20_000)));
    let mut agent = RunningAgent::start(first, &registry).await.expect("starts");
    wait_for("all events", || count(&registry, "CHANNEL.c", "ChannelSize") == 20).await;
    let mut change_to = async |text: String| {
        let next = configuration(text);
        let leaving = agent.leaving(&next);
        agent.end_before_drain(&leaving).await;
        let closed = agent.end_after_drain(&leaving).await;
        agent.set_config(next);
        agent.start_missing().await;
        agent.left_behind(&closed)
    };
    // Another channel has the directory now.
    let memory = "[channels.c]\ntype = 'memory'\n";
    assert_eq!(change_to(format!("{source}{memory}{}", file("d", 30_000))).await, []);
    let left = change_to(format!("{source}{memory}")).await;
    assert_eq!(left, [("d".to_owned(), 20, folder.path().to_owned())]);
    agent.end_sinks().await;
}

/// The channel that goes has no sink, and would be waited for.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_heard_during_a_reload() {
    let first = "[sources.r]\ntype = 'seq'\ntotalEvents = 20\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n";
    let next = first.replace("type = 'memory'", "type = 'memory'\ncapacity = 200");
    let registry = Registry::default();
    let config = toml(first).expect("makes sense");
    let mut agent = RunningAgent::start(config, &registry).await.expect("starts");
    wait_for("all events", || count(&registry, "CHANNEL.c", "ChannelSize") == 20).await;
    let next = toml(&next).expect("makes sense");
    let reloaded = reload(&mut agent, next, pin!(std::future::ready(()))).await;
    assert_eq!(reloaded, Reloaded::HasToEnd);
    assert_eq!(count(&registry, "CHANNEL.c", "ChannelSize"), 20);
    agent.end_sinks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_it_has_the_file_read_at_once() {
    let folder = tempfile::tempdir().expect("is made");
    let path = folder.path().join("agent.toml");
    let out = ["first", "second"].map(|name| folder.path().join(name));
    let write = |events: u32, out: &std::path::Path| {
        std::fs::create_dir(out).expect("is made");
        let text = format!(
            "[sources.r]\ntype = 'seq'\ntotalEvents = {events}\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n\
             [sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{}'\n",
            out.display()
        );
        std::fs::write(&path, text).expect("is written");
    };
    write(1, &out[0]);
    let reload_now = Arc::new(Notify::new());
    let options = RunOptions {
        metrics: None,
        reload_interval: None,
        reload_now: Arc::clone(&reload_now),
        drain_patience: Duration::from_secs(10),
    };
    let (end, ended) = oneshot::channel::<()>();
    let file = ConfigFile::Toml(path.clone());
    let agent = tokio::spawn(async move {
        run(&file, &options, |_| (), async { ended.await.unwrap_or_default() }).await
    });
    let is_used = |folder: &std::path::Path| {
        std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
    };
    wait_for("the first", || is_used(&out[0])).await;
    write(2, &out[1]);
    reload_now.notify_one();
    wait_for("the second", || is_used(&out[1])).await;
    end.send(()).expect("it runs");
    agent.await.expect("no panic").expect("ends in good order");
}

/// A line to a source `netcat`, whose answer is waited for.
async fn say(port: u16, line: &str) {
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("connects");
    let mut socket = tokio::io::BufStream::new(socket);
    socket.write_all(format!("{line}\n").as_bytes()).await.expect("is sent");
    socket.flush().await.expect("is sent");
    let mut answer = String::new();
    socket.read_line(&mut answer).await.expect("is answered");
    assert_eq!(answer, "OK\n", "{line}");
}

/// The server's answer comes when the sink was told to end.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_its_way_when_a_sink_ends_is_committed_when_its_answer_comes() {
    let folder = tempfile::tempdir().expect("is made");
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let text = format!(
        "[sources.r]\ntype = 'seq'\ntotalEvents = 1\nchannels = ['c']\n\
         [channels.c]\ntype = 'file'\ndataDirs = '{}'\nminimumRequiredSpace = 1048576\n\
         [sinks.k]\ntype = 'http'\nchannel = 'c'\nendpoint = 'http://{}/'\n",
        folder.path().display(),
        server.local_addr().expect("has one"),
    );
    let config = toml(&text).expect("makes sense");
    let agent = RunningAgent::start(config, &Registry::default()).await.expect("starts");
    let (socket, _) = server.accept().await.expect("connects");
    let mut socket = tokio::io::BufStream::new(socket);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        socket.read_line(&mut line).await.expect("comes");
    }
    let mut ending = pin!(agent.end_sinks());
    tokio::select! {
        biased;
        _ = &mut ending => panic!("it waits for the answer"),
        () = std::future::ready(()) => {}
    }
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let answered = async {
        socket.write_all(answer).await.expect("is sent");
        socket.flush().await.expect("is sent");
        // Until the connection is closed.
        let _ = socket.read_line(&mut line).await;
    };
    let (channels, ()) = tokio::join!(ending, answered);
    assert_eq!(channels["c"].1.len(), 0, "the event would come again");
    channels["c"].1.close().await;
}

/// A broker that takes connections and says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_optional_channel_whose_broker_is_silent_does_not_hold_up_a_source() {
    let broker = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = free_port();
    let text = format!(
        "[sources.r]\ntype = 'netcat'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c', 'd']\n\
         [sources.r.selector]\ntype = 'replicating'\noptional = 'd'\n[channels.c]\ntype = 'memory'\n\
         [channels.d]\ntype = 'logway'\ntopic = 't'\n'kafka.bootstrap.servers' = '{}'\n",
        broker.local_addr().expect("has one"),
    );
    let registry = Registry::default();
    let config = toml(&text).expect("makes sense");
    let agent = RunningAgent::start(config, &registry).await.expect("starts");
    let said = async {
        for line in ["one", "two", "three", "four"] {
            say(port, line).await;
        }
    };
    // A client of a broker waits for longer.
    tokio::time::timeout(Duration::from_secs(15), said).await.expect("nobody waits");
    assert_eq!(count(&registry, "CHANNEL.c", "ChannelSize"), 4);
    assert_eq!(count(&registry, "SOURCE.r", "OptionalChannelWriteFail"), 3, "one is on its way");
    // It waits for nobody.
    drop(agent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_deleted_gets_no_more_events() {
    let folder = tempfile::tempdir().expect("is made");
    let port = free_port();
    let text = format!(
        "[sources.r]\ntype = 'netcat'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c']\n\
         [channels.c]\ntype = 'memory'\n\
         [sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{}'\n'sink.rollInterval' = 0\n",
        folder.path().display()
    );
    let registry = Registry::default();
    let config = toml(&text).expect("makes sense");
    let agent = RunningAgent::start(config, &registry).await.expect("starts");
    let files = || -> Vec<std::path::PathBuf> {
        let files = std::fs::read_dir(folder.path()).expect("is there");
        files.map(|file| file.expect("is there").path()).collect()
    };
    let drained = |events| {
        let registry = registry.clone();
        async move {
            wait_for("the event", || {
                count(&registry, "SINK.k", "EventDrainSuccessCount") == events
            })
            .await;
        }
    };
    say(port, "one").await;
    drained(1).await;
    std::fs::remove_file(&files()[0]).expect("is removed");
    say(port, "two").await;
    drained(2).await;
    say(port, "three").await;
    drained(3).await;
    let files = files();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(std::fs::read_to_string(&files[0]).expect("is text"), "two\nthree\n");
    agent.end_sinks().await;
}

/// Of the lines that come together, a few fit into a message of the hop, and one does not fit alone.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_for_a_hop_goes_to_the_dead_letters_and_the_rest_arrives() {
    for kind in ["avro", "thrift"] {
        let folder = tempfile::tempdir().expect("is made");
        let lines = (0..20).map(|number| match number {
            10 => "x".repeat(60_000),
            _ => "x".repeat(20_000),
        });
        let lines: Vec<String> = lines.collect();
        std::fs::write(folder.path().join("lines"), lines.join("\n") + "\n").expect("is written");
        let port = free_port();
        let text = format!(
            "[sources.r]\ntype = 'spooldir'\nspoolDir = '{}'\n'deserializer.maxLineLength' = 1000000\nchannels = ['c']\n\
             [channels.c]\ntype = 'memory'\n[channels.d]\ntype = 'memory'\n[channels.dead]\ntype = 'memory'\n\
             [sinks.k]\ntype = '{kind}'\nchannel = 'c'\ndead-letter = 'dead'\nhostname = '127.0.0.1'\nport = {port}\n\
             [sources.hop]\ntype = '{kind}'\nbind = '127.0.0.1'\nport = {port}\nmaxMessageBytes = 50000\nchannels = ['d']\n",
            folder.path().display()
        );
        let registry = Registry::default();
        let config = toml(&text).expect("makes sense");
        let agent = RunningAgent::start(config, &registry).await.expect("starts");
        wait_for("all events", || {
            count(&registry, "CHANNEL.dead", "ChannelSize") == 1
                && count(&registry, "CHANNEL.d", "ChannelSize") == 19
                && count(&registry, "SINK.k", "EventDrainSuccessCount") == 19
        })
        .await;
        assert_eq!(count(&registry, "SINK.k", "EventDeadLetterCount"), 1);
        assert_eq!(count(&registry, "CHANNEL.c", "ChannelSize"), 0);
        agent.end_sinks().await;
    }
}
