//! Compaction, piece by piece.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::fs::{Fs, OpenMode, read_to_end};
use logway_log::inspect::verify;
use logway_log::{
    CleanerMetrics, CleanerOptions, CleanupPolicy, Log, LogCleaner, LogConfig, LogDir, LogError,
};
use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{Attributes, Batch, BatchBuilder, Compression, DecodeLimit, Record};

use crate::support::*;

/// A log that is compacted whenever anything in it is dirty.
pub(crate) fn compacted() -> LogConfig {
    LogConfig {
        cleanup: CleanupPolicy::Compact,
        min_cleanable_dirty_ratio: 0.0,
        delete_retention_ms: 1000,
        segment_bytes: 1000,
        index_interval_bytes: 100,
        retention_ms: None,
        ..LogConfig::default()
    }
}

/// A disk, a log on it, and a cleaner that works when it is told to.
struct Bench {
    disk: TestDisk,
    dir: Arc<LogDir>,
    log: Arc<Log>,
    cleaner: LogCleaner,
    metrics: CleanerMetrics,
}

impl Bench {
    fn new(config: LogConfig) -> Bench {
        Bench::on(TestDisk::new(1).with_config(config), CleanerOptions::default())
    }

    fn on(disk: TestDisk, options: CleanerOptions) -> Bench {
        let dir = Arc::new(disk.open());
        let log = disk.log(&dir);
        let metrics = CleanerMetrics::new();
        let cleaner = LogCleaner::new(options, metrics.clone());
        cleaner.watch(&dir);
        Bench { disk, dir, log, cleaner, metrics }
    }

    /// Appends one record.
    fn put(&self, key: &str, value: Option<&str>) -> Offset {
        self.put_all(&[(key, value)])
    }

    /// Appends a batch.
    fn put_all(&self, records: &[(&str, Option<&str>)]) -> Offset {
        let batch = keyed(BatchBuilder::new(Compression::None), records);
        append(&self.log, batch).expect("the disk works").base_offset
    }

    /// Begins a new segment, and waits until the full ones can be cleaned.
    fn roll(&self) {
        self.disk.clock.advance(1);
        let filler = "x".repeat(2000);
        let big = self.put("filler", Some(&filler));
        self.put("filler", Some(&filler));
        wait_sealed(&self.dir, &self.log);
        assert!(self.log.log_end_offset() > big);
    }

    /// Three full segments with a value of the same key each.
    fn put_old_values(&self) {
        for value in ["1", "2", "3"] {
            self.put("a", Some(value));
            self.roll();
        }
        wait_sealed(&self.dir, &self.log);
    }

    fn clean(&self) {
        wait_sealed(&self.dir, &self.log);
        self.cleaner.clean_due();
    }

    /// What there is but for fillers: offset, key, value.
    fn contents(&self) -> Vec<(i64, String, Option<String>)> {
        contents(&self.log)
    }

    /// The files are sound, and there are none but the segments'.
    fn check_files(&self) {
        let mut problems = Vec::new();
        verify(&self.disk.fs, Path::new("/data/t-0"), |problem| problems.push(problem))
            .expect("the files can be read");
        assert_eq!(problems, []);
        for name in names_in(&self.disk.fs, "/data/t-0") {
            assert!(!name.ends_with(".cleaned") && !name.ends_with(".swap"), "{name}");
        }
    }

    fn reopen(self) -> Bench {
        self.dir.close().expect("it closes");
        let Bench { disk, dir, log, cleaner, .. } = self;
        drop((cleaner, log, dir));
        let bench = Bench::on(disk, CleanerOptions::default());
        let report = bench.dir.recovery_report();
        assert!(report.findings.is_empty() && report.failed.is_empty(), "{report:?}");
        bench
    }
}

fn bench_with_old_values() -> Bench {
    let bench = Bench::new(compacted());
    bench.put_old_values();
    bench
}

