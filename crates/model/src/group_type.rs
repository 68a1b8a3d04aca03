//! The kinds of groups.

/// Who works out what the members of a group read (KIP-848).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupType {
    /// One of the members (the protocol of JoinGroup and SyncGroup).
    Classic,
    /// The coordinator.
    Consumer,
    /// The coordinator, for the threads of a stream-processing application (KIP-1071).
    Streams,
}

impl GroupType {
    /// All of them.
    pub const ALL: [GroupType; 3] = [GroupType::Classic, GroupType::Consumer, GroupType::Streams];

    /// Kafka's word for it.
    pub const fn name(self) -> &'static str {
        match self {
            GroupType::Classic => "classic",
            GroupType::Consumer => "consumer",
            GroupType::Streams => "streams",
        }
    }
}
