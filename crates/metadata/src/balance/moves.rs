//! The plan that nobody has asked for.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{BrokerId, PartitionId, TopicId, TopicPartition};

use super::{Goal, Holder, Occasion, Placed, plan};
use crate::image::{Duty, MetadataImage};

/// What replicas take that have everything, in bytes.
pub type Sizes = BTreeMap<(TopicId, PartitionId), u64>;

/// What is to be moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnaskedMoves {
    /// Where partitions are to go, the preferred leader first.
    pub moves: Vec<(TopicId, PartitionId, Vec<BrokerId>)>,
    /// What that copies.
    pub bytes: u64,
}

/// The moves that an occasion is for: those of `logway cluster rebalance`, or, if a broker is gone, those of `logway cluster decommission`.
///
/// Partitions without a leader stay where they are, because nobody could copy them. So do those for which there are too few brokers.
pub fn moves_for(image: &MetadataImage, occasion: Occasion, sizes: &Sizes) -> UnaskedMoves {
    let gone = match occasion {
        Occasion::Gone(id) => Some(id),
        Occasion::Joined(_) | Occasion::Full { .. } => None,
    };
    let is_meant = |id: BrokerId| image.is_active(id) && image.duty(id) != Duty::Leave;
    let serving = image.brokers().filter(|broker| is_meant(broker.id) && Some(broker.id) != gone);
    let holders: Vec<Holder> =
        serving.map(|broker| Holder { id: broker.id, rack: broker.rack.clone() }).collect();
    let can_be_moved = |replicas: &[BrokerId]| match gone {
        Some(id) if replicas.contains(&id) => holders.iter().any(|it| !replicas.contains(&it.id)),
        _ => true,
    };
    let placed: Vec<Placed> = image
        .topics()
        .flat_map(|topic| topic.numbered_partitions().map(move |it| (topic, it)))
        .filter(|(_, (_, known))| known.leader.is_some() && can_be_moved(known.target()))
        .map(|(topic, (number, known))| Placed {
            partition: TopicPartition::new(topic.name.clone(), number),
            replicas: known.target().to_vec(),
            bytes: sizes.get(&(topic.id, number)).copied().unwrap_or(0),
        })
        .collect();
    let leaving: BTreeSet<BrokerId> = gone.into_iter().collect();
    let goal = Goal { balances: gone.is_none(), leaving, ..Goal::default() };
    // There are enough for each of them.
    let mut steps = plan(&holders, &placed, &goal).unwrap_or_default();
    if let Some(id) = gone {
        steps.retain(|step| step.from.contains(&id));
    }
    let bytes = steps.iter().map(|step| step.bytes).sum();
    let of = |partition: &TopicPartition| image.topic(partition.topic.as_str()).map(|it| it.id);
    let moves = steps.into_iter().filter_map(|step| {
        let (topic_id, partition) = (of(&step.partition)?, step.partition.partition);
        Some((topic_id, partition, step.to))
    });
    UnaskedMoves { moves: moves.collect(), bytes }
}
