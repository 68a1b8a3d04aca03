//! Which member of a group reads what, worked out by the member that leads the group.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{PartitionId, TopicName, TopicPartition};

/// A way to assign partitions that the Java client has as well, under the same name and with the
/// same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignor {
    /// Topic by topic, each member gets consecutive partitions: of two topics with equally many
    /// partitions, those with equal numbers go to the same member.
    Range,
    /// All partitions in turns, so that the members' shares differ by one at most if all want the
    /// same topics.
    RoundRobin,
}

/// What each member gets.
pub(super) type Assignment = BTreeMap<String, BTreeSet<TopicPartition>>;

impl Assignor {
    /// In the order in which we prefer them, as the Java client does.
    pub(super) const ALL: [Assignor; 2] = [Assignor::Range, Assignor::RoundRobin];

    /// The name that members agree on.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Assignor::Range => "range",
            Assignor::RoundRobin => "roundrobin",
        }
    }

    /// The assignor of a name.
    pub(super) fn named(name: &str) -> Option<Assignor> {
        Assignor::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Gives each partition of the topics to one of the members that want it.
    ///
    /// `members` says which topics each wants, `partitions` how many each topic has; a topic that
    /// is not there has none.
    pub(super) fn assign(
        self,
        members: &BTreeMap<String, BTreeSet<TopicName>>,
        partitions: &BTreeMap<TopicName, usize>,
    ) -> Assignment {
        let mut assignment: Assignment =
            members.keys().map(|member| (member.clone(), BTreeSet::new())).collect();
        let mut give = |member: &String, partition| {
            assignment.entry(member.clone()).or_default().insert(partition);
        };
        match self {
            Assignor::Range => range(members, partitions, &mut give),
            Assignor::RoundRobin => round_robin(members, partitions, &mut give),
        }
        assignment
    }
}

fn range(
    members: &BTreeMap<String, BTreeSet<TopicName>>,
    partitions: &BTreeMap<TopicName, usize>,
    give: &mut impl FnMut(&String, TopicPartition),
) {
    for (topic, &count) in partitions {
        let wants = |(_, topics): &(&String, &BTreeSet<TopicName>)| topics.contains(topic);
        let takers: Vec<&String> = members.iter().filter(wants).map(|(member, _)| member).collect();
        if takers.is_empty() {
            continue;
        }
        // The first takers get one more if it does not come out even.
        let (share, more) = (count / takers.len(), count % takers.len());
        let mut next = all_of(topic, count);
        for (index, taker) in takers.into_iter().enumerate() {
            let share = share + usize::from(index < more);
            next.by_ref().take(share).for_each(|partition| give(taker, partition));
        }
    }
}

fn round_robin(
    members: &BTreeMap<String, BTreeSet<TopicName>>,
    partitions: &BTreeMap<TopicName, usize>,
    give: &mut impl FnMut(&String, TopicPartition),
) {
    let mut turns = members.iter().cycle();
    for (topic, &count) in partitions {
        for partition in all_of(topic, count) {
            // One round finds whoever wants the topic, if anyone does.
            let taker =
                turns.by_ref().take(members.len()).find(|(_, topics)| topics.contains(topic));
            if let Some((taker, _)) = taker {
                give(taker, partition);
            }
        }
    }
}

fn all_of(topic: &TopicName, count: usize) -> impl Iterator<Item = TopicPartition> {
    let ids = (0..).take(count).map(PartitionId);
    ids.map(|id| TopicPartition::new(topic.clone(), id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> TopicName {
        TopicName::new(name).expect("a name")
    }

    /// Assigns as `a=x,y b=x` wants topics of `x=3 y=2` partitions, and shows it as `a: x-0 …`.
    fn assigned(assignor: Assignor, wants: &str, has: &str) -> Vec<String> {
        let pairs = |text: &str| -> Vec<(String, String)> {
            let pair = |pair: &str| pair.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
            text.split(' ').filter_map(pair).collect()
        };
        let topics = |names: String| names.split(',').map(topic).collect();
        let members = pairs(wants).into_iter().map(|(member, names)| (member, topics(names)));
        let count = |count: String| count.parse().expect("a count");
        let partitions = pairs(has).into_iter().map(|(name, n)| (topic(&name), count(n)));
        let assignment = assignor.assign(&members.collect(), &partitions.collect());
        let show = |(member, partitions): (String, BTreeSet<TopicPartition>)| {
            let partitions: Vec<String> = partitions.iter().map(ToString::to_string).collect();
            format!("{member}: {}", partitions.join(" "))
        };
        assignment.into_iter().map(show).collect()
    }

    // The examples are those in the documentation of the Java client's assignors.

    #[test]
    fn ranges_are_consecutive_topic_by_topic() {
        let both = assigned(Assignor::Range, "a=x,y b=x,y", "x=3 y=3");
        assert_eq!(both, ["a: x-0 x-1 y-0 y-1", "b: x-2 y-2"]);
        let few = assigned(Assignor::Range, "a=x b=x c=x", "x=2");
        assert_eq!(few, ["a: x-0", "b: x-1", "c: "]);
    }

    #[test]
    fn turns_even_out_over_topics() {
        let both = assigned(Assignor::RoundRobin, "a=x,y b=x,y", "x=3 y=3");
        assert_eq!(both, ["a: x-0 x-2 y-1", "b: x-1 y-0 y-2"]);
        let mixed = assigned(Assignor::RoundRobin, "a=x b=x,y c=x,y,z", "x=1 y=2 z=3");
        assert_eq!(mixed, ["a: x-0", "b: y-0", "c: y-1 z-0 z-1 z-2"]);
    }

    #[test]
    fn nobody_gets_what_nobody_wants() {
        for assignor in Assignor::ALL {
            assert_eq!(assigned(assignor, "a=x", "x=1 y=1"), ["a: x-0"], "{assignor:?}");
            assert_eq!(assigned(assignor, "a=z", "x=1"), ["a: "], "{assignor:?}");
            assert_eq!(Assignor::named(assignor.name()), Some(assignor));
        }
    }
}
