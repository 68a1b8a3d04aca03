//! Records on their way from leaders to followers.
//!
//! | file | idea |
//! |---|---|
//! | [`answering`] | a leader answers a follower: what is behind its end, or where the two logs part |
//! | [`asking`] | the follower's half of a fetch session: what a leader has yet to be told |
//! | [`fetching`] | a follower asks a leader, for all partitions that it follows there |
//! | [`following`] | what comes of an answer: appends, cuts, and what is committed |
//! | [`in_sync`] | leaders tell the controller who is in sync |
//! | [`pace`] | how fast replicas catch up, so that they leave acknowledgements alone |
//! | [`session`] | what a leader remembers of a follower between two requests |
//!
//! A follower syncs what it has appended before it asks on, so the end that it tells is on its disk, on durable topics.
//! An acknowledgement takes a round trip and a sync more than on one node. Redpanda and TigerBeetle let the
//! two overlap, with an own field for what is flushed. Here it would not pay for its lines yet.

mod answering;
mod asking;
mod fetching;
mod following;
mod in_sync;
mod pace;
mod session;

pub(crate) use fetching::fetch_from_leaders;
pub(crate) use in_sync::keep_isrs;
pub(crate) use pace::CatchUps;
pub(crate) use session::FetchSessions;
