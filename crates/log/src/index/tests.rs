//! What holds for both indexes, shown on the one or the other.

use std::fmt;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use logway_model::{Offset, TimestampMs};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset};
use crate::LogError;
use crate::fs::sim::{Failure, Fault, SimOperation};
use crate::fs::{Fs, OpenMode, SimFs, read_to_end};

const FILE: &str = "/00000000000000001000.index";
const BASE: Offset = Offset(1000);

fn new_index(fs: &SimFs) -> OffsetIndex {
    OffsetIndex::create(Arc::new(fs.clone()), Path::new(FILE), BASE).expect("is created")
}

fn existing_index(fs: &SimFs) -> OffsetIndex {
    OffsetIndex::existing(Arc::new(fs.clone()), Path::new(FILE), BASE)
}

fn new_time_index(fs: &SimFs) -> TimeIndex {
    TimeIndex::create(Arc::new(fs.clone()), Path::new(FILE), BASE).expect("is created")
}

fn put(fs: &SimFs, content: &[u8]) {
    let file = fs.open(Path::new(FILE), OpenMode::CreateTruncate).expect("is created");
    file.write_all_at(&[IoSlice::new(content)], 0).expect("is written");
}

fn written(fs: &SimFs) -> Vec<u8> {
    let file = fs.open(Path::new(FILE), OpenMode::Read).expect("exists");
    read_to_end(&*file, 1 << 20).expect("is read")
}

fn at(offset: i64, position: u64) -> OffsetPosition {
    OffsetPosition { offset: Offset(offset), position }
}

/// The bytes that Apache Kafka 4.3 writes for the same entries.
#[test]
fn the_files_are_kafkas() {
    let fs = SimFs::new(0);
    let index = new_index(&fs);
    for (offset, position) in [(1041, 4096), (1100, 9000), (70_000, 2_000_000_000)] {
        index.append(Offset(offset), position).expect("is appended");
    }
    index.save().expect("is saved");
    let golden = b"\0\0\0\x29\0\0\x10\0\0\0\0\x64\0\0\x23\x28\0\x01\x0d\x88\x77\x35\x94\0";
    assert_eq!(written(&fs), golden);
    let index = existing_index(&fs);
    assert_eq!(index.last().expect("is read"), Some(at(70_000, 2_000_000_000)));
    assert_eq!(index.lookup(Offset(1100)).expect("is read"), at(1100, 9000));

    let fs = SimFs::new(0);
    let index = new_time_index(&fs);
    let times = [(1_700_000_000_123, 1041), (1_700_000_000_123, 1050), (1_700_000_000_456, 1100)];
    for (timestamp, offset) in times {
        index.append(TimestampMs(timestamp), Offset(offset)).expect("is appended");
    }
    index.save().expect("is saved");
    let golden = b"\0\0\x01\x8b\xcf\xe5\x68\x7b\0\0\0\x29\0\0\x01\x8b\xcf\xe5\x69\xc8\0\0\0\x64";
    assert_eq!(written(&fs), golden, "an equal timestamp makes no entry");
    let found = index.lookup(TimestampMs(1_700_000_000_455)).expect("is read");
    let expected =
        TimestampOffset { timestamp: TimestampMs(1_700_000_000_123), offset: Offset(1041) };
    assert_eq!(found, expected);
}

#[test]
fn below_the_first_entry_is_the_start_of_the_segment() {
    let fs = SimFs::new(0);
    let index = new_index(&fs);
    assert_eq!(index.lookup(Offset(5000)).expect("is read"), at(1000, 0));
    index.append(Offset(1010), 77).expect("is appended");
    assert_eq!(index.lookup(Offset(1009)).expect("is read"), at(1000, 0));
    assert_eq!(index.lookup(Offset(i64::MAX)).expect("is read"), at(1010, 77));
    assert_eq!(index.lookup(Offset(i64::MIN)).expect("is read"), at(1000, 0));

    let index = new_time_index(&fs);
    let found = index.lookup(TimestampMs(5)).expect("is read");
    assert_eq!(found, TimestampOffset { timestamp: TimestampMs::NONE, offset: BASE });
}

