//! The measurements of the paper: Kreps, Narkhede and Rao, "Kafka: a Distributed Messaging System
//! for Log Processing", 2011, section 5. Messages of 200 bytes; a producer that waits for nothing,
//! with batches of 1 and of 50; a consumer that pulls about 200 KB at a time.
//!
//! The paper sends ten million messages; here a run has a length in seconds, so that a slow side
//! does not hold up the rest, and the rate of each tenth of a second is kept.

use crate::generator::{Acks, BatchShape};
use crate::load::{FetchLoad, ProduceLoad};
use crate::session::Session;

const EXPERIMENT: &str = "paper";

const RECORD_BYTES: usize = 200;
const FETCH_BYTES: i32 = 200_000;

/// Enough that each pull is full; more would take long to write one by one.
const BATCHES_MAX: u64 = 100_000;
const QUICK_BATCHES_MAX: u64 = 30_000;

pub(super) async fn run(session: &mut Session<'_>) -> anyhow::Result<()> {
    for records in [1, 50] {
        let produce = ProduceLoad {
            batch: BatchShape::Records(records),
            record_bytes: RECORD_BYTES,
            acks: Acks::None,
            in_flight: 64,
            ..ProduceLoad::default()
        };
        session.measure(EXPERIMENT, &format!("producer, batch of {records}"), &produce).await?;
    }
    let batches_max = if session.lengths.is_quick { QUICK_BATCHES_MAX } else { BATCHES_MAX };
    for records in [1, 50] {
        let fetch = FetchLoad {
            batch: BatchShape::Records(records),
            record_bytes: RECORD_BYTES,
            fetch_bytes: FETCH_BYTES,
            batches_max,
            ..FetchLoad::default()
        };
        session.measure(EXPERIMENT, &format!("consumer, batches of {records}"), &fetch).await?;
    }
    Ok(())
}