/// Full segments are cleaned once they are sealed, which checkpoints behind the sealing show.
pub(crate) fn wait_sealed(dir: &LogDir, _log: &Log) {
    // One sealing may be under way, and one more may wait for it: the third knows of both.
    for _ in 0..3 {
        dir.enforce_retention().wait().expect("the writer lives");
    }
}

pub(crate) fn keyed(mut builder: BatchBuilder, records: &[(&str, Option<&str>)]) -> Batch {
    for (key, value) in records {
        let (key, value) = (Some(key.as_bytes()), value.map(str::as_bytes));
        builder.append(TimestampMs(NOW_MS), key, value, &[]).expect("the record fits");
    }
    Batch::parse(builder.finish().expect("the batch is encoded")).expect("the batch is good")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("our records are text")
}

fn contents(log: &Log) -> Vec<(i64, String, Option<String>)> {
    let records = read_records(log, log.log_start_offset());
    let shown = |record: Record| {
        let key = record.key.as_deref().map(text).unwrap_or_default();
        (record.offset.0, key, record.value.as_deref().map(text))
    };
    records.into_iter().map(shown).filter(|(_, key, _)| key != "filler").collect()
}

fn shown(records: &[(i64, &str, Option<&str>)]) -> Vec<(i64, String, Option<String>)> {
    let owned = |&(offset, key, value): &(i64, &str, Option<&str>)| {
        (offset, key.to_owned(), value.map(str::to_owned))
    };
    records.iter().map(owned).collect()
}

#[test]
fn of_each_key_the_newest_record_stays_at_its_offset() {
    let bench = Bench::new(compacted());
    bench.put_all(&[("a", Some("1")), ("b", Some("1")), ("a", Some("2"))]);
    bench.put("c", Some("1"));
    bench.put("b", Some("2"));
    bench.roll();
    let before = bench.log.size_bytes();
    let records_before = read_records(&bench.log, Offset(0)).len();
    bench.clean();
    let expected = [(2, "a", Some("2")), (3, "c", Some("1")), (4, "b", Some("2"))];
    assert_eq!(bench.contents(), shown(&expected));
    assert!(bench.log.size_bytes() < before);
    assert_eq!(bench.metrics.superseded_records.get(), 2);
    assert!(read_records(&bench.log, Offset(0)).len() == records_before - 2);
    bench.check_files();
    // Reads from each offset find the next record that is left.
    for offset in 0..5 {
        let found = read_records(&bench.log, Offset(offset));
        assert_eq!(found[0].offset.0, offset.max(2), "from {offset}");
    }
    let bench = bench.reopen();
    assert_eq!(bench.contents(), shown(&expected));
    // Nothing is left to do, and the checkpoint says so.
    bench.clean();
    assert_eq!(bench.metrics.cleaned_bytes.get(), 0);
}

#[test]
fn the_segment_that_grows_is_left_alone() {
    let bench = Bench::new(compacted());
    bench.put("a", Some("1"));
    bench.put("a", Some("2"));
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
}

#[test]
fn a_tombstone_goes_only_after_its_horizon() {
    let bench = Bench::new(compacted());
    bench.put("a", Some("1"));
    bench.put("a", None);
    bench.put("b", Some("1"));
    bench.roll();
    bench.clean();
    let with_tombstone = shown(&[(1, "a", None), (2, "b", Some("1"))]);
    assert_eq!(bench.contents(), with_tombstone);
    let marked = &read_batches(&bench.log, Offset(1))[0];
    assert_eq!(marked.header().delete_horizon(), Some(TimestampMs(NOW_MS + 1 + 1000)));
    // The time of the record is still what it was.
    assert_eq!(read_records(&bench.log, Offset(1))[0].timestamp, TimestampMs(NOW_MS));
    bench.disk.clock.advance(999);
    bench.clean();
    assert_eq!(bench.contents(), with_tombstone);
    // Nothing new comes, and still it goes.
    bench.disk.clock.advance(1);
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(2, "b", Some("1"))]));
    assert_eq!(bench.metrics.deleted_records.get(), 1);
    bench.check_files();
}

