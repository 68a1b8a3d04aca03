//! The cluster as it is now: what one broker tells of it, and which brokers answer.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use logway_client::{
    BrokerAddress, Client, ClientError, ClusterDescription, ClusterMetadata, DescribedBroker,
    MissingTopic, PartitionMetadata, QuorumDescription, QuorumReplica, TopicSelection,
};
use logway_model::{BrokerId, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::cli::error::CliError;

/// A broker that does not answer for so long counts as dead. All are asked at the same time.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// A voter that is no broker counts as alive if the leader of the quorum has heard it since. Those of Apache Kafka speak
/// at least every half second.
const HEARD_WITHIN_MS: i64 = 10_000;

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum NodeState {
    /// It serves.
    Active,
    /// The controller keeps it from serving.
    Fenced,
    /// It does not answer from here.
    Unreachable,
}

impl NodeState {
    pub(super) const fn name(self) -> &'static str {
        match self {
            NodeState::Active => "active",
            NodeState::Fenced => "fenced",
            NodeState::Unreachable => "unreachable",
        }
    }
}

/// What several commands judge the cluster by.
#[derive(Debug)]
pub(super) struct ClusterState {
    pub(super) cluster: ClusterDescription,
    /// `None` from brokers that do not tell.
    pub(super) quorum: Option<QuorumDescription>,
    pub(super) metadata: Arc<ClusterMetadata>,
    /// Brokers that do not answer from here, at the addresses that they advertise.
    pub(super) silent: BTreeSet<BrokerId>,
}

/// A partition by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Partition {
    topic: String,
    partition: i32,
}

