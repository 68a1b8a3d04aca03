//! Where replicas should be, and how to get there with few bytes.
//!
//! The plan is made in four steps, each of which leaves what the one before it has done:
//!
//! 1. Every partition gets as many replicas as it should have, none of them on a node that is to leave, and on as many racks
//!    as there are.
//! 2. Nodes that have more replicas than others give some away, the smallest first.
//! 3. Nodes that have more bytes than others exchange partitions, as long as that evens out much.
//! 4. Nodes that are the first of more replicas than others let another one of a partition be the first. That copies nothing.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{BrokerId, TopicName, TopicPartition};

/// A node that can hold replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub id: BrokerId,
    /// The failure domain that it stands in, if it has said.
    pub rack: Option<String>,
}

/// A partition as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Which one.
    pub partition: TopicPartition,
    /// As they are to be once what is under way is over.
    pub replicas: Vec<BrokerId>,
    /// What a replica takes that has everything.
    pub bytes: u64,
}

/// A partition that is to be elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Which one.
    pub partition: TopicPartition,
    /// Its replicas, the preferred leader first.
    pub from: Vec<BrokerId>,
    /// Those that it is to have.
    pub to: Vec<BrokerId>,
    /// What is copied.
    pub bytes: u64,
}

impl Placed {
    /// The step to other replicas.
    pub fn step_to(&self, to: Vec<BrokerId>) -> Step {
        let new = to.iter().filter(|id| !self.replicas.contains(id)).count();
        Step {
            partition: self.partition.clone(),
            from: self.replicas.clone(),
            to,
            bytes: self.bytes.saturating_mul(new as u64),
        }
    }
}

/// What a plan is for.
#[derive(Debug, Default)]
pub struct Goal {
    /// They end without replicas.
    pub leaving: BTreeSet<BrokerId>,
    /// The number of replicas of some topics; others keep theirs.
    pub factors: BTreeMap<TopicName, usize>,
    /// Whether nodes get as much as others.
    pub balances: bool,
}

/// Nodes differ by so much of the mean, before bytes are moved for that alone.
const BYTES_UNEVEN: f64 = 0.2;

/// So many of a node's partitions are looked at for an exchange.
const EXCHANGED_LOOK: usize = 64;

/// Makes a plan. `holders` are the nodes that serve; those that are to leave may be among them.
///
/// # Errors
///
/// Says for which partition there are too few nodes.
pub fn plan(holders: &[Holder], partitions: &[Placed], goal: &Goal) -> Result<Vec<Step>, String> {
    let mut planning = Planning::new(holders, partitions, &goal.leaving);
    for (index, placed) in partitions.iter().enumerate() {
        let wanted = goal.factors.get(&placed.partition.topic).copied();
        planning.complete(index, wanted.unwrap_or(placed.replicas.len()))?;
    }
    if goal.balances {
        planning.even_counts();
        planning.even_bytes();
        planning.even_firsts();
    }
    Ok(planning.steps())
}

/// What a node has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    replicas: usize,
    bytes: u64,
    /// Of how many partitions it is the first replica.
    firsts: usize,
}

struct Planning<'a> {
    racks: BTreeMap<BrokerId, Option<&'a str>>,
    rack_count: usize,
    partitions: &'a [Placed],
    /// The replicas that each is to have.
    wanted: Vec<Vec<BrokerId>>,
    loads: BTreeMap<BrokerId, Load>,
}

