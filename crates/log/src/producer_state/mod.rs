//! What a partition knows about its idempotent producers (KIP-98, KIP-360).

pub use limits::ProducerLimits;
pub use origin::AppendOrigin;
pub use producer::{AppendedBatch, ProducerState};
pub use refusal::Refusal;
pub(crate) use refused::RefusedBatches;
pub(crate) use table::LastUse;
pub use table::{Marker, PreviousState, ProducerBatch, ProducerStateTable, SequenceCheck};
pub use transactions::AbortedTransaction;
#[cfg(test)]
pub(crate) use transactions::OpenTransaction;
pub(crate) use transactions::{EndedTransaction, OpenTransactions, TransactionStep};
pub(crate) use verification::Verifications;
pub use verification::{Verification, VerificationGuard};

mod limits;
mod origin;
mod producer;
mod refusal;
mod refused;
pub mod snapshot;
mod table;
mod transactions;
mod verification;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transaction_tests;
