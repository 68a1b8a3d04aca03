//! Which process answers queries for which partitions (KIP-67).

use std::collections::{BTreeMap, BTreeSet};

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

/// Tasks by the ids of their subtopologies.
type TasksOf<'a> = BTreeMap<&'a str, BTreeSet<PartitionId>>;

/// What one process has the state of.
#[derive(Default)]
struct Served<'a> {
    active: TasksOf<'a>,
    standby: TasksOf<'a>,
}

impl StreamsGroup {
    /// The processes that answer queries, with the partitions whose state they have; `None` if those are too many to tell.
    pub(super) fn endpoints(&self, view: &dyn ClusterView) -> Option<Vec<EndpointToPartitions>> {
        if self.endpoints_bytes() > TOLD_BYTES_MAX {
            return None;
        }
        // Members of one process have one endpoint, and clients take the last of several entries for all there is.
        let mut by_endpoint: BTreeMap<(&str, u16), Served> = BTreeMap::new();
        for (_, member) in self.members() {
            let Some(endpoint) = &member.about.endpoint else { continue };
            let served = by_endpoint.entry((&endpoint.host, endpoint.port)).or_default();
            let assigned = &member.current.assigned;
            for (id, of) in &assigned.active {
                served.active.entry(id).or_default().extend(of.keys());
            }
            for (id, of) in &assigned.standby {
                served.standby.entry(id).or_default().extend(of);
            }
        }
        let endpoints =
            by_endpoint.into_iter().map(|((host, port), served)| EndpointToPartitions {
                user_endpoint: WireEndpoint {
                    host: WireString::copy_of(host),
                    port,
                    ..Default::default()
                },
                active_partitions: self.partitions(&served.active, view),
                standby_partitions: self.partitions(&served.standby, view),
                ..Default::default()
            });
        Some(endpoints.collect())
    }

    /// The partitions of the sources of tasks.
    fn partitions(&self, tasks: &TasksOf<'_>, view: &dyn ClusterView) -> Vec<TopicPartition> {
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
