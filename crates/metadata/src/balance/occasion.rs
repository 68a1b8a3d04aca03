//! When a cluster moves partitions that nobody has asked it to move.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use logway_model::BrokerId;
use serde::{Deserialize, Serialize};

use crate::image::{Duty, MetadataImage};

/// A broker that is new serves for so long before it gets anything: others may be about to join as well.
const JOIN_SETTLES_MS: u64 = 10_000;

/// A disk that was full is looked at again when it has become so many percentage points emptier.
const REARMED_BELOW: u8 = 5;

/// Why a cluster moves partitions by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// A broker is new, or back with nothing.
    Joined(BrokerId),
    /// A broker was not heard for too long: others get its replicas.
    Gone(BrokerId),
    /// A disk is too full.
    Full {
        /// Whose.
        broker: BrokerId,
        /// How full it is, of 100.
        percent: u8,
    },
}

impl fmt::Display for Occasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Occasion::Joined(id) => write!(f, "node {id} has joined and holds nothing"),
            Occasion::Gone(id) => write!(f, "node {id} is gone for too long"),
            Occasion::Full { broker, percent } => {
                write!(f, "a disk of node {broker} is {percent} % full")
            }
        }
    }
}

/// From when on something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalanceRules {
    /// `logway.auto.balance.gone.ms`
    pub gone_ms: u64,
    /// `logway.auto.balance.disk.percent`
    pub disk_percent: u8,
}

/// What a controller has seen that balances the cluster by itself. Each occasion comes once: what it has led to can be cancelled, and is
/// not begun again.
///
/// It is not replicated. Another controller begins to count anew how long brokers are gone, and takes brokers that hold nothing for new
/// ones. Time comes in as milliseconds of any clock that never goes back.
#[derive(Debug, Clone, Default)]
pub struct Occasions {
    /// New brokers, and since when they serve.
    joined: BTreeMap<BrokerId, Option<u64>>,
    /// Brokers that were there before, or whose join is over.
    settled: BTreeSet<BrokerId>,
    /// Brokers that do not serve, and since when.
    away: BTreeMap<BrokerId, u64>,
    /// Those of them that are over.
    gone: BTreeSet<BrokerId>,
    /// Brokers with a full disk, which are over.
    full: BTreeSet<BrokerId>,
}

impl Occasions {
    /// What a controller knows that begins to look.
    pub fn new(image: &MetadataImage, now_ms: u64) -> Occasions {
        let partitions = image.topics().flat_map(|topic| &topic.partitions);
        let settled = partitions.flat_map(|partition| partition.target()).copied().collect();
        let mut occasions = Occasions { settled, ..Occasions::default() };
        occasions.follow(image, now_ms);
        occasions
    }

    /// Takes over who belongs to the cluster, and who serves.
    pub fn follow(&mut self, image: &MetadataImage, now_ms: u64) {
        let is_known = |id: &BrokerId| image.broker(*id).is_some();
        self.settled.retain(is_known);
        self.joined.retain(|id, _| is_known(id));
        self.away.retain(|id, _| is_known(id));
        self.full.retain(is_known);
        for broker in image.brokers() {
            let (id, is_active) = (broker.id, image.is_active(broker.id));
            match is_active {
                true => _ = self.away.remove(&id),
                false => _ = self.away.entry(id).or_insert(now_ms),
            }
            if !self.settled.contains(&id) {
                let since = self.joined.entry(id).or_default();
                *since = is_active.then_some(since.unwrap_or(now_ms));
            }
        }
        self.gone.retain(|id| self.away.contains_key(id));
    }

    /// What there is to do now, if nothing is on its way. `disks` has how full the fullest disk of each broker is, of 100.
    pub fn next(
        &self,
        image: &MetadataImage,
        rules: BalanceRules,
        disks: &BTreeMap<BrokerId, u8>,
        now_ms: u64,
    ) -> Option<Occasion> {
        let partitions = image.topics().flat_map(|topic| &topic.partitions);
        if partitions.into_iter().any(|partition| partition.reassignment.is_some()) {
            return None;
        }
        let is_over = |since: u64, ms: u64| now_ms.saturating_sub(since) >= ms;
        // Somebody sees to a node that is drained or decommissioned.
        let is_meant = |id: BrokerId| image.duty(id) == Duty::All;
        let gone = self.away.iter().find(|(id, since)| {
            !self.gone.contains(id) && is_meant(**id) && is_over(**since, rules.gone_ms)
        });
        let joined = || {
            self.joined.iter().find(|(id, since)| {
                is_meant(**id) && since.is_some_and(|since| is_over(since, JOIN_SETTLES_MS))
            })
        };
        let full = || {
            let is_full = |id: &BrokerId, percent: u8| {
                percent >= rules.disk_percent && !self.full.contains(id) && image.is_active(*id)
            };
            disks.iter().find(|(id, percent)| is_full(id, **percent))
        };
        gone.map(|(id, _)| Occasion::Gone(*id))
            .or_else(|| joined().map(|(id, _)| Occasion::Joined(*id)))
            .or_else(|| {
                full().map(|(id, percent)| Occasion::Full { broker: *id, percent: *percent })
            })
    }

    /// Notes how full disks are: one that has become emptier may become full again.
    pub fn follow_disks(&mut self, rules: BalanceRules, disks: &BTreeMap<BrokerId, u8>) {
        let rearmed = rules.disk_percent.saturating_sub(REARMED_BELOW);
        self.full.retain(|id| disks.get(id).is_none_or(|percent| *percent > rearmed));
    }

    /// What there was to do is begun, or nothing can be done about it.
    pub fn is_over(&mut self, occasion: Occasion) {
        match occasion {
            // The plan that is for one of several is for all.
            Occasion::Joined(_) => {
                let serving = self.joined.iter().filter(|(_, since)| since.is_some());
                let serving: Vec<BrokerId> = serving.map(|(id, _)| *id).collect();
                for id in serving {
                    self.joined.remove(&id);
                    self.settled.insert(id);
                }
            }
            // When it is back, it has nothing.
            Occasion::Gone(id) => {
                self.gone.insert(id);
                self.settled.remove(&id);
            }
            Occasion::Full { broker, .. } => _ = self.full.insert(broker),
        }
    }
}