#[test]
fn a_horizon_outlives_a_restart() {
    let bench = Bench::new(compacted());
    bench.put("a", None);
    bench.roll();
    bench.clean();
    let horizon = read_batches(&bench.log, Offset(0))[0].header().delete_horizon();
    let bench = bench.reopen();
    bench.disk.clock.advance(500);
    bench.put("b", Some("1"));
    bench.roll();
    bench.clean();
    assert_eq!(read_batches(&bench.log, Offset(0))[0].header().delete_horizon(), horizon);
    bench.disk.clock.advance(500);
    bench.put("c", Some("1"));
    bench.roll();
    bench.clean();
    assert!(bench.contents().iter().all(|(_, key, _)| key != "a"));
}

#[test]
fn records_younger_than_the_minimum_lag_stay() {
    let config = LogConfig { min_compaction_lag_ms: 500, ..compacted() };
    let bench = Bench::new(config);
    bench.put("a", Some("1"));
    bench.put("a", Some("2"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
    bench.disk.clock.advance(600);
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(1, "a", Some("2"))]));
}

#[test]
fn a_log_is_cleaned_when_it_is_dirty_enough_or_its_records_wait_too_long() {
    let lag_ms = 60_000;
    let config = LogConfig {
        min_cleanable_dirty_ratio: 0.9,
        max_compaction_lag_ms: lag_ms,
        segment_bytes: 4000,
        ..compacted()
    };
    let bench = Bench::new(config);
    for number in 0..50 {
        bench.put(&format!("key-{number}"), Some("1"));
    }
    bench.roll();
    bench.clean();
    let cleaned = bench.metrics.cleaned_bytes.get();
    assert!(cleaned > 0, "all of it is dirty");
    bench.put("key-1", Some("2"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.metrics.cleaned_bytes.get(), cleaned, "a fraction is dirty");
    // Nobody appends any more: the segment that grew is ended by the clock.
    bench.put("key-2", Some("2"));
    bench.disk.clock.advance(lag_ms as i64 + 10);
    bench.clean();
    bench.clean();
    let values: Vec<_> = bench.contents();
    for key in ["key-1", "key-2"] {
        let of_key: Vec<_> = values.iter().filter(|(_, found, _)| found == key).collect();
        assert_eq!(of_key.len(), 1, "{of_key:?}");
        assert_eq!(of_key[0].2.as_deref(), Some("2"));
    }
}

#[test]
fn nothing_from_the_stable_offset_on_is_touched() {
    struct Stable(Offset);
    impl logway_log::TailListener for Stable {
        fn on_tail(&self, _: Offset, _: Offset) {}
        fn stable_offset(&self) -> Offset {
            self.0
        }
    }
    let bench = Bench::new(compacted());
    bench.put("a", Some("1"));
    bench.put("a", Some("2"));
    bench.roll();
    bench.log.set_tail_listener(Arc::new(Stable(Offset(1))));
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
    bench.log.set_tail_listener(Arc::new(Stable(Offset(4))));
    bench.clean();
    assert_eq!(bench.contents().len(), 1);
}

#[test]
fn the_policy_can_change_at_any_time() {
    let bench = Bench::new(LogConfig { cleanup: CleanupPolicy::Delete, ..compacted() });
    bench.put("a", Some("1"));
    bench.put("a", Some("2"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
    bench.log.set_config(Arc::new(compacted()));
    bench.clean();
    assert_eq!(bench.contents().len(), 1);
    let both = LogConfig {
        cleanup: CleanupPolicy::CompactAndDelete,
        retention_ms: Some(1000),
        ..compacted()
    };
    bench.log.set_config(Arc::new(both));
    bench.disk.clock.advance(5000);
    bench.dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(bench.contents(), []);
    assert_eq!(bench.log.log_start_offset(), bench.log.log_end_offset());
}

#[test]
fn retention_goes_by_the_records_that_are_left() {
    let both = LogConfig {
        cleanup: CleanupPolicy::CompactAndDelete,
        retention_bytes: Some(1),
        ..compacted()
    };
    let bench = Bench::new(LogConfig { retention_bytes: None, ..both.clone() });
    for value in ["1", "2", "3"] {
        bench.put("a", Some(value));
        bench.roll();
    }
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(6, "a", Some("3"))]));
    bench.log.set_config(Arc::new(both));
    bench.dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(bench.log.segment_count(), 1);
    assert_eq!(bench.log.log_start_offset(), Offset(8), "the segment that grows is kept");
}

