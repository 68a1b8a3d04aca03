//! Segments that others take the place of.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use logway_log::fs::{Fs, OpenMode, read_to_end};
use logway_log::inspect::{Walked, segments, verify};
use logway_log::{CleanerOptions, LogConfig};
use logway_model::Offset;

use super::{Bench, bench_with_old_values, compacted, contents, shown, text, wait_sealed};
use crate::repair::check;
use crate::support::*;

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
fn what_was_replaced_takes_no_space_while_the_rest_is_cleaned() {
    let bench = bench_with_old_values();
    let free_bytes = || bench.disk.fs.free_bytes(Path::new("/data")).expect("it is a number");
    let free_before = free_bytes();
    bench.disk.fs.hold_syncs_in("00000000000000000004.log.cleaned");
    std::thread::scope(|scope| {
        scope.spawn(|| bench.cleaner.clean_due());
        bench.disk.fs.wait_for_held_syncs(1);
        let free_now = free_bytes();
        bench.disk.fs.release_syncs();
        assert!(free_now > free_before + 3000, "{free_before} bytes became {free_now}");
    });
    bench.check_files();
}

/// The files of a log whose compaction a power cut has interrupted after so many changes of the disk.
fn interrupted_at(change: u64) -> TestDisk {
    let bench = bench_with_old_values();
    bench.log.set_config(Arc::new(LogConfig { segment_bytes: 1 << 20, ..compacted() }));
    wait_sealed(&bench.dir);
    bench.disk.fs.crash_at_change(change);
    bench.cleaner.clean_due();
    bench.disk.crash()
}

#[test]
fn what_a_power_cut_has_interrupted_is_no_damage_to_who_looks_at_the_files() {
    let mut swaps = 0;
    for change in 1..60 {
        let disk = interrupted_at(change);
        let dir = Path::new("/data/t-0");
        let mut problems = Vec::new();
        let verified = verify(&disk.fs, dir, |problem| problems.push(problem));
        let verified = verified.expect("the files can be read");
        let damage = problems.iter().find(|problem| !problem.may_be_unfinished);
        assert_eq!(damage, None, "power cut at change {change}");
        assert_eq!(verified.end_offset, Some(Offset(9)), "power cut at change {change}");
        let names = names_in(&disk.fs, "/data/t-0");
        let has = |suffix: &str| names.iter().any(|name| name.ends_with(suffix));
        assert!(!problems.is_empty() || !(has(".cleaned") || has(".swap")), "{names:?}");
        swaps += u64::from(has(".swap"));
        // Nor does a repair of the whole directory harm it.
        let (data, problems, changes) = check(&disk);
        let damage = problems.iter().find(|problem| !problem.may_be_unfinished);
        assert_eq!(damage, None, "power cut at change {change}");
        changes.iter().for_each(|change| drop(data.carry_out(change).expect("the disk works")));
        drop(data);
        // What is shown is what the next start makes of it.
        let mut shown = Vec::new();
        for segment in segments(&disk.fs, dir).expect("they can be listed") {
            for walked in segment.batches(&disk.fs).expect("it can be opened") {
                let Ok(Walked::Batch(placed)) = walked else { panic!("{walked:?}") };
                shown.push(placed.batch);
            }
        }
        let dir = disk.open();
        assert_eq!(read_batches(&disk.log(&dir), Offset(0)), shown, "change {change}");
    }
    assert!(swaps > 2, "{swaps} power cuts have hit a swap");
}

/// As [`interrupted_at`], of a log whose last segments to become one have lost what was in them.
fn interrupted_with_empty_segment_at(change: u64) -> TestDisk {
    let bench = bench_with_old_values();
    bench.dir.close().expect("it closes");
    let active = bench.disk.fs.open(&segment_path(8), OpenMode::ReadWrite).expect("it is there");
    active.set_len(0).expect("the disk works");
    let bench = Bench::on(bench.disk, CleanerOptions::default());
    assert_eq!(bench.log.log_end_offset(), Offset(9), "no offset is given twice");
    bench.roll();
    bench.put("a", Some("4"));
    bench.roll();
    // The group ends with the empty segment: the next filler does not fit.
    bench.log.set_config(Arc::new(LogConfig { segment_bytes: 11_500, ..compacted() }));
    wait_sealed(&bench.dir);
    bench.disk.fs.crash_at_change(change);
    bench.cleaner.clean_due();
    bench.disk.crash()
}

#[test]
fn a_power_cut_while_a_segment_without_batches_is_replaced_loses_nothing() {
    let mut swaps = 0;
    for change in 1..60 {
        let disk = interrupted_with_empty_segment_at(change);
        let has_swap = names_in(&disk.fs, "/data/t-0").iter().any(|name| name.ends_with(".swap"));
        swaps += u64::from(has_swap);
        let dir = disk.open();
        let failed = &dir.recovery_report().failed;
        assert!(failed.is_empty(), "power cut at change {change}: {failed:?}");
        let log = disk.log(&dir);
        let newest = contents(&log).pop().expect("there are records");
        assert_eq!(newest, (11, "a".to_owned(), Some("4".to_owned())), "change {change}");
        drop((log, dir));
        // What was replaced does not come back.
        let bench = Bench::on(disk, CleanerOptions::default());
        bench.clean();
        assert_eq!(bench.contents(), shown(&[(11, "a", Some("4"))]), "change {change}");
    }
    assert!(swaps > 2, "{swaps} power cuts have hit a swap");
}

/// Apache Kafka gives the indexes of a segment that takes the place of others the name of the swap, too.
#[test]
fn what_kafka_has_begun_to_replace_is_finished() {
    let mut swaps = 0;
    for change in 1..60 {
        let disk = interrupted_at(change);
        let names = names_in(&disk.fs, "/data/t-0");
        let dir = Path::new("/data/t-0");
        let cleaned: Vec<&str> = names.iter().filter_map(|n| n.strip_suffix(".cleaned")).collect();
        if cleaned.is_empty() || !names.iter().any(|name| name.ends_with(".log.swap")) {
            continue;
        }
        for name in cleaned {
            let (from, to) = (format!("{name}.cleaned"), format!("{name}.swap"));
            disk.fs.rename(&dir.join(from), &dir.join(to)).expect("it is there");
        }
        swaps += 1;
        let bench = Bench::on(disk, CleanerOptions::default());
        assert!(bench.dir.recovery_report().findings.is_empty(), "change {change}");
        assert_eq!(bench.contents().last().map(|(offset, ..)| *offset), Some(6), "change {change}");
        bench.check_files();
    }
    assert!(swaps > 0, "no power cut has hit a swap");
}
