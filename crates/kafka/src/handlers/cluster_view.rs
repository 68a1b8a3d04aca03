//! The cluster as one client is shown it.

use logway_metadata::record::{BrokerRecord, Endpoint};
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
    /// The client is told the addresses of this listener.
    listener: String,
}

/// Where a client reaches a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokerView<'a> {
    pub(super) id: BrokerId,
    pub(super) address: &'a Endpoint,
    pub(super) rack: Option<&'a str>,
    /// Whether the controller keeps it from serving.
    pub(super) is_fenced: bool,
}

/// A partition, and what of it can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartitionView<'a> {
    pub(super) id: PartitionId,
    pub(super) image: &'a PartitionImage,
    /// The leader, if it can be reached; this node only if it serves the partition.
    pub(super) leader: Option<BrokerId>,
    /// The replicas on brokers that cannot be reached, or in log directories that are lost.
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
            listener: context.listener_name().to_owned(),
        }
    }

    /// The brokers that the client can reach. As in Kafka, one that is about to stop is among them: it serves
    /// until others have taken over.
    pub(super) fn brokers(&self) -> impl Iterator<Item = BrokerView<'_>> {
        self.all_brokers().filter(|broker| !broker.is_fenced)
    }

    /// The brokers that have an address, also those that are fenced.
    pub(super) fn all_brokers(&self) -> impl Iterator<Item = BrokerView<'_>> {
        self.known.brokers().filter_map(|broker| self.view_of(broker))
    }

    /// A broker, if the client can reach it.
    pub(super) fn broker(&self, id: BrokerId) -> Option<BrokerView<'_>> {
        let broker = self.known.broker(id).and_then(|broker| self.view_of(broker));
        broker.filter(|broker| !broker.is_fenced)
    }

    fn view_of<'a>(&'a self, broker: &'a BrokerRecord) -> Option<BrokerView<'a>> {
        let address = match broker.id == self.own_id {
            true => &self.own_address,
            false => self.known.endpoint(broker.id, &self.listener)?,
        };
        let is_fenced = self.known.is_fenced(broker.id);
        Some(BrokerView { id: broker.id, address, rack: broker.rack.as_deref(), is_fenced })
    }

    /// The broker to send admin requests to: each passes them to the controller, so this one. A fenced one names
    /// another, since clients look for the controller among the brokers that they are shown.
    pub(super) fn controller_id(&self) -> Option<BrokerId> {
        let own = self.broker(self.own_id);
        own.or_else(|| self.brokers().next()).map(|broker| broker.id)
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
            let is_led_here = served.is_some_and(|topic| topic.partition(id).is_ok());
            let is_open_here = served.is_some_and(|topic| topic.replica(id).is_some());
            let leads = |broker: &BrokerId| match *broker == self.own_id {
                true => is_led_here,
                false => self.broker(*broker).is_some(),
            };
            let is_online = |broker: BrokerId| match broker == self.own_id {
                // A replica that should lead and does not has lost its log.
                true if image.leader == Some(broker) => is_led_here,
                true => is_open_here && self.broker(broker).is_some(),
                false => {
                    self.broker(broker).is_some()
                        && self.known.has_directory(broker, image.directory_of(broker))
                }
            };
            let replicas = image.replicas.iter().copied();
            PartitionView {
                id,
                image,
                leader: image.leader.filter(leads),
                offline_replicas: replicas.filter(|id| !is_online(*id)).collect(),
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
    use logway_metadata::record::{
        BrokerEpoch, BrokerSessionRecord, BrokerState, MetadataRecord, PartitionRecord, TopicRecord,
    };
    use logway_model::{DirectoryId, LeaderEpoch, Uuid};

    use super::*;

    const OWN: BrokerId = BrokerId(1);
    const OTHER: BrokerId = BrokerId(2);
    const DIRECTORY: DirectoryId = DirectoryId(Uuid([3; 16]));

    fn endpoint(host: &str) -> Endpoint {
        Endpoint { host: host.to_owned(), port: 9092 }
    }

    fn broker(id: BrokerId, endpoint: Option<Endpoint>) -> MetadataRecord {
        let log_dirs = vec![DIRECTORY];
        MetadataRecord::Broker(BrokerRecord { id, endpoint, rack: None, log_dirs })
    }

    fn session(id: BrokerId, state: BrokerState) -> MetadataRecord {
        let (incarnation, epoch) = (Uuid([9; 16]), BrokerEpoch(0));
        let listeners = Vec::new();
        let session = BrokerSessionRecord { id, incarnation, epoch, state, listeners };
        MetadataRecord::BrokerSession(session)
    }

    fn partition(partition: i32, leader: Option<BrokerId>) -> MetadataRecord {
        MetadataRecord::Partition(PartitionRecord {
            topic_id: TopicId(Uuid([7; 16])),
            partition: PartitionId(partition),
            replicas: vec![OWN, OTHER],
            directories: vec![DIRECTORY; 2],
            isr: vec![OWN, OTHER],
            eligible: Vec::new(),
            reassignment: None,
            leader,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
        })
    }

    /// Two brokers, and a topic with a partition led by each; this broker serves neither.
    fn view(other: Option<Endpoint>) -> (ClusterView, Arc<TopicImage>) {
        view_after(other, &[])
    }

    /// The same after more records.
    fn view_after(
        other: Option<Endpoint>,
        more: &[MetadataRecord],
    ) -> (ClusterView, Arc<TopicImage>) {
        let name = TopicName::new("a").expect("a legal name");
        let topic = TopicRecord { name, id: TopicId(Uuid([7; 16])) };
        let records = [
            broker(OWN, None),
            broker(OTHER, other),
            MetadataRecord::Topic(topic),
            partition(0, Some(OWN)),
            partition(1, Some(OTHER)),
        ];
        let image = MetadataImage::default().apply(&records).expect("the records fit");
        let image = Arc::new(image.apply(more).expect("the records fit"));
        let topic = Arc::clone(image.topic("a").expect("it was created"));
        let view = ClusterView {
            known: image.into(),
            topics: ServedTopics::none(),
            own_id: OWN,
            own_address: endpoint("127.0.0.1"),
            listener: "PLAINTEXT".to_owned(),
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
    fn a_fenced_broker_is_shown_only_to_who_asks_for_it() {
        let shown = |state| {
            let (view, _) = view_after(Some(endpoint("b")), &[session(OTHER, state)]);
            let ids: Vec<BrokerId> = view.brokers().map(|broker| broker.id).collect();
            let all = view.all_brokers().map(|broker| (broker.id, broker.is_fenced));
            (ids, all.collect::<Vec<_>>())
        };
        let all_serve = vec![(OWN, false), (OTHER, false)];
        assert_eq!(shown(BrokerState::Active), (vec![OWN, OTHER], all_serve.clone()));
        assert_eq!(shown(BrokerState::ShuttingDown), (vec![OWN, OTHER], all_serve));
        let (shown, all) = shown(BrokerState::Fenced);
        assert_eq!((shown, all), (vec![OWN], vec![(OWN, false), (OTHER, true)]));
    }

    #[test]
    fn the_controller_is_a_broker_that_is_shown() {
        let controller =
            |more: &[MetadataRecord]| view_after(Some(endpoint("b")), more).0.controller_id();
        let fenced = |id| session(id, BrokerState::Fenced);
        assert_eq!(controller(&[]), Some(OWN));
        assert_eq!(controller(&[fenced(OTHER)]), Some(OWN));
        assert_eq!(controller(&[fenced(OWN)]), Some(OTHER));
        assert_eq!(controller(&[fenced(OWN), fenced(OTHER)]), None);
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

    /// The leader of the partition that the other broker leads, and the replicas that are offline.
    fn led_by_other(
        address: Option<Endpoint>,
        more: &[MetadataRecord],
    ) -> (Option<BrokerId>, Vec<BrokerId>) {
        let (view, topic) = view_after(address, more);
        let second = view.partition(&topic, PartitionId(1)).expect("there are two");
        (second.leader, second.offline_replicas)
    }

    #[test]
    fn a_leader_that_cannot_be_reached_is_none() {
        let none = (None, vec![OWN, OTHER]);
        assert_eq!(led_by_other(None, &[]), none);
        let fenced = session(OTHER, BrokerState::Fenced);
        assert_eq!(led_by_other(Some(endpoint("b")), &[fenced]), none);
        let leaderless = led_by_other(Some(endpoint("b")), &[partition(1, None)]);
        assert_eq!(leaderless, (None, vec![OWN]));
    }

    #[test]
    fn a_replica_in_a_directory_that_its_broker_has_lost_is_offline() {
        let without = BrokerRecord {
            id: OTHER,
            endpoint: Some(endpoint("b")),
            rack: None,
            log_dirs: vec![DirectoryId(Uuid([4; 16]))],
        };
        let lost = led_by_other(Some(endpoint("b")), &[MetadataRecord::Broker(without)]);
        assert_eq!(lost, (Some(OTHER), vec![OWN, OTHER]));
    }
}
