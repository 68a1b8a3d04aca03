//! Other nodes ask about transactions.

use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::transactions::{TransactionReply, TransactionRequest};
use logway_model::{BrokerId, ErrorCode, TopicPartition, TransactionVersion};

use super::message::{Join, Request, encode_codes};
use crate::Node;

impl Node {
    /// Answers another node; `None` for what is no request, and for who is no node of the cluster.
    pub(crate) async fn answer_about_transactions(
        self: &Arc<Self>,
        from: BrokerId,
        request: &Bytes,
    ) -> Option<Vec<u8>> {
        self.image().broker(from)?;
        let outcomes = match Request::decode(request)? {
            Request::Join(join) => self.join_here(join).await,
            Request::Markers(markers) => self.write_markers(markers).await,
        };
        Some(encode_codes(&outcomes))
    }

    /// Has the coordinator, which is here, say whether partitions are part of a transaction.
    pub(super) async fn join_here(self: &Arc<Self>, join: Join) -> Vec<Result<(), ErrorCode>> {
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