impl Partition {
    pub(super) fn new(partition: &TopicPartition) -> Partition {
        Partition { topic: partition.topic.to_string(), partition: partition.partition.0 }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl ClusterState {
    /// Asks for it.
    pub(super) async fn of(client: &Client) -> Result<ClusterState, CliError> {
        let nodes = ClusterState::without_topics(client).await?;
        let metadata = client.refresh_metadata(TopicSelection::All, MissingTopic::Refuse).await?;
        Ok(ClusterState { metadata, ..nodes })
    }

    /// Asks for what concerns nodes.
    pub(super) async fn without_topics(client: &Client) -> Result<ClusterState, CliError> {
        let cluster = client.describe_cluster().await?;
        let quorum = quorum(client).await?;
        let silent = silent(client, &cluster.brokers).await;
        Ok(ClusterState { cluster, quorum, metadata: Arc::default(), silent })
    }

    /// Every partition, by the names of topics.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (TopicPartition, &PartitionMetadata)> {
        let topics = self.metadata.topics.iter();
        let partitions =
            topics.flat_map(|(name, topic)| topic.partitions.iter().map(move |p| (name, p)));
        partitions
            .map(|(name, partition)| (TopicPartition::new(name.clone(), partition.id), partition))
    }

    /// The partitions that something is wrong with.
    pub(super) fn those(&self, is_wrong: fn(&PartitionMetadata) -> bool) -> Vec<Partition> {
        let wrong = self.partitions().filter(|(_, partition)| is_wrong(partition));
        wrong.map(|(name, _)| Partition::new(&name)).collect()
    }

    /// The brokers that the controller keeps from serving.
    pub(super) fn fenced(&self) -> Vec<BrokerId> {
        let fenced = self.cluster.brokers.iter().filter(|broker| broker.is_fenced);
        fenced.map(|broker| broker.id).collect()
    }

    /// The voters that are no brokers, and that the leader of the quorum does not hear.
    pub(super) fn unheard_voters(&self) -> Vec<BrokerId> {
        let voters = self.quorum.iter().flat_map(|quorum| &quorum.voters);
        let unheard =
            voters.filter(|voter| self.broker(voter.id).is_none() && !self.is_alive(voter));
        unheard.map(|voter| voter.id).collect()
    }

    /// Whether it is a broker that answers, and may lead.
    pub(super) fn serves(&self, id: BrokerId) -> bool {
        self.broker(id).is_some() && self.node_state(id) == NodeState::Active
    }

    pub(super) fn broker(&self, id: BrokerId) -> Option<&DescribedBroker> {
        self.cluster.brokers.iter().find(|broker| broker.id == id)
    }

    /// Whether a node of the quorum is alive: a broker if it answers, another node if the leader has heard it lately.
    pub(super) fn is_alive(&self, replica: &QuorumReplica) -> bool {
        match self.broker(replica.id) {
            Some(_) => !self.silent.contains(&replica.id),
            None => {
                let now = self.members().filter_map(|replica| replica.heard_at).max();
                let late_ms = now.zip(replica.heard_at).map(|(now, at)| now.0 - at.0);
                late_ms.is_some_and(|late_ms| late_ms <= HEARD_WITHIN_MS)
            }
        }
    }

    /// What a broker does, or a node of the quorum that is none.
    pub(super) fn node_state(&self, id: BrokerId) -> NodeState {
        let broker = self.broker(id);
        let is_alive = match self.member(id) {
            Some(member) => self.is_alive(member),
            None => !self.silent.contains(&id),
        };
        match broker {
            _ if !is_alive => NodeState::Unreachable,
            Some(broker) if broker.is_fenced => NodeState::Fenced,
            _ => NodeState::Active,
        }
    }

    /// Where other nodes reach a node of the quorum, if the broker tells.
    pub(super) fn node_address(&self, id: BrokerId) -> Option<&BrokerAddress> {
        let node = self.quorum.as_ref()?.nodes.iter().find(|node| node.id == id)?;
        node.listeners.first().map(|(_, address)| address)
    }

    /// Whether it only votes, or is about to: a node of the quorum that is no broker.
    pub(super) fn only_votes(&self, id: BrokerId) -> bool {
        self.broker(id).is_none() && self.member(id).is_some()
    }

    /// The members of the quorum, as far as the broker tells.
    pub(super) fn members(&self) -> impl Iterator<Item = &QuorumReplica> {
        self.quorum.iter().flat_map(|quorum| quorum.replicas())
    }

    /// Whether a node votes in the quorum, if the broker tells.
    pub(super) fn votes(&self, id: BrokerId) -> Option<bool> {
        Some(self.quorum.as_ref()?.voters.iter().any(|voter| voter.id == id))
    }

    pub(super) fn member(&self, id: BrokerId) -> Option<&QuorumReplica> {
        self.members().find(|member| member.id == id)
    }

    /// The leader of the quorum, if it leads anybody.
    pub(super) fn controller(&self) -> Option<BrokerId> {
        self.quorum.as_ref()?.leader.filter(|_| self.has_controller() == Some(true))
    }

    /// Whether metadata can be changed. A node that hears no majority may still name the leader that it knew.
    pub(super) fn has_controller(&self) -> Option<bool> {
        let quorum = self.quorum.as_ref()?;
        let alive: Vec<&QuorumReplica> =
            quorum.voters.iter().filter(|voter| self.is_alive(voter)).collect();
        let is_led = alive.iter().any(|voter| Some(voter.id) == quorum.leader);
        Some(is_led && alive.len() >= majority(quorum.voters.len()))
    }

    /// Whether every partition can be read and written, has all its replicas, every broker serves, and every voter is alive.
    pub(super) fn is_healthy(&self) -> bool {
        let is_whole = |partition: &PartitionMetadata| {
            !is_leaderless(partition) && !is_under_replicated(partition)
        };
        self.fenced().is_empty()
            && self.unheard_voters().is_empty()
            && self.silent.is_empty()
            && self.has_controller() != Some(false)
            && self.partitions().all(|(_, partition)| is_whole(partition))
    }
}

/// What is said of a node that the cluster does not know.
pub(super) fn unknown_node(node: BrokerId) -> CliError {
    let unknown = CliError::Input(format!("the cluster has no node {node}"));
    unknown.with_hint("see the nodes with 'logway cluster status'")
}

/// How many of the voters must agree.
pub(super) fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

pub(super) fn is_leaderless(partition: &PartitionMetadata) -> bool {
    partition.leader.is_none()
}

pub(super) fn is_under_replicated(partition: &PartitionMetadata) -> bool {
    partition.isr.len() < partition.replicas.len()
}

/// What is known of the quorum, if the broker has one and tells.
async fn quorum(client: &Client) -> Result<Option<QuorumDescription>, ClientError> {
    match client.describe_quorum().await {
        Ok(quorum) => Ok(Some(quorum)),
        Err(ClientError::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The brokers that do not answer.
async fn silent(client: &Client, brokers: &[DescribedBroker]) -> BTreeSet<BrokerId> {
    let mut asked = JoinSet::new();
    for DescribedBroker { id, address, .. } in brokers.iter().cloned() {
        let client = client.clone();
        asked.spawn(async move { (id, client.is_answered(&address, ANSWER_PATIENCE).await) });
    }
    let answers = asked.join_all().await;
    answers.into_iter().filter(|(_, is_answered)| !is_answered).map(|(id, _)| id).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use logway_client::TopicMetadata;
    use logway_model::{
        ErrorCode, LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId, TopicName,
    };

    use super::*;

    /// Brokers and voters 1, 2 and 3, led by 1. A topic `t` has a partition for each pair of replicas and those in
    /// sync. The first one in sync leads.
    pub(in crate::cli::cluster) fn state(partitions: &[(&[i32], &[i32])]) -> ClusterState {
        let ids = [1, 2, 3];
        let broker = |id| DescribedBroker {
            id: BrokerId(id),
            address: BrokerAddress::new("b", 9092),
            rack: None,
            is_fenced: false,
        };
        let cluster = ClusterDescription { id: "c".to_owned(), brokers: ids.map(broker).to_vec() };
        let quorum = QuorumDescription {
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(4),
            high_watermark: Offset(90),
            voters: ids.map(|id| replica(id, 0)).to_vec(),
            observers: Vec::new(),
            nodes: Vec::new(),
        };
        let partitions =
            partitions.iter().zip(0..).map(|((replicas, isr), id)| partition(id, replicas, isr));
        let topic = TopicMetadata {
            id: TopicId::default(),
            is_internal: false,
            error: ErrorCode::None,
            partitions: partitions.collect(),
        };
        let topics = BTreeMap::from([(TopicName::new("t").expect("a name"), topic)]);
        let metadata = Arc::new(ClusterMetadata { topics, ..ClusterMetadata::default() });
        ClusterState { cluster, quorum: Some(quorum), metadata, silent: BTreeSet::new() }
    }

    pub(in crate::cli::cluster) fn replica(id: i32, heard_at: i64) -> QuorumReplica {
        QuorumReplica {
            id: BrokerId(id),
            log_end: Some(Offset(100 - i64::from(id))),
            caught_up_at: None,
            heard_at: Some(TimestampMs(heard_at)),
        }
    }

    fn partition(id: i32, replicas: &[i32], isr: &[i32]) -> PartitionMetadata {
        let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
        PartitionMetadata {
            id: PartitionId(id),
            leader: isr.first().copied().map(BrokerId),
            leader_epoch: LeaderEpoch(0),
            replicas: brokers(replicas),
            isr: brokers(isr),
            offline: Vec::new(),
        }
    }

    fn silence(state: &mut ClusterState, ids: &[i32]) {
        state.silent = ids.iter().copied().map(BrokerId).collect();
    }

    #[test]
    fn a_leader_that_is_dead_or_has_no_majority_changes_nothing() {
        let mut state = state(&[]);
        let mut has_controller = |silent: &[i32]| {
            silence(&mut state, silent);
            state.has_controller()
        };
        assert_eq!(has_controller(&[]), Some(true));
        assert_eq!(has_controller(&[3]), Some(true));
        assert_eq!(
            has_controller(&[1]),
            Some(false),
            "the leader is dead, and nobody knows it yet"
        );
        assert_eq!(has_controller(&[2, 3]), Some(false), "the leader hears nobody");
        state.quorum = None;
        assert_eq!(state.has_controller(), None);
    }

    #[test]
    fn a_controller_that_is_no_broker_is_alive_if_the_leader_has_heard_it() {
        let mut state = state(&[]);
        let voters = vec![replica(11, 50_000), replica(12, 45_000), replica(13, 20_000)];
        let quorum = state.quorum.as_mut().expect("it has one");
        (quorum.voters, quorum.leader) = (voters.clone(), Some(BrokerId(11)));
        let alive: Vec<bool> = voters.iter().map(|voter| state.is_alive(voter)).collect();
        assert_eq!(alive, [true, true, false]);
        assert_eq!(state.has_controller(), Some(true));
    }

    #[test]
    fn a_cluster_is_healthy_if_everything_is_there() {
        let whole: &[(&[i32], &[i32])] = &[(&[1, 2], &[2, 1])];
        assert!(state(whole).is_healthy());
        assert!(!state(&[(&[1, 2], &[1])]).is_healthy());
        assert!(!state(&[(&[1, 2], &[])]).is_healthy());
        let mut with_silent = state(whole);
        silence(&mut with_silent, &[3]);
        assert!(!with_silent.is_healthy());
        let mut with_fenced = state(whole);
        with_fenced.cluster.brokers[2].is_fenced = true;
        assert!(!with_fenced.is_healthy());
        assert_eq!(with_fenced.fenced(), [BrokerId(3)]);
    }
}
