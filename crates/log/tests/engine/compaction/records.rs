//! Which records stay, and how.

use std::ops::ControlFlow;
use std::sync::Arc;

use logway_log::{CleanerOptions, CleanupPolicy, LogConfig, ReadRequest};
use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{Batch, BatchBuilder, Batches, Compression, DecodeLimit, Header, Record};

use super::{Bench, compacted, shown, wait_sealed};
use crate::support::*;

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

/// Clients count on a record before the end offset, as there always is one in Apache Kafka.
#[test]
fn the_last_record_of_a_log_stays_until_another_comes_behind_it() {
    let config = LogConfig { max_compaction_lag_ms: 1000, delete_retention_ms: 0, ..compacted() };
    let bench = Bench::new(config);
    let keys = ["k0", "k1", "k2"];
    for key in keys {
        bench.put(key, Some("value"));
    }
    bench.put_all(&keys.map(|key| (key, None)));
    // The clock ends the last segment, and twice the tombstones' time comes.
    let clean_later = |bench: &Bench| {
        bench.disk.clock.advance(2000);
        bench.clean();
        bench.clean();
    };
    clean_later(&bench);
    clean_later(&bench);
    let last = shown(&[(5, "k2", None)]);
    assert_eq!(bench.contents(), last);
    assert_eq!(bench.log.log_end_offset(), Offset(6));
    let bench = bench.reopen();
    clean_later(&bench);
    assert_eq!(bench.contents(), last);
    // Nothing is left to do for it.
    let cleaned = bench.metrics.cleaned_bytes.get();
    clean_later(&bench);
    assert_eq!(bench.metrics.cleaned_bytes.get(), cleaned);

    bench.put("k3", Some("value"));
    clean_later(&bench);
    assert_eq!(bench.contents(), shown(&[(6, "k3", Some("value"))]));
    bench.check_files();
}

/// A crash may take the records behind it that are not on stable storage.
#[test]
fn a_last_record_behind_which_nothing_is_flushed_stays() {
    let bench = Bench::new(LogConfig { delete_retention_ms: 0, ..compacted() });
    bench.put("a", None);
    bench.roll();
    bench.log.set_config(Arc::new(LogConfig {
        cleanup: CleanupPolicy::Compact,
        delete_retention_ms: 0,
        flush_messages: u64::MAX,
        flush_ms: u64::MAX,
        segment_bytes: 1,
        ..compacted()
    }));
    bench.put("b", None);
    bench.log.flush().wait().expect("the disk works");
    bench.put("c", None);
    wait_sealed(&bench.dir);
    bench.disk.clock.advance(1);
    bench.clean();
    bench.clean();
    assert!(bench.log.flushed_offset() < bench.log.log_end_offset());
    let keys: Vec<String> = bench.contents().into_iter().map(|(_, key, _)| key).collect();
    assert_eq!(keys, ["b", "c"]);
}

#[test]
fn keyless_records_at_the_end_leave_the_last_of_them() {
    let bench =
        Bench::new(LogConfig { cleanup: CleanupPolicy::Delete, segment_ms: 1000, ..compacted() });
    append(&bench.log, batch_of_values(&["1", "2"])).expect("the disk works");
    bench.log.set_config(Arc::new(LogConfig { segment_ms: 1000, ..compacted() }));
    bench.disk.clock.advance(2000);
    bench.clean();
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(1, "", Some("2"))]));
}

/// Batches without records are what is left of the last writes of producers. A reader who has little
/// room must get on all the same.
#[test]
fn a_small_read_goes_on_behind_batches_without_records() {
    let bench = Bench::new(compacted());
    for producer in 0..20 {
        let mut builder = BatchBuilder::new(Compression::None).with_producer(
            ProducerId(producer),
            ProducerEpoch(0),
            Sequence(0),
        );
        builder.append(TimestampMs(NOW_MS), Some(b"same"), Some(b"1"), &[]).expect("it fits");
        let batch = Batch::parse(builder.finish().expect("it is encoded")).expect("it is good");
        append(&bench.log, batch).expect("the disk works");
    }
    bench.put("same", Some("newest"));
    bench.roll();
    bench.clean();
    let end = bench.log.log_end_offset();
    assert!(read_batches(&bench.log, Offset(0))[0].header().record_count == 0);
    for offset in 0..end.0 {
        let request = ReadRequest {
            offset: Offset(offset),
            max_bytes: 1,
            upper_bound: end,
            at_least_one_batch: true,
        };
        let slice = bench.log.read(request).expect("the log is whole");
        let batches = Batches::new(slice.read().expect("it can be read"));
        let records: i32 = batches.map(|batch| batch.expect("is good").header().record_count).sum();
        assert!(records > 0, "from {offset}");
    }
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
fn headers_compression_and_timestamps_stay() {
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

/// More than a batch was ever decoded to, and most of it in one record.
#[test]
fn a_batch_is_compacted_whatever_it_unpacks_to() {
    const VALUE_BYTES: usize = 140 << 20;
    let bench = Bench::new(compacted());
    let mut builder = BatchBuilder::new(Compression::Zstd);
    for (key, value) in [("a", vec![0; 10]), ("b", vec![0; VALUE_BYTES]), ("c", vec![0; 10])] {
        builder
            .append(TimestampMs(NOW_MS), Some(key.as_bytes()), Some(&value), &[])
            .expect("it fits");
    }
    let batch = Batch::parse(builder.finish().expect("it is encoded")).expect("it is good");
    append(&bench.log, batch).expect("the disk works");
    bench.put("a", Some("new"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.metrics.superseded_records.get(), 1);
    let left = &read_batches(&bench.log, Offset(0))[0];
    assert_eq!((left.base_offset(), left.last_offset()), (Offset(0), Offset(2)));
    let mut offsets = Vec::new();
    let walked = left.walk(DecodeLimit::BATCH_MAX, |record| {
        offsets.push(record.offset.0);
        ControlFlow::Continue(())
    });
    walked.expect("it is good");
    assert_eq!(offsets, [1, 2]);
    let plain = Compression::Zstd.decompress(left.body(), DecodeLimit::BATCH_MAX);
    assert!(plain.expect("it decompresses").len() > VALUE_BYTES);
    bench.check_files();
}

/// Keys that are longer than what is looked at at once.
#[test]
fn long_keys_are_told_apart_to_their_last_byte() {
    let bench = Bench::new(LogConfig { segment_bytes: 1 << 20, ..compacted() });
    let key = |last: &str| format!("{}{last}", "k".repeat(200_000));
    let put = |key: &str, value: &str| {
        let mut builder = BatchBuilder::new(Compression::Lz4);
        builder
            .append(TimestampMs(NOW_MS), Some(key.as_bytes()), Some(value.as_bytes()), &[])
            .expect("it fits");
        let batch = Batch::parse(builder.finish().expect("it is encoded")).expect("it is good");
        append(&bench.log, batch).expect("the disk works");
    };
    for (last, value) in [("1", "old"), ("2", "other"), ("1", "new")] {
        put(&key(last), value);
    }
    bench.log.set_config(Arc::new(compacted()));
    bench.roll();
    bench.clean();
    let values: Vec<_> = bench.contents().into_iter().map(|(_, _, value)| value).collect();
    assert_eq!(values, [Some("other".to_owned()), Some("new".to_owned())]);
}
