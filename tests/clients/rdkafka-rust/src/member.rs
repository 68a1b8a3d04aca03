//! A member of a group, reading in a thread of its own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;

use crate::broker::config;
use crate::record::Record;
use crate::report::{DEADLINE, wait_until};

/// How many records a member reads before it commits, if more keep coming.
const COMMIT_INTERVAL_RECORDS: usize = 5_000;

/// What has happened to a member.
#[derive(Default)]
pub struct Seen {
    pub records: Vec<Record>,
    pub assigned: BTreeSet<i32>,
    /// One entry for each call back: the partitions that came or went.
    pub gained: Vec<BTreeSet<i32>>,
    pub lost: Vec<BTreeSet<i32>>,
    error: Option<KafkaError>,
}

/// Joins a group, reads what it is assigned and commits where it has read to, until it is dropped.
pub struct Member {
    seen: Arc<Mutex<Seen>>,
    leaving: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    pub fn join(group: &str, topic: &str, settings: &[(&str, &str)]) -> Self {
        let (seen, leaving) = <(Arc<Mutex<Seen>>, Arc<AtomicBool>)>::default();
        let mut config = config(&[
            ("group.id", group),
            ("enable.auto.commit", "false"),
            ("auto.offset.reset", "earliest"),
            ("partition.assignment.strategy", "range"),
            ("heartbeat.interval.ms", "500"),
            ("session.timeout.ms", "10000"),
        ]);
        for (name, value) in settings {
            config.set(*name, *value);
        }
        let context = MemberContext(Arc::clone(&seen));
        let consumer: BaseConsumer<_> =
            config.create_with_context(context).expect("the settings are valid");
        consumer.subscribe(&[topic]).expect("a topic can be subscribed to");
        let (kept, left) = (Arc::clone(&seen), Arc::clone(&leaving));
        let thread = spawn(move || {
            if let Err(error) = read(&consumer, &kept, &left) {
                lock(&kept).error = Some(error);
            }
        });
        Self { seen, leaving, thread: Some(thread) }
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    pub fn wait_until(&self, condition: impl Fn(&Seen) -> bool, what: &str) {
        let holds = || {
            let seen = self.seen();
            assert_eq!(seen.error, None, "a member failed");
            condition(&seen)
        };
        let tells = || format!("a member to have {what}; it has {:?}", self.seen().assigned);
        wait_until(DEADLINE, holds, tells);
    }

    pub fn wait_for_partitions(&self, count: usize) {
        self.wait_until(|seen| seen.assigned.len() == count, &format!("{count} partitions"));
    }

    /// Commits, closes, and tells what it has seen.
    pub fn leave(mut self) -> Arc<Mutex<Seen>> {
        self.stop();
        assert_eq!(self.seen().error, None, "a member failed");
        Arc::clone(&self.seen)
    }

    fn stop(&mut self) {
        self.leaving.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the thread keeps its errors to itself");
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.stop();
    }
}

struct MemberContext(Arc<Mutex<Seen>>);

impl ClientContext for MemberContext {}

impl ConsumerContext for MemberContext {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let partitions = |places: &rdkafka::TopicPartitionList| -> BTreeSet<i32> {
            places.elements().iter().map(|place| place.partition()).collect()
        };
        match rebalance {
            Rebalance::Assign(places) => {
                let (mut seen, gained) = (lock(&self.0), partitions(places));
                seen.assigned.extend(&gained);
                seen.gained.push(gained);
            }
            Rebalance::Revoke(places) if places.count() > 0 => {
                let committed = commit(consumer);
                let (mut seen, lost) = (lock(&self.0), partitions(places));
                seen.error = seen.error.take().or(committed.err());
                seen.assigned.retain(|partition| !lost.contains(partition));
                seen.lost.push(lost);
            }
            Rebalance::Revoke(_) => {}
            Rebalance::Error(error) => lock(&self.0).error = Some(error.clone()),
        }
    }
}

fn read(
    consumer: &BaseConsumer<MemberContext>,
    seen: &Mutex<Seen>,
    leaving: &AtomicBool,
) -> KafkaResult<()> {
    let mut uncommitted = 0;
    while !leaving.load(Ordering::Relaxed) {
        let message = consumer.poll(Duration::from_millis(100)).transpose()?;
        if let Some(message) = &message {
            lock(seen).records.push(Record::from(message));
            uncommitted += 1;
        }
        if uncommitted >= COMMIT_INTERVAL_RECORDS || message.is_none() && uncommitted > 0 {
            commit(consumer)?;
            uncommitted = 0;
        }
    }
    commit(consumer)
}

/// While the group rebalances, a commit has to wait for the next one; what it would have said is read again.
fn commit(consumer: &BaseConsumer<MemberContext>) -> KafkaResult<()> {
    match consumer.commit_consumer_state(CommitMode::Sync) {
        Err(error) => match error.rdkafka_error_code() {
            Some(
                RDKafkaErrorCode::NoOffset
                | RDKafkaErrorCode::RebalanceInProgress
                | RDKafkaErrorCode::IllegalGeneration,
            ) => Ok(()),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
