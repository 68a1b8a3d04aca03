//! The small text files beside the data.

use std::fmt::Debug;
use std::path::Path;

use crc_fast::crc32_iscsi;
use logway_log::LogError;
use logway_log::checkpoint::{
    MetaProperties, PartitionMetadata, ReplicaMove, known_dirs, leader_epoch, offset_checkpoint,
    segment_lists,
};
use logway_log::fs::{Fs, SimFs};

use crate::allocation::within;
use crate::disk;

const FILE: &str = "/checkpoint";

/// One of the formats, by the first byte. Segment lists come without version and CRC, which are put in front.
pub fn checkpoint(input: &[u8]) {
    let Some((&format, content)) = input.split_first() else { return };
    within(disk::bytes_max(input), || match format {
        0 => settles(content, offset_checkpoint::read, |fs, path, offsets| match offsets {
            Some(offsets) => offset_checkpoint::write(fs, path, offsets),
            None => Ok(()),
        }),
        1 => settles(content, leader_epoch::read, leader_epoch::write),
        2 => settles(content, known_dirs::read, known_dirs::write),
        3 => settles(&with_crc(content), segment_lists::read, segment_lists::write),
        4 => settles(content, MetaProperties::read, |fs, path, found| {
            found.map_or(Ok(()), |found| found.write(fs, path))
        }),
        5 => settles(content, PartitionMetadata::read, |fs, path, found| {
            found.map_or(Ok(()), |found| found.write(fs, path))
        }),
        6 => settles(content, ReplicaMove::read, |fs, path, found| {
            found.map_or(Ok(()), |found| found.write(fs, path))
        }),
        _ => {}
    });
}

fn with_crc(lists: &[u8]) -> Vec<u8> {
    [format!("0\n{:08x}\n", crc32_iscsi(lists)).as_bytes(), lists].concat()
}

/// What is read of a file can be written, and then reads the same.
fn settles<T: PartialEq + Debug>(
    content: &[u8],
    read: impl Fn(&dyn Fs, &Path) -> Result<T, LogError>,
    write: impl Fn(&dyn Fs, &Path, &T) -> Result<(), LogError>,
) {
    let (fs, path) = (SimFs::new(0), Path::new(FILE));
    disk::put(&fs, path, content);
    let Ok(found) = read(&fs, path) else { return };
    write(&fs, path, &found).expect("the disk works");
    assert_eq!(read(&fs, path).expect("it was written as it is read"), found);
}
