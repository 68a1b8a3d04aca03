//! What a partition knows about its idempotent producers (KIP-98, KIP-360).

pub use producer::{AppendedBatch, ProducerState};
pub use table::{PreviousState, ProducerBatch, ProducerStateTable, SequenceCheck};

mod producer;
pub mod snapshot;
mod table;

#[cfg(test)]
mod tests;
