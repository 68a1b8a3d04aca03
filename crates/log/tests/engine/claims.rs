//! Files that say what cannot be: checkpoints without a checksum, and names.

use std::io::IoSlice;
use std::path::Path;

use logway_log::fs::{Fs, OpenMode};
use logway_log::{Finding, LogDir, LogError};
use logway_model::Offset;

use crate::support::*;

const LOG_STARTS: &str = "/data/log-start-offset-checkpoint";
const RECOVERY_POINTS: &str = "/data/recovery-point-offset-checkpoint";

fn write(disk: &TestDisk, path: &str, content: &[u8]) {
    let file = disk.fs.open(Path::new(path), OpenMode::CreateTruncate).expect("the disk works");
    file.write_all_at(&[IoSlice::new(content)], 0).expect("the disk works");
}

fn checkpoint_of(offset: impl std::fmt::Display) -> Vec<u8> {
    format!("0\n1\nt 0 {offset}\n").into_bytes()
}

/// A disk with one log of 60 records in small segments, which was closed in good order or not.
fn log_of_60_records(is_clean: bool) -> TestDisk {
    let disk = closed_log_of_60_records();
    if !is_clean {
        drop(disk.open());
    }
    disk
}

fn has_impossible_start(dir: &LogDir) -> bool {
    let is_it = |finding: &Finding| matches!(finding, Finding::ImpossibleLogStart { .. });
    dir.recovery_report().findings.iter().any(is_it)
}

#[test]
fn a_log_start_behind_all_records_hides_none_of_them() {
    for is_clean in [true, false] {
        for claimed in [61, 99_999, Offset::LIMIT.0 - 1] {
            let disk = log_of_60_records(is_clean);
            write(&disk, LOG_STARTS, &checkpoint_of(claimed));
            let dir = disk.open();
            assert!(has_impossible_start(&dir), "{:?}", dir.recovery_report());
            let log = disk.log(&dir);
            assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(60)));
            assert_eq!(read_records(&log, Offset(0)).len(), 60);
            assert_eq!(append_records(&log, 1, 10), Offset(60));
            dir.close().expect("it closes");
            let dir = disk.open();
            assert!(dir.recovery_report().findings.is_empty(), "{:?}", dir.recovery_report());
        }
    }
}

#[test]
fn offsets_that_no_log_reaches_make_a_checkpoint_a_damaged_one() {
    for path in [LOG_STARTS, RECOVERY_POINTS] {
        for claimed in [Offset::LIMIT.0, i64::MAX - 1, i64::MAX] {
            let disk = log_of_60_records(true);
            write(&disk, path, &checkpoint_of(claimed));
            let dir = disk.open();
            let findings = &dir.recovery_report().findings;
            let [Finding::Rebuilt { error: LogError::Malformed { .. } }] = &findings[..] else {
                panic!("{findings:?}")
            };
            let log = disk.log(&dir);
            assert_eq!(read_records(&log, Offset(0)).len(), 60);
            assert_eq!(append_records(&log, 1, 10), Offset(60));
        }
    }
}

#[test]
fn a_log_start_that_a_crash_leaves_at_the_end_is_believed() {
    for seed in 0..10 {
        // Also where the records are not synced when they are deleted.
        for config in [small_segments(), not_durable()] {
            let disk = TestDisk::new(seed).with_config(config);
            let dir = disk.open();
            let log = disk.log(&dir);
            for _ in 0..30 {
                append_records(&log, 2, 300);
            }
            log.delete_records_before(Offset(60)).wait().expect("the end is in the log");
            let disk = disk.crash();
            drop(dir);
            let dir = disk.open();
            assert!(!has_impossible_start(&dir), "seed {seed}: {:?}", dir.recovery_report());
            let log = disk.log(&dir);
            assert_eq!(log.log_start_offset(), Offset(60), "seed {seed}");
            assert_eq!(append_records(&log, 1, 10), Offset(60), "seed {seed}");
        }
    }
}

