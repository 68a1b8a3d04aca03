//! Snapshots of idempotent producers.

use std::path::Path;

use crc_fast::crc32_iscsi;
use logway_log::LogMetrics;
use logway_log::fs::{Fs, OpenMode, SimFs, read_to_end};
use logway_log::producer_state::{ProducerLimits, ProducerStateTable, snapshot};
use logway_model::{PartitionId, TopicName, TopicPartition};

use crate::allocation::within;
use crate::disk;

const FILE: &str = "/00000000000000000000.snapshot";

/// A snapshot, whose CRC is put right; a table that is loaded from it writes what loads the same table.
pub fn producer_snapshot(input: &[u8]) {
    within(disk::bytes_max(input), || {
        let fs = SimFs::new(0);
        disk::put(&fs, FILE, &with_crc(input));
        let Some(table) = load(&fs) else { return };
        snapshot::write(&fs, Path::new(FILE), &table).expect("the disk works");
        let written = content(&fs);
        let table = load(&fs).expect("it was written as it is read");
        snapshot::write(&fs, Path::new(FILE), &table).expect("the disk works");
        assert_eq!(content(&fs), written);
    });
}

/// The CRC is in bytes 2 to 5, of all that follows.
pub(crate) fn with_crc(snapshot: &[u8]) -> Vec<u8> {
    let mut snapshot = snapshot.to_vec();
    if let Some((header, rest)) = snapshot.split_first_chunk_mut::<6>() {
        header[2..].copy_from_slice(&crc32_iscsi(rest).to_be_bytes());
    }
    snapshot
}

fn load(fs: &SimFs) -> Option<ProducerStateTable> {
    let producers = snapshot::read(fs, Path::new(FILE)).ok()?;
    let partition = TopicPartition::new(TopicName::new("t").expect("is a name"), PartitionId(0));
    let limits = ProducerLimits::new(1_000, 1_000, LogMetrics::new());
    let mut table = ProducerStateTable::new(partition, limits);
    table.load(producers);
    Some(table)
}

fn content(fs: &SimFs) -> Vec<u8> {
    let file = fs.open(Path::new(FILE), OpenMode::Read).expect("it was written");
    read_to_end(&*file, 1 << 20).expect("the disk works")
}