impl<'a> Planning<'a> {
    fn new(
        holders: &'a [Holder],
        partitions: &'a [Placed],
        leaving: &BTreeSet<BrokerId>,
    ) -> Planning<'a> {
        let staying = holders.iter().filter(|holder| !leaving.contains(&holder.id));
        let racks: BTreeMap<_, _> =
            staying.map(|holder| (holder.id, holder.rack.as_deref())).collect();
        // A node that is down keeps what it has: it may come back. One that leaves does not.
        let keeps = |placed: &Placed| {
            placed.replicas.iter().copied().filter(|id| !leaving.contains(id)).collect()
        };
        let mut planning = Planning {
            rack_count: racks.values().collect::<BTreeSet<_>>().len(),
            loads: racks.keys().map(|id| (*id, Load::default())).collect(),
            racks,
            partitions,
            wanted: vec![Vec::new(); partitions.len()],
        };
        for (index, placed) in partitions.iter().enumerate() {
            planning.set(index, keeps(placed));
        }
        planning
    }

    /// Notes that a node has a replica more or less.
    fn count(&mut self, index: usize, id: BrokerId, is_first: bool, by: isize) {
        let Some(load) = self.loads.get_mut(&id) else { return };
        let bytes = self.partitions[index].bytes;
        load.replicas = load.replicas.saturating_add_signed(by);
        load.firsts = load.firsts.saturating_add_signed(if is_first { by } else { 0 });
        load.bytes = match by > 0 {
            true => load.bytes + bytes,
            false => load.bytes.saturating_sub(bytes),
        };
    }

    fn set(&mut self, index: usize, replicas: Vec<BrokerId>) {
        let before = std::mem::take(&mut self.wanted[index]);
        for (place, id) in before.into_iter().enumerate() {
            self.count(index, id, place == 0, -1);
        }
        for (place, id) in replicas.iter().enumerate() {
            self.count(index, *id, place == 0, 1);
        }
        self.wanted[index] = replicas;
    }

    fn rack(&self, id: BrokerId) -> Option<&'a str> {
        self.racks.get(&id).copied().flatten()
    }

    /// How many of some nodes are in the rack of another.
    fn beside(&self, id: BrokerId, replicas: &[BrokerId]) -> usize {
        replicas.iter().filter(|other| self.rack(**other) == self.rack(id)).count()
    }

    /// On how many racks some nodes are.
    fn spread(&self, replicas: &[BrokerId]) -> usize {
        replicas.iter().map(|id| self.rack(*id)).collect::<BTreeSet<_>>().len()
    }

    /// Gives a partition its number of replicas, on as many racks as can be.
    fn complete(&mut self, index: usize, count: usize) -> Result<(), String> {
        let mut replicas = self.wanted[index].clone();
        replicas.truncate(count);
        let spread_max = self.rack_count.min(count);
        // One that shares its rack makes room for one in another.
        while replicas.len() == count && self.spread(&replicas) < spread_max {
            let shares = |id: &BrokerId| self.beside(*id, &replicas) > 1;
            let Some(place) = replicas.iter().rposition(shares) else { break };
            replicas.remove(place);
        }
        while replicas.len() < count {
            let free = self.loads.iter().filter(|(id, _)| !replicas.contains(id));
            let best = free.min_by_key(|(id, load)| {
                (self.beside(**id, &replicas), load.replicas, load.bytes, **id)
            });
            let Some((&id, _)) = best else {
                return Err(format!(
                    "{} is to have {count} replicas, and there are {} nodes for them",
                    self.partitions[index].partition,
                    self.loads.len()
                ));
            };
            replicas.push(id);
        }
        self.set(index, replicas);
        Ok(())
    }

    /// A partition with another node in the place of one, if that leaves it on as many racks.
    fn with(&self, index: usize, from: BrokerId, to: BrokerId) -> Option<Vec<BrokerId>> {
        let mut replicas = self.wanted[index].clone();
        let place = replicas.iter().position(|id| *id == from)?;
        if replicas.contains(&to) {
            return None;
        }
        let spread = self.spread(&replicas);
        replicas[place] = to;
        (self.spread(&replicas) >= spread).then_some(replicas)
    }

    /// What it costs to have another node in the place of one: nothing, if that one is about to get it.
    fn cost(&self, index: usize, from: BrokerId, to: BrokerId) -> u64 {
        let Placed { replicas, bytes, .. } = &self.partitions[index];
        if replicas.contains(&from) && !replicas.contains(&to) { *bytes } else { 0 }
    }

    /// Nodes by what they have, the most first.
    fn by(&self, key: impl Fn(&Load) -> u64) -> Vec<(BrokerId, u64)> {
        let mut nodes: Vec<_> = self.loads.iter().map(|(id, load)| (*id, key(load))).collect();
        nodes.sort_by_key(|(id, value)| (std::cmp::Reverse(*value), *id));
        nodes
    }

    fn even_counts(&mut self) {
        while self.even_one_count() {}
    }

    /// Moves one replica from a node that has two more than another.
    fn even_one_count(&mut self) -> bool {
        let nodes = self.by(|load| load.replicas as u64);
        for &(from, most) in &nodes {
            for &(to, fewest) in nodes.iter().rev() {
                if most < fewest + 2 {
                    break;
                }
                let moved = (0..self.partitions.len())
                    .filter_map(|index| Some((index, self.with(index, from, to)?)))
                    .min_by_key(|(index, _)| (self.cost(*index, from, to), *index));
                if let Some((index, replicas)) = moved {
                    self.set(index, replicas);
                    return true;
                }
            }
        }
        false
    }

    fn even_bytes(&mut self) {
        // Each exchange takes away a part of the difference; this many are more than anybody waits for.
        for _ in 0..self.partitions.len() {
            if !self.even_some_bytes() {
                return;
            }
        }
    }

    /// Exchanges a partition of the node with the most bytes for a smaller one of the node with the fewest.
    fn even_some_bytes(&mut self) -> bool {
        let nodes = self.by(|load| load.bytes);
        let (Some(&(from, most)), Some(&(to, fewest))) = (nodes.first(), nodes.last()) else {
            return false;
        };
        let total: u64 = nodes.iter().map(|(_, bytes)| bytes).sum();
        let uneven = total as f64 / nodes.len() as f64 * BYTES_UNEVEN;
        let difference = most - fewest;
        if (difference as f64) <= uneven {
            return false;
        }
        let bytes = |index: &usize| self.partitions[*index].bytes;
        let held = |id: BrokerId, other: BrokerId| -> Vec<usize> {
            let is_held = |index: &usize| {
                self.wanted[*index].contains(&id) && !self.wanted[*index].contains(&other)
            };
            (0..self.partitions.len()).filter(is_held).collect()
        };
        let (mut large, mut small) = (held(from, to), held(to, from));
        large.sort_by_key(|index| std::cmp::Reverse(bytes(index)));
        small.sort_by_key(bytes);
        let mut best: Option<(u64, usize, usize)> = None;
        for &given in large.iter().take(EXCHANGED_LOOK) {
            for &taken in small.iter().take(EXCHANGED_LOOK) {
                let (given_bytes, taken_bytes) = (bytes(&given), bytes(&taken));
                let gain = given_bytes.saturating_sub(taken_bytes);
                // What goes beyond the middle is no gain.
                let gain = gain.min(difference.saturating_sub(gain));
                let is_better = best.is_none_or(|(known, _, _)| gain > known);
                if is_better
                    && gain as f64 > uneven / 4.0
                    && self.with(given, from, to).is_some()
                    && self.with(taken, to, from).is_some()
                {
                    best = Some((gain, given, taken));
                }
            }
        }
        let Some((_, given, taken)) = best else { return false };
        let replicas = self.with(given, from, to).expect("it was just looked at");
        self.set(given, replicas);
        let replicas = self.with(taken, to, from).expect("the other is another partition");
        self.set(taken, replicas);
        true
    }

    fn even_firsts(&mut self) {
        while self.even_one_first() {}
    }

    /// Another replica of a partition becomes the first, on a node that has two fewer firsts.
    fn even_one_first(&mut self) -> bool {
        let firsts = |id: &BrokerId| self.loads.get(id).map(|load| load.firsts);
        let better = (0..self.partitions.len()).find_map(|index| {
            let (first, others) = self.wanted[index].split_first()?;
            let most = firsts(first)?;
            let (fewest, place) =
                (1..).zip(others).filter_map(|(place, id)| Some((firsts(id)?, place))).min()?;
            (most >= fewest + 2).then_some((index, place))
        });
        let Some((index, place)) = better else { return false };
        let mut replicas = self.wanted[index].clone();
        replicas.swap(0, place);
        self.set(index, replicas);
        true
    }

    fn steps(self) -> Vec<Step> {
        let changed = self.partitions.iter().zip(self.wanted);
        let changed = changed.filter(|(placed, wanted)| placed.replicas != *wanted);
        changed.map(|(placed, to)| placed.step_to(to)).collect()
    }
}

