//! Looking into batches for who does not get them whole: for a time, and for records.

use logway_log::{LogError, TimestampLookup, TimestampedOffset};
use logway_record::{Batch, DecodeLimit, RecordError, RecordIter};

use crate::Node;
use crate::append::is_plain;
use crate::failure::Failure;
use crate::replica::Replica;

impl Node {
    /// Looks into the log of a replica, which may read from the disk and unpack a batch.
    ///
    /// A batch that cannot be unpacked is there only if it was damaged at rest. Kafka answers with an
    /// error then, and its consumers ask again until they give up, though the records around it are
    /// good. Here the answer is the place from which on nothing is missed; a consumer that comes to
    /// the batch is told what is wrong with it.
    pub async fn search(
        &self,
        replica: &Replica,
        look_up: impl Fn(DecodeLimit) -> Result<TimestampLookup, LogError>,
    ) -> Result<Option<TimestampedOffset>, Failure> {
        let is_cut_short = |outcome: &Result<TimestampLookup, LogError>| {
            let undecodable = outcome.as_ref().ok().and_then(|lookup| lookup.undecodable.as_ref());
            undecodable.is_some_and(RecordError::is_over_limit)
        };
        let lookup = self.search_unpacking.run(look_up, is_cut_short).await??;
        if let (Some(error), Some(found)) = (&lookup.undecodable, &lookup.found) {
            let (partition, offset) = (replica.topic_partition(), found.offset);
            tracing::warn!(%partition, %offset, "a search by time ends at a damaged batch: {error}");
        }
        Ok(lookup.found)
    }

    /// The records of a batch, decoded one by one. Those that are compressed are unpacked at once, where others are unpacked for
    /// their readers: in a place for what is small, and if that is not enough in the place for what takes long.
    ///
    /// The inner error is of the batch.
    pub async fn records_of(
        &self,
        batch: &Batch,
        limit: DecodeLimit,
    ) -> Result<Result<RecordIter, RecordError>, Failure> {
        let unpack =
            |place: DecodeLimit| batch.records(DecodeLimit::new(place.bytes().min(limit.bytes())));
        let is_cut_short = |outcome: &Result<_, RecordError>| {
            outcome.as_ref().is_err_and(RecordError::is_over_limit)
        };
        match is_plain(batch.bytes()) {
            true => Ok(unpack(limit)),
            false => self.search_unpacking.run(unpack, is_cut_short).await,
        }
    }
}
