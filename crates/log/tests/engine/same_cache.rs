//! Starts that find the page cache as a killed process left it.

use std::path::Path;
use std::sync::Arc;

use logway_log::checkpoint::cache_life::CacheLife;
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::fs::{Fs, OpenMode, RealFs};
use logway_log::{Finding, Log, LogDir, ReadRequest};
use logway_model::Offset;
use logway_record::Batches;

use crate::support::*;

/// What such a batch takes.
const BATCH_BYTES: u64 = 1073;

/// A log that a checkpoint speaks of, with ten batches of one record each.
fn in_use(checked_bytes_min: u64) -> (TestDisk, LogDir, Arc<Log>) {
    let disk = TestDisk { checked_bytes_min, ..TestDisk::new(1) };
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..10 {
        append_records(&log, 1, 1000);
    }
    log.delete_records_before(Offset(0)).wait().expect("a checkpoint is written");
    (disk, dir, log)
}

/// Changes a bit in the record at an offset.
fn damage(disk: &TestDisk, log: &Log, offset: u64) {
    let records = u64::try_from(log.log_end_offset().0).expect("it has some");
    let position = log.size_bytes() / records * offset + 500;
    disk.fs.flip_bit(&segment_path(0), position, 1).expect("it is there");
}

fn findings(dir: &LogDir) -> &[Finding] {
    &dir.recovery_report().findings
}

#[test]
fn after_a_kill_nothing_but_the_end_is_checked_to_the_last_byte() {
    let (disk, dir, log) = in_use(1500);
    damage(&disk, &log, 2);
    let disk = disk.kill();
    drop((log, dir));
    let dir = disk.open();
    assert!(findings(&dir).is_empty(), "{:?}", findings(&dir));
    let log = disk.log(&dir);
    assert_eq!(log.log_end_offset(), Offset(10));
    append_records(&log, 1, 1000);

    damage(&disk, &log, 10);
    let disk = disk.kill();
    drop((log, dir));
    let dir = disk.open();
    let [Finding::TailTruncated { .. }] = findings(&dir) else { panic!("{:?}", findings(&dir)) };
    assert_eq!(disk.log(&dir).log_end_offset(), Offset(10));
}

/// Changes a bit in the header of the batch at an offset, of a log that is all on stable storage. Says what the next start
/// finds, and where the log ends then.
fn start_with_damaged_header(
    checked_bytes_min: u64,
    offset: u64,
    byte: u64,
    bit: u8,
) -> (Vec<Finding>, Offset, usize) {
    let (disk, dir, log) = in_use(checked_bytes_min);
    log.flush().wait().expect("the disk works");
    log.delete_records_before(Offset(0)).wait().expect("a checkpoint is written");
    let position = BATCH_BYTES * offset + byte;
    disk.fs.flip_bit(&segment_path(0), position, bit).expect("it is there");
    let disk = disk.kill();
    drop((log, dir));
    let dir = disk.open();
    let log = disk.log(&dir);
    let is_readable = |&at: &i64| {
        let request = ReadRequest { max_bytes: 1, ..everything_from(Offset(at)) };
        let batch = read_bytes(&log, request).map(|bytes| Batches::new(bytes).next());
        matches!(batch, Ok(Some(Ok(batch)))
            if batch.header().base_offset == Offset(at) && batch.verify_crc().is_ok())
    };
    let readable = (0..10).filter(is_readable).count();
    (findings(&dir).to_vec(), log.log_end_offset(), readable)
}