#[cfg(test)]
mod tests {
    use logway_model::PartitionId;

    use super::*;

    fn holders(racks: &[Option<&str>]) -> Vec<Holder> {
        let holder = |(id, rack): (i32, &Option<&str>)| Holder {
            id: BrokerId(id),
            rack: rack.map(str::to_owned),
        };
        (1..).zip(racks).map(holder).collect()
    }

    fn placed(replicas: &[(&[i32], u64)]) -> Vec<Placed> {
        let topic = TopicName::new("t").expect("a name");
        let placed = |(number, (replicas, bytes)): (i32, &(&[i32], u64))| Placed {
            partition: TopicPartition::new(topic.clone(), PartitionId(number)),
            replicas: replicas.iter().copied().map(BrokerId).collect(),
            bytes: *bytes,
        };
        (0..).zip(replicas).map(placed).collect()
    }

    /// What all partitions have after a plan.
    fn after(partitions: &[Placed], steps: &[Step]) -> Vec<Vec<i32>> {
        let replicas = |placed: &Placed| {
            let step = steps.iter().find(|step| step.partition == placed.partition);
            let replicas = step.map_or(&placed.replicas, |step| &step.to);
            replicas.iter().map(|id| id.0).collect()
        };
        partitions.iter().map(replicas).collect()
    }

