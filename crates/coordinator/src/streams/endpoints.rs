//! Which process answers queries for which partitions (KIP-67).

use std::collections::BTreeSet;

use logway_model::PartitionId;
use logway_wire::WireString;
use logway_wire::messages::streams_group_heartbeat_response::{
    Endpoint as WireEndpoint, EndpointToPartitions, TopicPartition,
};

use crate::cluster_view::ClusterView;
use crate::request::COPIES;

use super::group::StreamsGroup;
use super::member::Member;
use super::topology::{Topology, sources};

/// What a member is told of processes at most, encoded form included. Of more it is told nothing: a query then asks every
/// process.
const TOLD_BYTES_MAX: usize = 1 << 20;

/// What one process takes beside the name of its host, and one topic of it beside its name and partitions.
pub(crate) const ENDPOINT_BYTES: usize = 160;
pub(crate) const TOPIC_BYTES: usize = 112;

/// What it takes to tell of a member's process; nothing if that answers no queries.
pub(super) fn told_bytes(topology: Option<&Topology>, member: &Member) -> usize {
    let Some(endpoint) = &member.about.endpoint else { return 0 };
    let assigned = &member.current.assigned;
    let active = assigned.active.iter().map(|(id, of)| (id, of.len()));
    let standby = assigned.standby.iter().map(|(id, of)| (id, of.len()));
    let topics = active.chain(standby).map(|(id, partitions)| {
        let sources = topology.map(|topology| topology.sources_size(id)).unwrap_or_default();
        let topic_bytes = TOPIC_BYTES + COPIES * partitions * size_of::<i32>();
        sources.count * topic_bytes + COPIES * sources.bytes
    });
    ENDPOINT_BYTES + COPIES * endpoint.host.len() + topics.sum::<usize>()
}

impl StreamsGroup {
    /// The processes that answer queries, with the partitions whose state they have; `None` if those are too many to tell.
    pub(super) fn endpoints(&self, view: &dyn ClusterView) -> Option<Vec<EndpointToPartitions>> {
        if self.endpoints_bytes() > TOLD_BYTES_MAX {
            return None;
        }
        let endpoints = self.members().filter_map(|(_, member)| {
            let endpoint = member.about.endpoint.as_ref()?;
            let assigned = &member.current.assigned;
            let active =
                assigned.active.iter().map(|(id, of)| (&**id, of.keys().copied().collect()));
            let standby = assigned.standby.iter().map(|(id, of)| (&**id, of.clone()));
            Some(EndpointToPartitions {
                user_endpoint: WireEndpoint {
                    host: WireString::copy_of(&endpoint.host),
                    port: endpoint.port,
                    ..Default::default()
                },
                active_partitions: self.partitions(active, view),
                standby_partitions: self.partitions(standby, view),
                ..Default::default()
            })
        });
        Some(endpoints.collect())
    }

    /// The partitions of the sources of tasks.
    fn partitions<'a>(
        &self,
        tasks: impl Iterator<Item = (&'a str, BTreeSet<PartitionId>)>,
        view: &dyn ClusterView,
    ) -> Vec<TopicPartition> {
        let mut told = Vec::new();
        for (id, numbers) in tasks {
            let Some(subtopology) = self.topology().and_then(|it| it.subtopology(id)) else {
                continue;
            };
            for topic in sources(subtopology) {
                let count = view.topic(topic).map_or(0, |topic| topic.partition_count);
                let numbers = numbers.range(..PartitionId(count)).map(|number| number.0);
                told.push(TopicPartition {
                    topic: topic.clone(),
                    partitions: numbers.collect(),
                    ..Default::default()
                });
            }
        }
        told
    }
}