#[test]
fn entries_that_do_not_fit_are_left_out() {
    let index = new_index(&SimFs::new(0));
    let far = BASE.0 + i64::from(i32::MAX);
    let entries = [(999, 1), (1010, 10), (1010, 20), (1020, 10), (1030, 1 << 31), (far + 1, 99)];
    for (offset, position) in entries {
        index.append(Offset(offset), position).expect("is no error");
    }
    assert_eq!(index.len_entries().expect("is known"), 1);
    index.append(Offset(far), i32::MAX as u64).expect("is appended");
    assert_eq!(index.last().expect("is known"), Some(at(far, i32::MAX as u64)));

    let index = new_time_index(&SimFs::new(0));
    for (timestamp, offset) in [(-1, 1000), (50, 1010), (60, 1009), (50, 1020), (51, 1010)] {
        index.append(TimestampMs(timestamp), Offset(offset)).expect("is no error");
    }
    assert_eq!(index.len_entries().expect("is known"), 2);
}

/// Wherever the search before it ended.
#[test]
fn a_look_up_finds_its_entry_from_any_other() {
    const ENTRIES: i64 = 5 * 512 + 100;
    let fs = SimFs::new(0);
    let index = new_index(&fs);
    for entry in 1..=ENTRIES {
        index.append(BASE + 2 * entry, 3 * entry as u64).expect("is appended");
    }
    index.save().expect("is saved");
    let edges = (0..6).flat_map(|page| (-2..3).map(move |near| page * 512 + near));
    let entries: Vec<i64> =
        edges.chain([0, 1, 700, 1_900, ENTRIES - 1, ENTRIES]).filter(|&entry| entry >= 0).collect();
    for from in &entries {
        for to in &entries {
            index.lookup(BASE + 2 * from).expect("is read");
            let found = index.lookup(BASE + 2 * to + 1).expect("is read");
            assert_eq!(found, at(BASE.0 + 2 * to, 3 * *to as u64), "{from} to {to}");
        }
    }
}

#[test]
fn an_index_costs_no_file_before_it_has_a_page() {
    let fs = SimFs::new(0);
    put(&fs, b"left over");
    let index = new_index(&fs);
    let before = fs.changes();
    for entry in 1..512 {
        index.append(BASE + entry, entry as u64).expect("is appended");
    }
    assert_eq!(fs.changes(), before);
    assert!(!fs.exists(Path::new(FILE)).expect("is known"));
    index.append(BASE + 512, 512).expect("is appended");
    assert_eq!(written(&fs).len(), 4096);
    index.release().expect("is released");
    index.append(BASE + 513, 513).expect("is appended");
    assert_eq!(index.lookup(BASE + 400).expect("is read"), at(1400, 400));
    index.sync().expect("is synced");
    assert_eq!(written(&fs).len(), 4104);
}

#[test]
fn what_cannot_be_an_index_is_corrupt_until_it_is_reset() {
    let valid = b"\0\0\0\x29\0\0\x10\0\0\0\0\x64\0\0\x23\x28\0\x01\x0d\x88\x77\x35\x94\0";
    let mut damaged: Vec<Vec<u8>> = Vec::new();
    damaged.extend((1..valid.len()).filter(|len| len % 8 != 0).map(|len| valid[..len].to_vec()));
    damaged.push([&valid[..], &[0; 8]].concat());
    damaged.push(vec![0; 4096]);
    damaged.push(vec![0xff; 8]);
    for content in damaged {
        let fs = SimFs::new(0);
        put(&fs, &content);
        let index = existing_index(&fs);
        for result in
            [index.check(), index.lookup(BASE).map(drop), index.append(Offset(1100), 9).map(drop)]
        {
            let error = result.expect_err("it is damaged");
            assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
        }
        index.reset().expect("is reset");
        index.append(Offset(1100), 9000).expect("is appended");
        index.save().expect("is saved");
        assert_eq!(existing_index(&fs).last().expect("is read"), Some(at(1100, 9000)));
    }
    for len in [0, 8, 16, 24] {
        let fs = SimFs::new(0);
        put(&fs, &valid[..len]);
        let index = existing_index(&fs);
        index.check().expect("whole entries are valid");
        assert_eq!(index.len_entries().expect("is known"), len as u64 / 8);
    }
}

