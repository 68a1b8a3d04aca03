//! Whether a node can be stopped and clients notice nothing of it.
//!
//! A stop does harm if one of these follows from it, the worst first:
//!
//! 1. The quorum has fewer voters than a majority: then no metadata changes, and no partition gets another leader.
//! 2. A partition has no leader: no other replica in sync is there to take over.
//! 3. A partition has fewer replicas in sync than `min.insync.replicas`: then it takes no records with `acks=all`.
//!
//! Kafka and Logway ask for no more replicas in sync than a partition has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use logway_client::PartitionMetadata;
use logway_model::{BrokerId, TopicName};

use super::state::{ClusterState, Partition, majority};

/// What the answer depends on.
#[derive(Debug)]
pub(super) struct Stops {
    partitions: Vec<Replicas>,
    voters: Vec<BrokerId>,
    /// Brokers that can lead, and voters that can vote.
    alive: BTreeSet<BrokerId>,
}

/// A partition's replicas in sync, and how many of them are needed.
#[derive(Debug)]
struct Replicas {
    partition: Partition,
    replicas: Vec<BrokerId>,
    isr: Vec<BrokerId>,
    in_sync_min: usize,
}

/// The partitions that a node has replicas of, by what becomes of them when it is gone for good.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LeftBehind {
    /// Nobody else has all their records.
    pub(super) offline: Vec<Partition>,
    /// They can be read, and take no records with `acks=all`.
    pub(super) under_min_isr: Vec<Partition>,
    /// They go on with a replica less.
    pub(super) under_replicated: Vec<Partition>,
}

/// What keeps a node from being stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// So many voters would be there.
    NoMajority { left: usize, needed: usize },
    /// The first partition that would have no leader.
    NoLeader { partition: Partition },
    /// The first partition that would have too few replicas in sync.
    TooFewInSync { partition: Partition, left: usize, needed: usize },
}

impl Stops {
    /// `in_sync_min` has `min.insync.replicas` of each topic.
    pub(super) fn of(state: &ClusterState, in_sync_min: &BTreeMap<TopicName, usize>) -> Stops {
        let partitions = state.partitions().map(|(name, partition)| Replicas {
            in_sync_min: needed_in_sync(partition, in_sync_min.get(&name.topic).copied()),
            partition: Partition::new(&name),
            replicas: partition.replicas.clone(),
            isr: partition.isr.clone(),
        });
        let voters = || state.quorum.iter().flat_map(|quorum| &quorum.voters);
        let brokers = state.cluster.brokers.iter().map(|broker| broker.id);
        let others = voters().filter(|voter| state.broker(voter.id).is_none());
        let alive = brokers.filter(|id| state.serves(*id));
        Stops {
            partitions: partitions.collect(),
            voters: voters().map(|voter| voter.id).collect(),
            alive: alive.chain(others.filter(|it| state.is_alive(it)).map(|it| it.id)).collect(),
        }
    }

    /// The partitions that take no records with `acks=all` at present.
    pub(super) fn under_min_in_sync(&self) -> Vec<Partition> {
        let lacking = self.partitions.iter().filter(|it| it.isr.len() < it.in_sync_min);
        lacking.map(|it| it.partition.clone()).collect()
    }

    /// What would become of the partitions that a node has replicas of, if it were gone for good.
    pub(super) fn left_behind(&self, node: BrokerId) -> LeftBehind {
        let mut left = LeftBehind::default();
        for it in self.partitions.iter().filter(|it| it.replicas.contains(&node)) {
            let in_sync = self.left_in_sync(node, it);
            let place = match in_sync {
                Some(0) => &mut left.offline,
                Some(in_sync) if in_sync < it.in_sync_min => &mut left.under_min_isr,
                _ => &mut left.under_replicated,
            };
            place.push(it.partition.clone());
        }
        left
    }

    /// Why the quorum could not go on, if a node were gone for good; `None` if it can.
    pub(super) fn without_quorum(&self, node: BrokerId) -> Option<String> {
        let left: Vec<&BrokerId> = self.voters.iter().filter(|voter| **voter != node).collect();
        let alive = left.iter().filter(|voter| self.alive.contains(voter)).count();
        let (needed, is_voter) = (majority(left.len()), self.voters.contains(&node));
        match left.len() {
            0 if is_voter => Some("it is the only voter".to_owned()),
            left if is_voter && alive < needed => Some(format!(
                "of the {left} voters that would be left, the quorum needs {needed} alive and would have {alive}"
            )),
            _ => None,
        }
    }

