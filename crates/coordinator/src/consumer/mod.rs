//! Consumer groups (KIP-848): members say what they read, and the coordinator assigns.
//!
//! # Three epochs
//!
//! The *group epoch* rises when what is to be assigned has changed: who is a member, who subscribes to what, which
//! partitions there are. The *assignment epoch* is the group epoch for which the target assignment was made. A *member
//! epoch* is the assignment epoch that the member has reached. A heartbeat compares the three, and takes its member one
//! step further: a member first gives up what the target does not give it, then gets what others have given up. So a
//! partition has one owner at any time, and members that the change does not concern go on reading.
//!
//! # Everything is in the log
//!
//! Unlike a classic group, all of it is kept as records, so a group goes on where it was when its shard is loaded. A
//! [`ConsumerGroup`] is what the log says and nothing else; [`ConsumerGroup::apply`] alone changes it. A request is
//! worked on in a [`Draft`]: a copy that costs little, to which records are applied as they are written. The records are
//! appended together, and the reply leaves when they are durable. Until then, other requests about the members of the
//! group wait ([`requests`]): so a draft always begins with what is durable.
//!
//! | file | idea |
//! |---|---|
//! | [`requests`] | which requests and timers work on a group, one after the other |
//! | [`heartbeat`] | joining, staying, and saying what one reads |
//! | [`departure`] | leaving, being fenced, timeouts |
//! | [`subscription`] | the topics of a group, and their hash |
//! | [`patterns`] | subscriptions by regular expression |
//! | [`migration`], [`classic_members`] | from and to the classic protocol, and members of both at once |
//! | [`target`], [`assignor`] | who shall have what |
//! | [`reconcile`] | one member's step towards that |
//! | [`describe`] | what clients are told of a group |
//! | [`group`], [`member`], [`draft`], [`record`] | the state |

mod assignor;
mod classic_members;
mod commit;
mod departure;
mod describe;
mod draft;
mod epoch;
mod group;
mod heartbeat;
mod member;
mod migration;
mod patterns;
mod reconcile;
mod record;
mod refusal;
mod requests;
mod subscription;
mod target;

pub use assignor::Assignor;
pub(crate) use departure::RETRY_INTERVAL_MS;
pub(crate) use draft::{Conversion, Draft, Drafted};
pub use epoch::GroupEpoch;
pub(crate) use group::{ConsumerGroup, ConsumerState};
pub use heartbeat::TopicSight;
pub(crate) use heartbeat::refusal as heartbeat_refusal;
pub use member::{
    ClassicMember, CurrentAssignment, MemberState, OwnedPartitions, Partitions, Subscription,
};
pub use record::{ConsumerRecord, GroupVersion, ResolvedPattern, TargetVersion};
pub(crate) use refusal::Refusal;
pub(crate) use requests::{Waiting, WaitingByGroup, Work, is_for_room, of_member};
pub(crate) use subscription::hash_of_topics;
pub(crate) use target::left_of_interval_ms;
