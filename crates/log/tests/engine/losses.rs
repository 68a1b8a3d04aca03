//! Segments that were removed, emptied, cut short or damaged at rest, and what is left of a log then.

use std::path::{Path, PathBuf};

use logway_log::fs::{Fs, OpenMode};
use logway_log::inspect::{LostOffsets, Problem, verify};
use logway_log::{Finding, Log, LogDir};
use logway_model::Offset;

use crate::support::*;

/// A log of 60 records, closed in good order, and where its segments begin.
fn closed_log() -> (TestDisk, Vec<i64>) {
    let disk = closed_log_of_60_records();
    let bases = bases_on(&disk);
    assert!(bases.len() > 4, "{bases:?}");
    (disk, bases)
}

fn bases_on(disk: &TestDisk) -> Vec<i64> {
    let names = names_in(&disk.fs, "/data/t-0");
    let segments = names.iter().filter_map(|name| name.strip_suffix(".log"));
    segments.map(|base| base.parse().expect("it is an offset")).collect()
}

fn cut(disk: &TestDisk, path: &Path, len_bytes: u64) {
    let file = disk.fs.open(path, OpenMode::ReadWrite).expect("it is there");
    file.set_len(len_bytes).expect("the disk works");
}

/// The ranges that were found to be missing, with the files that were named.
fn missing(dir: &LogDir) -> Vec<(PathBuf, i64, i64)> {
    let findings = dir.recovery_report().findings.iter();
    let missing = findings.filter_map(|finding| match finding {
        Finding::Missing { path, from, to } => Some((path.clone(), from.0, to.0)),
        _ => None,
    });
    missing.collect()
}

/// A consumer that begins at `from` gets every record that there is from there on.
fn consume(log: &Log, from: i64) -> Vec<i64> {
    let mut found = Vec::new();
    let mut next = Offset(from);
    while next < log.log_end_offset() {
        let slice = log.read(everything_from(next)).expect("what is behind it can be read");
        let offsets = read_records(log, next).into_iter().map(|record| record.offset.0);
        found.extend(offsets);
        if slice.is_empty() {
            break;
        }
        next = slice.next_offset;
    }
    found
}

fn assert_only_missing(log: &Log, from: i64, to: i64) {
    for start in 0..log.log_end_offset().0 {
        let expected: Vec<i64> =
            (start..log.log_end_offset().0).filter(|o| !(from..to).contains(o)).collect();
        assert_eq!(consume(log, start), expected, "from {start}");
    }
}

/// What `logway log verify` says of the log.
fn problems_of(disk: &TestDisk) -> Vec<Problem> {
    let mut problems = Vec::new();
    verify(&disk.fs, Path::new("/data/t-0"), |problem| problems.push(problem))
        .expect("the disk works");
    problems
}

#[test]
fn a_segment_removed_or_emptied_at_rest_is_reported_and_passed_over() {
    for is_removed in [true, false] {
        for is_clean in [true, false] {
            let (disk, bases) = closed_log();
            if !is_clean {
                drop(disk.open());
            }
            let path = segment_path(bases[2]);
            match is_removed {
                true => remove(&disk, &path),
                false => cut(&disk, &path, 0),
            }
            let dir = disk.open();
            assert_eq!(dir.recovery_report().was_clean, is_clean);
            assert_eq!(missing(&dir), [(path, bases[2], bases[3])], "{is_removed} {is_clean}");
            let log = disk.log(&dir);
            assert_eq!(log.log_end_offset(), Offset(60));
            assert_only_missing(&log, bases[2], bases[3]);
            let lost = LostOffsets { first: Offset(bases[2]), end: Some(Offset(bases[3])) };
            assert!(problems_of(&disk).iter().any(|problem| problem.lost == Some(lost)));
            assert_eq!(append_records(&log, 1, 10), Offset(60));
            dir.close().expect("it closes");
            assert_only_missing(&disk.log(&disk.open()), bases[2], bases[3]);
        }
    }
}

#[test]
fn segments_removed_with_all_their_files_are_reported_from_the_first_on() {
    let (disk, bases) = closed_log();
    for base in &bases[..2] {
        for extension in ["log", "index", "timeindex"] {
            remove(&disk, &segment_path(*base).with_extension(extension));
        }
    }
    let dir = disk.open();
    let expected = [
        (segment_path(bases[0]), bases[0], bases[1]),
        (segment_path(bases[1]), bases[1], bases[2]),
    ];
    assert_eq!(missing(&dir), expected);
    let log = disk.log(&dir);
    assert_eq!(log.log_start_offset(), Offset(bases[2]));
    assert_eq!(consume(&log, bases[2]).len() as i64, 60 - bases[2]);
}

