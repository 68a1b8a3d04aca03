//! Which process answers queries for which partitions (KIP-67).

use std::collections::BTreeSet;

use logway_model::PartitionId;
use logway_wire::WireString;
use logway_wire::messages::streams_group_heartbeat_response::{
    Endpoint as WireEndpoint, EndpointToPartitions, TopicPartition,
};

use crate::cluster_view::ClusterView;

use super::group::StreamsGroup;
use super::topology::sources;

/// Partitions that a member is told of at most. Of more it is told nothing: a query then asks every process.
const TOLD_MAX: usize = 100_000;

impl StreamsGroup {
    /// The processes that answer queries, with the partitions whose state they have; `None` if those are too many to tell.
    pub(super) fn endpoints(&self, view: &dyn ClusterView) -> Option<Vec<EndpointToPartitions>> {
        let mut told = Vec::new();
        let mut left = TOLD_MAX;
        for (_, member) in self.members() {
            let Some(endpoint) = &member.about.endpoint else { continue };
            let assigned = &member.current.assigned;
            let active =
                assigned.active.iter().map(|(id, of)| (&**id, of.keys().copied().collect()));
            let standby = assigned.standby.iter().map(|(id, of)| (&**id, of.clone()));
            told.push(EndpointToPartitions {
                user_endpoint: WireEndpoint {
                    host: WireString::copy_of(&endpoint.host),
                    port: endpoint.port,
                    ..Default::default()
                },
                active_partitions: self.partitions(active, view, &mut left)?,
                standby_partitions: self.partitions(standby, view, &mut left)?,
                ..Default::default()
            });
        }
        Some(told)
    }

    /// The partitions of the sources of tasks.
    fn partitions<'a>(
        &self,
        tasks: impl Iterator<Item = (&'a str, BTreeSet<PartitionId>)>,
        view: &dyn ClusterView,
        left: &mut usize,
    ) -> Option<Vec<TopicPartition>> {
        let mut told = Vec::new();
        for (id, numbers) in tasks {
            let Some(subtopology) = self.topology().and_then(|it| it.subtopology(id)) else {
                continue;
            };
            for topic in sources(subtopology) {
                let count = view.topic(topic).map_or(0, |topic| topic.partition_count);
                *left = left.checked_sub(1 + numbers.len())?;
                told.push(TopicPartition {
                    topic: topic.clone(),
                    partitions: numbers
                        .range(..PartitionId(count))
                        .map(|number| number.0)
                        .collect(),
                    ..Default::default()
                });
            }
        }
        Some(told)
    }
}
