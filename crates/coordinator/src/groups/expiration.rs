//! Offsets that nobody has used for long, and groups without any (KIP-211).

use std::ops::Bound;

use logway_model::TimestampMs;
use tracing::info;

use crate::ids::GroupId;
use crate::membership::GroupState;
use crate::outbox::Then;
use crate::record::CommittedOffset;
use crate::timers::Timer;
use crate::turn::Turn;

use super::delete::{TombstonePart, tombstone};
use super::{Group, Groups};

impl Groups {
    /// Looks through all groups, and takes expired offsets and empty groups out of the log.
    pub(crate) fn expire(&mut self, turn: &mut Turn) {
        let interval_ms = turn.settings.offsets_retention_check_interval_ms.max(1);
        turn.set_timer(Timer::Expiration, interval_ms.into());
        if !self.is_expiring {
            self.expire_from(turn, None);
        }
    }

    /// The same from one group on, or from the first. One append is on its way at a time: a shard can have a million
    /// offsets that expire together.
    pub(crate) fn expire_from(&mut self, turn: &mut Turn, first: Option<&GroupId>) {
        let mut part = TombstonePart::new(turn.settings);
        let from = first.map_or(Bound::Unbounded, Bound::Included);
        let mut rest = None;
        for (group_id, group) in self.by_id.range::<GroupId, _>((from, Bound::Unbounded)) {
            // What is on its way would be taken back unseen. Next time, then.
            if turn.outbox.has_records_of(group_id) || self.pending.has_group(group_id) {
                continue;
            }
            if !self.expire_group(turn, group_id, group, &mut part) {
                rest = Some(group_id.clone());
                break;
            }
        }
        self.is_expiring = rest.is_some();
        if !part.records.is_empty() {
            info!(records = part.records.len(), "offsets and groups have expired");
            turn.append(part.records, rest.map(|from| Then::ExpireFrom { from }));
        }
    }

    /// No more expires for now: the log takes no records.
    pub(crate) fn stop_expiring(&mut self) {
        self.is_expiring = false;
    }

    /// Whether all of the group was looked at.
    fn expire_group(
        &self,
        turn: &Turn,
        group_id: &GroupId,
        group: &Group,
        part: &mut TombstonePart,
    ) -> bool {
        let expiry = Expiry::of(group);
        let mut is_used = false;
        for (topic, partition, offset) in group.offsets.iter(&self.topics) {
            let is_expired =
                expiry.has_come(&offset, turn.now.wall, turn.settings.offsets_retention_ms)
                    && !group.is_subscribed_to(topic);
            if !is_expired {
                is_used = true;
            } else if !part.add(tombstone(group_id, topic, partition)) {
                return false;
            }
        }
        let is_idle = group.membership.is_idle() && group.is_empty();
        let is_known = group.metadata.is_some() || group.has_coordinator_assign();
        if is_used || !is_known || !is_idle {
            return true;
        }
        let mut tombstones = Vec::new();
        group.push_tombstones(group_id, &mut tombstones);
        part.add_all(tombstones)
    }
}

/// From when on the offsets of a group age.
enum Expiry {
    /// They do not: there are members, and what they read is not known, or changing.
    Never,
    /// From their commits: there are no members, now or ever, or they read other topics.
    FromCommit,
    /// From when the last member left.
    FromEmpty(TimestampMs),
}

impl Expiry {
    fn of(group: &Group) -> Expiry {
        let membership = &group.membership;
        let state = membership.state();
        match membership.state_timestamp() {
            _ if group.has_coordinator_assign() || membership.protocol_type().is_none() => {
                Expiry::FromCommit
            }
            Some(since) if state == GroupState::Empty => Expiry::FromEmpty(since),
            None if state == GroupState::Empty => Expiry::FromCommit,
            _ if state == GroupState::Stable && membership.knows_subscriptions() => {
                Expiry::FromCommit
            }
            _ => Expiry::Never,
        }
    }

    fn has_come(&self, offset: &CommittedOffset, now: TimestampMs, retention_ms: i64) -> bool {
        let since = match self {
            Expiry::Never => return false,
            Expiry::FromCommit => offset.commit_timestamp,
            Expiry::FromEmpty(since) => *since,
        };
        match offset.expire_timestamp {
            Some(expire) => now >= expire,
            None => now.0.saturating_sub(since.0) >= retention_ms,
        }
    }
}
