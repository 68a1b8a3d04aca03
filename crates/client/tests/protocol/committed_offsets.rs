//! What a group has committed, and how old it is what the group has not read.

use logway_client::UnreadAge;
use logway_model::{ErrorCode, Offset, PartitionId, TopicPartition};
use logway_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use logway_wire::messages::{ApiVersionsResponse, OffsetFetchRequest, OffsetFetchResponse};
use logway_wire::{ApiKey, WireString};

use crate::fake_broker::{Action, Asked, FakeBroker, TOPIC, api_versions, topic};

/// A broker that serves OffsetFetch up to a version.
async fn broker(
    version_max: i16,
    mut answer: impl FnMut(&Asked) -> OffsetFetchResponse + Send + 'static,
) -> FakeBroker {
    FakeBroker::start(move |asked| match asked.api_key {
        ApiKey::ApiVersions => asked.answer(&announcing(version_max)),
        ApiKey::OffsetFetch => asked.answer(&answer(asked)),
        _ => Action::Usual,
    })
    .await
}

fn announcing(version_max: i16) -> ApiVersionsResponse {
    let mut versions = api_versions();
    let is_fetch = |key| key == ApiKey::OffsetFetch.id();
    versions
        .api_keys
        .iter_mut()
        .filter(|api| is_fetch(api.api_key))
        .for_each(|api| api.max_version = version_max);
    versions
}

/// An answer about offset 42 in the form of version 8 and later.
fn by_groups(age: Option<UnreadAge>) -> OffsetFetchResponse {
    let partition = OffsetFetchResponsePartitions {
        committed_offset: 42,
        unknown_tagged_fields: age.map(UnreadAge::answer).into_iter().collect(),
        ..OffsetFetchResponsePartitions::default()
    };
    let name = WireString::from_static(TOPIC);
    let partitions = vec![partition];
    let topics = vec![OffsetFetchResponseTopics { name, partitions, ..Default::default() }];
    let groups = vec![OffsetFetchResponseGroup { topics, ..Default::default() }];
    OffsetFetchResponse { groups, ..Default::default() }
}

/// An answer about offset 42 in the form of older versions.
fn by_topics() -> OffsetFetchResponse {
    let partition = OffsetFetchResponsePartition { committed_offset: 42, ..Default::default() };
    let name = WireString::from_static(TOPIC);
    let partitions = vec![partition];
    let topics = vec![OffsetFetchResponseTopic { name, partitions, ..Default::default() }];
    OffsetFetchResponse { topics, ..Default::default() }
}

#[tokio::test]
async fn brokers_of_every_age_are_understood() {
    for version in 2..=10 {
        let broker = broker(version, move |asked| {
            let request: OffsetFetchRequest = asked.request();
            // Version 10 would name topics by their ids.
            assert_eq!(asked.version, version.min(9));
            let asks_for_ages = UnreadAge::is_asked_in(&request.unknown_tagged_fields);
            assert_eq!(asks_for_ages, version >= 6, "version {version}");
            if version >= 8 { by_groups(None) } else { by_topics() }
        })
        .await;
        let committed = broker.client().committed_offsets("g").await.expect("an answer");
        let offset = &committed[&TopicPartition::new(topic(), PartitionId(0))];
        assert_eq!((offset.offset, offset.unread_age), (Offset(42), None), "version {version}");
    }
}

#[tokio::test]
async fn a_broker_that_knows_the_ages_tells_them() {
    for age in [UnreadAge::Ms(12_345), UnreadAge::Unknown] {
        let broker = broker(9, move |_| by_groups(Some(age))).await;
        let committed = broker.client().committed_offsets("g").await.expect("an answer");
        let offset = &committed[&TopicPartition::new(topic(), PartitionId(0))];
        assert_eq!(offset.unread_age, Some(age));
    }
}

#[tokio::test]
async fn a_coordinator_that_is_moving_or_loading_is_asked_again() {
    let mut codes = vec![ErrorCode::NotCoordinator, ErrorCode::CoordinatorLoadInProgress];
    let broker = broker(9, move |_| {
        let mut response = by_groups(None);
        response.groups[0].error_code = codes.pop().unwrap_or(ErrorCode::None).code();
        response
    })
    .await;
    let committed = broker.client().committed_offsets("g").await.expect("in the end");
    assert_eq!(committed.len(), 1);
}
