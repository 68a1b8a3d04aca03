//! A transactional producer whose coordinator refuses, forgets to answer, and fences.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logway_client::{
    CommittedTransactions, NewRecord, Producer, ProducerOptions, TransactionOptions,
};
use logway_model::{ErrorCode, TimestampMs};
use logway_record::{Batch, TransactionOutcome};
use logway_wire::ApiKey;
use logway_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use logway_wire::messages::{
    ApiVersionsResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse, ProduceRequest, ProduceResponse,
};

use crate::fake_broker::{Action, Asked, FakeBroker, TOPIC_ID, api_versions, topic};

const ID: &str = "loader";
const PRODUCER_ID: i64 = 7;

/// What becomes of a request to end a transaction.
#[derive(Debug, Clone, Copy)]
enum End {
    Refused(ErrorCode),
    /// It is done, and the answer is lost.
    Lost,
    /// The answer never comes, and the connection stays.
    Unanswered,
}

/// A coordinator that raises the epoch with each end, and the leader of one partition.
#[derive(Debug, Default)]
struct Coordinator {
    epoch: i16,
    /// How the last transaction ended, and in which epoch.
    last: Option<(i16, bool)>,
    /// The fates of the next ends; all others are done.
    ends: VecDeque<End>,
    /// What has come: epoch and sequence of each batch, and of each end that was done how it was to be.
    seen: Vec<String>,
}

impl Coordinator {
    fn handle(&mut self, asked: &Asked) -> Action {
        match asked.api_key {
            ApiKey::InitProducerId => self.init(asked),
            ApiKey::Produce => self.produce(asked),
            ApiKey::EndTxn => self.end(asked),
            _ => Action::Usual,
        }
    }

    fn init(&self, asked: &Asked) -> Action {
        let request: InitProducerIdRequest = asked.request();
        assert_eq!(request.transactional_id.as_deref(), Some(ID));
        assert_eq!(request.transaction_timeout_ms, 30_000);
        let (producer_id, producer_epoch) = (PRODUCER_ID, self.epoch);
        asked.answer(&InitProducerIdResponse { producer_id, producer_epoch, ..Default::default() })
    }

    fn produce(&mut self, asked: &Asked) -> Action {
        let request: ProduceRequest = asked.request();
        assert!(asked.version >= 12 && request.transactional_id.as_deref() == Some(ID));
        let records = request.topic_data[0].partition_data[0].records.clone();
        let bytes = records.and_then(|records| records.into_bytes()).expect("records");
        let batch = Batch::parse(bytes).expect("one batch");
        let header = batch.header();
        assert!(header.attributes.is_transactional());
        assert_eq!(header.producer_epoch.0, self.epoch, "a batch of an epoch that is over");
        self.seen.push(format!("{}:{}", header.producer_epoch.0, header.base_sequence.0));
        asked.answer(&ProduceResponse {
            responses: vec![TopicProduceResponse {
                topic_id: TOPIC_ID,
                partition_responses: vec![PartitionProduceResponse::default()],
                ..TopicProduceResponse::default()
            }],
            ..ProduceResponse::default()
        })
    }

    fn end(&mut self, asked: &Asked) -> Action {
        let request: EndTxnRequest = asked.request();
        let fate = self.ends.pop_front();
        if let Some(End::Refused(code)) = fate {
            return asked.answer(&EndTxnResponse { error_code: code.code(), ..Default::default() });
        }
        let is_again = self.last == Some((request.producer_epoch, request.committed));
        if !is_again {
            assert_eq!(request.producer_epoch, self.epoch, "it ends as it was told to first");
            self.last = Some((request.producer_epoch, request.committed));
            self.epoch += 1;
            self.seen.push(if request.committed { "commit" } else { "abort" }.to_owned());
        }
        match fate {
            Some(End::Lost) => Action::Close,
            Some(End::Unanswered) => Action::Ignore,
            _ => asked.answer(&EndTxnResponse {
                producer_id: PRODUCER_ID,
                producer_epoch: self.epoch,
                ..EndTxnResponse::default()
            }),
        }
    }
}

async fn start(ends: &[End]) -> (FakeBroker, Arc<Mutex<Coordinator>>) {
    let ends = ends.iter().copied().collect();
    let coordinator = Arc::new(Mutex::new(Coordinator { ends, ..Coordinator::default() }));
    let script = Arc::clone(&coordinator);
    let broker =
        FakeBroker::start(move |asked| script.lock().expect("no panic").handle(asked)).await;
    (broker, coordinator)
}