    /// Why a node should not be stopped now; `None` if it can.
    pub(super) fn obstacle(&self, node: BrokerId) -> Option<Obstacle> {
        let no_majority = self.no_majority_without(node);
        let no_leader = || self.partitions.iter().find_map(|it| self.no_leader_without(node, it));
        let too_few = || self.partitions.iter().find_map(|it| self.too_few_without(node, it));
        no_majority.or_else(no_leader).or_else(too_few)
    }

    fn no_majority_without(&self, node: BrokerId) -> Option<Obstacle> {
        let others = self.voters.iter().filter(|voter| **voter != node);
        let left = others.filter(|voter| self.alive.contains(voter)).count();
        let needed = majority(self.voters.len());
        let is_lacking = !self.voters.is_empty() && left < needed;
        is_lacking.then_some(Obstacle::NoMajority { left, needed })
    }

    fn no_leader_without(&self, node: BrokerId, it: &Replicas) -> Option<Obstacle> {
        let left = self.left_in_sync(node, it)?;
        (left == 0).then(|| Obstacle::NoLeader { partition: it.partition.clone() })
    }

    fn too_few_without(&self, node: BrokerId, it: &Replicas) -> Option<Obstacle> {
        let (left, needed) = (self.left_in_sync(node, it)?, it.in_sync_min);
        let partition = || it.partition.clone();
        (left < needed).then(|| Obstacle::TooFewInSync { partition: partition(), left, needed })
    }

    /// How many replicas would be in sync; `None` where a stop takes none away.
    fn left_in_sync(&self, node: BrokerId, it: &Replicas) -> Option<usize> {
        let others = it.isr.iter().filter(|id| **id != node && self.alive.contains(id));
        it.isr.contains(&node).then(|| others.count())
    }
}

/// How many replicas of a partition must be in sync for `acks=all`.
fn needed_in_sync(partition: &PartitionMetadata, in_sync_min: Option<usize>) -> usize {
    in_sync_min.unwrap_or(1).min(partition.replicas.len())
}

impl Obstacle {
    /// The partition that would suffer, if the reason is one.
    pub(super) fn partition(&self) -> Option<&Partition> {
        match self {
            Obstacle::NoMajority { .. } => None,
            Obstacle::NoLeader { partition } | Obstacle::TooFewInSync { partition, .. } => {
                Some(partition)
            }
        }
    }
}

