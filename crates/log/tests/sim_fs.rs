//! What the simulated file system loses, and what it never loses.
//!
//! Each statement about a crash is tried with many seeds; where chance decides, all outcomes
//! must have been seen.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::fs::{File, Fs, OpenMode, SimFs, read_to_end};

const SEEDS: u64 = 300;

fn create(fs: &SimFs, path: &str) -> Arc<dyn File> {
    fs.open(Path::new(path), OpenMode::CreateOrOpen).expect("is opened")
}

fn write(file: &dyn File, bytes: &[u8], position: u64) -> io::Result<()> {
    file.write_all_at(&[IoSlice::new(bytes)], position)
}

/// The content of a file, `None` if it does not exist.
fn content(fs: &SimFs, path: &str) -> Option<Vec<u8>> {
    match fs.open(Path::new(path), OpenMode::Read) {
        Ok(file) => Some(read_to_end(&*file, 1 << 20).expect("is read")),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            None
        }
    }
}

/// A durable file.
fn durable(fs: &SimFs, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(fs, path);
    write(&*file, bytes, 0).expect("is written");
    file.sync_data().expect("is synced");
    fs.sync_dir(Path::new("/")).expect("is synced");
    file
}

/// What a file is after a crash, over all seeds.
fn outcomes(path: &str, before: impl Fn(&SimFs)) -> BTreeSet<Option<Vec<u8>>> {
    let outcome = |seed| {
        let fs = SimFs::new(seed);
        before(&fs);
        content(&fs.crash(), path)
    };
    (0..SEEDS).map(outcome).collect()
}

#[test]
fn what_was_synced_with_its_name_survives_every_crash() {
    let seen = outcomes("a", |fs| drop(durable(fs, "a", b"kept")));
    assert_eq!(seen, BTreeSet::from([Some(b"kept".to_vec())]));
}

#[test]
fn a_name_without_a_sync_of_its_directory_may_be_lost() {
    let seen = outcomes("a", |fs| {
        let file = create(fs, "a");
        write(&*file, b"kept", 0).expect("is written");
        file.sync_all().expect("is synced");
    });
    assert_eq!(seen, BTreeSet::from([None, Some(b"kept".to_vec())]));
}

#[test]
fn a_directory_is_lost_with_all_that_was_synced_in_it() {
    let seen = outcomes("d/a", |fs| {
        fs.create_dir_all(Path::new("d")).expect("is created");
        write(&*create(fs, "d/a"), b"x", 0).expect("is written");
        create(fs, "d/a").sync_data().expect("is synced");
        fs.sync_dir(Path::new("d")).expect("is synced");
    });
    assert_eq!(seen, BTreeSet::from([None, Some(b"x".to_vec())]));
}

#[test]
fn a_removed_file_may_come_back_and_a_rename_is_never_half_done() {
    let removed = outcomes("a", |fs| {
        drop(durable(fs, "a", b"x"));
        fs.remove_file(Path::new("a")).expect("is removed");
    });
    assert_eq!(removed, BTreeSet::from([None, Some(b"x".to_vec())]));

    let replaced = outcomes("a", |fs| {
        drop(durable(fs, "a", b"old"));
        let new = create(fs, "b");
        write(&*new, b"new", 0).expect("is written");
        new.sync_data().expect("is synced");
        fs.rename(Path::new("b"), Path::new("a")).expect("is renamed");
    });
    assert_eq!(replaced, BTreeSet::from([Some(b"old".to_vec()), Some(b"new".to_vec())]));
}

#[test]
fn unsynced_bytes_survive_sector_by_sector_and_the_length_in_between() {
    const OLD: usize = 4 * 512;
    const NEW: usize = 40 * 512;
    let seen = outcomes("a", |fs| {
        let file = durable(fs, "a", &[1; OLD]);
        write(&*file, &[2; NEW - 512], 512).expect("is written");
    });
    let mut torn = 0;
    let mut lengths = BTreeSet::new();
    for content in seen {
        let content = content.expect("its name is durable");
        lengths.insert(content.len());
        assert!((OLD..=NEW).contains(&content.len()));
        assert_eq!(content[..512], [1; 512], "what was synced and not written since stays");
        for (index, sector) in content.chunks(512).enumerate() {
            let value = sector[0];
            assert!(sector.iter().all(|&byte| byte == value), "sector {index} is torn");
            assert!(value == 2 || value == u8::from(index < 4), "sector {index} is {value}");
        }
        let values: BTreeSet<u8> = content[512..].iter().copied().collect();
        torn += usize::from(values.len() > 1);
    }
    assert!(lengths.contains(&OLD) && lengths.contains(&NEW) && lengths.len() > 10);
    assert!(torn > 10);
}