async fn open(broker: &FakeBroker) -> Producer {
    let timeout = Duration::from_secs(30);
    let transaction = Some(TransactionOptions { id: ID.to_owned(), timeout });
    let options = ProducerOptions { transaction, ..ProducerOptions::default() };
    Producer::open(broker.client(), topic(), options).await.expect("a producer")
}

/// Writes a batch for each record.
async fn write(producer: &mut Producer, records: usize) {
    for _ in 0..records {
        let value = Some(b"value".as_slice());
        let (partition, timestamp, key, headers) = (None, TimestampMs(1), None, &[][..]);
        let record = NewRecord { partition, timestamp, key, value, headers };
        producer.send(record).await.expect("it is taken");
        producer.flush().await.expect("it is stored");
    }
}

fn seen(coordinator: &Mutex<Coordinator>) -> Vec<String> {
    coordinator.lock().expect("no panic").seen.clone()
}

#[tokio::test]
async fn each_transaction_has_an_epoch_whose_sequences_begin_anew() {
    let markers_are_due = End::Refused(ErrorCode::ConcurrentTransactions);
    let moved = End::Refused(ErrorCode::NotCoordinator);
    let (broker, coordinator) = start(&[moved, End::Lost, markers_are_due]).await;
    let mut producer = open(&broker).await;
    producer.commit().await.expect("without records there is nothing to end");
    write(&mut producer, 2).await;
    producer.commit().await.expect("it is asked again");
    write(&mut producer, 1).await;
    producer.commit().await.expect("at once");
    write(&mut producer, 3).await;
    let aborted = producer.abort().await.expect("at once");
    assert_eq!(aborted, Some(TransactionOutcome::Abort));
    let expected =
        ["0:0", "0:1", "commit", "1:0", "commit", "2:0", "2:1", "2:2", "abort"].map(str::to_owned);
    assert_eq!(seen(&coordinator), expected);
    let committed = CommittedTransactions { transactions: 2, records: 3 };
    assert_eq!(producer.committed(), Some(committed));
    assert!(producer.flush().await.is_err(), "an abort ends the producer");
}

#[tokio::test]
async fn a_commit_that_was_given_up_is_seen_through() {
    let (broker, coordinator) = start(&[End::Unanswered]).await;
    let mut producer = open(&broker).await;
    write(&mut producer, 1).await;
    // The coordinator has seen the commit before the caller has had enough.
    let is_seen = async {
        while seen(&coordinator).len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        committed = producer.commit() => panic!("{committed:?}"),
        () = is_seen => {}
    }
    // The next question waits behind the answer that never comes, until its connection is given up.
    let aborted = producer.abort().await.expect("it is asked again");
    assert_eq!(aborted, Some(TransactionOutcome::Commit));
    assert_eq!(seen(&coordinator), ["0:0", "commit"].map(str::to_owned));
    assert_eq!(producer.committed().map(|committed| committed.transactions), Some(1));
}

#[tokio::test]
async fn who_is_fenced_commits_nothing_and_has_nothing_to_abort() {
    let fenced = End::Refused(ErrorCode::ProducerFenced);
    let (broker, coordinator) = start(&[fenced, fenced]).await;
    let mut producer = open(&broker).await;
    write(&mut producer, 1).await;
    let error = producer.commit().await.expect_err("another producer has the id");
    assert_eq!(error.code(), Some(ErrorCode::ProducerFenced));
    let aborted = producer.abort().await.expect("the other has ended it");
    assert_eq!(aborted, Some(TransactionOutcome::Abort));
    assert_eq!(seen(&coordinator), ["0:0"].map(str::to_owned));
    assert_eq!(producer.committed(), Some(CommittedTransactions::default()));
}

#[tokio::test]
async fn a_coordinator_that_raises_no_epochs_is_refused() {
    let broker = FakeBroker::start(|asked| match asked.api_key {
        ApiKey::ApiVersions => {
            let mut announced: ApiVersionsResponse = api_versions();
            let end = announced.api_keys.iter_mut().find(|api| api.api_key == ApiKey::EndTxn.id());
            end.expect("it is known").max_version = 4;
            asked.answer(&announced)
        }
        _ => Action::Usual,
    })
    .await;
    let timeout = Duration::from_secs(30);
    let transaction = Some(TransactionOptions { id: ID.to_owned(), timeout });
    let options = ProducerOptions { transaction, ..ProducerOptions::default() };
    let refused = Producer::open(broker.client(), topic(), options).await;
    let error = refused.expect_err("no epoch is raised").to_string();
    assert!(error.contains("does not serve EndTxn at versions 5"), "{error}");
}
