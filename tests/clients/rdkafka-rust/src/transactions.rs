//! The transaction cases: a topic is copied to two others, with the offsets of the copied records in the same transaction.

use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::{
    Deliveries, assigned, create_topic, enqueue, flush, fresh, produce, producer, read, unjoined,
};
use crate::group::committed;
use crate::record::{Record, numbered};
use crate::report::{DEADLINE, Outcome, Report, wait_until};

/// How long a reader waits for a record that must not come.
const WHETHER_MORE: Duration = Duration::from_millis(300);
const COMMITTED: &str = "read_committed";
const ALL: &str = "read_uncommitted";

pub fn cases(report: &mut Report) {
    report.case("transaction-commit", || Copies::new().commit());
    report.case("transaction-abort", || Copies::new().abort());
    report.case("transaction-fence", || Copies::new().fence());
}

struct Copies {
    source: String,
    topics: [String; 2],
    group: String,
}

impl Copies {
    fn new() -> Self {
        let topics = ["first", "second"].map(|purpose| create_topic(purpose, 1, &[]));
        let copies =
            Self { source: create_topic("source", 1, &[]), topics, group: fresh("copier") };
        produce(&copies.source, 0, &numbered(0..10));
        copies
    }

    fn commit(&self) -> Outcome {
        let copier = open(&fresh("copier"))?;
        self.copy(&copier, "one", 4)?;
        self.assert_values(ALL, &["one"])?;
        self.assert_values(COMMITTED, &[])?;
        copier.commit_transaction(DEADLINE)?;
        self.assert_values(COMMITTED, &["one"])?;
        self.await_committed(4);
        self.copy(&copier, "two", 7)?;
        copier.commit_transaction(DEADLINE)?;
        self.assert_values(COMMITTED, &["one", "two"])?;
        self.await_committed(7);
        Ok(())
    }

    fn abort(&self) -> Outcome {
        let copier = open(&fresh("copier"))?;
        self.copy(&copier, "gone", 4)?;
        copier.abort_transaction(DEADLINE)?;
        self.copy(&copier, "kept", 2)?;
        copier.commit_transaction(DEADLINE)?;
        self.assert_values(COMMITTED, &["kept"])?;
        self.assert_values(ALL, &["gone", "kept"])?;
        self.await_committed(2);
        Ok(())
    }

    fn fence(&self) -> Outcome {
        let transactional_id = fresh("copier");
        let zombie = open(&transactional_id)?;
        self.copy(&zombie, "zombie", 9)?;
        let successor = open(&transactional_id)?;
        let refused = zombie.commit_transaction(DEADLINE);
        // librdkafka's own code, by which it passes on either of the broker's words.
        let is_fenced = matches!(&refused, Err(KafkaError::Transaction(error)) if error.code() == RDKafkaErrorCode::Fenced);
        assert!(is_fenced, "the commit of a fenced producer ended with {refused:?}");
        self.copy(&successor, "successor", 3)?;
        successor.commit_transaction(DEADLINE)?;
        self.assert_values(COMMITTED, &["successor"])?;
        self.await_committed(3);
        Ok(())
    }

    /// Leaves a transaction open in which there is a record for each topic, and an offset.
    fn copy(&self, copier: &BaseProducer<Deliveries>, value: &str, offset: i64) -> KafkaResult<()> {
        copier.begin_transaction()?;
        for topic in &self.topics {
            enqueue(copier, topic, 0, &Record::of_value(value.into()))?;
        }
        flush(copier)?;
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&self.source, 0, Offset::Offset(offset))?;
        let group = unjoined(&self.group, &[]).group_metadata().expect("it has a group");
        copier.send_offsets_to_transaction(&offsets, &group, DEADLINE)
    }

    /// Each of the topics must have just these.
    fn assert_values(&self, isolation: &str, values: &[&str]) -> KafkaResult<()> {
        for topic in &self.topics {
            let reader = assigned(topic, &[(0, 0)], &[("isolation.level", isolation)]);
            let mut found = read(&reader, values.len())?;
            if let Some(more) = reader.poll(WHETHER_MORE) {
                found.push(Record::from(&more?));
            }
            let found: Vec<_> = found.iter().map(|record| record.value.as_deref()).collect();
            let wanted: Vec<_> = values.iter().map(|value| Some(value.as_bytes())).collect();
            assert_eq!(found, wanted, "{isolation} of {topic}");
        }
        Ok(())
    }

    fn await_committed(&self, offset: i64) {
        let is_there =
            || committed(&self.group, &self.source, 1) == Ok(vec![Offset::Offset(offset)]);
        wait_until(DEADLINE, is_there, || format!("offset {offset} to be committed"));
    }
}

/// Ends what another one of this transactional id has left open.
fn open(transactional_id: &str) -> KafkaResult<BaseProducer<Deliveries>> {
    let copier =
        producer(&[("enable.idempotence", "true"), ("transactional.id", transactional_id)]);
    copier.init_transactions(DEADLINE)?;
    Ok(copier)
}
