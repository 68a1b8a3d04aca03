//! Reading from another replica than the leader, where the reader allows that.
//!
//! Clients that know one address cannot go to a replica themselves, so the node that they ask finds one: its own, if that serves,
//! or that of another node. What a follower cannot tell, its leader does: whether an offset exists.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use logway_model::{BrokerId, ErrorCode};
use logway_peers::{Kind, Lane};
use tokio::time::Instant;

use super::{ANSWER_MAX, Partition, PartitionRead, PartitionWish, failure};
use crate::Node;
use crate::cluster::node_address;
use crate::failure::Failure;
use crate::replica::{ReadFrom, Replica};
use crate::streams::message::{Request, Task, decode_answer};

/// From which replica a partition is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadSource {
    /// The leader.
    Leader,
    /// A follower; the leader's disk and network are left alone.
    Follower {
        /// What it shows may be so old.
        staleness_max: Duration,
    },
    /// A replica in a rack, also if it leads; where none there serves, the leader.
    Nearest {
        /// The rack, as `broker.rack` of its nodes.
        rack: String,
        /// What it shows may be so old.
        staleness_max: Duration,
    },
}

impl ReadSource {
    /// The longest wait at such a replica: one that hears nothing of its leader any more is found out after so long.
    fn wait(&self, wait: Duration) -> Duration {
        const LEAST: Duration = Duration::from_millis(100);
        match self {
            ReadSource::Leader => wait,
            ReadSource::Follower { staleness_max } | ReadSource::Nearest { staleness_max, .. } => {
                wait.min((*staleness_max).max(LEAST))
            }
        }
    }
}

impl Node {
    /// As [`Node::read_anywhere`], from another replica than the leader if the reader allows that.
    ///
    /// Fails with `REPLICA_NOT_AVAILABLE` where no follower serves that is as fresh as the reader wants it.
    pub async fn read_from(
        self: &Arc<Self>,
        partition: Partition,
        wish: PartitionWish,
        source: &ReadSource,
    ) -> Result<PartitionRead, Failure> {
        let wish = PartitionWish { wait: source.wait(wish.wait), ..wish };
        let (candidates, staleness_max) = match source {
            ReadSource::Leader => return self.read_anywhere(partition, wish).await,
            ReadSource::Follower { staleness_max } => (self.followers(partition), *staleness_max),
            ReadSource::Nearest { rack, staleness_max } => {
                (self.replicas_in_rack(partition, rack), *staleness_max)
            }
        };
        let mut refusal = None;
        for candidate in candidates {
            let read = match candidate == self.settings.node_id {
                true => self.read_replica_here(partition, wish, staleness_max).await,
                false => self.read_replica_there(candidate, partition, wish, staleness_max).await,
            };
            match read {
                // Whether such an offset exists is the leader's to say.
                Err(error) if error.code == ErrorCode::OffsetOutOfRange => {
                    return self.read_anywhere(partition, wish).await;
                }
                // The first one says most: it is the nearest.
                Err(error) if is_of_replica(error.code) => refusal = refusal.or(Some(error)),
                read => return read,
            }
        }
        match source {
            ReadSource::Follower { .. } => Err(refusal.unwrap_or_else(|| {
                let message = "no follower of the partition is in sync";
                Failure::new(ErrorCode::ReplicaNotAvailable, message)
            })),
            ReadSource::Leader | ReadSource::Nearest { .. } => {
                self.read_anywhere(partition, wish).await
            }
        }
    }

    /// The followers in sync, this node first.
    fn followers(&self, partition: Partition) -> Vec<BrokerId> {
        let image = self.image();
        let known = image.topic_by_id(partition.topic);
        let Some(known) = known.and_then(|topic| topic.partition(partition.number)) else {
            return Vec::new();
        };
        let follows = |broker: &BrokerId| known.leader != Some(*broker) && image.is_active(*broker);
        let mut followers: Vec<_> = known.isr.iter().copied().filter(follows).collect();
        followers.sort_by_key(|broker| (Reverse(*broker == self.settings.node_id), *broker));
        followers
    }