#[test]
fn a_damaged_header_costs_no_batch_but_its_own() {
    // The length's upper bytes, the offset that it begins with, and the distance to its last: upwards.
    for (byte, bit) in [(9, 0), (6, 1), (5, 0), (7, 4), (25, 1), (26, 0), (24, 0)] {
        for checked_bytes_min in [0, 1500, u64::MAX] {
            for offset in 0..9 {
                let what =
                    format!("byte {byte}, bit {bit}, of {offset}, {checked_bytes_min} checked");
                let (found, end, readable) =
                    start_with_damaged_header(checked_bytes_min, offset, byte, bit);
                let [Finding::Corruption { position, .. }] = &found[..] else {
                    panic!("{what}: {found:?}");
                };
                assert_eq!(
                    (*position, end, readable),
                    (offset * BATCH_BYTES, Offset(10), 9),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn after_a_power_cut_all_is_checked() {
    for is_look_left_out in [false, true] {
        let (disk, dir, log) = in_use(0);
        // It is not synced otherwise, and may be gone after a power cut.
        let mark = disk.fs.open(Path::new("/data/.page-cache"), OpenMode::ReadWrite);
        mark.expect("it was written").sync_all().expect("is synced");
        disk.fs.sync_dir(Path::new("/data")).expect("is synced");
        damage(&disk, &log, 2);
        let disk = disk.crash();
        drop((log, dir));
        if is_look_left_out {
            disk.fs.inject(Fault::new(SimOperation::CacheLife, Failure::Ignored));
        }
        // Whoever leaves the look out misses it, which is what this test is for.
        assert_eq!(findings(&disk.open()).is_empty(), is_look_left_out);
    }
}

#[test]
fn a_kill_before_all_is_checked_does_not_make_up_for_it() {
    let (disk, dir, log) = in_use(0);
    damage(&disk, &log, 2);
    let disk = disk.crash();
    drop((log, dir));
    // It ends while the log is scanned.
    disk.fs.crash_at_change(4);
    drop(disk.try_open());
    let disk = disk.kill();
    assert!(!findings(&disk.open()).is_empty());
}

#[test]
fn a_write_that_a_kill_cut_off_is_taken_back() {
    for cut_bytes in [1, 500, 1050] {
        let (disk, dir, log) = in_use(0);
        append_records(&log, 1, 1000);
        let len_bytes = log.size_bytes();
        let disk = disk.kill();
        drop((log, dir));
        let file = disk.fs.open(&segment_path(0), OpenMode::ReadWrite).expect("it is there");
        file.set_len(len_bytes - cut_bytes).expect("it is cut");
        let dir = disk.open();
        let [Finding::TailTruncated { .. }] = findings(&dir) else {
            panic!("{cut_bytes}: {:?}", findings(&dir));
        };
        assert_eq!(disk.log(&dir).log_end_offset(), Offset(10), "{cut_bytes}");
    }
}

#[test]
fn a_log_of_which_no_checkpoint_speaks_is_checked() {
    let (disk, dir, log) = in_use(0);
    // Somebody may have put it there.
    let other = disk.log_of(&dir, 1);
    for _ in 0..10 {
        append_records(&other, 1, 1000);
    }
    disk.fs.flip_bit(Path::new("/data/t-1/00000000000000000000.log"), 2500, 1).expect("is there");
    let disk = disk.kill();
    drop((log, other, dir));
    let dir = disk.open();
    let [Finding::TailTruncated { path, .. }] = findings(&dir) else {
        panic!("{:?}", findings(&dir));
    };
    assert!(path.starts_with("/data/t-1"));
}

#[test]
fn a_log_that_was_not_scanned_is_checked_by_the_next_start() {
    use logway_log::fs::sim::{Failure, Fault, SimOperation};
    let (disk, dir, log) = in_use(0);
    damage(&disk, &log, 2);
    let disk = disk.crash();
    drop((log, dir));
    let unreadable = Fault::new(SimOperation::Read, Failure::Io).at_path(&segment_path(0));
    disk.fs.inject(unreadable.times(1));
    let dir = disk.open();
    assert_eq!(dir.recovery_report().failed.len(), 1);
    let disk = disk.kill();
    drop(dir);
    assert!(!findings(&disk.open()).is_empty());
}

#[test]
fn the_life_of_a_real_page_cache_is_of_one_file_on_one_mount() {
    let place = tempfile::tempdir().expect("a directory");
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    for dir in [&first, &second] {
        std::fs::create_dir(dir).expect("is made");
    }
    assert!(!CacheLife::find(&RealFs, &first).is_same(), "nobody has marked it");
    CacheLife::find(&RealFs, &first).keep(&RealFs);
    // Before Linux 6.8 nobody can tell.
    let can_tell = RealFs.cache_life(&first).expect("it is there").is_some();
    assert_eq!(CacheLife::find(&RealFs, &first).is_same(), can_tell);

    std::fs::copy(first.join(".page-cache"), second.join(".page-cache")).expect("is copied");
    assert!(!CacheLife::find(&RealFs, &second).is_same(), "a copy is of another time");
    CacheLife::find(&RealFs, &first).forget(&RealFs).expect("is removed");
    assert!(!CacheLife::find(&RealFs, &first).is_same());
}
