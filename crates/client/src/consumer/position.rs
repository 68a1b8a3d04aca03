//! How far a partition has been read.

use bytes::Bytes;
use logway_model::{Offset, TopicId, TopicPartition};
use logway_record::{Batch, Batches, RecordError};
use tokio::time::Instant;

use crate::ClientError;
use crate::retry::pause_after;

/// How far a partition has been read, and what stands in the way.
#[derive(Debug, Clone)]
pub(super) struct Position {
    /// What to read next.
    pub(super) next: Offset,
    /// The topic in which that is; `None` from brokers that know no topic ids.
    pub(super) topic_id: Option<TopicId>,
    /// Where to stop.
    pub(super) stop: Option<Offset>,
    /// When it last got records, as a count of responses: the longest ago is asked for first, as
    /// brokers fill a response in the order of the request.
    pub(super) served: u64,
    /// When to ask again, after a failure.
    pub(super) retry_at: Option<Instant>,
    failures: u32,
    failing_since: Option<Instant>,
}

impl Position {
    pub(super) fn new(next: Offset, stop: Option<Offset>, topic_id: Option<TopicId>) -> Position {
        Position {
            next,
            topic_id,
            stop,
            served: 0,
            retry_at: None,
            failures: 0,
            failing_since: None,
        }
    }

    /// Whether it is in the topic of this id, as far as is known.
    pub(super) fn is_in(&self, topic_id: Option<TopicId>) -> bool {
        match (self.topic_id, topic_id) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        }
    }

    /// Whether everything has been read.
    pub(super) fn is_at_stop(&self) -> bool {
        self.stop.is_some_and(|stop| self.next >= stop)
    }

    /// Takes note that the partition could be read.
    pub(super) fn succeeded(&mut self) {
        self.retry_at = None;
        self.failures = 0;
        self.failing_since = None;
    }

    /// Takes note of a failure, and returns since when there has been nothing else.
    pub(super) fn failed(&mut self) -> Instant {
        let now = Instant::now();
        self.retry_at = Some(now + pause_after(self.failures));
        self.failures += 1;
        *self.failing_since.get_or_insert(now)
    }

    /// Takes the batches out of a response, up to the first bytes that are none, and moves on behind the
    /// last of them.
    ///
    /// # Errors
    ///
    /// Bytes that begin with no batch, or batches that do not lead on: asking again would bring the
    /// same.
    pub(super) fn advance(
        &mut self,
        partition: &TopicPartition,
        records: Bytes,
    ) -> Result<Vec<Batch>, ClientError> {
        let unreadable = |offset, source| ClientError::UnreadableRecords {
            partition: partition.clone(),
            offset,
            next: None,
            source,
        };
        let received_bytes = records.len();
        let mut batches = Vec::new();
        let mut next = self.next;
        for batch in Batches::with_partial_tail(records) {
            let batch = match batch {
                Ok(batch) => batch,
                // What is whole comes first, and the next request begins behind it: with what cannot be
                // read, unless that is no record at all.
                Err(_) if next > self.next => break,
                Err(source) => return Err(unreadable(next, source)),
            };
            // A broker may begin with batches that lie before what was asked for.
            if batch.last_offset() >= next {
                next = batch.header().next_offset();
                batches.push(batch);
            }
        }
        if received_bytes > 0 && next == self.next {
            let source = RecordError::TruncatedHeader { have_bytes: received_bytes };
            return Err(unreadable(next, source));
        }
        self.next = next;
        Ok(batches)
    }
}
