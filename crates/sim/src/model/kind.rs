//! The kinds of partitions.

/// What is promised of the records of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What is acknowledged is on stable storage.
    Durable,
    /// It is some time later.
    Lazy,
    /// As durable, and compacted.
    Compacted,
    /// As compacted, with the offsets of groups.
    Offsets,
    /// As durable, of a replica that follows.
    Followed,
}

impl Kind {
    /// Whether what is acknowledged is on stable storage.
    pub(crate) fn is_durable(self) -> bool {
        self != Kind::Lazy
    }

    /// Whether compaction takes records away.
    pub(crate) fn is_compacted(self) -> bool {
        matches!(self, Kind::Compacted | Kind::Offsets)
    }
}
