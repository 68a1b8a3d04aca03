//! Consumer groups: as whoever administers a cluster sees them, and as their members do.
//!
//! All that concerns one group goes to its coordinator, which may move: see [`crate::coordinator`]. What
//! administers groups are methods of [`crate::Client`]; [`GroupConsumer`] is a member.

mod assignor;
mod consumer_protocol;
mod delete;
mod describe;
mod group_consumer;
mod heartbeat;
mod list;
mod membership;
mod note;
mod offsets;

pub use describe::{
    GroupDescription, GroupEpochs, GroupMember, Processing, StreamsTopology, Subtopology, Tasks,
};
pub use group_consumer::{GroupConsumer, GroupEvent, GroupOptions};
pub use list::ListedGroup;
pub use offsets::{CommitOutcomes, CommittedOffset};
