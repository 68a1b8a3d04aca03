//! The cluster as one client is shown it.

use logway_metadata::record::Endpoint;
use logway_metadata::{PartitionImage, TopicImage};
use logway_model::{BrokerId, ErrorCode, PartitionId, TopicId, TopicName};

pub(super) use logway_node::topics::is_internal;

use crate::request::{KnownTopics, RequestContext, ServedTopics, TopicGrant};

/// One state of the cluster, in the words that a client can use: brokers by addresses that it can
/// reach, and partitions with leaders that answer it.
pub(super) struct ClusterView {
    known: KnownTopics,
    topics: ServedTopics,
    own_id: BrokerId,
    own_address: Endpoint,
}

/// Where a client reaches a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokerView<'a> {
    pub(super) id: BrokerId,
    pub(super) address: &'a Endpoint,
    pub(super) rack: Option<&'a str>,
}

/// A partition, and what of it can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartitionView<'a> {
    pub(super) id: PartitionId,
    pub(super) image: &'a PartitionImage,
    /// The leader, if it serves the partition.
    pub(super) leader: Option<BrokerId>,
    pub(super) offline_replicas: Vec<BrokerId>,
}

impl ClusterView {
    /// The state as it is now, for the client of a request.
    pub(super) fn of(context: &RequestContext) -> ClusterView {
        ClusterView {
            // In this order: a topic that the table has and the image has not was just deleted, but
            // one that the image has and the table has not is on its way, and shown without leaders.
            topics: context.served_topics().kept(),
            known: context.known_topics(),
            own_id: context.settings().node_id,
            own_address: context.advertised(),
        }
    }

    /// The brokers that the client can reach.
    pub(super) fn brokers(&self) -> impl Iterator<Item = BrokerView<'_>> {
        self.known.brokers().filter_map(|broker| {
            let address = self.address_of(broker.id)?;
            Some(BrokerView { id: broker.id, address, rack: broker.rack.as_deref() })
        })
    }

    /// The broker to send admin requests to: each passes them to the controller, so this one.
    pub(super) fn controller_id(&self) -> BrokerId {
        self.own_id
    }

    /// Whether there is such a broker, whether it can be reached or not.
    pub(super) fn has_broker(&self, id: BrokerId) -> bool {
        self.known.has_broker(id)
    }

    /// The topic of a name. See [`KnownTopics::by_name`].
    pub(super) fn by_name(
        &self,
        context: &RequestContext,
        name: &str,
        grant: impl Into<TopicGrant>,
    ) -> Result<&TopicImage, ErrorCode> {
        self.known.by_name(context, name, grant).map(|topic| &**topic)
    }

    /// The topic of an id. See [`KnownTopics::by_id`].
    pub(super) fn by_id(
        &self,
        context: &RequestContext,
        id: TopicId,
        grant: impl Into<TopicGrant>,
    ) -> Result<&TopicImage, ErrorCode> {
        self.known.by_id(context, id, grant).map(|topic| &**topic)
    }

    /// The topics from a name on that the requester gets.
    pub(super) fn topics_from<'a>(
        &'a self,
        context: &'a RequestContext,
        first: &'a str,
        grant: impl Into<TopicGrant>,
    ) -> impl Iterator<Item = &'a TopicImage> + 'a {
        self.known.granted_from(context, first, grant)
    }

    /// A topic as clients may know it: with the partitions whose logs have been made, and not at
    /// all before that. A client that sees a partition may write to it.
    pub(super) fn served(&self, topic: &TopicImage) -> Option<&TopicImage> {
        self.topics.serves(topic.id).map(|topic| &*topic.image)
    }

    /// The partitions of a topic of this view's image, from a number on.
    pub(super) fn partitions_from<'a>(
        &'a self,
        topic: &'a TopicImage,
        first: usize,
    ) -> impl Iterator<Item = PartitionView<'a>> {
        let served = self.topics.serves(topic.id);
        topic.numbered_partitions().skip(first).map(move |(id, image)| {
            let is_open_here = served.is_some_and(|topic| topic.partition(id).is_ok());
            let serves = |broker: &BrokerId| match *broker == self.own_id {
                true => is_open_here,
                false => self.address_of(*broker).is_some(),
            };
            PartitionView {
                id,
                image,
                leader: image.leader.filter(serves),
                offline_replicas: image.replicas.iter().copied().filter(|id| !serves(id)).collect(),
            }
        })
    }

    /// One partition of a topic, if it exists.
    pub(super) fn partition<'a>(
        &'a self,
        topic: &'a TopicImage,
        id: PartitionId,
    ) -> Option<PartitionView<'a>> {
        let number = usize::try_from(id.0).ok()?;
        self.partitions_from(topic, number).next()
    }

    fn address_of(&self, broker: BrokerId) -> Option<&Endpoint> {
        match broker == self.own_id {
            true => Some(&self.own_address),
            false => self.known.endpoint(broker),
        }
    }
}

