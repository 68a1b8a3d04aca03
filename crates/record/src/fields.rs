//! The fields of a record, read off bytes that are passed through once; the table of them is in
//! [`crate::raw_record`].

use crate::compression::{DecompressFailure, PlainBytes};
use crate::{BatchHeader, DecodeLimit, RecordError, RecordProblem, varint};

/// What is left of a record, or of the records of a batch.
pub(crate) struct Fields<'a, P> {
    plain: &'a mut P,
    left_bytes: usize,
}

/// Why a record cannot be passed over.
pub(crate) enum FieldFailure {
    Problem(RecordProblem),
    Decompress(DecompressFailure),
}

/// Takes the length of the next record off the bytes, and gives the fields behind it.
#[inline(always)]
pub(crate) fn next_record<P: PlainBytes>(plain: &mut P) -> Result<Fields<'_, P>, FieldFailure> {
    let length = Fields { plain, left_bytes: usize::MAX }.i32()?;
    let left_bytes = usize::try_from(length).map_err(|_| RecordProblem::BadLength { length })?;
    Ok(Fields { plain, left_bytes })
}

impl<P: PlainBytes> Fields<'_, P> {
    /// The bytes that the fields still to come take.
    #[inline(always)]
    pub(crate) fn left_bytes(&self) -> usize {
        self.left_bytes
    }

    #[inline(always)]
    pub(crate) fn i32(&mut self) -> Result<i32, FieldFailure> {
        let window = self.plain.window(varint::I32_BYTES_MAX)?;
        let (value, bytes) = varint::i32_at(&window[..window.len().min(self.left_bytes)])?;
        self.consume(bytes);
        Ok(value)
    }

    #[inline(always)]
    pub(crate) fn i64(&mut self) -> Result<i64, FieldFailure> {
        let window = self.plain.window(varint::I64_BYTES_MAX)?;
        let (value, bytes) = varint::i64_at(&window[..window.len().min(self.left_bytes)])?;
        self.consume(bytes);
        Ok(value)
    }

    /// No attribute of a record means anything.
    #[inline(always)]
    pub(crate) fn attributes(&mut self) -> Result<u8, FieldFailure> {
        let window = self.plain.window(1)?;
        match window.first() {
            Some(&attributes) if self.left_bytes > 0 => {
                self.consume(1);
                Ok(attributes)
            }
            _ => Err(RecordProblem::Truncated.into()),
        }
    }

    /// Tells of the record, when offset delta and all before it were taken.
    #[inline(always)]
    pub(crate) fn end_front(&mut self, timestamp_delta_ms: i64) -> Result<(), FieldFailure> {
        Ok(self.plain.on_record_front(timestamp_delta_ms, self.left_bytes)?)
    }

    /// Passes over a key or a value, and says whether it is there.
    #[inline(always)]
    pub(crate) fn pass_part(&mut self) -> Result<bool, FieldFailure> {
        let Some(length_bytes) = self.part_bytes()? else { return Ok(false) };
        if !self.plain.skip(length_bytes)? {
            return Err(RecordProblem::Truncated.into());
        }
        self.left_bytes -= length_bytes;
        Ok(true)
    }

    /// As [`Fields::pass_part`], and shows the part, piece by piece.
    #[inline(always)]
    pub(crate) fn show_part(
        &mut self,
        mut on_piece: impl FnMut(&[u8]),
    ) -> Result<bool, FieldFailure> {
        let Some(length_bytes) = self.part_bytes()? else { return Ok(false) };
        let mut unseen_bytes = length_bytes;
        while unseen_bytes > 0 {
            let window = self.plain.window(1)?;
            let bytes = window.len().min(unseen_bytes);
            if bytes == 0 {
                return Err(RecordProblem::Truncated.into());
            }
            on_piece(&window[..bytes]);
            self.plain.consume(bytes);
            unseen_bytes -= bytes;
        }
        self.left_bytes -= length_bytes;
        Ok(true)
    }

    #[inline(always)]
    pub(crate) fn pass_headers(&mut self) -> Result<(), FieldFailure> {
        const HEADER_BYTES_MIN: usize = 2;
        let count = self.i32()?;
        if count == 0 {
            return Ok(());
        }
        let bad_count = RecordProblem::BadHeaderCount { count };
        if usize::try_from(count).map_err(|_| bad_count)? > self.left_bytes / HEADER_BYTES_MIN {
            return Err(bad_count.into());
        }
        for _ in 0..count {
            if !self.pass_part()? {
                return Err(RecordProblem::BadLength { length: -1 }.into());
            }
            self.pass_part()?;
        }
        Ok(())
    }

    /// The length of a key or a value, which is within the record; `None` if there is none.
    #[inline(always)]
    fn part_bytes(&mut self) -> Result<Option<usize>, FieldFailure> {
        const NO_LENGTH: i32 = -1;
        let length = self.i32()?;
        match usize::try_from(length) {
            Ok(length_bytes) if length_bytes <= self.left_bytes => Ok(Some(length_bytes)),
            Err(_) if length == NO_LENGTH => Ok(None),
            _ => Err(RecordProblem::BadLength { length }.into()),
        }
    }

    #[inline(always)]
    fn consume(&mut self, bytes: usize) {
        self.plain.consume(bytes);
        self.left_bytes -= bytes;
    }
}

impl FieldFailure {
    /// The failure at a record of a batch.
    #[cold]
    pub(crate) fn into_error(
        self,
        header: &BatchHeader,
        index: usize,
        limit: DecodeLimit,
    ) -> RecordError {
        match self {
            FieldFailure::Problem(problem) => {
                RecordError::MalformedRecord { base_offset: header.base_offset, index, problem }
            }
            FieldFailure::Decompress(failure) => {
                let codec = header.attributes.compression().unwrap_or_default();
                failure.into_error(codec, limit)
            }
        }
    }
}

impl From<RecordProblem> for FieldFailure {
    fn from(problem: RecordProblem) -> FieldFailure {
        FieldFailure::Problem(problem)
    }
}

impl From<DecompressFailure> for FieldFailure {
    fn from(failure: DecompressFailure) -> FieldFailure {
        FieldFailure::Decompress(failure)
    }
}
