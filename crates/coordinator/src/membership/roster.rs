//! The members by id, and what is counted over all of them.

use std::collections::BTreeMap;

use crate::ids::{InstanceId, MemberId, ProtocolName};
use crate::member::{Member, Protocols};
use crate::request::RequestToken;

/// The members of a group.
///
/// Invariants: `static_ids` has just the members with an instance id; the counts are those of the members, so
/// whatever changes a member goes through here.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    members: BTreeMap<MemberId, Member>,
    static_ids: BTreeMap<InstanceId, MemberId>,
    /// How many members support each protocol.
    supporters: BTreeMap<ProtocolName, usize>,
    awaiting_join: usize,
    held_bytes: usize,
}

impl Roster {
    /// Adds a member, in place of the one with its id.
    pub(crate) fn insert(&mut self, member: Member) {
        self.remove(member.id.as_str());
        if let Some(instance_id) = &member.instance_id {
            self.static_ids.insert(instance_id.clone(), member.id.clone());
        }
        self.count(&member);
        self.members.insert(member.id.clone(), member);
    }

    /// Takes a member out.
    pub(crate) fn remove(&mut self, member_id: &str) -> Option<Member> {
        let member = self.members.remove(member_id)?;
        self.discount(&member);
        if let Some(instance_id) = &member.instance_id
            && self.static_ids.get(instance_id) == Some(&member.id)
        {
            self.static_ids.remove(instance_id);
        }
        Some(member)
    }

    /// Changes a member that there is, and returns what `change` does.
    pub(crate) fn change<R>(
        &mut self,
        member_id: &str,
        change: impl FnOnce(&mut Member) -> R,
    ) -> Option<R> {
        let mut member = self.members.get(member_id)?.clone();
        self.discount(&member);
        let result = change(&mut member);
        self.count(&member);
        self.members.insert(member.id.clone(), member);
        Some(result)
    }

    fn count(&mut self, member: &Member) {
        for name in member.protocols.names() {
            *self.supporters.entry(name.clone()).or_default() += 1;
        }
        self.awaiting_join += usize::from(member.awaiting_join.is_some());
        self.held_bytes += member.held_bytes() + member.assignment.len();
    }

    fn discount(&mut self, member: &Member) {
        for name in member.protocols.names() {
            if let Some(supporters) = self.supporters.get_mut(name) {
                *supporters -= 1;
                if *supporters == 0 {
                    self.supporters.remove(name);
                }
            }
        }
        self.awaiting_join -= usize::from(member.awaiting_join.is_some());
        self.held_bytes -= member.held_bytes() + member.assignment.len();
    }

    pub(crate) fn get(&self, member_id: &str) -> Option<&Member> {
        self.members.get(member_id)
    }

    pub(crate) fn contains(&self, member_id: impl AsRef<str>) -> bool {
        self.members.contains_key(member_id.as_ref())
    }

    /// The members, by id.
    pub(crate) fn members(&self) -> impl ExactSizeIterator<Item = &Member> {
        self.members.values()
    }

    /// Their ids, copied so that the members can be changed meanwhile.
    pub(crate) fn ids(&self) -> Vec<MemberId> {
        self.members.keys().cloned().collect()
    }

    pub(crate) fn first_id(&self) -> Option<&MemberId> {
        self.members.keys().next()
    }

    /// The id of the static member of that name.
    pub(crate) fn static_id(&self, instance_id: &str) -> Option<&MemberId> {
        self.static_ids.get(instance_id)
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// How many wait for others to join.
    pub(crate) fn awaiting_join(&self) -> usize {
        self.awaiting_join
    }

    /// The bytes that are kept for all members and their assignments.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The JoinGroup and SyncGroup requests that wait, with the member's id.
    pub(crate) fn waiting(
        &self,
    ) -> impl Iterator<Item = (&MemberId, Option<RequestToken>, Option<RequestToken>)> {
        self.members.values().map(|member| (&member.id, member.awaiting_join, member.awaiting_sync))
    }

    /// How long a rebalance may take: as long as the most patient member says.
    pub(crate) fn rebalance_timeout_ms(&self) -> u64 {
        let timeouts = self.members.values().map(|member| member.rebalance_timeout_ms);
        // Never none at all: a rebalance that cannot complete is tried again after so long.
        timeouts.max().unwrap_or(0).max(1).unsigned_abs().into()
    }

    /// Whether all members support one of these.
    pub(crate) fn has_common_protocol(&self, protocols: &Protocols) -> bool {
        let supporters = |name| self.supporters.get(name).copied().unwrap_or(0);
        protocols.names().any(|name| supporters(name) == self.members.len())
    }

    /// The protocol that all support and most prefer; of equals the first by name.
    pub(crate) fn elect_protocol(&self) -> Option<ProtocolName> {
        let is_candidate = |name: &&ProtocolName| self.supporters[*name] == self.members.len();
        let votes =
            self.members.values().filter_map(|member| member.protocols.names().find(is_candidate));
        let mut counts: BTreeMap<&ProtocolName, usize> = BTreeMap::new();
        votes.for_each(|name| *counts.entry(name).or_default() += 1);
        let most = counts.values().copied().max()?;
        counts.into_iter().find(|(_, votes)| *votes == most).map(|(name, _)| name.clone())
    }
}
