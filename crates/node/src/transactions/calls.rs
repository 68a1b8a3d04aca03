//! Other nodes ask about transactions.

use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::transactions::{TransactionReply, TransactionRequest};
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, TopicPartition, TransactionVersion};

use super::ending::StartedEnd;
use super::message::{Join, Joined, Request, encode_codes};
use crate::Node;

/// What another node has asked, and what was begun of it when it came.
pub(crate) struct TakenRequest(Taken);

enum Taken {
    Join(Join),
    Markers(Vec<Result<StartedEnd, ErrorCode>>),
}

impl Node {
    /// Takes the request of another node; `None` for what is no request, and for who is no node of the cluster.
    ///
    /// Markers are begun at once. A coordinator that gives one up sends it again, and what comes behind the second one
    /// may be the next transaction: so the first one must be begun before it, or never.
    pub(crate) fn take_about_transactions(
        &self,
        from: BrokerId,
        request: &Bytes,
    ) -> Option<TakenRequest> {
        self.image().broker(from)?;
        let taken = match Request::decode(request)? {
            Request::Join(join) => Taken::Join(join),
            Request::Markers(markers) => Taken::Markers(self.begin_markers(markers)),
        };
        Some(TakenRequest(taken))
    }

    /// Answers another node.
    pub(crate) async fn answer_about_transactions(
        self: &Arc<Self>,
        taken: TakenRequest,
    ) -> Vec<u8> {
        match taken.0 {
            Taken::Join(join) => self.join_here(join).await.encode(),
            Taken::Markers(started) => encode_codes(&self.finish_markers(started).await),
        }
    }

    /// Has the coordinator, which is here, say whether partitions are part of a transaction.
    pub(super) async fn join_here(self: &Arc<Self>, join: Join) -> Joined {
        // Taken before the shard is asked: the one that answers is this, or a later one.
        let epoch = self.transactions.epoch_of(&join.transactional_id).unwrap_or(LeaderEpoch::NONE);
        Joined { coordinator_epoch: epoch.0, outcomes: self.ask_shard(join).await }
    }

    async fn ask_shard(self: &Arc<Self>, join: Join) -> Vec<Result<(), ErrorCode>> {
        let Join { transactional_id, producer, adds, partitions } = join;
        let count = partitions.len();
        // A marker could not find its way to a partition that is not known here yet.
        if adds && !partitions.iter().all(|partition| self.knows(partition)) {
            return vec![Err(ErrorCode::UnknownTopicOrPartition); count];
        }
        let id = transactional_id.as_str();
        let reply = self.ask_transactions(id, |_| match adds {
            true => TransactionRequest::AddPartitions {
                transactional_id: id.into(),
                producer,
                partitions: partitions.clone(),
                version: TransactionVersion::EPOCH_BUMP,
            },
            false => TransactionRequest::VerifyPartitions {
                transactional_id: id.into(),
                producer,
                partitions: partitions.clone(),
            },
        });
        match reply.await {
            Ok(TransactionReply::AddPartitions(outcome)) => vec![outcome; count],
            Ok(TransactionReply::VerifyPartitions(outcomes)) => outcomes,
            Ok(_) => vec![Err(ErrorCode::UnknownServerError); count],
            Err(code) => vec![Err(code); count],
        }
    }

    /// Whether there is such a partition, as far as this node knows.
    pub fn knows(&self, partition: &TopicPartition) -> bool {
        let image = self.image();
        let topic = image.topic(partition.topic.as_str());
        topic.is_some_and(|topic| topic.partition(partition.partition).is_some())
    }
}
