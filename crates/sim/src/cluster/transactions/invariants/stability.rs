//! A `read_committed` reader gets nothing from behind the last stable offset, and what it has got stays: a record that it was
//! given is there at the end, and one that it passed over is aborted.

use std::collections::HashMap;

use logway_model::{Offset, ProducerId};
use logway_record::Batch;

use crate::cluster::transactions::ledger::CommittedRead;
use crate::cluster::transactions::view::EndedLog;
use crate::violation::{Violation, ensure};

/// Judges what readers have got, by the log as it is at the end.
pub(in crate::cluster::transactions) fn check(
    reads: &[CommittedRead],
    log: &EndedLog,
) -> Result<(), Violation> {
    let place = log.place;
    let markers = markers(&log.batches);
    for read in reads.iter().filter(|read| read.place == place) {
        let CommittedRead { from, next, high_watermark, returned, .. } = read;
        let in_read = |batch: &&Batch| batch.last_offset() >= *from && batch.base_offset() < *next;
        let batches: Vec<&Batch> = log.batches.iter().filter(in_read).collect();
        // The node knew nothing of a marker behind its high watermark: the transaction was open, as far as it knew.
        let open = batches.iter().find(|batch| {
            let marker = markers.get(&batch.base_offset());
            marker.is_some_and(|marker| *marker >= *high_watermark)
        });
        ensure(open.is_none(), || {
            let at = open.map_or(Offset::ZERO, |batch| batch.base_offset());
            format!(
                "{place}: a reader got what is before {next} while only what is before {high_watermark} \
                 was committed; the transaction at {at} ends behind that"
            )
        })?;
        let bases = batches.iter().map(|batch| batch.base_offset());
        let stays: Vec<Offset> = bases.filter(|base| log.committed.contains(base)).collect();
        ensure(stays == *returned, || {
            format!(
                "{place}: of what is from {from} to {next} a reader was given {returned:?}, and at the end \
                 another one is given {stays:?}"
            )
        })?;
    }
    Ok(())
}

/// For each batch that is part of a transaction, by its first offset, the marker that ends it.
fn markers(batches: &[Batch]) -> HashMap<Offset, Offset> {
    let mut markers = HashMap::new();
    let mut ends: HashMap<ProducerId, Offset> = HashMap::new();
    for batch in batches.iter().rev() {
        let (header, base) = (batch.header(), batch.base_offset());
        if header.attributes.is_control() {
            ends.insert(header.producer_id, base);
        } else if header.attributes.is_transactional() {
            // One that no marker ends is open for ever.
            let end = ends.get(&header.producer_id).copied().unwrap_or(Offset::LIMIT);
            markers.insert(base, end);
        }
    }
    markers
}
