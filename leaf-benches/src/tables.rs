//! What a log looks up for an append and for a read.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use logway_log::LogMetrics;
use logway_log::fs::RealFs;
use logway_log::index::{OffsetIndex, TimeIndex};
use logway_log::producer_state::{AppendOrigin, ProducerBatch, ProducerLimits, ProducerStateTable};
use logway_model::{
    Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicName,
    TopicPartition,
};

use crate::{Leaf, Work};

/// As many entries as the index of a full segment of 1 GiB has at the default interval.
const INDEX_ENTRIES: i64 = 1 << 18;

pub(crate) const LEAVES: &[Leaf] = &[
    Leaf::new("index/offset-look-up", look_up_offset),
    Leaf::new("index/time-look-up", look_up_time),
    Leaf::new("producers/check-and-update-1-of-1000", check_and_update),
];

/// The file is gone with its directory, but the index has it open.
fn in_directory<I>(make: impl FnOnce(&Path) -> I) -> I {
    let directory = tempfile::tempdir().expect("temporary files can be made");
    make(&directory.path().join("index"))
}

fn look_up_offset() -> Work {
    let index = in_directory(|path| {
        let index = OffsetIndex::create(Arc::new(RealFs), path, Offset(0)).expect("it is new");
        for entry in 1..INDEX_ENTRIES {
            index.append(Offset(entry * 10), entry as u64 * 4096).expect("it has room");
        }
        index.sync().expect("it can be written");
        index.lookup(Offset(0)).expect("it can be read");
        index
    });
    let target = Offset(INDEX_ENTRIES * 3 + 5);
    Box::new(move || {
        black_box(index.lookup(black_box(target)).expect("it can be read"));
    })
}

fn look_up_time() -> Work {
    let index = in_directory(|path| {
        let index = TimeIndex::create(Arc::new(RealFs), path, Offset(0)).expect("it is new");
        for entry in 1..INDEX_ENTRIES {
            index.append(TimestampMs(entry * 10), Offset(entry * 10)).expect("it has room");
        }
        index.sync().expect("it can be written");
        index.lookup(TimestampMs(0)).expect("it can be read");
        index
    });
    let target = TimestampMs(INDEX_ENTRIES * 3 + 5);
    Box::new(move || {
        black_box(index.lookup(black_box(target)).expect("it can be read"));
    })
}

fn check_and_update() -> Work {
    let topic = TopicName::new("orders").expect("the name is valid");
    let partition = TopicPartition { topic, partition: PartitionId(0) };
    let limits = ProducerLimits::new(100_000, 100_000, LogMetrics::default());
    let mut table = ProducerStateTable::new(partition, limits);
    let mut batch = ProducerBatch {
        producer_id: ProducerId(0),
        epoch: ProducerEpoch(0),
        base_sequence: Sequence(0),
        offset_delta: 9,
        max_timestamp: TimestampMs(1),
        transactional: false,
    };
    for id in 0..1000 {
        let first = ProducerBatch { producer_id: ProducerId(id), ..batch };
        let _ = table.update(&first, Offset(id * 10), TimestampMs(1));
    }
    batch.producer_id = ProducerId(500);
    Box::new(move || {
        batch.base_sequence = Sequence(batch.base_sequence.0 + 10);
        black_box(table.check(&batch, AppendOrigin::Client, None).expect("it is the next"));
        let _ = black_box(table.update(&batch, Offset(100_000), TimestampMs(2)));
    })
}
