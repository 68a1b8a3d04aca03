//! Why a batch was refused that can be appended later.

/// Why a batch was refused that can be appended later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The disk was full, or late, or had failed.
    Storage,
    /// Too few replicas were in sync.
    TooFewInSync,
    /// The partition is a shard that did not take records yet.
    ShardNotOpen,
    /// A new leader epoch began while it waited for its turn. Its leader may lead in that, too.
    EpochOver,
}
