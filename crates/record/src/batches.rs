//! Cutting a run of batches into single ones.

use std::iter::FusedIterator;

use bytes::Bytes;

use crate::{Batch, RecordError};

/// The consecutive batches of a `records` field, or of a piece of a segment.
///
/// After an error the iteration ends: without a sound length there is no telling where the next
/// batch begins.
#[derive(Debug, Clone)]
pub struct Batches {
    rest: Bytes,
    position_bytes: usize,
    partial_tail: PartialTail,
}

/// What to do with an incomplete batch at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartialTail {
    IsAnError,
    IsTheEnd,
}

impl Batches {
    /// Whole batches to the last byte, as a Produce request has them; all else is an error.
    pub fn new(bytes: Bytes) -> Batches {
        Batches { rest: bytes, position_bytes: 0, partial_tail: PartialTail::IsAnError }
    }

    /// Batches of which the last may be incomplete and is then passed over.
    ///
    /// A Fetch response is like this: brokers cut it off at the size that was asked for (Kafka
    /// protocol guide, "Fetch").
    pub fn with_partial_tail(bytes: Bytes) -> Batches {
        Batches { partial_tail: PartialTail::IsTheEnd, ..Batches::new(bytes) }
    }

    /// How many bytes the batches given out so far take: where the next one begins, or, after
    /// an error, where the bad one does.
    pub fn position_bytes(&self) -> usize {
        self.position_bytes
    }

    fn stop(&mut self, error: RecordError) -> Option<Result<Batch, RecordError>> {
        self.rest = Bytes::new();
        let is_partial = matches!(
            error,
            RecordError::TruncatedHeader { .. } | RecordError::TruncatedBatch { .. }
        );
        let is_the_end = is_partial && self.partial_tail == PartialTail::IsTheEnd;
        (!is_the_end).then_some(Err(error))
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, RecordError>;

    fn next(&mut self) -> Option<Result<Batch, RecordError>> {
        if self.rest.is_empty() {
            return None;
        }
        match Batch::split_first(&mut self.rest) {
            Ok(batch) => {
                self.position_bytes += batch.size_bytes();
                Some(Ok(batch))
            }
            Err(error) => self.stop(error),
        }
    }
}

impl FusedIterator for Batches {}