#[test]
fn keys_that_do_not_fit_into_memory_take_several_rounds() {
    let options = CleanerOptions { keys_bytes_max: 0, ..CleanerOptions::default() };
    let disk = TestDisk::new(1).with_config(LogConfig { segment_bytes: 8000, ..compacted() });
    let bench = Bench::on(disk, options);
    let keys = 3000;
    for round in 0..2 {
        for chunk in 0..keys / 100 {
            let names: Vec<String> =
                (0..100).map(|key| format!("key-{}", chunk * 100 + key)).collect();
            let value = format!("{round}");
            let records: Vec<(&str, Option<&str>)> =
                names.iter().map(|name| (name.as_str(), Some(value.as_str()))).collect();
            bench.put_all(&records);
        }
    }
    bench.roll();
    bench.clean();
    let contents = bench.contents();
    assert_eq!(contents.len(), keys);
    assert!(
        contents
            .iter()
            .all(|(offset, _, value)| { *offset >= keys as i64 && value.as_deref() == Some("1") })
    );
    bench.check_files();
}

#[test]
fn small_segments_become_one() {
    let bench = Bench::new(LogConfig { segment_bytes: 100, ..compacted() });
    for number in 0..50 {
        bench.put(&format!("key-{}", number % 5), Some("1"));
    }
    bench.roll();
    let before = bench.log.segment_count();
    assert!(before > 40);
    bench.log.set_config(Arc::new(LogConfig { segment_bytes: 100_000, ..compacted() }));
    bench.clean();
    assert!(bench.log.segment_count() < 6, "{}", bench.log.segment_count());
    assert_eq!(bench.contents().len(), 5);
    bench.check_files();
    let bench = bench.reopen();
    assert_eq!(bench.contents().len(), 5);
    bench.check_files();
}

#[test]
fn headers_compression_and_timestamps_stay() {
    use logway_record::Header;
    let bench = Bench::new(compacted());
    for codec in Compression::ALL {
        let mut builder = BatchBuilder::new(codec);
        let headers = [
            Header::new("h", Some("1".into())),
            Header::new("h", Some("2".into())),
            Header::new(&b"\xff\xfe"[..], None),
        ];
        for (index, key) in ["old", codec.name()].into_iter().enumerate() {
            let timestamp = TimestampMs(NOW_MS + index as i64);
            let value = Some(&b"value"[..]);
            builder.append(timestamp, Some(key.as_bytes()), value, &headers).expect("it fits");
        }
        let batch = Batch::parse(builder.finish().expect("it is encoded")).expect("it is good");
        append(&bench.log, batch).expect("the disk works");
    }
    bench.roll();
    bench.clean();
    let batches = read_batches(&bench.log, Offset(0));
    for (codec, batch) in Compression::ALL.into_iter().zip(batches) {
        assert_eq!(batch.header().attributes.compression(), Ok(codec));
        let records = batch.records(DecodeLimit::DEFAULT).expect("it decompresses");
        let records: Vec<Record> = records.map(|record| record.expect("it is good")).collect();
        let newest = records.last().expect("one is left");
        assert_eq!(newest.key.as_deref(), Some(codec.name().as_bytes()));
        assert_eq!(newest.timestamp, TimestampMs(NOW_MS + 1));
        assert_eq!(newest.headers.len(), 3, "the one that is there twice, too");
        assert_eq!(&newest.headers[2].key[..], b"\xff\xfe");
    }
    let target = TimestampMs(NOW_MS + 1);
    let lookup = bench.log.offset_for_timestamp(target, Offset(100), DecodeLimit::DEFAULT);
    let found = lookup.expect("the log is whole").found;
    assert_eq!(found.map(|found| found.offset), Some(Offset(1)));
}

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
fn a_damaged_batch_stops_the_compaction_of_its_partition_only() {
    let bench = Bench::new(compacted());
    let other = bench.disk.log_of(&bench.dir, 1);
    for log in [&bench.log, &other] {
        for value in ["1", "2"] {
            let batch = keyed(BatchBuilder::new(Compression::None), &[("a", Some(value))]);
            append(log, batch).expect("the disk works");
        }
        let filler = "x".repeat(2000);
        for _ in 0..2 {
            let batch = keyed(BatchBuilder::new(Compression::None), &[("filler", Some(&filler))]);
            append(log, batch).expect("the disk works");
        }
    }
    // The first byte of the second batch: its offset, which the CRC does not cover.
    bench.disk.fs.flip_bit(&segment_path(0), 70, 3).expect("it is there");
    wait_sealed(&bench.dir, &bench.log);
    let files = names_in(&bench.disk.fs, "/data/t-0");
    bench.clean();
    bench.clean();
    assert_eq!(contents(&other), shown(&[(1, "a", Some("2"))]));
    assert_eq!(bench.metrics.uncleanable_partitions(), 1);
    assert_eq!(bench.metrics.failed_rounds.get(), 1, "it is not tried again and again");
    assert_eq!(names_in(&bench.disk.fs, "/data/t-0"), files);
    // When what is damaged is gone, there is nothing in the way any more.
    bench.log.delete_records_before(Offset(3)).wait().expect("it is in the log");
    bench.put("b", Some("1"));
    bench.put("b", Some("2"));
    bench.roll();
    bench.clean();
    bench.clean();
    assert_eq!(bench.metrics.uncleanable_partitions(), 0);
    assert_eq!(bench.contents(), shown(&[(5, "b", Some("2"))]));
}

