//! What the answer to a Produce means for a batch.

use logway_model::{ErrorCode, Offset, TopicPartition};
use logway_wire::messages::produce_response::PartitionProduceResponse;

use super::batch::Batch;
use super::fate::Fate;
use crate::error::{check, error_code};
use crate::{ClientError, ConnectionFailure};

/// What to do with a batch after an attempt to store it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is stored, at this offset if that is known.
    Stored(Option<Offset>),
    /// It has to be sent again.
    Again(Setback),
    /// It has to be sent again, behind the earlier one that is not stored.
    Behind,
    /// It has to be sent again in two halves.
    Halve,
    /// It cannot be stored.
    Lost(Setback),
}

/// An attempt that has not stored a batch.
#[derive(Debug)]
pub(super) struct Setback {
    /// Why.
    pub(super) error: ClientError,
    /// What that says of the batch.
    pub(super) fate: Fate,
}

impl From<ClientError> for Setback {
    fn from(error: ClientError) -> Setback {
        Setback { fate: Fate::after(&error), error }
    }
}

/// What matters about a producer and a batch's neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Circumstances {
    /// Brokers recognise a batch that they already have.
    pub(super) is_idempotent: bool,
    /// A batch with earlier records of the partition is not stored yet.
    pub(super) waits_for_earlier: bool,
}

/// Judges the broker's answer about one partition.
pub(super) fn of_response(
    response: &PartitionProduceResponse,
    batch: &Batch,
    partition: &TopicPartition,
    circumstances: Circumstances,
) -> Outcome {
    let what = || format!("write to {partition}");
    let record_message =
        || response.record_errors.iter().find_map(|e| e.batch_index_error_message.as_ref());
    let message = response.error_message.as_ref().or_else(record_message);
    let Err(error) = check(what, response.error_code, message) else {
        return Outcome::Stored(
            (response.base_offset >= 0).then_some(Offset(response.base_offset)),
        );
    };
    match error_code(response.error_code) {
        // So far back that the broker has forgotten where.
        ErrorCode::DuplicateSequenceNumber => Outcome::Stored(None),
        ErrorCode::OutOfOrderSequenceNumber if circumstances.waits_for_earlier => Outcome::Behind,
        ErrorCode::MessageTooLarge if batch.record_count > 1 => Outcome::Halve,
        code if may_repeat(code, circumstances.is_idempotent) => Outcome::Again(error.into()),
        _ => Outcome::Lost(error.into()),
    }
}

/// Judges a request that got no answer.
pub(super) fn of_failure(error: ClientError, is_idempotent: bool) -> Outcome {
    let may_repeat = match &error {
        // Never sent.
        ClientError::Connect { .. } | ClientError::UnknownBroker { .. } => true,
        ClientError::Connection { failure, .. } => {
            is_idempotent && !matches!(failure, ConnectionFailure::ResponseTooLarge { .. })
        }
        _ => false,
    };
    match may_repeat {
        true => Outcome::Again(error.into()),
        false => Outcome::Lost(error.into()),
    }
}

/// Whether a later attempt may succeed and cannot store the batch twice.
fn may_repeat(code: ErrorCode, is_idempotent: bool) -> bool {
    let is_surely_not_stored = !matches!(
        code,
        ErrorCode::RequestTimedOut
            | ErrorCode::NotEnoughReplicasAfterAppend
            | ErrorCode::KafkaStorageError
            | ErrorCode::NetworkException
    );
    code.is_retriable() && (is_idempotent || is_surely_not_stored)
}

#[cfg(test)]
mod tests {
    use logway_model::{PartitionId, TopicName};
    use logway_record::Compression;
    use tokio::time::Instant;

    use super::*;

    fn judge(code: ErrorCode, records: u32, circumstances: Circumstances) -> &'static str {
        let name = TopicName::new("t").expect("a name");
        let partition = TopicPartition::new(name, PartitionId(0));
        let mut batch = Batch::new(PartitionId(0), 0, Compression::None, Instant::now());
        batch.record_count = records;
        let response = PartitionProduceResponse { error_code: code.code(), ..Default::default() };
        match of_response(&response, &batch, &partition, circumstances) {
            Outcome::Stored(_) => "stored",
            Outcome::Again(_) => "again",
            Outcome::Behind => "behind",
            Outcome::Halve => "halve",
            Outcome::Lost(_) => "lost",
        }
    }

    #[tokio::test]
    async fn only_what_cannot_be_stored_twice_is_sent_again() {
        let idempotent = Circumstances { is_idempotent: true, waits_for_earlier: false };
        let plain = Circumstances { is_idempotent: false, ..idempotent };
        let behind = Circumstances { waits_for_earlier: true, ..idempotent };
        for (code, records, circumstances, expected) in [
            (ErrorCode::None, 1, plain, "stored"),
            (ErrorCode::DuplicateSequenceNumber, 1, idempotent, "stored"),
            (ErrorCode::OutOfOrderSequenceNumber, 1, idempotent, "lost"),
            (ErrorCode::OutOfOrderSequenceNumber, 1, behind, "behind"),
            (ErrorCode::MessageTooLarge, 2, plain, "halve"),
            (ErrorCode::MessageTooLarge, 1, plain, "lost"),
            (ErrorCode::NotLeaderOrFollower, 1, plain, "again"),
            (ErrorCode::RequestTimedOut, 1, plain, "lost"),
            (ErrorCode::RequestTimedOut, 1, idempotent, "again"),
            (ErrorCode::NotEnoughReplicasAfterAppend, 1, plain, "lost"),
            (ErrorCode::InvalidRecord, 1, idempotent, "lost"),
        ] {
            assert_eq!(judge(code, records, circumstances), expected, "{code} {circumstances:?}");
        }
    }
}
