//! A producer's batch, compressed anew: what a leader appends where `compression.type` of the topic
//! names another codec than the producer has used.
//!
//! The records are looked at as [`validate_for_append`](crate::validate_for_append) does it, and in
//! the same pass they go from one codec to the other, 64 KiB at a time. So a batch is unpacked once,
//! and takes the memory of two codecs and of the new batch, whatever it unpacks to.
//!
//! What comes out is what Apache Kafka's `LogValidator` makes of the batch:
//!
//! | part | becomes |
//! |---|---|
//! | keys, values, headers | stay byte for byte: null and empty ones, and names that occur twice |
//! | offsets | count from 0, as they did |
//! | timestamps of records | stay; the base timestamp becomes that of the first record |
//! | max timestamp | the latest of the records |
//! | producer id, epoch, sequence, the mark of a transaction | stay, so that a retry is recognised |
//! | unused bits of the batch's attributes, attributes of records | 0 |
//! | leader epoch, log append time | are the log's to set, as in any batch |

use logway_model::{LeaderEpoch, TimestampMs};

use crate::compression::{Compressor, DecompressFailure, PlainBytes, Unpacking};
use crate::validate::{RecordJudge, check_header};
use crate::walk::walk_plain;
use crate::{
    AppendRules, Attributes, BATCH_HEADER_BYTES, Batch, BatchHeader, BatchSummary, Compression,
    InvalidBatch, LOG_OVERHEAD_BYTES, RecordError, RecordProblem, TargetCompression, builder,
    varint,
};

impl AppendRules {
    /// What a batch is to be compressed with anew; `None` if it is appended as it is.
    ///
    /// As in Kafka the codecs decide, not the levels: nobody can tell at which level a batch was
    /// compressed.
    pub fn recompression(&self, header: &BatchHeader) -> Option<TargetCompression> {
        let target = self.compression?;
        (header.attributes.codec() != target.codec().id()).then_some(target)
    }
}

/// Judges a producer's batch as [`validate_for_append`](crate::validate_for_append) does, and gives
/// it compressed anew, with what is then known of it.
///
/// What the records unpack to is held to the limit of the rules also where they are not compressed.
/// `max_batch_bytes` holds for the batch as it came and as it becomes.
///
/// # Errors
///
/// Those of [`validate_for_append`](crate::validate_for_append), and behind all of them
/// [`InvalidBatch::RecompressedTooLarge`].
pub fn recompress_for_append(
    batch: &Batch,
    rules: &AppendRules,
    target: TargetCompression,
) -> Result<(Batch, BatchSummary), InvalidBatch> {
    let (source, producer) = check_header(batch, rules)?;
    let old = batch.header();
    let mut packing = Packing::new(old, rules.max_batch_bytes, target);
    let mut judge = RecordJudge::new(rules);
    repack(batch, source, rules, &mut packing, &mut judge).map_err(InvalidBatch::Undecodable)?;
    let max_timestamp = judge.verdict()?;

    let attributes = Attributes::default()
        .with_compression(target.codec())
        .with_transactional(old.attributes.is_transactional());
    let base_timestamp = packing.base_timestamp.unwrap_or(old.base_timestamp);
    let new = BatchHeader {
        attributes,
        base_timestamp,
        max_timestamp,
        leader_epoch: LeaderEpoch::NONE,
        ..*old
    };
    let batch = packing.finish(new).ok_or(InvalidBatch::RecompressedTooLarge {
        codec: target.codec(),
        max_bytes: rules.max_batch_bytes,
    })?;
    let summary = BatchSummary {
        size_bytes: batch.size_bytes(),
        record_count: old.record_count,
        max_timestamp,
        compression: target.codec(),
        is_transactional: attributes.is_transactional(),
        producer,
    };
    Ok((batch, summary))
}

/// Walks the records past the judge into the packer.
fn repack(
    batch: &Batch,
    source: Compression,
    rules: &AppendRules,
    packing: &mut Packing,
    judge: &mut RecordJudge,
) -> Result<(), RecordError> {
    let (header, body, limit) = (batch.header(), batch.body_bytes(), rules.decode_limit);
    if source != Compression::None {
        let plain = Unpacking::new(source, body, limit);
        let plain = plain.map_err(|failure| failure.into_error(source, limit))?;
        return walk_plain(header, Copying { plain, packing }, judge, limit);
    }
    if body.len() > limit.bytes() {
        return Err(DecompressFailure::TooLarge.into_error(source, limit));
    }
    walk_plain(header, Copying { plain: body, packing }, judge, limit)
}

/// Bytes that are passed through once, and copied to where they are packed.
struct Copying<'a, P> {
    plain: P,
    packing: &'a mut Packing,
}