#[test]
fn a_disk_that_fills_leaves_the_log_as_it_was() {
    let bench = Bench::new(compacted());
    for value in ["1", "2", "3"] {
        bench.put("a", Some(value));
        bench.roll();
    }
    let before = bench.contents();
    let files = names_in(&bench.disk.fs, "/data/t-0");
    for operation in [SimOperation::Write, SimOperation::Open, SimOperation::Rename] {
        let full = Fault::new(operation, Failure::NoSpace).in_path(".cleaned");
        let full = if operation == SimOperation::Rename { full.in_path(".swap") } else { full };
        bench.disk.fs.inject(full);
        bench.clean();
        assert_eq!(bench.contents(), before);
        assert_eq!(names_in(&bench.disk.fs, "/data/t-0"), files, "{operation:?}");
        bench.disk.fs.heal();
    }
    assert!(bench.metrics.failed_rounds.get() > 0);
    // Little space left is for appends.
    bench.disk.fs.set_capacity_bytes(10 << 20);
    bench.clean();
    assert_eq!(bench.contents(), before);
    bench.put("b", Some("1"));
    bench.disk.fs.set_capacity_bytes(1 << 30);
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
    bench.check_files();
}

#[test]
fn a_swap_that_cannot_be_finished_is_finished_later() {
    let bench = Bench::new(LogConfig { segment_bytes: 2500, ..compacted() });
    for value in ["1", "2", "3"] {
        bench.put("a", Some(value));
        bench.roll();
    }
    let before = bench.contents();
    // The last step: the cleaned segment gets its name.
    let fault = Fault::new(SimOperation::Rename, Failure::Io).in_path("00000000000000000000.log");
    bench.disk.fs.inject(fault.after(1));
    bench.clean();
    assert_eq!(bench.contents(), before, "readers have what they had");
    // What lies before the log start goes only when the replacement is done.
    bench.log.delete_records_before(Offset(1)).wait().expect("it is in the log");
    bench.disk.fs.heal();
    wait_sealed(&bench.dir, &bench.log);
    wait_sealed(&bench.dir, &bench.log);
    assert!(bench.contents().len() < before.len());
    bench.clean();
    assert_eq!(bench.contents().len(), 1);
    bench.check_files();
    let bench = bench.reopen();
    assert_eq!(bench.contents().len(), 1);
}

