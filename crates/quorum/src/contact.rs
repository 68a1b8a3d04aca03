//! When other nodes were last heard, measured where their messages arrive.
//!
//! openraft knows that too, but learns it when its task comes to it, which may wait for a disk
//! (CLUSTER.md, trap 11: heartbeats queue behind controller work).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What this node has heard from others.
#[derive(Debug, Default)]
pub(crate) struct Contacts(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// When a leader with a majority spoke last, to a node that follows it.
    leader_at: Option<Instant>,
    /// Of each node, the last thing that it confirmed to this one as its leader.
    confirmed: BTreeMap<u64, Confirmed>,
    /// The term in which this node leads, and since when.
    leading: Option<(u64, Instant)>,
    /// Nodes that know of a later term than this leader's.
    ahead: BTreeSet<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Confirmed {
    term: u64,
    /// When the request was sent: the other node has heard this leader after it.
    sent_at: Instant,
}

impl Contacts {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A leader has spoken, one that itself hears a majority.
    pub(crate) fn leader_spoke(&self, now: Instant) {
        self.lock().leader_at = Some(now);
    }

    /// The leader has asked somebody to take its place: it is not waited for any longer.
    pub(crate) fn leader_resigned(&self) {
        self.lock().leader_at = None;
    }

    /// When a leader spoke last.
    pub(crate) fn leader_at(&self) -> Option<Instant> {
        self.lock().leader_at
    }

    /// Whether a leader has spoken within the lease: then this node votes for nobody else.
    pub(crate) fn is_within_lease(&self, now: Instant, lease: Duration) -> bool {
        self.lock().leader_at.is_some_and(|at| now.duration_since(at) <= lease)
    }

    /// This node leads in a term, since now if that is news.
    pub(crate) fn leads(&self, term: u64, now: Instant) {
        let mut heard = self.lock();
        if heard.leading.is_none_or(|(known, _)| known < term) {
            heard.leading = Some((term, now));
            heard.ahead.clear();
        }
    }

    /// Since when this node leads, or has led last.
    pub(crate) fn leading_since(&self) -> Option<Instant> {
        self.lock().leading.map(|(_, since)| since)
    }

    /// A node has replied to something that was sent to it as from the leader of a term.
    pub(crate) fn confirmed(&self, node: u64, term: u64, sent_at: Instant) {
        let mut heard = self.lock();
        let confirmed = heard.confirmed.entry(node).or_insert(Confirmed { term, sent_at });
        if (confirmed.term, confirmed.sent_at) < (term, sent_at) {
            *confirmed = Confirmed { term, sent_at };
        }
    }

    /// A node knows a later term, so it will tell openraft that this leader is none.
    pub(crate) fn is_ahead(&self, node: u64) {
        self.lock().ahead.insert(node);
    }

    /// Whether a node is known to know a later term.
    pub(crate) fn knows_later_term(&self, node: u64) -> bool {
        self.lock().ahead.contains(&node)
    }

    /// When a node last confirmed this leader.
    pub(crate) fn confirmed_at(&self, node: u64, term: u64) -> Option<Instant> {
        let heard = self.lock();
        heard.confirmed.get(&node).filter(|at| at.term == term).map(|at| at.sent_at)
    }

    /// The time up to which a majority of each set of voters has heard this leader of a term.
    pub(crate) fn majority_at(
        &self,
        voters: &[BTreeSet<u64>],
        own_id: u64,
        term: u64,
        now: Instant,
    ) -> Option<Instant> {
        let heard = self.lock();
        let at = |node: &u64| match *node == own_id {
            true => Some(now),
            false => heard.confirmed.get(node).filter(|at| at.term == term).map(|at| at.sent_at),
        };
        let majority = |set: &BTreeSet<u64>| {
            let mut times: Vec<_> = set.iter().map(at).collect();
            times.sort_unstable_by(|a, b| b.cmp(a));
            times.get(set.len() / 2).copied().flatten()
        };
        // No set at all is no cluster, and nobody's majority.
        let times: Option<Vec<_>> = voters.iter().map(majority).collect();
        times?.into_iter().min()
    }

    /// As [`Contacts::majority_at`], where a new leader gets time to be heard.
    pub(crate) fn majority_or_election_at(
        &self,
        voters: &[BTreeSet<u64>],
        own_id: u64,
        term: u64,
        now: Instant,
    ) -> Option<Instant> {
        let majority = self.majority_at(voters, own_id, term, now);
        let leading = self.lock().leading.filter(|(known, _)| *known == term).map(|(_, at)| at);
        majority.max(leading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<const N: usize>(ids: [u64; N]) -> BTreeSet<u64> {
        BTreeSet::from(ids)
    }

    #[test]
    fn a_majority_has_heard_the_leader_when_the_slowest_of_it_has() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let contacts = Contacts::default();
        let now = at(100);
        assert_eq!(contacts.majority_at(&[set([1])], 1, 7, now), Some(now), "alone");
        let three = [set([1, 2, 3])];
        assert_eq!(contacts.majority_at(&three, 1, 7, now), None);
        contacts.confirmed(2, 7, at(10));
        assert_eq!(contacts.majority_at(&three, 1, 7, now), Some(at(10)));
        contacts.confirmed(3, 7, at(20));
        assert_eq!(contacts.majority_at(&three, 1, 7, now), Some(at(20)));
        contacts.confirmed(3, 7, at(15));
        assert_eq!(contacts.majority_at(&three, 1, 7, now), Some(at(20)), "never back");
        assert_eq!(contacts.majority_at(&three, 1, 8, now), None, "of another term");
        let joint = [set([1, 2, 3]), set([1, 4, 5])];
        assert_eq!(contacts.majority_at(&joint, 1, 7, now), None, "of each set");
        contacts.confirmed(5, 7, at(5));
        assert_eq!(contacts.majority_at(&joint, 1, 7, now), Some(at(5)));
        assert_eq!(contacts.majority_at(&[set([2, 3])], 1, 7, now), Some(at(10)), "not a voter");
        assert_eq!(contacts.majority_at(&[], 1, 7, now), None);
    }
}
