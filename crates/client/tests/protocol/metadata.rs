//! Finding the cluster.

use std::collections::BTreeSet;

use logway_client::{ClientError, MissingTopic};
use logway_model::{ErrorCode, PartitionId, TopicPartition};
use logway_wire::ApiKey;
use logway_wire::messages::MetadataRequest;

use crate::fake_broker::{Action, FakeBroker, metadata, topic, topic_metadata};

/// A broker whose topic has these errors, one per request, before it has none.
async fn broker_with_topic_errors(errors: &[ErrorCode]) -> FakeBroker {
    let mut errors: Vec<ErrorCode> = errors.iter().rev().copied().collect();
    FakeBroker::start(move |asked| match (asked.api_key, errors.pop()) {
        (ApiKey::Metadata, Some(error)) => {
            let mut topic = topic_metadata();
            topic.error_code = error.code();
            topic.partitions.clear();
            asked.answer(&metadata(1, topic))
        }
        (ApiKey::ApiVersions, error) => {
            errors.extend(error);
            Action::Usual
        }
        _ => Action::Usual,
    })
    .await
}

#[tokio::test]
async fn a_topic_without_a_leader_is_waited_for() {
    let errors = [ErrorCode::LeaderNotAvailable, ErrorCode::LeaderNotAvailable];
    let broker = broker_with_topic_errors(&errors).await;
    let client = broker.client();
    let names = BTreeSet::from([topic()]);
    let metadata = client.await_topics(&names, MissingTopic::Refuse).await.expect("in the end");
    let partition = TopicPartition::new(topic(), PartitionId(0));
    assert!(metadata.leader(&partition).is_some());
    assert_eq!(client.metadata(), metadata);
}

#[tokio::test]
async fn a_missing_topic_is_reported_or_waited_for_as_asked() {
    let names = BTreeSet::from([topic()]);
    for (missing, is_found) in
        [(MissingTopic::Refuse, false), (MissingTopic::Await, true), (MissingTopic::Create, true)]
    {
        let broker = broker_with_topic_errors(&[ErrorCode::UnknownTopicOrPartition]).await;
        let found = broker.client().await_topics(&names, missing).await;
        assert_eq!(found.is_ok(), is_found, "{missing:?}");
        if let Err(error) = found {
            assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition));
            assert!(error.to_string().contains("'t'"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_error_that_stays_is_reported_at_once() {
    let broker = broker_with_topic_errors(&[ErrorCode::TopicAuthorizationFailed]).await;
    let names = BTreeSet::from([topic()]);
    let error = broker.client().await_topics(&names, MissingTopic::Await).await;
    assert_eq!(error.expect_err("no rights").code(), Some(ErrorCode::TopicAuthorizationFailed));
}

#[tokio::test]
async fn a_broken_connection_is_replaced_for_a_question() {
    let broker = FakeBroker::start(|asked| match (asked.api_key, asked.connection) {
        (ApiKey::Metadata, 0) => Action::Close,
        _ => Action::Usual,
    })
    .await;
    let client = broker.client();
    client.call_any(&MetadataRequest::default()).await.expect("the second connection works");
}

#[tokio::test]
async fn every_bootstrap_address_is_tried() {
    let broker = FakeBroker::start(|_| Action::Usual).await;
    let gone = FakeBroker::start(|_| Action::Close).await.address.clone();
    let options = broker.client().options().clone();
    let both = vec![gone.clone(), broker.address.clone()];
    let client = logway_client::Client::new(both, options.clone());
    client.call_any(&MetadataRequest::default()).await.expect("the second address works");

    let client = logway_client::Client::new(vec![gone.clone()], options);
    match client.call_any(&MetadataRequest::default()).await {
        Err(error @ ClientError::NoBroker { .. }) => {
            assert!(error.to_string().contains(&gone.to_string()), "{error}");
        }
        other => panic!("{other:?}"),
    }
}