#[test]
fn a_failed_sync_of_the_directory_while_a_log_is_cleaned_poisons_it() {
    // The first sync is for the names of the cleaned files, the second for what counts then.
    for passes in 0..2 {
        let bench = bench_with_old_values();
        let fault = Fault::new(SimOperation::SyncDir, Failure::Io).in_path("t-0");
        bench.disk.fs.inject(fault.after(passes).times(1));
        bench.clean();
        let batch = keyed(BatchBuilder::new(Compression::None), &[("b", Some("1"))]);
        let error = append(&bench.log, batch).expect_err("names in the directory may be lost");
        assert!(matches!(error, LogError::Poisoned { .. }), "after {passes}: {error}");
    }
}

/// A disk on which a cleaned segment is to take the place of several, but the name that says so may
/// be in the page cache alone: the process has ended, the machine has not.
fn disk_with_unsynced_swap(seed: u64) -> TestDisk {
    let disk = TestDisk::new(seed).with_config(compacted());
    let bench = Bench::on(disk, CleanerOptions::default());
    bench.put_old_values();
    bench.log.set_config(Arc::new(LogConfig { segment_bytes: 1 << 20, ..compacted() }));
    let fault = Fault::new(SimOperation::SyncDir, Failure::Io).in_path("t-0");
    bench.disk.fs.inject(fault.after(1).times(1));
    bench.clean();
    bench.disk
}

#[test]
fn a_swap_whose_name_is_not_on_the_disk_is_finished_so_that_it_is() {
    let disk = disk_with_unsynced_swap(0);
    let before = disk.fs.changes();
    drop(disk.open());
    let changes = disk.fs.changes() - before;
    assert!(!names_in(&disk.fs, "/data/t-0").iter().any(|name| name.ends_with(".swap")));
    for crash_at in 1..=changes {
        let disk = disk_with_unsynced_swap(crash_at);
        disk.fs.crash_at_change(crash_at);
        let _ = disk.try_open();
        let disk = disk.crash();
        let dir = disk.open();
        let report = dir.recovery_report();
        let is_whole = report.findings.is_empty() && report.failed.is_empty();
        assert!(is_whole, "power cut at change {crash_at}: {report:?}");
        let found = contents(&disk.log(&dir));
        let newest = found.last().map(|(offset, ..)| *offset);
        assert_eq!(newest, Some(6), "power cut at change {crash_at}: {found:?}");
    }
}

#[test]
fn a_log_that_somebody_has_put_there_is_cleaned_from_its_beginning() {
    let bench = bench_with_old_values();
    bench.clean();
    let other = bench_with_old_values();
    other.put("b", Some("1"));
    for bench in [&bench, &other] {
        bench.dir.close().expect("it closes");
    }
    for name in names_in(&bench.disk.fs, "/data/t-0") {
        remove(&bench.disk, &Path::new("/data/t-0").join(name));
    }
    for name in names_in(&other.disk.fs, "/data/t-0") {
        let path = Path::new("/data/t-0").join(name);
        let from = other.disk.fs.open(&path, OpenMode::Read).expect("it is there");
        let bytes = read_to_end(&*from, 1 << 20).expect("it can be read");
        let to = bench.disk.fs.open(&path, OpenMode::CreateOrOpen).expect("it can be made");
        to.write_all_at(&[IoSlice::new(&bytes)], 0).expect("it can be written");
    }
    let bench = Bench::on(bench.disk, CleanerOptions::default());
    assert_eq!(bench.dir.recovery_report().failed.len(), 0);
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(6, "a", Some("3")), (9, "b", Some("1"))]));
}

#[test]
fn readers_of_an_older_picture_get_what_they_were_promised() {
    let bench = Bench::new(compacted());
    for value in ["1", "2", "3", "4"] {
        bench.put("a", Some(value));
    }
    bench.roll();
    let slice = bench.log.read(everything_from(Offset(0))).expect("it is in the log");
    let before = slice.read().expect("it can be read");
    bench.clean();
    bench.clean();
    assert_eq!(bench.contents().len(), 1);
    assert_eq!(slice.read().expect("it can be read"), before);
}