#[test]
fn a_segment_removed_from_a_directory_of_which_nothing_is_listed_is_known_by_its_indexes() {
    let (disk, bases) = closed_log();
    remove(&disk, Path::new("/data/segment-lists"));
    let path = segment_path(bases[2]);
    remove(&disk, &path);
    let dir = disk.open();
    assert_eq!(missing(&dir), [(path, bases[2], bases[3])]);
    assert_only_missing(&disk.log(&dir), bases[2], bases[3]);
}

#[test]
fn what_retention_and_delete_records_removed_is_not_missed() {
    let (disk, bases) = closed_log();
    for (round, before) in [bases[1], bases[2] + 1, 60].into_iter().enumerate() {
        let dir = disk.open();
        let log = disk.log(&dir);
        log.delete_records_before(Offset(before)).wait().expect("it is in the log");
        if round == 0 {
            dir.close().expect("it closes");
        } else {
            drop(dir);
        }
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(report.findings.is_empty(), "{report:?}");
        assert_eq!(disk.log(&dir).log_start_offset(), Offset(before));
    }
}

#[test]
fn a_full_segment_cut_short_at_rest_is_reported_and_read_up_to_the_cut() {
    for has_index in [true, false] {
        let (disk, bases) = closed_log();
        let path = segment_path(bases[2]);
        cut(&disk, &path, 1000);
        if !has_index {
            remove(&disk, &path.with_extension("index"));
            remove(&disk, &path.with_extension("timeindex"));
        }
        // It stays as it is, and so does what is said of it.
        for _ in 0..2 {
            let dir = disk.open();
            let report = dir.recovery_report();
            assert!(report.failed.is_empty(), "{report:?}");
            let damage = report.findings.iter().find_map(|finding| match finding {
                Finding::Corruption { path: found, offset, .. } if *found == path => Some(offset.0),
                _ => None,
            });
            let damage = damage.unwrap_or_else(|| panic!("{report:?}"));
            assert!((bases[2]..bases[3]).contains(&damage), "{report:?}");
            let log = disk.log(&dir);
            assert_only_missing(&log, damage, bases[3]);
            dir.close().expect("it closes");
        }
    }
}

#[test]
fn an_unlisted_segment_of_bad_length_without_indexes_does_not_take_the_partition_offline() {
    let (disk, bases) = closed_log();
    remove(&disk, Path::new("/data/segment-lists"));
    let path = segment_path(bases[1]);
    cut(&disk, &path, 1000);
    remove(&disk, &path.with_extension("index"));
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.was_clean && report.failed.is_empty(), "{report:?}");
    let [Finding::Corruption { offset, .. }] = report.findings[..] else { panic!("{report:?}") };
    assert_only_missing(&disk.log(&dir), offset.0, bases[2]);
}

#[test]
fn an_active_segment_cut_short_at_rest_leaves_a_hole_that_readers_pass() {
    let (disk, bases) = closed_log();
    let active = segment_path(*bases.last().expect("there are some"));
    let len_bytes = disk.fs.open(&active, OpenMode::Read).expect("it is there").len().expect("ok");
    for len_bytes in [0, 1, 60, len_bytes / 2, len_bytes - 1] {
        let (disk, _) = closed_log();
        cut(&disk, &active, len_bytes);
        // The second time the damaged segment is no longer the last.
        for (end, is_first) in (60..).zip([true, false]) {
            let dir = disk.open();
            let report = dir.recovery_report();
            let is_loss = |finding: &Finding| {
                matches!(finding, Finding::Missing { .. } | Finding::Corruption { .. })
            };
            let is_reported = report.findings.iter().any(is_loss);
            assert!(is_reported || (!is_first && len_bytes == 0), "{len_bytes}: {report:?}");
            let log = disk.log(&dir);
            assert_eq!(append_records(&log, 1, 10), Offset(end));
            let first_lost = (0..60).find(|offset| !consume(&log, 0).contains(offset));
            let first_lost = first_lost.expect("some are lost");
            assert!(first_lost >= *bases.last().expect("there are some"), "{first_lost}");
            assert_only_missing(&log, first_lost, 60);
            dir.close().expect("it closes");
        }
    }
}

