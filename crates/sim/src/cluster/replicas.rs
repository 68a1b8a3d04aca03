//! Replicas of a partition have the same.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use logway_log::producer_state::ProducerState;
use logway_log::{AbortedTransaction, Log, ReadRequest};
use logway_model::{BrokerId, Offset, ProducerId};

use super::oracle::{Place, Stored};
use super::reader::batches_in;
use crate::violation::{Violation, ensure};

/// What one replica has.
pub(super) struct Copy {
    pub(super) stored: Vec<Stored>,
    /// The transactions that were aborted, by their markers.
    aborted: BTreeMap<Offset, AbortedTransaction>,
    /// What is known of each producer. The last batch alone: a start forgets the others.
    producers: BTreeMap<ProducerId, String>,
}

impl Copy {
    /// Reads all of a log.
    pub(super) fn of(log: &Arc<Log>) -> Result<Copy, String> {
        let mut copy =
            Copy { stored: Vec::new(), aborted: BTreeMap::new(), producers: BTreeMap::new() };
        let (mut next, end) = (log.log_start_offset(), log.log_end_offset());
        while next < end {
            let request = ReadRequest {
                offset: next,
                max_bytes: 1 << 20,
                upper_bound: end,
                at_least_one_batch: true,
            };
            let read = log.read_committed(request).map_err(|error| error.to_string())?;
            let bytes = read.slice.read().map_err(|error| error.to_string())?;
            copy.stored.extend(batches_in(bytes)?.iter().map(Stored::of));
            let last = copy.stored.last().map(|batch| batch.last.next());
            next = last.filter(|last| *last > next).ok_or(format!("nothing at {next}"))?;
            copy.aborted.extend(read.aborted.into_iter().map(|aborted| (aborted.last, aborted)));
        }
        let producers = log.producers().wait().map_err(|error| error.to_string())?;
        copy.producers = producers.iter().map(|(id, state)| (*id, told(state))).collect();
        Ok(copy)
    }
}

fn told(state: &ProducerState) -> String {
    let last = state.last_batch().map(|batch| (batch.last_sequence, batch.last_offset));
    let ProducerState { epoch, coordinator_epoch, transaction_start, .. } = state;
    format!("epoch {epoch}, {coordinator_epoch}, open from {transaction_start:?}, last {last:?}")
}

/// Judges the replicas of a partition, by the nodes that have them.
pub(super) fn check(place: Place, copies: &[(BrokerId, Copy)]) -> Result<(), Violation> {
    let Some(((first, ours), others)) = copies.split_first() else { return Ok(()) };
    for (other, theirs) in others {
        let nodes = format!("{place}: nodes {first} and {other}");
        if ours.stored != theirs.stored {
            let pairs = ours.stored.iter().zip(&theirs.stored);
            let same = pairs.take_while(|(ours, theirs)| ours == theirs).count();
            let at = |copy: &Copy| match copy.stored.get(same) {
                Some(it) => format!("{} to {} of epoch {}", it.base, it.last, it.epoch.0),
                None => "their end".to_owned(),
            };
            let (ours, theirs) = (at(ours), at(theirs));
            return Err(Violation::new(format!("{nodes} have {ours}, and {theirs}")));
        }
        ensure(ours.aborted == theirs.aborted, || {
            let difference = difference(&ours.aborted, &theirs.aborted);
            format!("{nodes} know of aborted transactions {difference}")
        })?;
        ensure(ours.producers == theirs.producers, || {
            let difference = difference(&ours.producers, &theirs.producers);
            format!("{nodes} know of producers {difference}")
        })?;
    }
    Ok(())
}

/// What either has and the other has not.
fn difference<K: Ord + Debug, V: PartialEq + Debug>(
    ours: &BTreeMap<K, V>,
    theirs: &BTreeMap<K, V>,
) -> String {
    let only = |one: &BTreeMap<K, V>, other: &BTreeMap<K, V>| {
        let only = one.iter().filter(|(key, value)| other.get(key) != Some(value));
        format!("{:?}", only.collect::<Vec<_>>())
    };
    format!("{}, and {}", only(ours, theirs), only(theirs, ours))
}