#[test]
fn an_end_before_the_recovery_point_is_a_loss_and_said_to_be() {
    for is_removed in [true, false] {
        let disk = log_of_60_records(false);
        // Only the recovery point tells, which has no more to say than where the log ended.
        remove(&disk, Path::new("/data/segment-lists"));
        let names = names_in(&disk.fs, "/data/t-0");
        let snapshots = names.iter().filter(|name| name.ends_with(".snapshot"));
        snapshots.for_each(|name| remove(&disk, &Path::new("/data/t-0").join(name)));
        let last = names.iter().rfind(|name| name.ends_with(".log")).expect("there are some");
        let last = Path::new("/data/t-0").join(last);
        match is_removed {
            true => remove(&disk, &last),
            false => write(&disk, last.to_str().expect("is text"), b""),
        }
        let dir = disk.open();
        let findings = &dir.recovery_report().findings;
        let is_missing =
            |finding: &Finding| matches!(finding, Finding::Missing { to: Offset(60), .. });
        assert!(findings.iter().any(is_missing), "{findings:?}");
        assert_eq!(append_records(&disk.log(&dir), 1, 10), Offset(60), "no offset is given twice");
    }
}

#[test]
fn a_snapshot_that_is_none_does_not_move_the_end() {
    for is_clean in [true, false] {
        let disk = log_of_60_records(is_clean);
        let path = "/data/t-0/00000000000000009999.snapshot";
        write(&disk, path, b"junk");
        let dir = disk.open();
        let log = disk.log(&dir);
        assert_eq!(log.log_end_offset(), Offset(60));
        assert_eq!(read_records(&log, Offset(0)).len(), 60);
        assert!(!disk.fs.exists(Path::new(path)).expect("the disk works"), "it is removed");
    }
}

/// A number near one of the places where arithmetic could go wrong.
fn random_offset(random: &mut Random) -> u64 {
    let places = [0, 60, 1 << 31, Offset::LIMIT.0 as u64, i64::MAX as u64, u64::MAX];
    let near = places[random.below(places.len())];
    near.wrapping_add(random.below(7) as u64).wrapping_sub(3)
}

fn random_content(random: &mut Random) -> Vec<u8> {
    let offset = random_offset(random);
    match random.below(4) {
        0 => checkpoint_of(offset),
        1 => format!("0\n1\n{} {offset}\n", random.below(9)).into_bytes(),
        2 => (0..random.below(200)).map(|_| random.next() as u8).collect(),
        _ => Vec::new(),
    }
}

/// Overwrites some checkpoints, and adds or renames files of the partition.
fn damage(disk: &TestDisk, random: &mut Random) -> Vec<String> {
    let mut done = Vec::new();
    for _ in 0..=random.below(3) {
        let offset = random_offset(random);
        let extensions = ["log", "index", "timeindex", "snapshot"];
        let name = format!("/data/t-0/{offset:020}.{}", extensions[random.below(4)]);
        let content = random_content(random);
        let paths = [
            LOG_STARTS,
            RECOVERY_POINTS,
            "/data/segment-lists",
            "/data/t-0/leader-epoch-checkpoint",
            &name,
        ];
        let path = paths[random.below(paths.len())];
        if random.below(4) == 0 && path == name {
            let names = names_in(&disk.fs, "/data/t-0");
            let from = format!("/data/t-0/{}", names[random.below(names.len())]);
            disk.fs.rename(Path::new(&from), Path::new(path)).expect("it is there");
            done.push(format!("{from} is {path}"));
        } else {
            write(disk, path, &content);
            done.push(format!("{path}: {}", String::from_utf8_lossy(&content)));
        }
    }
    done
}

#[test]
fn no_checkpoint_and_no_name_makes_the_writer_panic() {
    const SEEDS: u64 = 150;
    let mut opened = 0;
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let disk = log_of_60_records(random.below(2) == 0);
        let done = damage(&disk, &mut random);
        // What is said of the log the first time is written down for the second.
        for _ in 0..2 {
            let dir = disk.open();
            let log = dir.create_log(partition(0), topic_id(), disk.config.clone().into());
            if let Ok(log) = log {
                opened += 1;
                for _ in 0..3 {
                    match append(&log, batch(2, 300)) {
                        Ok(appended) => {
                            let end = appended.last_offset.next();
                            assert_eq!(log.log_end_offset(), end, "seed {seed}: {done:?}");
                            let read = read_records(&log, appended.base_offset).len();
                            assert_eq!(read, 2, "seed {seed}: {done:?}");
                        }
                        Err(LogError::OffsetsExhausted { .. }) => {}
                        Err(error) => panic!("seed {seed}: {error}: {done:?}"),
                    }
                }
            }
            assert!(dir.is_running(), "seed {seed}: {done:?}");
            dir.close().unwrap_or_else(|error| panic!("seed {seed}: {error}: {done:?}"));
        }
    }
    assert!(opened > SEEDS, "only {opened} times was the log there");
}
