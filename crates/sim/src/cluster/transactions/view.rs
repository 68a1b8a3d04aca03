//! What a consumer returns of what it has fetched.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use logway_log::AbortedTransaction;
use logway_model::{Offset, PartitionId};
use logway_node::read::Isolation;
use logway_record::{Batch, TransactionMarker, TransactionOutcome};

use crate::cluster::machine::Served;
use crate::cluster::oracle::Place;
use crate::cluster::patience::Patience;
use crate::cluster::reader::{Read, read};
use crate::violation::Violation;

/// What is there at the end is read within this time.
const READ_WITHIN: Duration = Duration::from_secs(20);

/// The batches of clients that a consumer returns of what it has fetched, as Kafka's consumers do: it passes over markers,
/// and over a producer's batches from the beginning of an aborted transaction to its marker.
pub(super) fn returned(found: &Read, isolation: Isolation) -> Vec<&Batch> {
    let mut aborted: Vec<&AbortedTransaction> = found.aborted.iter().collect();
    aborted.sort_by_key(|it| std::cmp::Reverse(it.first));
    let mut passed_over = HashSet::new();
    let is_returned = |batch: &&Batch| {
        let header = batch.header();
        while let Some(begun) = aborted.pop_if(|it| it.first <= batch.last_offset()) {
            passed_over.insert(begun.producer_id);
        }
        if header.attributes.is_control() {
            let marker = TransactionMarker::of(batch).ok().flatten();
            if marker.is_some_and(|it| it.outcome == TransactionOutcome::Abort) {
                passed_over.remove(&header.producer_id);
            }
            return false;
        }
        let is_aborted =
            header.attributes.is_transactional() && passed_over.contains(&header.producer_id);
        isolation == Isolation::Uncommitted || !is_aborted
    };
    found.batches.iter().filter(is_returned).collect()
}

/// A partition as it is at the end, when no transaction is open.
pub(super) struct EndedLog {
    pub(super) place: Place,
    /// All batches, with markers.
    pub(super) batches: Vec<Batch>,
    /// The first offsets of those that a `read_committed` reader returns.
    pub(super) committed: BTreeSet<Offset>,
}

impl EndedLog {
    /// Reads all of it, from a node that has a replica. All of these are equal by now, and another one may lead at any moment.
    pub(super) async fn read(served: &Served, place: Place) -> Result<EndedLog, Violation> {
        let end = {
            let topics = served.node.topics();
            let topic = topics.by_name(place.topic).ok();
            let replica = topic.as_ref().and_then(|it| it.replica(PartitionId(place.partition)));
            let absent = || Violation::new(format!("{place} is not there to be read"));
            replica.ok_or_else(absent)?.log().log_end_offset()
        };
        let mut log = EndedLog { place, batches: Vec::new(), committed: BTreeSet::new() };
        let mut position = Offset::ZERO;
        let mut patience = Patience::new(READ_WITHIN);
        while position < end {
            let reading = read(served.node.clone(), place, position, Isolation::Committed);
            let found = served.runtime.spawn(reading).await.ok().flatten();
            let Some(found) = found.filter(|it| !it.batches.is_empty()) else {
                if !patience.wait().await {
                    let what = format!("{place} is not read beyond {position} of {end}");
                    return Err(Violation::new(what));
                }
                continue;
            };
            let returned = returned(&found, Isolation::Committed);
            log.committed.extend(returned.iter().map(|batch| batch.base_offset()));
            position = found.batches.last().map_or(position, |batch| batch.last_offset().next());
            log.batches.extend(found.batches);
        }
        Ok(log)
    }

    /// The batches that a `read_committed` reader returns.
    pub(super) fn committed(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter().filter(|batch| self.committed.contains(&batch.base_offset()))
    }
}
