//! What LinkedIn measured when Kafka was young: "Benchmarking Apache Kafka: 2 Million Writes Per
//! Second (On Three Cheap Machines)", 2014. Records of 100 bytes, six partitions, acknowledged
//! without a sync; here on one machine, and with replicas only in `cluster`.

use crate::generator::BatchShape;
use crate::load::{BothLoad, EndToEndLoad, FetchLoad, GrowLoad, ProduceLoad};
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

/// Of the post's records.
const RECORD_BYTES: usize = 100;

/// The sizes of the post's last plot.
const RECORD_SIZES: [usize; 5] = [10, 100, 1000, 10_000, 100_000];

/// So many times the machine's memory are stored, so that what is written first cannot be in it any
/// more. The post had a terabyte.
const TIMES_MEMORY: f64 = 1.25;

/// More than this of the free disk is not taken.
const DISK_SHARE_MAX: f64 = 0.75;

/// Where it is to be quick: enough for a plot.
const QUICK_STORED_BYTES: u64 = 2_000_000_000;

pub(super) async fn run(session: &mut Session<'_>) -> anyhow::Result<()> {
    let producer = producer();
    let three = ProduceLoad { connections: 3, ..producer.clone() };
    session.measure(EXPERIMENT, "one producer", &producer).await?;
    session.measure(EXPERIMENT, "three producers", &three).await?;

    let fetch = consumer();
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

    for record_bytes in RECORD_SIZES {
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

    let (memory_bytes, free_bytes) = session.memory_and_disk()?;
    let stored_bytes = stored_bytes(session.lengths.is_quick, memory_bytes, free_bytes);
    let work = works::stored_data_grows(stored_bytes, memory_bytes);
    let load = GrowLoad { produce: producer, stored_bytes };
    session.measure_brokers_once(EXPERIMENT, &work, &load).await?;
    Ok(())
}

/// The post's producer.
pub(super) fn producer() -> ProduceLoad {
    ProduceLoad {
        batch: BATCH,
        record_bytes: RECORD_BYTES,
        partitions: PARTITIONS,
        spreads: true,
        ..ProduceLoad::default()
    }
}

/// The post's consumer, of one partition.
pub(super) fn consumer() -> FetchLoad {
    FetchLoad {
        batch: BATCH,
        record_bytes: RECORD_BYTES,
        fetch_bytes: FETCH_BYTES,
        ..FetchLoad::default()
    }
}

/// How much a topic grows to.
fn stored_bytes(is_quick: bool, memory_bytes: u64, free_bytes: u64) -> u64 {
    let wanted = match is_quick {
        true => QUICK_STORED_BYTES,
        false => (memory_bytes as f64 * TIMES_MEMORY) as u64,
    };
    wanted.min((free_bytes as f64 * DISK_SHARE_MAX) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_grows_past_memory_and_leaves_room_on_the_disk() {
        const GB: u64 = 1_000_000_000;
        assert_eq!(stored_bytes(false, 24 * GB, 1000 * GB), 30 * GB);
        assert_eq!(stored_bytes(false, 24 * GB, 20 * GB), 15 * GB);
        assert_eq!(stored_bytes(true, 24 * GB, 1000 * GB), 2 * GB);
        assert_eq!(stored_bytes(true, 24 * GB, GB), 750_000_000);
    }
}
