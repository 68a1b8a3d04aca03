//! Who shall have what: pure functions of who reads what, and who had what.

mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logway_model::{PartitionId, TopicId};

use crate::ids::{InstanceId, MemberId};

use super::member::Partitions;

/// The assignors that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assignor {
    /// Everybody gets as many partitions as everybody else, and keeps what it had as far as possible.
    #[default]
    Uniform,
    /// Of each topic, everybody gets a range of partitions. Who reads several topics gets the same numbers of each.
    Range,
}

/// Who wants to read.
#[derive(Debug)]
pub(super) struct Readers {
    /// By their ids.
    pub(super) readers: Vec<Reader>,
    /// How many partitions each topic has. A topic that is not here does not exist.
    pub(super) partition_counts: BTreeMap<TopicId, i32>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) id: MemberId,
    pub(super) instance_id: Option<InstanceId>,
    /// What it reads; members that read the same share it.
    pub(super) topics: Arc<BTreeSet<TopicId>>,
    /// What it was to have before.
    pub(super) had: Arc<Partitions>,
}

/// What each member shall have.
pub(super) type Assigned = BTreeMap<MemberId, Partitions>;

impl Assignor {
    /// All of them; the first is the default.
    pub const ALL: [Assignor; 2] = [Assignor::Uniform, Assignor::Range];

    /// Its name in requests and settings.
    pub fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    /// The assignor of a name.
    pub fn named(name: &str) -> Option<Assignor> {
        Assignor::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Assigns every partition of every topic that somebody reads to one of those who do.
    pub(super) fn assign(self, readers: Readers) -> Assigned {
        match self {
            Assignor::Uniform => uniform::assign(&readers),
            Assignor::Range => range::assign(&readers),
        }
    }
}

impl Readers {
    /// Whether all read the same.
    fn read_alike(&self) -> bool {
        self.readers.windows(2).all(|pair| Arc::ptr_eq(&pair[0].topics, &pair[1].topics))
    }

    /// The partitions of a topic.
    fn partitions_of(&self, topic: TopicId) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partition_counts.get(&topic).copied().unwrap_or(0)).map(PartitionId)
    }

    fn exists(&self, topic: TopicId, partition: PartitionId) -> bool {
        self.partition_counts.get(&topic).is_some_and(|count| partition.0 < *count)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use logway_model::Uuid;

    use super::*;

    /// One line a member.
    pub(super) type Shown = Vec<String>;

    fn topic(number: u8) -> TopicId {
        TopicId(Uuid([number; 16]))
    }

    pub(super) fn reader(id: &str, topics: &[u8], had: &[(u8, i32)]) -> Reader {
        let mut partitions = Partitions::new();
        for (number, partition) in had {
            partitions.entry(topic(*number)).or_default().insert(PartitionId(*partition));
        }
        let topics = topics.iter().map(|number| topic(*number)).collect();
        Reader {
            id: id.into(),
            instance_id: None,
            topics: Arc::new(topics),
            had: Arc::new(partitions),
        }
    }

    /// Members that read the same share it, as in a group.
    pub(super) fn readers(mut readers: Vec<Reader>, topics: &[(u8, i32)]) -> Readers {
        for place in 1..readers.len() {
            let same = readers[..place].iter().find(|it| it.topics == readers[place].topics);
            if let Some(topics) = same.map(|same| Arc::clone(&same.topics)) {
                readers[place].topics = topics;
            }
        }
        let partition_counts = topics.iter().map(|(number, count)| (topic(*number), *count));
        Readers { readers, partition_counts: partition_counts.collect() }
    }

    pub(super) fn shown(assigned: &Assigned) -> Shown {
        let line = |(id, partitions): (&MemberId, &Partitions)| {
            let mut line = format!("{id}:");
            for (topic, numbers) in partitions {
                numbers.iter().for_each(|number| line += &format!(" {}-{number}", topic.0.0[0]));
            }
            line
        };
        assigned.iter().map(line).collect()
    }
}
