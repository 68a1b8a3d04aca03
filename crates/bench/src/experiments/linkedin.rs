//! What LinkedIn measured when Kafka was young: "Benchmarking Apache Kafka: 2 Million Writes Per
//! Second (On Three Cheap Machines)", 2014. Records of 100 bytes, six partitions, acknowledged
//! without a sync; here on one machine and without replication.

use crate::generator::BatchShape;
use crate::load::{BothLoad, EndToEndLoad, FetchLoad, ProduceLoad};
use crate::measure::Durability;
use crate::session::Session;
use crate::side::is_limit;
use crate::works;

const EXPERIMENT: &str = "linkedin";

/// The post's `batch.size`.
const BATCH: BatchShape = BatchShape::Bytes(8196);

/// What a consumer asked one partition for by default.
const FETCH_BYTES: i32 = 1 << 20;

const PARTITIONS: i32 = 6;

/// The sizes of the post's last plot.
const RECORD_BYTES: [usize; 5] = [10, 100, 1000, 10_000, 100_000];

pub(super) async fn run(session: &mut Session<'_>) -> anyhow::Result<()> {
    let producer = ProduceLoad {
        batch: BATCH,
        partitions: PARTITIONS,
        spreads: true,
        ..ProduceLoad::default()
    };
    let three = ProduceLoad { connections: 3, ..producer.clone() };
    session.measure(EXPERIMENT, "one producer", &producer).await?;
    session.measure(EXPERIMENT, "three producers", &three).await?;

    let fetch = FetchLoad {
        batch: BATCH,
        record_bytes: producer.record_bytes,
        fetch_bytes: FETCH_BYTES,
        partitions: 1,
        is_cached: true,
        batches_max: u64::MAX,
    };
    let three = FetchLoad { partitions: 3, ..fetch.clone() };
    session.measure(EXPERIMENT, "one consumer", &fetch).await?;
    session.measure(EXPERIMENT, "three consumers", &three).await?;

    let both = BothLoad {
        batch: BATCH,
        record_bytes: producer.record_bytes,
        partitions: PARTITIONS,
        in_flight: producer.in_flight,
        fetch_bytes: FETCH_BYTES,
    };
    session.measure_on(EXPERIMENT, "producer and consumer", &both, |side| !is_limit(side)).await?;

    for record_bytes in RECORD_BYTES {
        let load = ProduceLoad { record_bytes, ..producer.clone() };
        session.measure(EXPERIMENT, &format!("records of {record_bytes} B"), &load).await?;
    }
    let load = EndToEndLoad {
        record_bytes: producer.record_bytes,
        durability: Durability::Unsynced,
        rate: 1000.0,
    };
    session
        .measure_on(EXPERIMENT, &works::end_to_end_at(load.rate), &load, |side| !is_limit(side))
        .await?;
    Ok(())
}
