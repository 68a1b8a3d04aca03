//! Partitions are moved to other nodes and back, whatever else befalls a world.

use std::sync::atomic::Ordering;
use std::time::Duration;

use logway_log::fs::sim::Rng;
use logway_metadata::controller::{
    AlterPartitionReassignments, ElectLeaders, Election, PartitionMove,
};
use logway_model::{BrokerId, PartitionId};
use tokio::time::{sleep, timeout};

use super::oracle::Place;
use super::producer::Clients;

/// Nobody waits longer for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Moves and cancels moves of any of the partitions, one after the other.
pub(super) struct Mover {
    pub(super) places: Vec<Place>,
    pub(super) nodes: usize,
    pub(super) random: Rng,
    pub(super) clients: Clients,
}

impl Mover {
    pub(super) async fn run(mut self) {
        loop {
            sleep(Duration::from_millis(50 + self.random.below(700) as u64)).await;
            if self.clients.is_over.load(Ordering::SeqCst) {
                return;
            }
            self.ask_once().await;
        }
    }

    /// Whether it was done, nobody needs to know: the end of the world says what there is then.
    async fn ask_once(&mut self) {
        let place = self.places[self.random.below(self.places.len())];
        let is_cancelled = self.random.below(4) == 0;
        let replicas = if is_cancelled { None } else { Some(self.any_nodes()) };
        let serving = self.clients.serving.all();
        if serving.is_empty() {
            return;
        }
        let node = &serving[self.random.below(serving.len())].node;
        let Some(topic) = node.image().topic(place.topic).map(|topic| topic.id) else { return };
        let partition = PartitionId(place.partition);
        let moves = vec![PartitionMove { topic_id: topic, partition, replicas }];
        let command = AlterPartitionReassignments { moves, may_change_count: true };
        match timeout(ANSWER_MAX, node.quorum.submit(command)).await {
            Ok(Ok(committed)) if committed.reply.iter().all(Result::is_ok) => {
                self.clients.oracle.count(|report| report.moves += 1);
            }
            outcome => tracing::debug!(?place, ?outcome, "a move is refused, or not answered"),
        }
    }

    /// Two or three nodes in any order: one alone may lose its disk.
    fn any_nodes(&mut self) -> Vec<BrokerId> {
        let mut nodes: Vec<i32> = (1..=i32::try_from(self.nodes).unwrap_or(i32::MAX)).collect();
        let count = 2 + self.random.below(2);
        let take = |_| BrokerId(nodes.swap_remove(self.random.below(nodes.len())));
        (0..count).map(take).collect()
    }
}

/// Has a node lead all that it has: it becomes the preferred leader, and preferred leaders are elected. What does not work
/// is left.
pub(super) async fn favour(places: Vec<Place>, node: BrokerId, clients: Clients) {
    let Some(asked) = clients.serving.all().pop() else { return };
    let (image, mut moves, mut partitions) = (asked.node.image(), Vec::new(), Vec::new());
    for place in places {
        let (Some(topic), partition) = (image.topic(place.topic), PartitionId(place.partition))
        else {
            continue;
        };
        let known = topic.partition(partition).filter(|known| known.reassignment.is_none());
        let Some(known) = known.filter(|known| known.replicas.contains(&node)) else { continue };
        let mut replicas = known.replicas.clone();
        replicas.sort_by_key(|replica| *replica != node);
        moves.push(PartitionMove { topic_id: topic.id, partition, replicas: Some(replicas) });
        partitions.push((topic.id, partition));
    }
    let quorum = &asked.node.quorum;
    let work = async {
        quorum.submit(AlterPartitionReassignments { moves, may_change_count: true }).await?;
        quorum.submit(ElectLeaders { election: Election::Preferred, partitions }).await
    };
    match timeout(ANSWER_MAX, work).await {
        Ok(Ok(_)) => clients.oracle.count(|report| report.favoured += 1),
        outcome => tracing::debug!(%node, ?outcome, "a node does not lead what it was to lead"),
    }
}
