//! Consumer groups, as whoever administers a cluster sees them; the calls are methods of
//! [`crate::Client`].
//!
//! All that concerns one group goes to its coordinator, which may move: see [`coordinator`].

mod coordinator;
mod delete;
mod describe;
mod list;
mod offsets;

pub use coordinator::Coordinator;
pub use describe::{GroupDescription, GroupMember, GroupType};
pub use list::ListedGroup;
pub use offsets::CommittedOffset;
