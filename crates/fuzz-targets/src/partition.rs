//! The files of a partition, as a start finds them.

use std::path::Path;
use std::sync::Arc;

use logway_log::checkpoint::MetaProperties;
use logway_log::fs::{Fs, SimFs};
use logway_log::inspect::{Access, Change, DataDir};
use logway_log::{AppendBatches, LogDir, LogDirOptions, LogMetrics, ManualClock, ReadRequest};
use logway_model::{
    BrokerId, ClusterId, DirectoryId, LeaderEpoch, Offset, PartitionId, TimestampMs, TopicName,
    TopicPartition, Uuid,
};
use logway_record::{Batch, BatchBuilder, Batches, Compression};

use crate::allocation::within;
use crate::{disk, parts, producers};

const ROOT: &str = "/data";
const DIR: &str = "/data/t-0";

const BROKER: BrokerId = BrokerId(1);
const CLUSTER: ClusterId = ClusterId(Uuid([7; 16]));

const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

/// What the pieces of an input are, in this order.
const FILES: [&str; 6] = [
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000008.log",
    "00000000000000000008.snapshot",
    "leader-epoch-checkpoint",
];

/// A partition of two segments, some of whose files are missing or say anything: looking at it and repairing it settles;
/// a broker that starts on it appends behind all that it serves, and its next start finds that.
pub fn partition(input: &[u8]) {
    let fs = disk_with(input);
    within(disk::bytes_max(input), || {
        for change in problems_of(&fs) {
            change.carry_out(&fs).expect("the disk works");
        }
        let left = problems_of(&fs);
        assert!(left.is_empty(), "a repair leaves {left:?} to be done");
    });

    let fs = disk_with(input);
    let Some(appended) = append_to(&fs) else { return };
    let dir = open(&fs);
    let log = dir.log(&topic_partition()).expect("it could be opened before");
    assert!(log.log_end_offset() > appended, "the record at {appended} is gone");
    let found = log.read(ReadRequest {
        offset: appended,
        max_bytes: 1 << 20,
        upper_bound: log.log_end_offset(),
        at_least_one_batch: true,
    });
    let found = found.expect("the offset is in the log").read().expect("the disk works");
    let batch = Batches::new(found).next().expect("there is a batch").expect("it is whole");
    assert_eq!(batch.base_offset(), appended);
}

/// What a repair would do.
fn problems_of(fs: &Arc<dyn Fs>) -> Vec<Change> {
    let dir = DataDir::open(Arc::clone(fs), Path::new(ROOT), Access::Repair);
    let mut dir = dir.expect("nobody else has it");
    let checked = dir.check_partition(Path::new(DIR), |_| {}).expect("the disk works");
    [checked.changes, dir.check_files(|_| {})].concat()
}

/// Starts a broker's log directory, appends a record, and stops; gives the record's offset. `None` if the log cannot be
/// opened, or can take no more.
fn append_to(fs: &Arc<dyn Fs>) -> Option<Offset> {
    let dir = open(fs);
    let log = dir.log(&topic_partition())?;
    let end = log.log_end_offset();
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(NOW, None, Some(b"value"), &[]).expect("it is short");
    let batch = Batch::parse(builder.finish().expect("it has a record")).expect("it is a batch");
    let leader_epoch = log.latest_epoch().max(LeaderEpoch(0));
    let outcome = log.append(AppendBatches::new(vec![batch], leader_epoch)).wait().ok()?;
    assert_eq!(outcome.base_offset, end, "offsets are given once");
    dir.close().expect("the disk works");
    Some(end)
}

fn open(fs: &Arc<dyn Fs>) -> LogDir {
    let options = LogDirOptions {
        fs: Arc::clone(fs),
        clock: Arc::new(ManualClock::new(NOW)),
        recovery_threads: 1,
        sync_threads_max: 1,
        ..LogDirOptions::new(ROOT, BROKER, CLUSTER)
    };
    LogDir::open(options, LogMetrics::new()).expect("the directory can be used")
}

fn topic_partition() -> TopicPartition {
    TopicPartition::new(TopicName::new("t").expect("is a name"), PartitionId(0))
}

fn disk_with(input: &[u8]) -> Arc<dyn Fs> {
    let fs = SimFs::new(0);
    fs.create_dir_all(Path::new(DIR)).expect("the disk works");
    let owner = MetaProperties {
        node_id: BROKER,
        cluster_id: CLUSTER,
        directory_id: DirectoryId(Uuid([8; 16])),
    };
    owner.write(&fs, &Path::new(ROOT).join(MetaProperties::FILE)).expect("the disk works");
    for (name, piece) in
        FILES.iter().zip(parts::unpack(input)).filter(|(_, piece)| !piece.is_empty())
    {
        let piece = match name.ends_with("snapshot") {
            true => producers::with_crc(piece),
            false => piece.to_vec(),
        };
        disk::put(&fs, Path::new(DIR).join(name), &piece);
    }
    Arc::new(fs)
}
