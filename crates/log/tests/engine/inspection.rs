//! What `logway log verify` finds.

use std::path::Path;

use logway_log::LogError;
use logway_log::fs::{DirEntry, Fs, OpenMode};
use logway_log::inspect::{
    LostOffsets, PlacedBatch, Problem, Verified, Walked, partition_dirs, segments, verify,
};
use logway_model::Offset;
use logway_record::BATCH_HEADER_BYTES;

use crate::support::*;

const DIR: &str = "/data/t-0";

/// A log of several segments with everything that belongs to it, closed in good order.
fn closed_log(seed: u64) -> TestDisk {
    let disk = TestDisk::new(seed).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for sequence in 0..30 {
        append(&log, producer_batch(7, 0, sequence, 1)).expect("the disk works");
        append(&log, batch_at(&[NOW_MS + i64::from(sequence)], 400)).expect("the disk works");
    }
    dir.close().expect("it closes");
    disk
}

fn problems_of(disk: &TestDisk) -> (Verified, Vec<Problem>) {
    let mut problems = Vec::new();
    let verified =
        verify(&disk.fs, Path::new(DIR), |problem| problems.push(problem)).expect("it is read");
    assert_eq!(verified.problems, problems.len() as u64);
    (verified, problems)
}

fn good(walked: Result<Walked, LogError>) -> PlacedBatch {
    match walked.expect("it is read") {
        Walked::Batch(placed) => placed,
        Walked::Damage(damage) => panic!("{damage:?}"),
    }
}

#[test]
fn a_good_log_has_no_problems() {
    let disk = closed_log(1);
    let (verified, problems) = problems_of(&disk);
    assert_eq!(problems, []);
    assert!(verified.segments > 3);
    assert_eq!((verified.batches, verified.records), (60, 60));
    assert_eq!(verified.first_offset, Some(Offset(0)));
    assert_eq!(verified.end_offset, Some(Offset(60)));
}

#[test]
fn a_log_directory_is_a_list_of_partitions() {
    let disk = closed_log(1);
    let dirs = partition_dirs(&disk.fs, Path::new("/data")).expect("it is read");
    assert_eq!(dirs, [Path::new(DIR)]);
    let dirs = partition_dirs(&disk.fs, Path::new(DIR)).expect("it is read");
    assert_eq!(dirs, [Path::new(DIR)]);
}

#[test]
fn batches_are_walked_with_their_places() {
    let disk = closed_log(1);
    let mut next = Offset(0);
    for segment in segments(&disk.fs, Path::new(DIR)).expect("it is read") {
        let mut position = 0;
        assert_eq!(segment.base_offset, next);
        for placed in segment.batches(&disk.fs).expect("it is read") {
            let placed = good(placed);
            assert_eq!((placed.position, placed.batch.base_offset()), (position, next));
            position += placed.batch.size_bytes() as u64;
            next = placed.batch.last_offset().next();
        }
        assert_eq!(position, segment.len_bytes);
    }
    assert_eq!(next, Offset(60));
}

/// Whether a byte of a segment is one that nothing covers: base offset, length and epoch are
/// written by the leader and are outside of the CRC.
fn is_uncovered(disk: &TestDisk, name: &str, position: u64) -> bool {
    let all = segments(&disk.fs, Path::new(DIR)).expect("it is read");
    let segment = all.iter().find(|segment| segment.path.ends_with(name));
    let Some(segment) = segment else { return false };
    let batches = segment.batches(&disk.fs).expect("it is read");
    batches.map(|placed| good(placed).position).any(|start| {
        (start..start + 16).contains(&position) && position < start + BATCH_HEADER_BYTES as u64
    })
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let mut random = Random::new(1);
    for seed in 0..60 {
        let disk = closed_log(seed);
        let mut entries = disk.fs.read_dir(Path::new(DIR)).expect("the disk works");
        let len_of = |entry: &DirEntry| file_len(&disk, &Path::new(DIR).join(&entry.name));
        entries.retain(|entry| len_of(entry) > 0);
        let entry = &entries[random.below(entries.len())];
        let name = entry.name.to_str().expect("our names are text");
        let position = random.below(len_of(entry) as usize) as u64;
        let bit = random.below(8) as u8;
        if name == "partition.metadata" || is_uncovered(&disk, name, position) {
            continue;
        }
        let path = Path::new(DIR).join(name);
        disk.fs.flip_bit(&path, position, bit).expect("it is there");
        let (_, problems) = problems_of(&disk);
        let context = format!("seed {seed}, bit {bit} of byte {position} of {name}");
        // A leader epoch that reads as another number is still a number.
        if name != "leader-epoch-checkpoint" {
            assert!(problems.iter().any(|problem| problem.path == path), "{context}: {problems:?}");
        }
    }
}

#[test]
fn what_lies_behind_damage_is_checked_and_counted() {
    let disk = closed_log(1);
    let all = segments(&disk.fs, Path::new(DIR)).expect("it is read");
    // The records of two neighbours and of a third batch, in different segments.
    let place = |segment: usize, index| {
        let mut batches = all[segment].batches(&disk.fs).expect("it is read").map(good);
        (segment, batches.nth(index).expect("a segment has several"))
    };
    for (segment, placed) in [place(0, 1), place(0, 2), place(1, 0)] {
        let last_byte = placed.position + placed.batch.size_bytes() as u64 - 1;
        disk.fs.flip_bit(&all[segment].path, last_byte, 0).expect("it is there");
    }
    let (verified, problems) = problems_of(&disk);
    assert_eq!((verified.batches, verified.end_offset), (57, Some(Offset(60))));
    let lost: Vec<_> = problems.iter().map(|problem| problem.lost).collect();
    let one = |offset: Offset| Some(LostOffsets { first: offset, end: Some(offset.next()) });
    let both = Some(LostOffsets { first: Offset(1), end: Some(Offset(3)) });
    assert_eq!(lost, [both, one(all[1].base_offset)], "{problems:?}");
}

#[test]
fn an_unfinished_end_is_called_so() {
    let disk = closed_log(1);
    // As before the close, which vouches for all that is there.
    remove(&disk, &Path::new(DIR).join(format!("{:020}.snapshot", 60)));
    let all = segments(&disk.fs, Path::new(DIR)).expect("it is read");
    let last = all.last().expect("there is a segment");
    let file = disk.fs.open(&last.path, OpenMode::ReadWrite).expect("it is there");
    file.set_len(last.len_bytes - 3).expect("the disk works");
    let (_, problems) = problems_of(&disk);
    assert!(problems.iter().all(|problem| problem.may_be_unfinished), "{problems:?}");
    assert!(!problems.is_empty());

    let first = all.first().expect("there is a segment");
    let file = disk.fs.open(&first.path, OpenMode::ReadWrite).expect("it is there");
    file.set_len(first.len_bytes - 3).expect("the disk works");
    let (_, problems) = problems_of(&disk);
    assert!(problems.iter().any(|problem| !problem.may_be_unfinished), "{problems:?}");
}

#[test]
fn damage_in_the_last_segment_is_not_taken_for_an_unfinished_end() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..10 {
        append_records(&log, 1, 100);
    }
    dir.close().expect("the disk works");
    let all = segments(&disk.fs, Path::new(DIR)).expect("it is read");
    let last = all.last().expect("there is a segment");
    disk.fs.flip_bit(&last.path, last.len_bytes / 2, 0).expect("it is there");
    let (_, problems) = problems_of(&disk);
    assert!(problems.iter().any(|problem| !problem.may_be_unfinished), "{problems:?}");
}