/// Flips a bit in the second batch of the active segment of a log that was never closed.
fn damaged_early(disk: &TestDisk) -> i64 {
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 2, 300);
    }
    drop(dir);
    let base = *bases_on(disk).last().expect("there are some");
    disk.fs.flip_bit(&segment_path(base), 800, 1).expect("it is there");
    base
}

#[test]
fn without_the_checkpoint_good_batches_behind_damage_are_kept() {
    for content in [None, Some(&b""[..]), Some(&b"0\n7\n"[..])] {
        let disk = TestDisk::new(1);
        damaged_early(&disk);
        let path = Path::new("/data/recovery-point-offset-checkpoint");
        remove(&disk, path);
        if let Some(content) = content {
            let file = disk.fs.open(path, OpenMode::CreateNew).expect("the disk works");
            file.write_all_at(&[std::io::IoSlice::new(content)], 0).expect("the disk works");
        }
        let dir = disk.open();
        let report = dir.recovery_report();
        let damaged: Vec<i64> = report
            .findings
            .iter()
            .filter_map(|finding| match finding {
                Finding::Corruption { offset, .. } => Some(offset.0),
                Finding::Rebuilt { .. } => None,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(damaged, [2], "{report:?}");
        let log = disk.log(&dir);
        assert_eq!(log.log_end_offset(), Offset(60));
        assert_eq!(read_records(&log, Offset(4)).len(), 56);
    }
}

#[test]
fn without_the_checkpoint_an_unfinished_end_is_cut_off() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 3, 300);
    let len_bytes = log.size_bytes();
    append_records(&log, 3, 300);
    drop(dir);
    cut(&disk, &segment_path(0), len_bytes + 100);
    remove(&disk, Path::new("/data/recovery-point-offset-checkpoint"));
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(
        matches!(report.findings[..], [Finding::Rebuilt { .. }, Finding::TailTruncated { .. }]),
        "{report:?}"
    );
    assert_eq!(append_records(&disk.log(&dir), 1, 10), Offset(3));
}

#[test]
fn damage_in_a_sealed_segment_behind_the_recovery_point_cuts_nothing() {
    for is_removed in [false, true] {
        let disk = TestDisk::new(1).with_config(small_segments());
        let dir = disk.open();
        let log = disk.log(&dir);
        for _ in 0..30 {
            append_records(&log, 2, 300);
        }
        // No checkpoint was ever written; a snapshot says that a segment is sealed.
        while !names_in(&disk.fs, "/data/t-0").iter().any(|name| {
            name.strip_suffix(".snapshot").is_some_and(|n| n.parse::<i64>().unwrap() > 40)
        }) {
            std::thread::yield_now();
        }
        drop(dir);
        let bases = bases_on(&disk);
        match is_removed {
            true => remove(&disk, &segment_path(bases[1])),
            false => disk.fs.flip_bit(&segment_path(bases[1]), 200, 1).expect("it is there"),
        }
        let dir = disk.open();
        let report = dir.recovery_report();
        let [Finding::Corruption { .. } | Finding::Missing { .. }] = report.findings[..] else {
            panic!("{report:?}")
        };
        let log = disk.log(&dir);
        assert_eq!(log.log_end_offset(), Offset(60));
        assert_eq!(consume(&log, bases[2]).len() as i64, 60 - bases[2]);
    }
}

#[test]
fn indexes_that_outlived_the_batches_of_an_empty_segment_are_emptied() {
    let config = logway_log::LogConfig { index_interval_bytes: 1, ..Default::default() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..5 {
        append_records(&log, 10, 10);
    }
    dir.close().expect("it closes");
    let path = segment_path(0).with_extension("index");
    let stale = disk.fs.open(&path, OpenMode::Read).expect("it is there");
    let len = stale.len().expect("the disk works") as usize;
    let mut bytes = vec![0; len];
    logway_log::fs::read_exact_at(&*stale, &mut bytes, 0).expect("the disk works");

    let disk = TestDisk { fs: logway_log::fs::SimFs::new(2), ..disk };
    let dir = disk.open();
    disk.log(&dir);
    drop(dir);
    let file = disk.fs.open(&path, OpenMode::CreateTruncate).expect("the disk works");
    file.write_all_at(&[std::io::IoSlice::new(&bytes)], 0).expect("the disk works");
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..20 {
        append_records(&log, 1, 10);
    }
    dir.close().expect("it closes");
    assert_eq!(problems_of(&disk), []);
}
