//! The leader of a partition writes the end of a transaction.

use std::sync::Arc;
use std::time::Duration;

use logway_coordinator::{Client, Marker, Reply, RequestBody};
use logway_model::{ErrorCode, TopicPartition};
use tokio::time::{Instant, timeout_at};

use crate::Node;
use crate::append::markers::{StartedMarker, begin_marker};
use crate::cluster::Mutation;
use crate::groups::{self, OFFSETS_TOPIC};
use crate::replica::Replica;
use crate::tasks::join_all;

/// A marker that is not committed in this time is written once more: one partition whose followers are slow must not hold
/// up those that come with it.
const COMMIT_MAX: Duration = Duration::from_secs(2);

impl Node {
    /// Writes markers to partitions that this node leads. An outcome is `Ok` when the marker is committed. After
    /// `REQUEST_TIMED_OUT` it may be there; a marker that is written twice changes nothing.
    pub async fn write_markers(
        self: &Arc<Self>,
        markers: Vec<(TopicPartition, Marker)>,
    ) -> Vec<Result<(), ErrorCode>> {
        let started = self.begin_markers(markers);
        self.finish_markers(started).await
    }

    /// Begins to write markers, in the order of these calls.
    pub(super) fn begin_markers(
        &self,
        markers: Vec<(TopicPartition, Marker)>,
    ) -> Vec<Result<StartedEnd, ErrorCode>> {
        let begin = |(partition, marker): (TopicPartition, Marker)| {
            let replica = {
                let topics = self.topics();
                let topic = topics.by_name(partition.topic.as_str())?;
                Arc::clone(topic.partition(partition.partition)?)
            };
            self.begin_marker(&replica, marker)
        };
        markers.into_iter().map(begin).collect()
    }

    /// Waits for markers, but not for ever.
    pub(super) async fn finish_markers(
        self: &Arc<Self>,
        started: Vec<Result<StartedEnd, ErrorCode>>,
    ) -> Vec<Result<(), ErrorCode>> {
        let deadline = Instant::now() + COMMIT_MAX;
        let finish = |started: Result<StartedEnd, ErrorCode>| async move {
            let started = started?;
            if self.breaks(Mutation::MarksAlone) {
                return Ok(());
            }
            let finishing = timeout_at(deadline, started.finish()).await;
            finishing.unwrap_or(Err(ErrorCode::RequestTimedOut))
        };
        join_all(started.into_iter().map(finish).collect()).await
    }

    /// Begins to write a marker to a partition that this node leads. Those of one partition are written in the order of
    /// these calls. Groups have to hear of the end behind the offsets that it is about, so it goes the same way.
    pub fn begin_marker(
        &self,
        replica: &Arc<Replica>,
        marker: Marker,
    ) -> Result<StartedEnd, ErrorCode> {
        let TopicPartition { topic, partition } = replica.topic_partition();
        if topic.as_str() != OFFSETS_TOPIC || self.breaks(Mutation::MarksBehindGroups) {
            let started = begin_marker(replica, marker);
            return started.map(StartedEnd::Marker).map_err(|failure| failure.code);
        }
        let question = groups::Question {
            version: 0,
            client: Client::default(),
            body: RequestBody::WriteMarker(marker),
            held: Vec::new(),
        };
        Ok(StartedEnd::OfGroups(self.groups.ask_partition(*partition, question)))
    }
}

/// A marker on its way. It is written whether or not anybody waits for it.
#[must_use = "it may fail"]
pub enum StartedEnd {
    /// Into a log.
    Marker(StartedMarker),
    /// By way of the shard of a partition's groups.
    OfGroups(groups::Pending),
}

impl StartedEnd {
    /// Ends when the marker is committed.
    pub async fn finish(self) -> Result<(), ErrorCode> {
        match self {
            StartedEnd::Marker(started) => started.finish().await.map_err(|failure| failure.code),
            StartedEnd::OfGroups(pending) => match pending.reply().await? {
                Reply::WriteMarker(outcome) => outcome,
                _ => Err(ErrorCode::UnknownServerError),
            },
        }
    }
}
