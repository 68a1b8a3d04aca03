//! What `logway log verify` and `logway log repair` make of files that were changed at rest.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_log::fs::{Fs, OpenMode, SimFs, read_to_end};
use logway_log::inspect::{Access, Change, DataDir, Problem, Repair};
use logway_log::{AppendBatches, Finding, Log, LogError, LogMetrics};
use logway_model::{LeaderEpoch, Offset};
use logway_record::Record;

use crate::support::*;

/// Where the log of the tests starts: its first records were deleted.
const START: Offset = Offset(7);

const POINTS: &str = "recovery-point-offset-checkpoint";
const STARTS: &str = "log-start-offset-checkpoint";
const LISTS: &str = "segment-lists";
const EPOCHS: &str = "t-0/leader-epoch-checkpoint";

/// Two logs of several segments, with producers, two leader epochs and a log start, closed in good
/// order.
fn closed_dir(seed: u64) -> TestDisk {
    let disk = TestDisk::new(seed).with_config(small_segments());
    let dir = disk.open();
    for number in 0..2 {
        let log = disk.log_of(&dir, number);
        for sequence in 0..30 {
            let leader_epoch = LeaderEpoch(EPOCH.0 + sequence / 20);
            let large = batch_at(&[NOW_MS + i64::from(sequence)], 400);
            for batch in [producer_batch(7, 0, sequence, 1), large] {
                let append = AppendBatches::new(vec![batch], leader_epoch);
                log.append(append).wait().expect("the disk works");
            }
        }
        log.delete_records_before(START).wait().expect("the offset is in the log");
    }
    dir.close().expect("it closes");
    disk
}

/// Looks at the whole log directory.
pub(crate) fn check(disk: &TestDisk) -> (DataDir, Vec<Problem>, Vec<Change>) {
    let fs: Arc<dyn Fs> = Arc::new(disk.fs.clone());
    let mut data = DataDir::open(fs, Path::new("/data"), Access::Repair).expect("nobody has it");
    let (mut problems, mut changes) = (Vec::new(), Vec::new());
    for dir in data.partition_dirs().expect("it can be listed") {
        let checked = data.check_partition(&dir, |problem| problems.push(problem));
        changes.extend(checked.expect("it can be listed").changes);
    }
    changes.extend(data.check_files(|problem| problems.push(problem)));
    (data, problems, changes)
}

fn problems_of(disk: &TestDisk) -> Vec<Problem> {
    check(disk).1
}

/// The problems that are no mere notes.
fn serious(problems: Vec<Problem>) -> Vec<Problem> {
    problems.into_iter().filter(|problem| !problem.may_be_unfinished).collect()
}

fn repair(disk: &TestDisk) -> Vec<PathBuf> {
    let (data, _, changes) = check(disk);
    changes.iter().filter_map(|change| data.carry_out(change).expect("the disk works")).collect()
}

fn content(fs: &SimFs, name: &str) -> Vec<u8> {
    let path = Path::new("/data").join(name);
    let file = fs.open(&path, OpenMode::Read).expect("it is there");
    read_to_end(&*file, 1 << 20).expect("it can be read")
}

fn put(fs: &SimFs, name: &str, content: &[u8]) {
    let path = Path::new("/data").join(name);
    let file = fs.open(&path, OpenMode::CreateTruncate).expect("the disk works");
    file.write_all_at(&[IoSlice::new(content)], 0).expect("the disk works");
    file.sync_data().expect("the disk works");
    fs.sync_dir(path.parent().expect("it is in a directory")).expect("the disk works");
}

/// All files below the log directory, with their bytes.
fn files(fs: &SimFs) -> Vec<(String, Vec<u8>)> {
    let mut names = Vec::new();
    for entry in fs.read_dir(Path::new("/data")).expect("it can be listed") {
        let name = entry.name.into_string().expect("our names are text");
        match entry.is_dir {
            true => {
                let inner = names_in(fs, &format!("/data/{name}"));
                names.extend(inner.into_iter().map(|inner| format!("{name}/{inner}")));
            }
            false => names.push(name),
        }
    }
    names.into_iter().map(|name| (name.clone(), content(fs, &name))).collect()
}

/// The records' files alone.
fn segments_of(fs: &SimFs) -> Vec<(String, Vec<u8>)> {
    files(fs).into_iter().filter(|(name, _)| name.ends_with(".log")).collect()
}

fn records_of(log: &Log) -> Vec<Record> {
    read_records(log, log.log_start_offset())
}