impl<P: PlainBytes> PlainBytes for Copying<'_, P> {
    #[inline]
    fn window(&mut self, wanted: usize) -> Result<&[u8], DecompressFailure> {
        self.plain.window(wanted)
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.packing.copy(&self.plain.at_hand()[..bytes]);
        self.plain.consume(bytes);
    }

    #[inline]
    fn skip(&mut self, bytes: usize) -> Result<bool, DecompressFailure> {
        let mut left = bytes;
        loop {
            let taken = left.min(self.plain.at_hand().len());
            self.consume(taken);
            left -= taken;
            if left == 0 {
                return Ok(true);
            }
            if self.plain.window(1)?.is_empty() {
                return Ok(false);
            }
        }
    }

    #[inline]
    fn at_hand(&self) -> &[u8] {
        self.plain.at_hand()
    }

    #[inline]
    fn on_record_front(
        &mut self,
        timestamp_delta_ms: i64,
        content_bytes: usize,
    ) -> Result<(), RecordProblem> {
        self.packing.begin_record(timestamp_delta_ms, content_bytes)
    }
}

/// The body of the new batch, as it grows.
struct Packing {
    /// `None` once it has become too large.
    compressor: Option<Compressor>,
    /// What is not packed yet.
    gathered: Vec<u8>,
    body_max_bytes: usize,
    /// What the deltas of the records that come refer to.
    old_base_timestamp: TimestampMs,
    /// That of the first record.
    base_timestamp: Option<TimestampMs>,
    next_offset_delta: i32,
    /// What of the record at hand is still to be copied.
    uncopied_bytes: usize,
}

impl Packing {
    fn new(old: &BatchHeader, max_batch_bytes: usize, target: TargetCompression) -> Packing {
        const FORMAT_BYTES_MAX: usize = LOG_OVERHEAD_BYTES + i32::MAX as usize;
        let max_bytes = max_batch_bytes.min(FORMAT_BYTES_MAX);
        Packing {
            compressor: Some(Compressor::new(target)),
            gathered: Vec::new(),
            body_max_bytes: max_bytes.saturating_sub(BATCH_HEADER_BYTES),
            old_base_timestamp: old.base_timestamp,
            base_timestamp: None,
            next_offset_delta: 0,
            uncopied_bytes: 0,
        }
    }

    /// Packs a record up to its key.
    fn begin_record(
        &mut self,
        timestamp_delta_ms: i64,
        content_bytes: usize,
    ) -> Result<(), RecordProblem> {
        let timestamp = self.old_base_timestamp.0.checked_add(timestamp_delta_ms);
        let timestamp = TimestampMs(timestamp.ok_or(RecordProblem::OutOfRange)?);
        let base_timestamp = *self.base_timestamp.get_or_insert(timestamp);
        let timestamp_delta_ms = timestamp.0.checked_sub(base_timestamp.0);
        let timestamp_delta_ms = timestamp_delta_ms.ok_or(RecordProblem::OutOfRange)?;
        let offset_delta = i64::from(self.next_offset_delta);

        let length = size_of_val(&RECORD_ATTRIBUTES)
            + varint::size_bytes(timestamp_delta_ms)
            + varint::size_bytes(offset_delta)
            + content_bytes;
        let length = i32::try_from(length).map_err(|_| RecordProblem::OutOfRange)?;
        varint::put(&mut self.gathered, i64::from(length));
        self.gathered.push(RECORD_ATTRIBUTES);
        varint::put(&mut self.gathered, timestamp_delta_ms);
        varint::put(&mut self.gathered, offset_delta);
        // The walk ends at the first record that is one too many.
        self.next_offset_delta = self.next_offset_delta.saturating_add(1);
        self.uncopied_bytes = content_bytes;
        Ok(())
    }

    /// Packs what is behind the front of a record; the front was packed already.
    #[inline]
    fn copy(&mut self, taken: &[u8]) {
        if self.uncopied_bytes == 0 {
            return;
        }
        debug_assert!(taken.len() <= self.uncopied_bytes, "no field ends behind its record");
        self.uncopied_bytes -= taken.len();
        self.gathered.extend_from_slice(taken);
        if self.gathered.len() >= GATHERED_BYTES {
            self.pack_gathered();
        }
    }

    /// Once it is too large, nothing more is packed, and the walk goes on for the sake of its verdict.
    fn pack_gathered(&mut self) {
        if let Some(compressor) = &mut self.compressor {
            compressor.pack(&self.gathered);
            if compressor.packed_bytes() > self.body_max_bytes {
                self.compressor = None;
            }
        }
        self.gathered.clear();
    }

    /// The batch, when all records were packed; `None` if it is too large.
    fn finish(mut self, header: BatchHeader) -> Option<Batch> {
        self.pack_gathered();
        let body = self.compressor?.finish();
        if body.len() > self.body_max_bytes {
            return None;
        }
        let bytes = builder::whole(header, &body).expect("the body was held to the format");
        Some(Batch::parse(bytes).expect("it has the offsets of a good batch, and a length"))
    }
}

/// Packed at once: packers take many short pieces worse than few long ones.
const GATHERED_BYTES: usize = 64 << 10;

/// No bit of a record's attributes means anything.
const RECORD_ATTRIBUTES: u8 = 0;
