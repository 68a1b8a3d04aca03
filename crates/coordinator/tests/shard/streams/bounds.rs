//! What the members of a streams group can make the coordinator keep, tell and do has bounds.

use std::time::{Duration, Instant};

use logway_coordinator::{GroupSettings, Reply, RequestBody};
use logway_model::ErrorCode;
use logway_wire::messages::streams_group_heartbeat_request::{
    CopartitionGroup, Endpoint, KeyValue, Subtopology, TopicInfo, Topology,
};
use logway_wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, StreamsGroupHeartbeatRequest,
};

use super::story::{Story, ask, joining, staying, word_count};
use crate::driver::Driver;
use crate::story::error;

/// As long as a name of a host may be.
const HOST_BYTES: usize = 255;

fn with_endpoint(member: &str, host_bytes: usize) -> StreamsGroupHeartbeatRequest {
    let host = format!("{member:h<host_bytes$}").into();
    let user_endpoint = Some(Endpoint { host, port: 80, ..Default::default() });
    StreamsGroupHeartbeatRequest { user_endpoint, ..joining(member) }
}

fn code(driver: &mut Driver, request: StreamsGroupHeartbeatRequest) -> ErrorCode {
    error(ask(driver, request).0.error_code)
}

/// A group that waits for its first assignment, so that joining is cheap.
fn waiting(memory_bytes: usize) -> Driver {
    let mut settings = Story::settings();
    settings.streams.initial_rebalance_delay_ms = 3_600_000;
    let mut driver = Driver::with_memory(settings, memory_bytes);
    for topic in ["lines", "by-word", "counts"] {
        driver.change_cluster(|cluster| cluster.set_topic(topic, 1));
    }
    driver
}

/// Lets members of these numbers join.
fn join_all(driver: &mut Driver, numbers: std::ops::Range<usize>) {
    for number in numbers {
        // Who knows all processes is told of none.
        let request = StreamsGroupHeartbeatRequest {
            endpoint_information_epoch: i32::try_from(number + 1).expect("is small"),
            ..with_endpoint(&format!("m{number}"), HOST_BYTES)
        };
        assert_eq!(code(driver, request), ErrorCode::None);
    }
}

/// What the first member is told of processes if it knows those of another epoch; and the epoch that it knows then.
fn told(driver: &mut Driver) -> (Option<usize>, i32) {
    let request =
        StreamsGroupHeartbeatRequest { endpoint_information_epoch: -7, ..staying("m0", 1) };
    let (response, _) = ask(driver, request);
    assert_eq!(error(response.error_code), ErrorCode::None, "{:?}", response.error_message);
    let endpoints = response.partitions_by_user_endpoint.map(|endpoints| endpoints.len());
    (endpoints, response.endpoint_information_epoch)
}

#[test]
fn processes_without_tasks_are_told_within_the_bound_as_well() {
    let mut driver = waiting(256 << 20);
    join_all(&mut driver, 0..1_000);
    assert_eq!(told(&mut driver), (Some(1_000), 1_000));
    join_all(&mut driver, 1_000..2_000);
    assert_eq!(told(&mut driver), (None, -7));
}

#[test]
fn a_host_is_no_longer_than_a_name_can_be() {
    let mut driver = waiting(256 << 20);
    assert_eq!(code(&mut driver, with_endpoint("m", HOST_BYTES)), ErrorCode::None);
    assert_eq!(code(&mut driver, with_endpoint("n", HOST_BYTES + 1)), ErrorCode::InvalidRequest);
}

#[test]
fn a_large_answer_needs_memory_that_there_is() {
    let mut driver = waiting(256 << 20);
    join_all(&mut driver, 0..500);
    let used_bytes = driver.memory.used_bytes();
    assert_eq!(told(&mut driver), (Some(500), 500));
    assert_eq!(driver.memory.used_bytes(), used_bytes, "it is given back");

    let mut driver = waiting(used_bytes + 100_000);
    join_all(&mut driver, 0..500);
    assert_eq!(told(&mut driver), (None, -7));
}

