//! What a partition knows about its idempotent producers (KIP-98, KIP-360).

pub use limits::ProducerLimits;
pub use producer::{AppendedBatch, ProducerState};
pub use refused::Refusal;
pub(crate) use refused::RefusedBatches;
pub(crate) use table::LastUse;
pub use table::{PreviousState, ProducerBatch, ProducerStateTable, SequenceCheck};

mod limits;
mod producer;
mod refused;
pub mod snapshot;
mod table;

#[cfg(test)]
mod tests;
