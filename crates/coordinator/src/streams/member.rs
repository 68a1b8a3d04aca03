//! A member of a streams group, as the log knows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::consumer::{GroupEpoch, MemberState};

use super::tasks::OwnedTasks;

/// A member.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Member {
    /// Who it is.
    pub(crate) about: Arc<StreamsMember>,
    /// What it has.
    pub(crate) current: Arc<CurrentTasks>,
}

/// Who a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsMember {
    /// Where it runs.
    pub rack_id: Option<Arc<str>>,
    /// `client.id`
    pub client_id: Arc<str>,
    /// The address.
    pub client_host: Arc<str>,
    /// How long it may take to give up tasks, in milliseconds; -1 where it has not said.
    pub rebalance_timeout_ms: i32,
    /// The topology that it runs.
    pub topology_epoch: i32,
    /// The process that it is a thread of: members of one process share a state directory.
    pub process_id: Arc<str>,
    /// Where its process answers queries (KIP-67).
    pub endpoint: Option<Endpoint>,
    /// What its process is labelled with (KIP-708).
    pub client_tags: BTreeMap<Arc<str>, Arc<str>>,
}

/// Where a process answers queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address.
    pub host: Arc<str>,
    /// The port.
    pub port: u16,
}

/// What a member has, and how far it is with what it shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentTasks {
    /// The assignment epoch that it has reached.
    pub epoch: GroupEpoch,
    /// The epoch before: a member whose last reply was lost still says this one.
    pub previous_epoch: GroupEpoch,
    /// How far it is.
    pub state: MemberState,
    /// What it may work on.
    pub assigned: OwnedTasks,
    /// What it was told to give up, and has not yet.
    pub revoking: OwnedTasks,
}

/// What every member takes beside its texts and tasks: with its places in maps and its timers.
const MEMBER_BYTES: usize = 1024;

/// What a text takes beside its bytes, in a map.
const TEXT_BYTES: usize = 48;

/// Of a member that has said nothing yet.
impl Default for StreamsMember {
    fn default() -> StreamsMember {
        StreamsMember {
            rack_id: None,
            client_id: Arc::default(),
            client_host: Arc::default(),
            rebalance_timeout_ms: -1,
            topology_epoch: -1,
            process_id: Arc::default(),
            endpoint: None,
            client_tags: BTreeMap::new(),
        }
    }
}

/// Of a member that has just joined.
impl Default for CurrentTasks {
    fn default() -> CurrentTasks {
        CurrentTasks {
            epoch: GroupEpoch::JOINING,
            previous_epoch: GroupEpoch::NONE,
            state: MemberState::Stable,
            assigned: OwnedTasks::default(),
            revoking: OwnedTasks::default(),
        }
    }
}

impl StreamsMember {
    /// The bytes that are kept for it.
    pub(crate) fn held_bytes(&self) -> usize {
        let tag = |(key, value): (&Arc<str>, &Arc<str>)| 2 * TEXT_BYTES + key.len() + value.len();
        let endpoint = self.endpoint.as_ref().map_or(0, |it| TEXT_BYTES + it.host.len());
        MEMBER_BYTES
            + self.rack_id.as_ref().map_or(0, |text| text.len())
            + self.client_id.len()
            + self.client_host.len()
            + self.process_id.len()
            + endpoint
            + self.client_tags.iter().map(tag).sum::<usize>()
    }
}

impl CurrentTasks {
    /// The bytes that are kept for it.
    pub(crate) fn held_bytes(&self) -> usize {
        self.assigned.held_bytes() + self.revoking.held_bytes()
    }

    /// Whether the member has all that an assignment gives it.
    pub(crate) fn is_reconciled_to(&self, epoch: GroupEpoch) -> bool {
        self.state == MemberState::Stable && self.epoch == epoch
    }
}