#[test]
fn a_sync_makes_bytes_and_length_durable() {
    let seen = outcomes("a", |fs| {
        let file = durable(fs, "a", &[1; 3000]);
        file.set_len(1000).expect("is cut");
        write(&*file, &[2; 700], 1500).expect("is written");
        file.sync_data().expect("is synced");
    });
    let expected = [vec![1; 1000], vec![0; 500], vec![2; 700]].concat();
    assert_eq!(seen, BTreeSet::from([Some(expected)]));
}

#[test]
fn after_a_failed_sync_a_later_one_says_nothing_about_the_bytes() {
    let mut lost = 0;
    let mut lost_from_cache = 0;
    for seed in 0..SEEDS {
        let fs = SimFs::new(seed);
        let file = durable(&fs, "a", &[1; 512]);
        write(&*file, &[2; 512], 0).expect("is written");
        fs.inject(Fault::new(SimOperation::Sync, Failure::Io).times(1));
        assert!(file.sync_data().is_err());
        let cached = content(&fs, "a").expect("exists");
        file.sync_data().expect("the second sync succeeds");
        write(&*file, &[3; 512], 512).expect("is written");
        file.sync_data().expect("is synced");

        let found = content(&fs.crash(), "a").expect("exists");
        assert_eq!(found[512..], [3; 512], "later writes are synced as ever (seed {seed})");
        assert!(found[..512] == [1; 512] || found[..512] == [2; 512], "seed {seed}");
        lost += usize::from(found[0] == 1);
        lost_from_cache += usize::from(cached[0] == 1);
    }
    assert!(lost > lost_from_cache && lost_from_cache > 0 && lost < SEEDS as usize);
}

#[test]
fn a_failed_sync_is_told_once_to_each_handle_that_was_open_and_to_none_that_came_later() {
    let fs = SimFs::new(1);
    let file = durable(&fs, "a", &[1; 512]);
    let opened_before = create(&fs, "a");
    fs.inject(Fault::new(SimOperation::Sync, Failure::Io).times(1));
    file.sync_data().expect_err("it fails once");
    let opened_after = create(&fs, "a");
    file.sync_data().expect("whoever met the failure knows of it");

    write(&*opened_before, &[2; 512], 512).expect("is written");
    opened_before.sync_data().expect_err("it is told of the other's failure");
    opened_before.sync_data().expect("once");
    opened_after.sync_data().expect("it was opened afterwards");

    let found = content(&fs.crash(), "a").expect("exists");
    assert_eq!(found[512..], [2; 512], "the sync that told of the other's failure was done");
}

#[test]
fn after_a_failed_sync_of_a_directory_a_later_one_says_nothing_about_the_names() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let fs = SimFs::new(seed);
        create(&fs, "a").sync_data().expect("is synced");
        fs.inject(Fault::new(SimOperation::SyncDir, Failure::Io).times(1));
        fs.sync_dir(Path::new("/")).expect_err("it fails once");
        create(&fs, "b");
        fs.sync_dir(Path::new("/")).expect("the second sync succeeds");

        let fs = fs.crash();
        assert!(content(&fs, "b").is_some(), "later names are synced as ever (seed {seed})");
        lost += u64::from(content(&fs, "a").is_none());
    }
    assert!(lost > 0 && lost < SEEDS);
}

#[test]
fn a_held_rename_has_not_begun() {
    let fs = SimFs::new(1);
    drop(create(&fs, "a"));
    fs.hold_renames_in("b");
    fs.rename(Path::new("a"), Path::new("c")).expect("another name is not held");
    thread::scope(|scope| {
        let renamed = scope.spawn(|| fs.rename(Path::new("c"), Path::new("b")));
        fs.wait_for_held_renames(1);
        assert!(content(&fs, "b").is_none());
        fs.release_renames();
        renamed.join().expect("does not panic").expect("is renamed");
    });
    assert!(content(&fs, "b").is_some());
}