    /// The replicas in sync in a rack: the leader before all others, and this node before other followers.
    fn replicas_in_rack(&self, partition: Partition, rack: &str) -> Vec<BrokerId> {
        let image = self.image();
        let is_in_rack = |broker: &BrokerId| {
            let known = image.broker(*broker).and_then(|broker| broker.rack.as_deref());
            !rack.is_empty() && known == Some(rack)
        };
        let known = image.topic_by_id(partition.topic);
        let leader = known.and_then(|topic| topic.partition(partition.number)?.leader);
        match leader {
            // It is asked in any case.
            Some(leader) if is_in_rack(&leader) => Vec::new(),
            _ => self.followers(partition).into_iter().filter(is_in_rack).collect(),
        }
    }

    /// Reads the replica here, if it is fresh.
    pub(super) async fn read_replica_here(
        &self,
        partition: Partition,
        wish: PartitionWish,
        staleness_max: Duration,
    ) -> Result<PartitionRead, Failure> {
        let replica = self.readable(partition, ReadFrom::AnyReplica).map_err(failure)?;
        self.check_staleness(partition, &replica, staleness_max)?;
        self.read_here(partition, wish, ReadFrom::AnyReplica).await
    }

    /// A replica that is not in sync is held back by bounds, so that its leader's silence says nothing of it.
    fn check_staleness(
        &self,
        partition: Partition,
        replica: &Replica,
        staleness_max: Duration,
    ) -> Result<(), Failure> {
        let image = self.image();
        let own = self.settings.node_id;
        let known = image.topic_by_id(partition.topic);
        let known = known.and_then(|topic| topic.partition(partition.number));
        let is_in_sync = known.is_some_and(|known| known.isr.contains(&own));
        let staleness = replica.staleness().filter(|_| is_in_sync || replica.is_leading());
        let message = match staleness {
            Some(staleness) if staleness <= staleness_max => return Ok(()),
            Some(staleness) => format!(
                "what node {own} shows may be {} ms old, and {} ms are allowed",
                staleness.as_millis(),
                staleness_max.as_millis()
            ),
            None => format!("node {own} does not know how old is what it shows"),
        };
        Err(Failure::new(ErrorCode::ReplicaNotAvailable, message))
    }

    async fn read_replica_there(
        &self,
        broker: BrokerId,
        partition: Partition,
        wish: PartitionWish,
        staleness_max: Duration,
    ) -> Result<PartitionRead, Failure> {
        let address = node_address(&self.image(), broker);
        let (Some(cluster), Some(address)) = (&self.cluster, address) else {
            return Err(failure(ErrorCode::NotLeaderOrFollower));
        };
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let PartitionWish { offset, max_bytes, first_max_bytes: _, wait } = wish;
        let (wait_ms, staleness_max_ms) = (ms(wait), ms(staleness_max));
        let task = Task::ReadReplica { offset, max_bytes, wait_ms, staleness_max_ms };
        let lane = if wait.is_zero() { Lane::Clients } else { Lane::Waiting };
        let request = Request { topic: partition.topic, partition: partition.number, task };
        let calling = cluster.carrier.request(
            &address,
            lane,
            Kind::Partition,
            request.encode(),
            wait + ANSWER_MAX,
        );
        let begun = Instant::now();
        match calling.await {
            Ok(answer) => decode_answer(answer),
            Err(error) => {
                let ms = begun.elapsed().as_millis();
                let message = format!("node {broker} did not answer in {ms} ms: {error}");
                Err(Failure::new(ErrorCode::ReplicaNotAvailable, message))
            }
        }
    }
}

/// Whether a code is of the replica that was asked, so that another may serve.
fn is_of_replica(code: ErrorCode) -> bool {
    use ErrorCode::{
        KafkaStorageError, NotLeaderOrFollower, ReplicaNotAvailable, UnknownTopicId,
        UnknownTopicOrPartition,
    };
    matches!(
        code,
        ReplicaNotAvailable
            | NotLeaderOrFollower
            | KafkaStorageError
            | UnknownTopicId
            | UnknownTopicOrPartition
    )
}