/// Opens the directory as a broker does; its logs must have all records that were there, and may
/// have some again that were deleted.
fn assert_records_kept(disk: &TestDisk, expected: &[Vec<Record>], context: &str) {
    let dir = disk.open();
    for (number, expected) in (0..).zip(expected) {
        let log = disk.log_of(&dir, number);
        assert!(log.log_start_offset() <= START, "{context}: {}", log.log_start_offset());
        let found: Vec<Record> =
            records_of(&log).into_iter().filter(|record| record.offset >= START).collect();
        assert!(found == *expected, "{context}: log {number} has other records");
        assert_eq!(log.log_end_offset(), Offset(60), "{context}");
    }
}

fn original_records(seed: u64) -> Vec<Vec<Record>> {
    let disk = closed_dir(seed);
    let dir = disk.open();
    (0..2).map(|number| records_of(&disk.log_of(&dir, number))).collect()
}

/// What is done to a file.
enum Damage {
    /// The byte at a place becomes another one.
    Byte(usize, u8),
    /// The file is cut to so many bytes.
    Cut(usize),
    /// The file goes.
    Gone,
    /// The file holds this.
    Text(&'static str),
}

/// A file that is changed, and what is said of it.
struct Case {
    file: &'static str,
    damage: Damage,
    /// The file that is named, the byte, and a part of the reason.
    said: (&'static str, u64, &'static str),
    repair: Option<Repair>,
}

const fn case(
    file: &'static str,
    damage: Damage,
    said: (&'static str, u64, &'static str),
    repair: Option<Repair>,
) -> Case {
    Case { file, damage, said, repair }
}

const TABLE: &[Case] = &[
    case("t-0/INDEX", Damage::Byte(3, 0xff), ("INDEX", 0, "it has offset"), Some(Repair::Rebuild)),
    case("t-0/INDEX", Damage::Byte(15, 0x01), ("INDEX", 8, "at byte"), Some(Repair::Rebuild)),
    case("t-0/INDEX", Damage::Byte(11, 0), ("INDEX", 8, "not above"), Some(Repair::Rebuild)),
    case("t-0/INDEX", Damage::Byte(4, 0x7f), ("INDEX", 0, "behind"), Some(Repair::Rebuild)),
    case("t-0/INDEX", Damage::Cut(13), ("INDEX", 8, "has not its 8 bytes"), Some(Repair::Rebuild)),
    case("t-0/TIMES", Damage::Byte(7, 0x55), ("TIMES", 0, "timestamp"), Some(Repair::Rebuild)),
    case("t-0/TIMES", Damage::Byte(11, 0x01), ("TIMES", 0, "offset"), Some(Repair::Rebuild)),
    case("t-0/TIMES", Damage::Cut(12), ("TIMES", 12, "ends with timestamp"), Some(Repair::Rebuild)),
    case("t-0/TIMES", Damage::Gone, ("TIMES", 0, "no entry"), Some(Repair::Rebuild)),
    case("t-0/SNAPSHOT", Damage::Byte(12, 0xaa), ("SNAPSHOT", 2, "CRC"), Some(Repair::SetAside)),
    case("t-0/SNAPSHOT", Damage::Byte(1, 9), ("SNAPSHOT", 0, "version"), Some(Repair::SetAside)),
    case("t-0/SNAPSHOT", Damage::Cut(5), ("SNAPSHOT", 5, "ends"), Some(Repair::SetAside)),
    case(EPOCHS, Damage::Text("0\n2\n3 7\nx 40\n"), ("epoch", 8, "line 4"), Some(Repair::Rewrite)),
    case(EPOCHS, Damage::Text("0\n1\n3 7\n"), ("epoch", 4, "epoch 3"), Some(Repair::Rewrite)),
    case(EPOCHS, Damage::Text("0\n2\n3 7\n4 39\n"), ("epoch", 8, "has 3"), Some(Repair::Rewrite)),
    case(EPOCHS, Damage::Text("0\n2\n3 7\n9 40\n"), ("epoch", 8, "epoch 9"), Some(Repair::Rewrite)),
    case(EPOCHS, Damage::Gone, ("epoch", 0, "no epoch"), Some(Repair::Rewrite)),
    case(
        "t-0/partition.metadata",
        Damage::Text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"),
        ("metadata", 11, "topic id AAAAAAAAAAAAAAAAAAAAAQ"),
        Some(Repair::Rewrite),
    ),
    case("t-0/partition.metadata", Damage::Cut(20), ("metadata", 11, "2"), Some(Repair::Rewrite)),
    case("t-0/partition.metadata", Damage::Gone, ("metadata", 0, "missing"), Some(Repair::Rewrite)),
    case(POINTS, Damage::Gone, (POINTS, 0, "missing"), Some(Repair::Rewrite)),
    case(POINTS, Damage::Cut(9), (POINTS, 4, "ends within"), Some(Repair::Rewrite)),
    case(
        POINTS,
        Damage::Text("0\n2\nt 0 60\nt 1 1060\n"),
        (POINTS, 11, "t-1 was on stable storage before offset 1060"),
        Some(Repair::Rewrite),
    ),
    case(
        POINTS,
        Damage::Text("0\n2\nu 0 60\nt 1 60\n"),
        (POINTS, 4, "there is no u-0"),
        Some(Repair::Rewrite),
    ),
    case(
        STARTS,
        Damage::Text("0\n2\nt 0 7\nt 1 90\n"),
        (STARTS, 10, "t-1 starts at 90"),
        Some(Repair::Rewrite),
    ),
    case(
        STARTS,
        Damage::Text("0\n2\nt 0 50\nt 1 7\n"),
        (STARTS, 4, "t-0 starts at 50, but its leader epochs begin with 7"),
        Some(Repair::Rewrite),
    ),
    case(STARTS, Damage::Text("1\n0\n"), (STARTS, 0, "version"), Some(Repair::Rewrite)),
    case(LISTS, Damage::Byte(30, b'z'), (LISTS, 2, "CRC"), Some(Repair::SetAside)),
    case(
        "cleaner-offset-checkpoint",
        Damage::Text("0\n1\nt 0 61\n"),
        ("cleaner", 4, "cannot be clean"),
        Some(Repair::Rewrite),
    ),
    case(
        "cleaner-offset-checkpoint",
        Damage::Text("nothing\n"),
        ("cleaner", 0, "version"),
        Some(Repair::SetAside),
    ),
    case(
        "replication-offset-checkpoint",
        Damage::Text("nothing\n"),
        ("replication", 0, "version"),
        Some(Repair::SetAside),
    ),
    case(
        "replication-offset-checkpoint",
        Damage::Text("0\n2\nt 0 9\nt 1 -1\n"),
        ("replication", 10, "cannot be committed"),
        Some(Repair::Rewrite),
    ),
    case("t-0/replica-move", Damage::Text("version: 7\n"), ("replica-move", 11, "state"), None),
];

/// The name of a file of the table: `INDEX`, `TIMES` and `SNAPSHOT` are those of the second segment.
fn real_name(disk: &TestDisk, name: &str) -> String {
    let bases: Vec<String> = names_in(&disk.fs, "/data/t-0")
        .into_iter()
        .filter_map(|name| name.strip_suffix(".log").map(str::to_owned))
        .collect();
    let second = &bases[1];
    name.replace("INDEX", &format!("{second}.index"))
        .replace("TIMES", &format!("{second}.timeindex"))
        .replace("SNAPSHOT", &format!("{second}.snapshot"))
}

fn damage(disk: &TestDisk, name: &str, damage: &Damage) {
    match damage {
        Damage::Gone => remove(disk, &Path::new("/data").join(name)),
        Damage::Text(text) => put(&disk.fs, name, text.as_bytes()),
        Damage::Cut(len) => put(&disk.fs, name, &content(&disk.fs, name)[..*len]),
        Damage::Byte(position, value) => {
            let mut bytes = content(&disk.fs, name);
            assert_ne!(bytes[*position], *value, "{name}: the byte is so already");
            bytes[*position] = *value;
            put(&disk.fs, name, &bytes);
        }
    }
}

#[test]
fn a_directory_that_was_closed_in_good_order_has_no_problems() {
    assert_eq!(problems_of(&closed_dir(1)), []);
}

#[test]
fn what_is_changed_is_said_with_its_byte_and_repaired_where_that_is_possible() {
    let records = original_records(1);
    for case in TABLE {
        let disk = closed_dir(1);
        let name = real_name(&disk, case.file);
        damage(&disk, &name, &case.damage);
        let segments = segments_of(&disk.fs);
        let (file, position, reason) = case.said;
        let file = real_name(&disk, file);
        let problems = problems_of(&disk);
        let is_said = |problem: &&Problem| {
            problem.path.to_string_lossy().contains(&file)
                && problem.position == position
                && problem.reason.contains(reason)
        };
        let said = problems.iter().find(is_said);
        let said = said.unwrap_or_else(|| panic!("{name}: '{reason}' in {problems:#?}"));
        assert_eq!(said.repair, case.repair, "{name}: {said:?}");

        let had_file = disk.fs.exists(&Path::new("/data").join(&name)).expect("the disk works");
        let kept = repair(&disk);
        assert_eq!(segments_of(&disk.fs), segments, "{name}");
        let is_kept = had_file && matches!(case.repair, Some(Repair::Rewrite | Repair::SetAside));
        assert_eq!(kept.len(), usize::from(is_kept), "{name}: {kept:?}");
        if case.repair.is_none() {
            continue;
        }
        assert_eq!(problems_of(&disk), [], "{name}: is repaired");
        assert_records_kept(&disk, &records, &name);
    }
}

#[test]
fn what_lies_behind_the_last_batch_of_a_full_segment_is_no_loss() {
    let disk = closed_dir(1);
    let name = real_name(&disk, "t-0/INDEX").replace(".index", ".log");
    let mut bytes = content(&disk.fs, &name);
    let whole_bytes = bytes.len() as u64;
    bytes.extend([0xfe; 200]);
    put(&disk.fs, &name, &bytes);
    let problems = problems_of(&disk);
    let said = problems.iter().find(|problem| problem.path.ends_with(&name));
    let said = said.unwrap_or_else(|| panic!("{name} is not in {problems:#?}"));
    assert_eq!((said.position, said.lost), (whole_bytes, None), "{said:#?}");
    assert!(!said.may_be_unfinished, "{said:#?}");
    repair(&disk);
    assert_eq!(content(&disk.fs, &name), bytes, "no repair touches it");
    assert_records_kept(&disk, &original_records(1), &name);
}

#[test]
fn nothing_is_repaired_where_records_are_damaged_or_gone() {
    let flipped = |disk: &TestDisk| {
        let path = segment_path(0);
        disk.fs.flip_bit(&path, 100, 0).expect("it is there");
    };
    let removed = |disk: &TestDisk| {
        let name = real_name(disk, "t-0/INDEX").replace(".index", ".log");
        remove(disk, &Path::new("/data").join(name));
    };
    let cut = |disk: &TestDisk| {
        let mut segments = segments_of(&disk.fs).into_iter();
        let last = segments.rfind(|(name, _)| name.starts_with("t-0"));
        let (name, bytes) = last.expect("it has segments");
        put(&disk.fs, &name, &bytes[..bytes.len() / 2]);
    };
    let all: [&dyn Fn(&TestDisk); 3] = [&flipped, &removed, &cut];
    for (number, change) in all.iter().enumerate() {
        let disk = closed_dir(1);
        change(&disk);
        let before = segments_of(&disk.fs);
        let lost = |problems: &[Problem]| -> BTreeSet<String> {
            problems
                .iter()
                .filter_map(|problem| problem.lost)
                .map(|lost| lost.to_string())
                .collect()
        };
        let said = lost(&problems_of(&disk));
        assert!(!said.is_empty(), "change {number}");
        repair(&disk);
        let left = problems_of(&disk);
        assert!(left.iter().all(|problem| problem.repair.is_none()), "change {number}: {left:#?}");
        assert_eq!(lost(&left), said, "change {number}");
        assert_eq!(segments_of(&disk.fs), before, "change {number}");
    }
}

#[test]
fn a_bit_that_flips_in_any_other_file_is_said_or_harmless_and_repaired() {
    /// Which cluster, node and directory it is, nothing else in the directory says; and what nobody
    /// reads.
    const LEFT_OUT: [&str; 4] = ["meta.properties", ".lock", ".reserve", ".kafka_cleanshutdown"];
    let records = original_records(1);
    let mut random = Random::new(20);
    let (mut said, mut harmless) = (0, 0);
    for round in 0..200 {
        let disk = closed_dir(1);
        let mut all = files(&disk.fs);
        all.retain(|(name, bytes)| {
            !name.ends_with(".log") && !bytes.is_empty() && !LEFT_OUT.contains(&name.as_str())
        });
        let (name, bytes) = &all[random.below(all.len())];
        let (position, bit) = (random.below(bytes.len()), random.below(8) as u8);
        let path = Path::new("/data").join(name);
        disk.fs.flip_bit(&path, position as u64, bit).expect("it is there");
        let context = format!("round {round}: bit {bit} of byte {position} of {name}");
        match serious(problems_of(&disk)).is_empty() {
            true => harmless += 1,
            false => said += 1,
        }
        repair(&disk);
        let left = serious(problems_of(&disk));
        assert!(left.is_empty(), "{context}: {left:#?}");
        assert_records_kept(&disk, &records, &context);
    }
    println!("{said} flips were reported and repaired, {harmless} change nothing");
    assert!(said > 150, "{said} of 200");
}

#[test]
fn a_repair_that_a_power_cut_interrupts_can_be_made_again() {
    let records = original_records(1);
    let prepare = || {
        let disk = closed_dir(1);
        for name in ["t-0/INDEX", "t-0/TIMES"] {
            remove(&disk, &Path::new("/data").join(real_name(&disk, name)));
        }
        for name in [EPOCHS, POINTS, STARTS, LISTS, "t-1/leader-epoch-checkpoint"] {
            put(&disk.fs, name, b"damaged\n");
        }
        put(&disk.fs, &real_name(&disk, "t-0/SNAPSHOT"), b"damaged");
        disk
    };
    let whole = prepare();
    let before = whole.fs.changes();
    repair(&whole);
    assert_eq!(problems_of(&whole), []);
    let changes = whole.fs.changes() - before;
    for at in 1..=changes {
        let disk = prepare();
        disk.fs.crash_at_change(at);
        let fs: Arc<dyn Fs> = Arc::new(disk.fs.clone());
        // Whatever it comes to.
        let _ = repair_until_it_fails(fs);
        let disk = disk.crash();
        let context = format!("power cut at change {at} of {changes}");
        repair(&disk);
        let left = serious(problems_of(&disk));
        assert!(left.is_empty(), "{context}: {left:#?}");
        assert_records_kept(&disk, &records, &context);
    }
}

fn repair_until_it_fails(fs: Arc<dyn Fs>) -> Result<(), LogError> {
    let mut data = DataDir::open(fs, Path::new("/data"), Access::Repair)?;
    let mut changes = Vec::new();
    for dir in data.partition_dirs()? {
        changes.extend(data.check_partition(&dir, |_| {})?.changes);
    }
    changes.extend(data.check_files(|_| {}));
    changes.iter().try_for_each(|change| data.carry_out(change).map(drop))
}

#[test]
fn what_a_power_cut_leaves_is_settled_by_the_next_start() {
    for seed in 0..40 {
        let disk = TestDisk::new(seed).with_config(small_segments());
        disk.fs.crash_at_change(20 + 11 * seed);
        if let Ok(dir) = disk.try_open() {
            work(&disk, &dir);
        }
        let disk = disk.crash();
        if !disk.fs.exists(Path::new("/data")).expect("the disk works") {
            continue;
        }
        let left = serious(problems_of(&disk));
        assert!(left.is_empty(), "seed {seed}: {left:#?}");
        let dir = disk.open();
        let is_loss = |finding: &Finding| {
            matches!(finding, Finding::Corruption { .. } | Finding::Missing { .. })
        };
        let report = dir.recovery_report();
        assert!(!report.findings.iter().any(is_loss), "seed {seed}: {report:?}");
        dir.close().expect("it closes");
        assert_eq!(problems_of(&disk), [], "seed {seed}");
    }
}

/// Appends and deletes records until something fails.
fn work(disk: &TestDisk, dir: &logway_log::LogDir) {
    let config = Arc::new(disk.config.clone());
    let Ok(log) = dir.create_log(partition(0), topic_id(), config) else { return };
    for sequence in 0..60 {
        if append(&log, producer_batch(7, 0, sequence, 1)).is_err()
            || append(&log, batch(1, 400)).is_err()
        {
            return;
        }
        if sequence % 20 == 19 && log.delete_records_before(Offset(5)).wait().is_err() {
            return;
        }
    }
    // An error is what the test is about.
    let _ = dir.close();
}

#[test]
fn a_directory_that_is_in_use_is_refused() {
    let disk = closed_dir(1);
    let dir = disk.open();
    let fs: Arc<dyn Fs> = Arc::new(disk.fs.clone());
    for access in [Access::Read, Access::Repair] {
        let refused = DataDir::open(Arc::clone(&fs), Path::new("/data"), access).map(drop);
        assert!(matches!(refused, Err(LogError::Locked { .. })), "{refused:?}");
    }
    let mut beside = DataDir::open(Arc::clone(&fs), Path::new("/data"), Access::BesideBroker)
        .expect("nothing is changed");
    let mut problems = Vec::new();
    beside
        .check_partition(Path::new("/data/t-0"), |problem| problems.push(problem))
        .expect("it can be listed");
    assert_eq!(serious(problems), []);
    dir.close().expect("it closes");
    let data = DataDir::open(Arc::clone(&fs), Path::new("/data"), Access::Read).expect("is free");
    let metrics = LogMetrics::new();
    let refused = logway_log::LogDir::open(disk.options(), metrics).map(drop);
    assert!(matches!(refused, Err(LogError::Locked { .. })), "a broker waits: {refused:?}");
    drop(data);
    disk.open();
}