/// Goes on after "no, because".
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::NoMajority { left, needed } => {
                write!(f, "the quorum would have {left} of the {needed} voters that it needs")
            }
            Obstacle::NoLeader { partition } => {
                write!(f, "{partition} would have no leader: no other replica is in sync")
            }
            Obstacle::TooFewInSync { partition, left, needed } => {
                write!(
                    f,
                    "{partition} would have {left} of the {needed} replicas in sync that acks=all needs"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::{replica, state};
    use super::*;

    const NODES: [BrokerId; 3] = [BrokerId(1), BrokerId(2), BrokerId(3)];

    fn reasons(state: &ClusterState, in_sync_min: usize) -> [String; 3] {
        let topic = TopicName::new("t").expect("a name");
        let stops = Stops::of(state, &BTreeMap::from([(topic, in_sync_min)]));
        let reason = |id| stops.obstacle(id).map(|obstacle| obstacle.to_string());
        NODES.map(|id| reason(id).unwrap_or_default())
    }

    const NO_LEADER: &str = "t-0 would have no leader: no other replica is in sync";
    const ONE_OF_TWO: &str = "t-0 would have 1 of the 2 replicas in sync that acks=all needs";
    const NO_MAJORITY: &str = "the quorum would have 1 of the 2 voters that it needs";

    #[test]
    fn any_node_of_three_can_be_stopped_while_all_is_well() {
        let state = state(&[(&[1, 2, 3], &[1, 2, 3]), (&[2, 3, 1], &[2, 3, 1])]);
        assert_eq!(reasons(&state, 2), ["", "", ""]);
    }

    #[test]
    fn the_only_replica_in_sync_is_not_stopped() {
        assert_eq!(reasons(&state(&[(&[2], &[2])]), 1), ["", NO_LEADER, ""]);
        assert_eq!(reasons(&state(&[(&[1, 2, 3], &[3])]), 1), ["", "", NO_LEADER]);
    }

    #[test]
    fn as_many_replicas_stay_in_sync_as_acks_all_needs() {
        let lacking = state(&[(&[1, 2, 3], &[1, 2])]);
        assert_eq!(reasons(&lacking, 2), [ONE_OF_TWO, ONE_OF_TWO, ""]);
        assert_eq!(reasons(&lacking, 1), ["", "", ""]);
    }

    #[test]
    fn no_more_replicas_are_needed_than_there_are() {
        let both = state(&[(&[1, 2], &[1, 2])]);
        assert_eq!(reasons(&both, 3), [ONE_OF_TWO, ONE_OF_TWO, ""]);
        let topic = TopicName::new("t").expect("a name");
        let stops = |state| Stops::of(state, &BTreeMap::from([(topic.clone(), 2)]));
        assert_eq!(stops(&both).under_min_in_sync(), []);
        let single = state(&[(&[1], &[1]), (&[1, 2], &[1])]);
        let lacking = stops(&single).under_min_in_sync();
        assert_eq!(lacking.iter().map(ToString::to_string).collect::<Vec<_>>(), ["t-1"]);
    }

    #[test]
    fn the_quorum_keeps_its_majority() {
        let mut state = state(&[]);
        state.silent.insert(BrokerId(3));
        assert_eq!(reasons(&state, 1), [NO_MAJORITY, NO_MAJORITY, ""], "3 is gone already");
        state.silent.clear();
        state.cluster.brokers[0].is_fenced = true;
        assert_eq!(reasons(&state, 1), ["", NO_MAJORITY, NO_MAJORITY]);
        state.quorum = None;
        assert_eq!(reasons(&state, 1), ["", "", ""], "of brokers that tell of no quorum");
    }

    #[test]
    fn a_node_that_goes_for_good_leaves_partitions_behind() {
        let mut state = state(&[
            (&[1, 2, 3], &[1, 2, 3]),
            (&[1, 2, 3], &[2, 3]),
            (&[2, 3], &[2, 3]),
            (&[3], &[3]),
            (&[1], &[1]),
            (&[1, 3], &[1]),
        ]);
        let names =
            |of: &[Partition]| of.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let left = |state: &ClusterState| {
            let topic = TopicName::new("t").expect("a name");
            let stops = Stops::of(state, &BTreeMap::from([(topic, 2)]));
            let left = stops.left_behind(BrokerId(3));
            let quorum = stops.without_quorum(BrokerId(3)).is_some();
            (
                names(&left.offline),
                names(&left.under_min_isr),
                names(&left.under_replicated),
                quorum,
            )
        };
        let three = |offline: &str, under_min: &str, under: &str, quorum| {
            (offline.to_owned(), under_min.to_owned(), under.to_owned(), quorum)
        };
        assert_eq!(left(&state), three("t-3", "t-1 t-2", "t-0 t-5", false));
        state.silent.insert(BrokerId(2));
        assert_eq!(left(&state), three("t-1 t-2 t-3", "t-0", "t-5", true));
        state.silent.insert(BrokerId(3));
        state.silent.remove(&BrokerId(2));
        assert_eq!(left(&state), three("t-3", "t-1 t-2", "t-0 t-5", false), "it is dead already");
    }

    #[test]
    fn a_replica_that_does_not_answer_takes_over_nothing() {
        let mut state = state(&[(&[1, 2], &[1, 2])]);
        let observer = state.quorum.as_mut().expect("it has one");
        observer.voters.pop();
        observer.voters.pop();
        observer.voters.extend([replica(11, 0), replica(12, 0)]);
        state.silent.insert(BrokerId(2));
        assert_eq!(reasons(&state, 1), [NO_LEADER, "", ""]);
    }
}