#[test]
fn a_held_sync_covers_what_was_written_before_it_and_returns_when_it_is_let_go() {
    let mut lost = 0;
    for seed in 0..20 {
        let fs = SimFs::new(seed);
        let file = durable(&fs, "a", b"");
        write(&*file, &[1; 512], 0).expect("is written");
        fs.hold_syncs();
        thread::scope(|scope| {
            let sync = scope.spawn(|| file.sync_data());
            fs.wait_for_held_syncs(1);
            write(&*file, &[2; 512], 512).expect("is written");
            assert!(!sync.is_finished());
            fs.release_syncs();
            sync.join().expect("does not panic").expect("succeeds");
        });
        file.len().expect("the machine runs");

        fs.hold_syncs();
        let survivor = thread::scope(|scope| {
            let other = create(&fs, "b");
            let sync = scope.spawn(move || other.sync_data());
            fs.wait_for_held_syncs(1);
            let survivor = fs.crash();
            assert!(sync.join().expect("does not panic").is_err(), "a crash ends the wait");
            survivor
        });
        let found = content(&survivor, "a").expect("exists");
        assert_eq!(found[..512], [1; 512], "seed {seed}");
        lost += usize::from(found.get(512..1024) != Some(&[2; 512]));
    }
    assert!(lost > 0);
}

#[test]
fn a_full_disk_takes_a_part_and_resumes_when_there_is_space() {
    let fs = SimFs::new(0);
    fs.set_capacity_bytes(1000);
    let first = create(&fs, "a");
    write(&*first, &[1; 600], 0).expect("fits");
    let second = create(&fs, "b");
    let error = write(&*second, &[2; 600], 0).expect_err("does not fit");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(second.len().expect("is known"), 400);
    assert_eq!(fs.free_bytes(Path::new("/")).expect("is known"), 0);
    let error = second.set_len(401).expect_err("does not fit");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    write(&*second, &[3; 400], 0).expect("what is there may be written again");

    fs.remove_file(Path::new("a")).expect("is removed");
    assert_eq!(fs.free_bytes(Path::new("/")).expect("is known"), 0, "it is still open");
    drop(first);
    write(&*second, &[2; 600], 0).expect("fits now");
    assert_eq!(fs.free_bytes(Path::new("/")).expect("is known"), 400);

    let fs = fs.crash();
    let len = content(&fs, "b").map_or(0, |content| content.len() as u64);
    let len = len + content(&fs, "a").map_or(0, |content| content.len() as u64);
    assert_eq!(fs.free_bytes(Path::new("/")).expect("is known"), 1000 - len);
}

#[test]
fn a_write_that_fails_may_be_done_in_part() {
    let mut lengths = BTreeSet::new();
    for seed in 0..SEEDS {
        let fs = SimFs::new(seed);
        let file = create(&fs, "a");
        fs.inject(Fault::new(SimOperation::Write, Failure::Io));
        write(&*file, &[1; 10], 0).expect_err("the disk refuses it");
        lengths.insert(file.len().expect("is known"));
    }
    assert_eq!(lengths, (0..=10).collect());
}

#[test]
fn short_reads_give_something_and_all_of_them_everything() {
    let fs = SimFs::new(1);
    let bytes: Vec<u8> = (0..=255).collect();
    let file = durable(&fs, "a", &bytes);
    fs.inject(Fault::new(SimOperation::Read, Failure::ShortRead));
    let mut lengths = BTreeSet::new();
    for _ in 0..100 {
        let mut buf = [0; 8];
        let read = file.read_at(&mut buf, 100).expect("succeeds");
        assert_eq!(buf[..read], bytes[100..100 + read]);
        lengths.insert(read);
    }
    assert_eq!(lengths, (1..8).collect(), "never all, and never nothing");
    assert_eq!(file.read_at(&mut [0; 8], 255).expect("succeeds"), 1);
    assert_eq!(file.read_at(&mut [0; 8], 256).expect("succeeds"), 0, "the end is the end");
    assert_eq!(content(&fs, "a"), Some(bytes));
}

