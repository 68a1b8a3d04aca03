//! Worlds that are made for one rule each, which those of seeds hardly ever put to the test.
//!
//! | module | the rule |
//! |---|---|
//! | `lives` | what a leader remembers of a replica's last life is nothing |
//! | `coordinators` | a coordinator that was replaced vouches for nothing that has ended |
//! | `markers` | a marker is written when other replicas have it |

mod coordinators;
mod lives;
mod markers;

use std::time::Duration;

use logway_metadata::controller::NewTopic;
use logway_metadata::image::PartitionImage;
use logway_model::{BrokerId, Offset, PartitionId};

use super::moves::favour;
use super::oracle::Place;
use super::transactions::topics::{PARTITIONS, TOPIC_PLAN, coordinator_topics};
use super::world::{World, node_number};
use crate::violation::Violation;

/// How often a world tries to come to what it is made for: disks may keep what was not synced, and the machine may be busy.
const TRIES: usize = 8;

/// Each step is done within this time.
const STEP_MAX: Duration = Duration::from_secs(20);

impl World {
    /// Has a node lead a partition.
    async fn have_lead(&self, leader: usize, place: Place) -> Result<(), Violation> {
        favour(vec![place], node_number(leader), self.clients.clone()).await;
        self.until("the leader leads", STEP_MAX, |world| {
            match world.partition(leader, place).and_then(|it| it.leader) {
                Some(known) if known == node_number(leader) => Ok(()),
                known => Err(format!("{known:?} does")),
            }
        })
        .await
    }

    /// Makes what transactions need: the topics of coordinators on some nodes, and what is written to on others.
    async fn create_transactional(
        &mut self,
        coordinators: [usize; 3],
        written: [usize; 3],
    ) -> Result<(), Violation> {
        let served = self.first_node()?;
        let placed = |topic: NewTopic, nodes: [usize; 3]| {
            let replicas: Vec<BrokerId> = nodes.map(node_number).to_vec();
            let assignments = (0..PARTITIONS).map(|number| (number, replicas.clone())).collect();
            NewTopic { num_partitions: -1, replication_factor: -1, assignments, ..topic }
        };
        let of_coordinators = coordinator_topics(&served.node.settings);
        let of_coordinators = of_coordinators.map(|topic| placed(topic, coordinators));
        let written = placed(self.new_topic(&TOPIC_PLAN), written);
        self.submit_topics(of_coordinators.into_iter().chain([written]).collect()).await?;
        self.plan.has_transactions = true;
        self.until("all are in sync", STEP_MAX, |world| world.are_all_in_sync()).await
    }

    fn controller(&self) -> Option<usize> {
        let serving = self.clients.serving.all();
        let known = serving.iter().find_map(|served| served.node.quorum.status().leader)?;
        usize::try_from(known.0).ok()
    }

    /// A partition, as a node knows it.
    fn partition(&self, number: usize, place: Place) -> Option<PartitionImage> {
        let image = self.clients.serving.get(number)?.node.image();
        image.topic(place.topic)?.partition(PartitionId(place.partition)).cloned()
    }

    fn end_of(&self, number: usize, place: Place) -> Option<Offset> {
        let topics = self.clients.serving.get(number)?.node.topics();
        let replica = topics.by_name(place.topic).ok()?.replica(PartitionId(place.partition))?;
        Some(replica.log().log_end_offset())
    }
}
