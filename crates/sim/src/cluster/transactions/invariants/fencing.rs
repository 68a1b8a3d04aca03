//! A producer that is fenced writes nothing.

use std::collections::HashMap;

use logway_coordinator::transactions::Producer;
use logway_model::ProducerId;

use crate::cluster::transactions::ledger::Ledger;
use crate::cluster::transactions::view::EndedLog;
use crate::violation::{Violation, ensure};

/// Judges something that a producer was told is done. `is_wrong` says that its successor had begun before it asked.
pub(in crate::cluster::transactions) fn check(
    producer: Producer,
    is_wrong: bool,
    what: &str,
) -> Result<(), String> {
    match is_wrong {
        true => Err(format!("{producer:?}, which is fenced, has {what}")),
        false => Ok(()),
    }
}

/// Judges a log. It has nothing that was first sent by a producer that was fenced, aborted or not. Behind a batch or a marker of
/// a producer there is none of an earlier epoch.
pub(in crate::cluster::transactions) fn check_log(
    ledger: &Ledger,
    log: &EndedLog,
) -> Result<(), Violation> {
    let place = log.place;
    let mut epochs = HashMap::<ProducerId, _>::new();
    for batch in &log.batches {
        let (header, at) = (batch.header(), batch.base_offset());
        ensure(!ledger.was_sent_fenced(batch), || {
            format!("{place}: at {at} is what a fenced producer has sent")
        })?;
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        let before = epochs.insert(id, epoch).unwrap_or(epoch);
        ensure(before <= epoch, || {
            format!("{place}: producer {id} writes in epoch {epoch} at {at}, after {before}")
        })?;
    }
    Ok(())
}
