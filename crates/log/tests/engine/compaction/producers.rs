//! What compaction leaves of producers and transactions.

use std::path::Path;
use std::sync::Arc;

use logway_log::{CleanerOptions, LogConfig};
use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{Attributes, Batch, BatchBuilder, Compression};

use super::{Bench, compacted, keyed, shown};
use crate::support::*;

#[test]
fn the_last_batch_of_a_producer_leaves_its_sequence() {
    let bench = Bench::new(compacted());
    let of_producer = |id, sequence, key: &str| {
        let builder = BatchBuilder::new(Compression::None).with_producer(
            ProducerId(id),
            ProducerEpoch(0),
            Sequence(sequence),
        );
        append(&bench.log, keyed(builder, &[(key, Some("1"))])).expect("the disk works");
    };
    of_producer(7, 0, "a");
    of_producer(7, 1, "a");
    of_producer(8, 0, "a");
    bench.put("a", Some("2"));
    bench.roll();
    bench.clean();
    let batches = read_batches(&bench.log, Offset(0));
    let found: Vec<_> = batches
        .iter()
        .map(|batch| (batch.header().producer_id.0, batch.header().record_count))
        .take(3)
        .collect();
    assert_eq!(found, [(7, 0), (8, 0), (-1, 1)], "the first of producer 7 says nothing new");
    // A start without snapshots learns the sequences from what is left.
    bench.dir.close().expect("it closes");
    let disk = bench.disk;
    for name in names_in(&disk.fs, "/data/t-0") {
        if name.ends_with(".snapshot") {
            remove(&disk, &Path::new("/data/t-0").join(name));
        }
    }
    let bench = Bench::on(disk, CleanerOptions::default());
    let producers = bench.log.producers().wait().expect("the writer lives");
    let mut sequences: Vec<_> =
        producers.iter().map(|(id, state)| (id.0, state.next_sequence().0)).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, [(7, 2), (8, 1)]);
}

/// A batch of a transaction.
fn in_transaction(id: i64, sequence: i32, key: &str, value: &str) -> Batch {
    let builder = BatchBuilder::new(Compression::None)
        .with_producer(ProducerId(id), ProducerEpoch(0), Sequence(sequence))
        .with_attributes(Attributes::default().with_transactional(true));
    keyed(builder, &[(key, Some(value))])
}

/// The end of a transaction.
fn marker(id: i64, is_commit: bool) -> Batch {
    let attributes = Attributes::default().with_transactional(true).with_control(true);
    let mut builder = BatchBuilder::new(Compression::None)
        .with_producer(ProducerId(id), ProducerEpoch(0), Sequence(-1))
        .with_attributes(attributes);
    let key = [0, 0, 0, u8::from(is_commit)];
    builder
        .append(TimestampMs(NOW_MS), Some(&key), Some(&[0, 0, 0, 0, 0, 1]), &[])
        .expect("the record fits");
    Batch::parse(builder.finish().expect("the batch is encoded")).expect("the batch is good")
}

#[test]
fn what_a_transaction_took_back_goes_and_does_not_supersede() {
    let bench = Bench::new(compacted());
    let add = |batch| append(&bench.log, batch).expect("the disk works");
    bench.put("a", Some("kept"));
    add(in_transaction(1, 0, "a", "aborted"));
    add(in_transaction(2, 0, "b", "committed"));
    add(marker(1, false));
    add(marker(2, true));
    add(in_transaction(1, 1, "c", "open"));
    bench.put("d", Some("old"));
    bench.put("d", Some("new"));
    bench.roll();
    bench.clean();
    let data = |bench: &Bench| -> Vec<(i64, Option<String>)> {
        let data = bench.contents().into_iter().filter(|(_, key, _)| key.len() == 1);
        data.map(|(offset, _, value)| (offset, value)).collect()
    };
    let owned = |value: &str| Some(value.to_owned());
    assert_eq!(
        data(&bench),
        [
            (0, owned("kept")),
            (2, owned("committed")),
            (5, owned("open")),
            (6, owned("old")),
            (7, owned("new")),
        ],
        "nothing from an undecided transaction on is touched"
    );
    let cleaned_bytes = bench.metrics.cleaned_bytes.get();
    bench.clean();
    assert_eq!(bench.metrics.cleaned_bytes.get(), cleaned_bytes, "nothing is done again in vain");
    append(&bench.log, marker(1, true)).expect("the disk works");
    bench.roll();
    bench.clean();
    let kept = [(0, "kept"), (2, "committed"), (5, "open"), (7, "new")];
    let kept: Vec<_> = kept.into_iter().map(|(offset, value)| (offset, owned(value))).collect();
    assert_eq!(data(&bench), kept);
    // The abort marker of a transaction of which nothing is left goes after its horizon.
    let has_marker = |offset: i64| {
        let batches = read_batches(&bench.log, Offset(0));
        batches
            .iter()
            .any(|batch| batch.base_offset() == Offset(offset) && batch.header().record_count == 1)
    };
    assert!(has_marker(3) && has_marker(4));
    bench.disk.clock.advance(1500);
    bench.clean();
    assert!(!has_marker(3), "its horizon has passed");
    assert!(has_marker(4), "the records that it commits are there");
    bench.check_files();
}

#[test]
fn more_aborted_transactions_than_fit_into_memory_take_several_rounds() {
    const TRANSACTIONS: i32 = 60;
    let options = CleanerOptions { transactions_max: 20, ..CleanerOptions::default() };
    let disk = TestDisk::new(1).with_config(compacted());
    let bench = Bench::on(disk, options);
    bench.put("a", Some("kept"));
    for sequence in 0..TRANSACTIONS {
        for batch in [in_transaction(1, sequence, "a", "aborted"), marker(1, false)] {
            append(&bench.log, batch).expect("the disk works");
        }
    }
    bench.roll();
    bench.clean();
    assert_eq!(bench.metrics.failed_rounds.get(), 0);
    assert_eq!(bench.metrics.superseded_records.get(), TRANSACTIONS as u64);
    let values: Vec<_> = bench.contents().into_iter().filter(|(_, key, _)| key == "a").collect();
    assert_eq!(values, shown(&[(0, "a", Some("kept"))]));
    bench.check_files();
}

#[test]
fn a_segment_with_more_transactions_than_fit_into_memory_is_left_alone() {
    let options = CleanerOptions { transactions_max: 5, ..CleanerOptions::default() };
    let disk = TestDisk::new(1).with_config(LogConfig { segment_bytes: 1 << 20, ..compacted() });
    let bench = Bench::on(disk, options);
    for sequence in 0..10 {
        for batch in [in_transaction(1, sequence, "a", "aborted"), marker(1, false)] {
            append(&bench.log, batch).expect("the disk works");
        }
    }
    bench.log.set_config(Arc::new(compacted()));
    bench.roll();
    bench.clean();
    bench.clean();
    assert_eq!(bench.metrics.uncleanable_partitions(), 1);
    assert_eq!(bench.contents().into_iter().filter(|(_, key, _)| key == "a").count(), 10);
}