#[test]
fn what_is_ignored_succeeds_and_is_not_done() {
    let ignored = |operation| Fault::new(operation, Failure::Ignored).times(1);
    let synced = outcomes("a", |fs| {
        let file = durable(fs, "a", b"old");
        write(&*file, b"new", 0).expect("is written");
        fs.inject(ignored(SimOperation::Sync));
        file.sync_data().expect("says so");
    });
    assert_eq!(synced, BTreeSet::from([Some(b"old".to_vec()), Some(b"new".to_vec())]));
    let synced_again = outcomes("a", |fs| {
        let file = durable(fs, "a", b"old");
        write(&*file, b"new", 0).expect("is written");
        fs.inject(ignored(SimOperation::Sync));
        file.sync_data().expect("says so");
        file.sync_data().expect("is synced");
    });
    assert_eq!(synced_again, BTreeSet::from([Some(b"new".to_vec())]), "it was only left out");
    let named = outcomes("a", |fs| {
        create(fs, "a").sync_data().expect("is synced");
        fs.inject(ignored(SimOperation::SyncDir));
        fs.sync_dir(Path::new("/")).expect("says so");
    });
    assert_eq!(named, BTreeSet::from([None, Some(Vec::new())]));

    let fs = SimFs::new(1);
    let file = durable(&fs, "a", b"kept");
    for operation in [SimOperation::SetLen, SimOperation::Rename, SimOperation::Remove] {
        fs.inject(ignored(operation));
    }
    file.set_len(1).expect("says so");
    fs.rename(Path::new("a"), Path::new("b")).expect("says so");
    fs.remove_file(Path::new("a")).expect("says so");
    assert_eq!(content(&fs, "a"), Some(b"kept".to_vec()));
    assert_eq!(content(&fs, "b"), None);
}

/// Of a sync of a directory that says so, and of one of a file that does not.
#[test]
fn what_is_synced_while_the_file_system_stops_may_be_lost() {
    let (mut lost_bytes, mut lost_names) = (0, 0);
    for seed in 0..SEEDS {
        for is_file in [false, true] {
            let fs = SimFs::new(seed);
            let file = durable(&fs, "a", b"old");
            write(&*file, b"new", 0).expect("is written");
            drop(create(&fs, "b"));
            fs.stop_at_change(1);
            match is_file {
                true => _ = file.sync_data().expect_err("the file system has stopped"),
                false => fs.sync_dir(Path::new("/")).expect("nobody tells"),
            }
            assert!(fs.has_stopped() && !fs.has_crashed());
            write(&*file, b"ill", 0).expect_err("no change is made any more");
            file.sync_data().expect_err("nor is anything synced");
            fs.sync_dir(Path::new("/")).expect_err("it tells each sync that is begun now");
            assert!(fs.exists(Path::new("b")).expect("is looked for"), "seed {seed}");
            let survivor = fs.crash();
            lost_bytes += u64::from(content(&survivor, "a") == Some(b"old".to_vec()));
            lost_names += u64::from(content(&survivor, "b").is_none());
        }
    }
    assert!(lost_bytes > 0 && lost_names > 0, "{lost_bytes} and {lost_names}");
}

#[test]
fn a_killed_process_leaves_what_it_wrote_to_the_next_one() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let fs = SimFs::new(seed);
        let removed = durable(&fs, "removed", &[1; 100]);
        fs.remove_file(Path::new("removed")).expect("is removed");
        let _lock = fs.lock(Path::new(".lock")).expect("is free");
        let file = create(&fs, "a");
        write(&*file, b"written", 0).expect("is written");
        fs.crash_at_change(1);
        file.sync_data().expect_err("the process is killed in the middle of it");

        let survivor = fs.kill();
        assert!(!survivor.has_crashed() && fs.has_crashed());
        assert!(removed.len().is_err(), "what was open is so no more");
        drop(survivor.lock(Path::new(".lock")).expect("its holder is dead"));
        assert_eq!(content(&survivor, "a"), Some(b"written".to_vec()), "seed {seed}");
        assert_eq!(content(&survivor, "removed"), None, "seed {seed}");
        let root = Path::new("/");
        let capacity_bytes = SimFs::new(0).free_bytes(root).expect("is known");
        let free_bytes = survivor.free_bytes(root).expect("is known");
        assert_eq!(free_bytes, capacity_bytes - 7, "nobody has the removed file open");
        lost += usize::from(content(&survivor.crash(), "a") != Some(b"written".to_vec()));
    }
    assert!(lost > 0, "it was not synced");
}