#[test]
fn a_full_disk_makes_the_index_sparse_and_not_wrong() {
    let fs = SimFs::new(0);
    let index = new_index(&fs);
    fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace));
    let mut errors = 0;
    for entry in 1..=9000 {
        errors += usize::from(index.append(BASE + entry, entry as u64).is_err());
    }
    assert_eq!(errors, 15 + 9000 - 8191, "one for each page, then for each that is left out");
    assert_eq!(index.len_entries().expect("is known"), 8192);
    fs.heal();
    index.append(BASE + 9000, 9000).expect("is left out, and makes room");
    index.append(BASE + 9001, 9001).expect("is appended");
    assert_eq!(index.lookup(BASE + 8999).expect("is read"), at(1000 + 8192, 8192));
    assert_eq!(index.lookup(BASE + 9001).expect("is read"), at(10_001, 9001));
}

#[test]
fn look_ups_are_right_while_entries_are_added_and_saved() {
    const ENTRIES: i64 = 6000;
    let index = new_index(&SimFs::new(0));
    let appended = AtomicI64::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in 0..2 {
            let (index, appended, done) = (&index, &appended, &done);
            scope.spawn(move || {
                let mut target = reader;
                while !done.load(Ordering::Relaxed) {
                    // Somewhere below what is there for sure: the entry itself must be found.
                    let known = appended.load(Ordering::Acquire);
                    target = (target * 31 + 7) % (known + 1);
                    let found = index.lookup(BASE + 2 * target + 1).expect("is read");
                    assert_eq!(found.position, 3 * target as u64);
                }
            });
        }
        for entry in 1..=ENTRIES {
            index.append(BASE + 2 * entry, 3 * entry as u64).expect("is appended");
            appended.store(entry, Ordering::Release);
            if entry % 1000 == 0 {
                index.release().expect("is released");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[derive(Clone)]
enum Step {
    Append {
        gap: i64,
        count: i64,
    },
    Truncate {
        back: i64,
    },
    Save,
    Release,
    Reset,
    /// Closes the index in order and opens it again.
    Reopen,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Append { gap, count } => write!(f, "append {count} with gaps of {gap}"),
            Step::Truncate { back } => write!(f, "truncate {back} back"),
            Step::Save => f.write_str("save"),
            Step::Release => f.write_str("release"),
            Step::Reset => f.write_str("reset"),
            Step::Reopen => f.write_str("reopen"),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..5i64, 1..900i64).prop_map(|(gap, count)| Step::Append { gap, count }),
        3 => (0..4000i64).prop_map(|back| Step::Truncate { back }),
        2 => Just(Step::Save),
        1 => Just(Step::Release),
        1 => Just(Step::Reset),
        2 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The index is as good as a list of entries.
    #[test]
    fn an_index_finds_what_a_list_would(
        steps in vec(step(), 1..25),
        targets in vec(0..20_000i64, 20),
    ) {
        let fs = SimFs::new(0);
        let mut index = new_index(&fs);
        let mut model: Vec<OffsetPosition> = Vec::new();
        for step in steps {
            let last = model.last().copied().unwrap_or(at(1000, 0));
            match step {
                Step::Append { gap, count } => for number in 1..=count {
                    let entry = at(last.offset.0 + gap * number, last.position + 7 * number as u64);
                    index.append(entry.offset, entry.position).expect("is appended");
                    model.push(entry);
                },
                Step::Truncate { back } => {
                    let end = Offset(last.offset.0 - back);
                    index.truncate(end).expect("is truncated");
                    model.retain(|entry| entry.offset < end);
                }
                Step::Save => index.save().expect("is saved"),
                Step::Release => index.release().expect("is released"),
                Step::Reset => {
                    index.reset().expect("is reset");
                    model.clear();
                }
                Step::Reopen => {
                    index.save().expect("is saved");
                    index = existing_index(&fs);
                }
            }
            prop_assert_eq!(index.len_entries().expect("is known"), model.len() as u64);
            prop_assert_eq!(index.last().expect("is known"), model.last().copied());
            for target in targets.iter().map(|target| BASE + *target) {
                let expected = model.iter().rfind(|entry| entry.offset <= target).copied();
                let found = index.lookup(target).expect("is read");
                prop_assert_eq!(found, expected.unwrap_or(at(1000, 0)), "target {}", target);
            }
        }
    }

    /// Times, with many equal ones, as a list would find them.
    #[test]
    fn a_time_index_finds_what_a_list_would(
        gaps in vec((0..3i64, 1..10i64), 0..2000),
        targets in vec(-5..3000i64, 20),
        end in 0..12_000i64,
    ) {
        let index = new_time_index(&SimFs::new(0));
        let mut model: Vec<TimestampOffset> = Vec::new();
        let (mut timestamp, mut offset) = (TimestampMs(0), BASE);
        for (later, further) in gaps {
            timestamp.0 += later;
            offset = offset + further;
            index.append(timestamp, offset).expect("is appended");
            if model.last().is_none_or(|last| last.timestamp < timestamp) {
                model.push(TimestampOffset { timestamp, offset });
            }
        }
        for cut in [None, Some(BASE + end)] {
            if let Some(end) = cut {
                index.truncate(end).expect("is truncated");
                model.retain(|entry| entry.offset < end);
            }
            prop_assert_eq!(index.last().expect("is known"), model.last().copied());
            for target in targets.iter().map(|target| TimestampMs(*target)) {
                let expected = model.iter().rfind(|entry| entry.timestamp <= target).copied();
                let start = TimestampOffset { timestamp: TimestampMs::NONE, offset: BASE };
                let found = index.lookup(target).expect("is read");
                prop_assert_eq!(found, expected.unwrap_or(start), "target {}", target);
            }
        }
    }

    /// Whatever is in the file, a look-up ends, with a place in a segment or an error.
    #[test]
    fn no_content_is_too_strange_to_be_searched(
        pages in vec((any::<u8>(), 0..600usize), 0..20),
        target in any::<i64>(),
    ) {
        let content: Vec<u8> =
            pages.into_iter().flat_map(|(byte, len)| (0..len).map(move |at| byte ^ at as u8)).collect();
        let fs = SimFs::new(0);
        put(&fs, &content);
        for index in [existing_index(&fs), existing_index(&fs)] {
            if let Ok(found) = index.lookup(Offset(target)) {
                prop_assert!(found.position <= i32::MAX as u64 && found.offset >= BASE);
            }
            let _ = index.append(Offset(target), 1);
            let _ = index.truncate(Offset(target));
            let _ = index.save();
        }
        let time_index = TimeIndex::existing(Arc::new(fs), Path::new(FILE), Offset(i64::MAX));
        let _ = time_index.lookup(TimestampMs(target));
        let _ = time_index.truncate(Offset(target));
    }

    /// What a crash leaves is found out, or at least every entry that a look-up gives is true.
    #[test]
    fn a_crash_leaves_true_entries_or_visible_damage(seed in any::<u64>(), count in 1..3000i64) {
        let fs = SimFs::new(seed);
        let index = new_index(&fs);
        for entry in 1..=count {
            index.append(BASE + 2 * entry, 3 * entry as u64).expect("is appended");
        }
        index.save().expect("is saved");
        let after = existing_index(&fs.crash());
        if after.check().is_ok() {
            for target in 0..=2 * count {
                let found = after.lookup(BASE + target).expect("is read");
                prop_assert!(found.offset <= BASE + target);
                prop_assert_eq!(2 * found.position, 3 * (found.offset - BASE) as u64);
            }
        }
    }
}