#[test]
fn a_deleted_log_leaves_nothing_to_the_next_of_its_name() {
    let bench = Bench::new(compacted());
    for value in ["1", "2", "3"] {
        bench.put("a", Some(value));
        bench.roll();
    }
    bench.clean();
    let path = Path::new("/data/cleaner-offset-checkpoint");
    let checkpoint = || {
        let file = bench.disk.fs.open(path, OpenMode::Read).expect("it is there");
        text(&read_to_end(&*file, 1000).expect("it can be read"))
    };
    assert_eq!(checkpoint(), "0\n1\nt 0 8\n");
    bench.dir.delete_log(&partition(0)).expect("the disk works");
    assert_eq!(checkpoint(), "0\n0\n");
    let log = bench.disk.log(&bench.dir);
    assert_eq!(log.log_end_offset(), Offset(0));
    let bench = Bench { log, ..bench };
    bench.put("b", Some("1"));
    bench.put("b", Some("2"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(1, "b", Some("2"))]));
}

#[test]
fn records_without_keys_go() {
    let bench = Bench::new(LogConfig { cleanup: CleanupPolicy::Delete, ..compacted() });
    append(&bench.log, batch_of_values(&["1", "2"])).expect("the disk works");
    bench.put("a", Some("1"));
    bench.roll();
    bench.log.set_config(Arc::new(compacted()));
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(2, "a", Some("1"))]));
    assert_eq!(bench.metrics.keyless_records.get(), 2);
}

#[test]
fn the_end_of_a_segment_is_known_although_its_records_are_gone() {
    let bench = Bench::new(compacted());
    bench.put("a", Some("1"));
    bench.put("b", Some("1"));
    bench.roll();
    bench.put("a", Some("2"));
    bench.put("b", Some("2"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
    bench.check_files();
    // A start that has lost its checkpoints scans everything, and misses nothing.
    bench.dir.close().expect("it closes");
    for name in ["recovery-point-offset-checkpoint", "segment-lists", ".kafka_cleanshutdown"] {
        remove(&bench.disk, &Path::new("/data").join(name));
    }
    let dir = bench.disk.open();
    let lost = dir
        .recovery_report()
        .findings
        .iter()
        .find(|finding| !matches!(finding, logway_log::Finding::Rebuilt { .. }));
    assert!(lost.is_none(), "{lost:?}");
    assert_eq!(contents(&bench.disk.log(&dir)).len(), 2);
}

#[test]
fn the_largest_timestamp_is_that_of_a_record() {
    let bench = Bench::new(compacted());
    let put_at = |key: &str, timestamp_ms: i64| {
        let mut builder = BatchBuilder::new(Compression::None).with_producer(
            ProducerId(timestamp_ms),
            ProducerEpoch(0),
            Sequence(0),
        );
        builder
            .append(TimestampMs(timestamp_ms), Some(key.as_bytes()), Some(b"1"), &[])
            .expect("the record fits");
        let batch = Batch::parse(builder.finish().expect("it is encoded")).expect("it is good");
        append(&bench.log, batch).expect("the disk works");
    };
    put_at("a", 5000);
    put_at("b", 9000);
    put_at("b", 4000);
    put_at("filler", 1);
    bench.log.set_config(Arc::new(LogConfig { segment_bytes: 1, ..compacted() }));
    put_at("end", 2);
    put_at("end", 3);
    bench.clean();
    let found = bench.log.max_timestamp_offset(Offset(4), DecodeLimit::DEFAULT);
    let found = found.expect("the log is whole").found;
    assert_eq!(found.map(|found| (found.offset.0, found.timestamp.0)), Some((0, 5000)));
    let target = TimestampMs(6000);
    let found = bench.log.offset_for_timestamp(target, Offset(100), DecodeLimit::DEFAULT);
    assert_eq!(found.expect("the log is whole").found, None);
}