#[test]
fn a_fault_can_mean_one_path_or_one_thread() {
    let fs = SimFs::new(0);
    for dir in ["d", "d/a"] {
        fs.create_dir_all(Path::new(dir)).expect("is created");
    }
    fs.inject(Fault::new(SimOperation::SyncDir, Failure::Io).at_path(Path::new("d")));
    fs.sync_dir(Path::new("d")).expect_err("is meant");
    fs.sync_dir(Path::new("d/a")).expect("is another path");
    fs.heal();
    fs.inject(Fault::new(SimOperation::SyncDir, Failure::Io).on_thread("other"));
    fs.sync_dir(Path::new("d")).expect("is on this thread");
    let other = thread::Builder::new().name("other".to_owned());
    thread::scope(|scope| {
        let synced = other.spawn_scoped(scope, || fs.sync_dir(Path::new("d"))).expect("starts");
        synced.join().expect("does not panic").expect_err("is meant");
    });
}

#[test]
fn a_fault_strikes_the_operations_that_are_meant() {
    let fs = SimFs::new(0);
    fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace).in_path(".log").after(1).times(2));
    let (log, index) = (create(&fs, "0.log"), create(&fs, "0.index"));
    let mut failed = Vec::new();
    for _ in 0..4 {
        write(&*index, b"x", 0).expect("is not meant");
        failed.push(write(&*log, b"x", 0).is_err());
    }
    assert_eq!(failed, [false, true, true, false]);

    fs.inject(Fault::new(SimOperation::Open, Failure::Io));
    assert!(fs.open(Path::new("0.log"), OpenMode::Read).is_err());
    fs.heal();
    assert!(fs.open(Path::new("0.log"), OpenMode::Read).is_ok());
}

#[test]
fn bits_flip_once_or_for_good() {
    let fs = SimFs::new(0);
    drop(durable(&fs, "a", &[0; 100]));
    fs.inject(Fault::new(SimOperation::Read, Failure::FlippedBit).after(1).times(1));
    let ones = |bytes: Vec<u8>| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
    // The first read is that of the length.
    assert_eq!(ones(content(&fs, "a").expect("exists")), 1);
    assert_eq!(ones(content(&fs, "a").expect("exists")), 0);

    fs.flip_bit(Path::new("a"), 99, 3).expect("is within");
    assert!(fs.flip_bit(Path::new("a"), 100, 3).is_err());
    assert_eq!(content(&fs, "a").expect("exists")[99], 8);
    assert_eq!(content(&fs.crash(), "a").expect("exists")[99], 8);
}

/// A small program: two files and a rename.
fn program(fs: &SimFs) -> io::Result<()> {
    let file = fs.open(Path::new("a"), OpenMode::CreateNew)?;
    write(&*file, &[1; 2000], 0)?;
    file.sync_data()?;
    fs.create_dir_all(Path::new("d"))?;
    fs.rename(Path::new("a"), Path::new("d/b"))?;
    fs.sync_dir(Path::new("/"))?;
    fs.sync_dir(Path::new("d"))?;
    file.set_len(100)?;
    fs.remove_file(Path::new("d/b"))
}

#[test]
fn a_crash_strikes_at_every_point_and_nothing_works_after_it() {
    let whole = SimFs::new(0);
    program(&whole).expect("without a crash it works");
    let changes = whole.changes();
    assert_eq!(changes, 9);
    for at in 1..=changes {
        let fs = SimFs::new(at);
        let file = create(&fs, "other");
        fs.crash_at_change(at);
        let error = program(&fs).expect_err("it crashes");
        assert_eq!(error.to_string(), "the simulated machine has crashed", "change {at}");
        assert!(fs.has_crashed());
        assert!(file.sync_data().is_err() && file.len().is_err());
        assert!(fs.read_dir(Path::new("/")).is_err());
        assert!(fs.free_bytes(Path::new("/")).is_err());
        let survivor = fs.crash();
        assert!(!survivor.has_crashed());
        program(&survivor)
            .or_else(|error| match error.kind() {
                // "a" may have survived.
                ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })
            .expect("the survivor works");
    }
}

#[test]
fn locks_do_not_survive_a_crash() {
    let fs = SimFs::new(0);
    let _held = fs.lock(Path::new(".lock")).expect("is free");
    drop(fs.crash().lock(Path::new(".lock")).expect("is free"));
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed| {
        let fs = SimFs::new(seed);
        let file = create(&fs, "a");
        write(&*file, &[1; 20_000], 0).expect("is written");
        fs.sync_dir(Path::new("/")).expect("is synced");
        let once = fs.crash();
        write(&*create(&once, "a"), &[2; 20_000], 0).expect("is written");
        content(&once.crash(), "a")
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert!((0..20).map(run).collect::<BTreeSet<_>>().len() > 5);
}