#[test]
fn long_ids_of_members_are_counted() {
    let id = "i".repeat(30_000);
    let mut driver = waiting(256 << 20);
    let before = driver.memory.used_bytes();
    assert_eq!(code(&mut driver, joining(&id)), ErrorCode::None);
    assert!(driver.memory.used_bytes() - before >= 60_000);

    let settings = GroupSettings { member_bytes_max: 50_000, ..Story::settings() };
    let mut driver = Driver::new(settings);
    let request = StreamsGroupHeartbeatRequest { process_id: Some("p".into()), ..joining(&id) };
    assert_eq!(code(&mut driver, request), ErrorCode::PolicyViolation);
    assert_eq!(consumer_code(&mut driver, &id), ErrorCode::PolicyViolation);

    let mut driver = Driver::new(Story::settings());
    let before = driver.memory.used_bytes();
    assert_eq!(consumer_code(&mut driver, &id), ErrorCode::None);
    assert!(driver.memory.used_bytes() - before >= 60_000);
}

fn consumer_joins(driver: &mut Driver, member: &str) -> ConsumerGroupHeartbeatResponse {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "consumers".into(),
        member_id: member.to_owned().into(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["lines".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let fresh_id = driver.fresh_id();
    let sight = logway_coordinator::TopicSight::of_all();
    let body = RequestBody::ConsumerGroupHeartbeat { request, fresh_id, sight };
    match driver.ask("c", 1, body) {
        Reply::ConsumerGroupHeartbeat(response) => response,
        other => panic!("{other:?}"),
    }
}

fn consumer_code(driver: &mut Driver, member: &str) -> ErrorCode {
    error(consumer_joins(driver, member).error_code)
}

#[test]
fn who_is_refused_leaves_no_timers() {
    let mut driver = Driver::with_memory(Story::settings(), 1_000);
    let deadline = driver.shard.next_deadline();
    assert_eq!(code(&mut driver, joining("m")), ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(driver.shard.next_deadline(), deadline);
    assert_eq!(consumer_code(&mut driver, "m"), ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(driver.shard.next_deadline(), deadline);
}

#[test]
fn a_member_lives_on_if_there_is_no_room_for_what_it_asks() {
    let mut driver = Driver::new(GroupSettings { group_bytes_max: 20_000, ..Story::settings() });
    let (joined, _) = ask(&mut driver, joining("m"));
    for _ in 0..3 {
        driver.advance_ms(30_000, |_| {});
        driver.settle_all();
        let client_tags =
            Some(vec![KeyValue { value: "v".repeat(20_000).into(), ..Default::default() }]);
        let request =
            StreamsGroupHeartbeatRequest { client_tags, ..staying("m", joined.member_epoch) };
        // By GROUP_MAX_SIZE_REACHED it would end.
        assert_eq!(code(&mut driver, request), ErrorCode::CoordinatorLoadInProgress);
    }
    assert_eq!(code(&mut driver, staying("m", joined.member_epoch)), ErrorCode::None);
}

fn with_topology(change: impl FnOnce(&mut Topology)) -> StreamsGroupHeartbeatRequest {
    let mut topology = word_count();
    change(&mut topology);
    StreamsGroupHeartbeatRequest { topology: Some(topology), ..joining("m") }
}

#[test]
fn a_topology_names_each_topic_once() {
    let mut driver = Driver::new(Story::settings());
    let twice = [
        with_topology(|it| it.subtopologies[0].source_topics.push("lines".into())),
        with_topology(|it| it.subtopologies[0].repartition_sink_topics.push("by-word".into())),
        with_topology(|it| {
            let topics = &mut it.subtopologies[1].state_changelog_topics;
            topics.push(topics[0].clone());
        }),
        with_topology(|it| {
            let topics = &mut it.subtopologies[1].repartition_source_topics;
            topics.push(topics[0].clone());
        }),
        with_topology(|it| {
            it.subtopologies[0]
                .copartition_groups
                .push(CopartitionGroup { source_topics: vec![0, 0], ..Default::default() });
        }),
    ];
    for request in twice {
        assert_eq!(code(&mut driver, request), ErrorCode::StreamsInvalidTopology);
    }
    assert_eq!(code(&mut driver, joining("m")), ErrorCode::None);
}

#[test]
fn a_topology_that_takes_too_much_is_refused_before_all_else() {
    let mut driver = Driver::new(Story::settings());
    // It could not be either; but that is not looked at.
    let request = with_topology(|it| {
        it.epoch = -1;
        it.subtopologies[0].source_topics = (0..20_000).map(|it| format!("t{it}").into()).collect();
    });
    assert_eq!(code(&mut driver, request), ErrorCode::PolicyViolation);
}

#[test]
fn missing_topics_are_asked_for_once_in_the_time_between_heartbeats() {
    let mut driver = Driver::new(Story::settings());
    driver.change_cluster(|cluster| cluster.set_topic("lines", 1));
    let (first, missing) = ask(&mut driver, joining("m"));
    assert_eq!(missing.len(), 2);
    let (_, missing) = ask(&mut driver, joining("n"));
    assert!(missing.is_empty(), "the first one has them made");
    driver.advance_ms(4_999, |_| {});
    let (second, missing) = ask(&mut driver, staying("m", first.member_epoch));
    assert!(missing.is_empty());
    assert_eq!(second.status.iter().flatten().count(), 1, "it is told that they are missing");
    driver.advance_ms(1, |_| {});
    let (_, missing) = ask(&mut driver, staying("m", second.member_epoch));
    assert_eq!(missing.len(), 2);
}

#[test]
fn who_runs_an_older_topology_is_told_of_no_topics() {
    let mut driver = Driver::new(Story::settings());
    driver.change_cluster(|cluster| cluster.set_topic("lines", 1));
    let newer = with_topology(|it| it.epoch = 1);
    let host = Endpoint { host: "h".into(), port: 80, ..Default::default() };
    let newer = StreamsGroupHeartbeatRequest { user_endpoint: Some(host), ..newer };
    let (_, missing) = ask(&mut driver, newer);
    assert_eq!(missing.len(), 2);
    driver.advance_ms(5_000, |_| {});
    let (response, missing) = ask(&mut driver, joining("old"));
    assert!(missing.is_empty());
    let codes: Vec<_> = response.status.iter().flatten().map(|it| it.status_code).collect();
    assert_eq!(codes, [0], "it is only told that its topology is old");
    assert_eq!(response.partitions_by_user_endpoint, None);
}

#[test]
fn a_lost_answer_is_made_good() {
    let mut driver = waiting(256 << 20);
    driver.change_cluster(|cluster| cluster.streams_overrides.initial_rebalance_delay_ms = Some(0));
    let (joined, _) = ask(&mut driver, joining("m"));
    let says_nothing = StreamsGroupHeartbeatRequest {
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..staying("m", joined.member_epoch)
    };
    let (response, _) = ask(&mut driver, says_nothing);
    assert!(joined.active_tasks.is_some_and(|tasks| !tasks.is_empty()));
    assert!(response.active_tasks.is_some_and(|tasks| !tasks.is_empty()));
}

/// Topics that are read together again and again, behind a chain of subtopologies that stand the wrong way round.
fn laborious() -> Topology {
    const CHAIN: usize = 500;
    let link = |place: usize| Subtopology {
        subtopology_id: format!("{place:03}").into(),
        repartition_source_topics: vec![TopicInfo {
            name: format!("t{place}").into(),
            ..Default::default()
        }],
        repartition_sink_topics: match place {
            0 => Vec::new(),
            _ => vec![format!("t{}", place - 1).into()],
        },
        ..Default::default()
    };
    let topics = (0..1_000).map(|it| TopicInfo {
        name: format!("s{it}").into(),
        partitions: 1,
        ..Default::default()
    });
    let group =
        CopartitionGroup { repartition_source_topics: (0..1_000).collect(), ..Default::default() };
    let first = Subtopology {
        subtopology_id: "first".into(),
        source_topics: vec!["lines".into()],
        repartition_sink_topics: vec![format!("t{}", CHAIN - 1).into()],
        repartition_source_topics: topics.collect(),
        copartition_groups: vec![group; 20],
        ..Default::default()
    };
    let subtopologies = (0..CHAIN).map(link).chain([first]).collect();
    Topology { subtopologies, ..Default::default() }
}

#[test]
fn a_laborious_topology_is_looked_at_once() {
    /// A thousand times what it takes on a machine at rest.
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut driver = Driver::new(Story::settings());
    driver.change_cluster(|cluster| cluster.set_topic("lines", 1));
    let began = Instant::now();
    let request = StreamsGroupHeartbeatRequest { topology: Some(laborious()), ..joining("m") };
    let (mut response, missing) = ask(&mut driver, request);
    assert_eq!(missing.len(), 1_500, "{:?}", response.error_message);
    for _ in 0..30 {
        response = ask(&mut driver, staying("m", response.member_epoch)).0;
        let status = response.status.iter().flatten().next().expect("it is told what is missing");
        assert_eq!(status.status_code, 3);
    }
    let elapsed = began.elapsed();
    assert!(elapsed < PATIENCE, "{elapsed:?}");
}