    fn counts(replicas: &[Vec<i32>], nodes: i32) -> Vec<usize> {
        let held = |id: i32| replicas.iter().flatten().filter(|other| **other == id).count();
        (1..=nodes).map(held).collect()
    }

    fn balance() -> Goal {
        Goal { balances: true, ..Goal::default() }
    }

    #[test]
    fn a_new_node_gets_its_share_and_the_smallest_partitions() {
        let before = placed(&[(&[1, 2], 10), (&[2, 1], 90), (&[1, 2], 20)]);
        let steps = plan(&holders(&[None; 3]), &before, &balance()).expect("there are enough");
        let replicas = after(&before, &steps);
        assert_eq!(counts(&replicas, 3), [2, 2, 2], "{replicas:?}");
        let firsts: BTreeSet<i32> = replicas.iter().map(|replicas| replicas[0]).collect();
        assert_eq!(firsts.len(), 3, "each is the first of one: {replicas:?}");
        assert_eq!(steps.iter().map(|step| step.bytes).sum::<u64>(), 30);
        let now: Vec<Placed> = before
            .iter()
            .zip(&replicas)
            .map(|(placed, replicas)| Placed {
                replicas: replicas.iter().copied().map(BrokerId).collect(),
                ..placed.clone()
            })
            .collect();
        assert_eq!(plan(&holders(&[None; 3]), &now, &balance()), Ok(Vec::new()), "it is done");
    }

    #[test]
    fn who_leaves_keeps_nothing_and_nothing_else_moves() {
        let before = placed(&[(&[1, 2], 10), (&[2, 3], 20), (&[3, 4], 30)]);
        let goal = Goal { leaving: BTreeSet::from([BrokerId(2)]), ..Goal::default() };
        let steps = plan(&holders(&[None; 4]), &before, &goal).expect("there are enough");
        let replicas = after(&before, &steps);
        assert_eq!((steps.len(), counts(&replicas, 4)[1]), (2, 0), "{replicas:?}");
        assert_eq!(steps.iter().map(|step| step.bytes).sum::<u64>(), 30);
        let refused = plan(&holders(&[None; 2]), &before, &goal).expect_err("there are too few");
        assert_eq!(refused, "t-0 is to have 2 replicas, and there are 1 nodes for them");
    }

    #[test]
    fn replicas_are_on_as_many_racks_as_there_are() {
        let racks = holders(&[Some("a"), Some("a"), Some("b"), Some("c")]);
        let before = placed(&[(&[1, 2, 3], 10), (&[1, 3, 4], 10)]);
        let steps = plan(&racks, &before, &Goal::default()).expect("there are enough");
        assert_eq!(after(&before, &steps), [[1, 3, 4], [1, 3, 4]]);
        let steps = plan(&racks, &before, &balance()).expect("there are enough");
        for replicas in after(&before, &steps) {
            assert!(replicas.contains(&3) && replicas.contains(&4), "{replicas:?}");
        }
    }

    #[test]
    fn a_topic_gets_more_replicas_and_fewer() {
        let before = placed(&[(&[1], 10), (&[1], 20)]);
        let topic = TopicName::new("t").expect("a name");
        let goal =
            |count| Goal { factors: BTreeMap::from([(topic.clone(), count)]), ..Goal::default() };
        let steps = plan(&holders(&[None; 3]), &before, &goal(3)).expect("there are enough");
        assert_eq!(counts(&after(&before, &steps), 3), [2, 2, 2]);
        let before = placed(&[(&[1, 2, 3], 10)]);
        let steps = plan(&holders(&[None; 3]), &before, &goal(1)).expect("there are enough");
        assert_eq!((after(&before, &steps), steps[0].bytes), (vec![vec![1]], 0));
    }

    #[test]
    fn large_partitions_are_exchanged_for_small_ones() {
        let before = placed(&[(&[1], 1_000), (&[1], 1_000), (&[2], 10), (&[2], 10)]);
        let steps = plan(&holders(&[None; 2]), &before, &balance()).expect("there are enough");
        let replicas = after(&before, &steps);
        let bytes = |id: i32| -> u64 {
            let of = before.iter().zip(&replicas).filter(|(_, replicas)| replicas[0] == id);
            of.map(|(placed, _)| placed.bytes).sum()
        };
        assert_eq!((bytes(1), bytes(2)), (1_010, 1_010));
    }

    #[test]
    fn a_node_that_is_down_keeps_what_it_has() {
        let before = placed(&[(&[1, 9], 10), (&[9, 2], 10)]);
        let steps = plan(&holders(&[None; 2]), &before, &balance()).expect("there are enough");
        assert_eq!(steps, []);
    }
}