/// Broker numbers as the protocol has them.
pub(super) fn numbers(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

/// What the protocol says where there is no leader.
const NO_LEADER: i32 = -1;

/// A leader as the protocol has it.
pub(super) fn leader_number(leader: Option<BrokerId>) -> i32 {
    leader.map_or(NO_LEADER, |leader| leader.0)
}

/// Why there is no topic of a name.
pub(super) fn absence(name: &str) -> ErrorCode {
    match TopicName::new(name) {
        Ok(_) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use logway_metadata::MetadataImage;
    use logway_metadata::record::{BrokerRecord, MetadataRecord, PartitionRecord, TopicRecord};
    use logway_model::{LeaderEpoch, TopicId, Uuid};

    use super::*;

    const OWN: BrokerId = BrokerId(1);
    const OTHER: BrokerId = BrokerId(2);

    fn endpoint(host: &str) -> Endpoint {
        Endpoint { host: host.to_owned(), port: 9092 }
    }

    fn partition(partition: i32, leader: BrokerId) -> MetadataRecord {
        MetadataRecord::Partition(PartitionRecord {
            topic_id: TopicId(Uuid([7; 16])),
            partition: PartitionId(partition),
            replicas: vec![OWN, OTHER],
            directories: Vec::new(),
            isr: vec![OWN, OTHER],
            leader: Some(leader),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
        })
    }

    /// Two brokers, and a topic with a partition led by each; this broker serves neither.
    fn view(other: Option<Endpoint>) -> (ClusterView, Arc<TopicImage>) {
        let broker = |id, endpoint| {
            MetadataRecord::Broker(BrokerRecord { id, endpoint, rack: None, log_dirs: Vec::new() })
        };
        let name = TopicName::new("a").expect("a legal name");
        let topic = TopicRecord { name, id: TopicId(Uuid([7; 16])) };
        let records = [
            broker(OWN, None),
            broker(OTHER, other),
            MetadataRecord::Topic(topic),
            partition(0, OWN),
            partition(1, OTHER),
        ];
        let image = Arc::new(MetadataImage::default().apply(&records).expect("the records fit"));
        let topic = Arc::clone(image.topic("a").expect("it was created"));
        let view = ClusterView {
            known: image.into(),
            topics: ServedTopics::none(),
            own_id: OWN,
            own_address: endpoint("127.0.0.1"),
        };
        (view, topic)
    }

    #[test]
    fn a_broker_is_shown_by_an_address_that_the_client_can_use() {
        let shown = |view: &ClusterView| {
            view.brokers().map(|broker| (broker.id, broker.address.clone())).collect::<Vec<_>>()
        };
        let own = (OWN, endpoint("127.0.0.1"));
        assert_eq!(shown(&view(None).0), std::slice::from_ref(&own));
        assert_eq!(shown(&view(Some(endpoint("b"))).0), [own, (OTHER, endpoint("b"))]);
    }

    #[test]
    fn a_partition_without_an_open_log_has_no_leader_here() {
        let (view, topic) = view(Some(endpoint("b")));
        let partitions: Vec<PartitionView<'_>> = view.partitions_from(&topic, 0).collect();
        assert_eq!(partitions[0].leader, None);
        assert_eq!(partitions[0].offline_replicas, [OWN]);
        assert_eq!(partitions[1].leader, Some(OTHER));
        let from_one: Vec<PartitionView<'_>> = view.partitions_from(&topic, 1).collect();
        assert_eq!(from_one, partitions[1..]);
    }

    #[test]
    fn a_leader_that_cannot_be_reached_is_none() {
        let (view, topic) = view(None);
        let second = view.partitions_from(&topic, 1).next().expect("there are two");
        assert_eq!(second.leader, None);
        assert_eq!(second.offline_replicas, [OWN, OTHER]);
    }
}
