//! Records as replies have them: unpacked, filtered, and copied once.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use logway_model::Offset;
use logway_node::Node;
use logway_node::append::is_plain;
use logway_node::tasks::off_thread;
use logway_record::{Batch, Batches, DecodeLimit, Record, RecordIter};
use prost::Message as _;
use tokio::sync::Semaphore;

use super::selection::{Selected, Selection};
use super::unreadable;
use super::value::ValueError;
use crate::grpc::outbound::{begin_frame, end_frame};
use crate::grpc::status::{Code, Status};
use crate::messages::log::{self, ReadReply};

/// A compressed batch may unpack to so much.
pub(crate) const UNPACKED_MAX: DecodeLimit = DecodeLimit::new(64 << 20);

/// The fields of [`ReadReply`] that are written here.
const RECORDS_TAG: u32 = 1;

/// One reply to be made.
pub(super) struct Piece {
    /// What it tells beside records; where to go on is set here.
    pub(super) head: ReadReply,
    /// From this offset on.
    pub(super) next: Offset,
    /// Up to this one.
    pub(super) until: Offset,
    pub(super) records_max: u64,
    pub(super) bytes_max: u64,
    /// A reply is sent when it has so much. A single record may be larger.
    pub(super) reply_bytes: usize,
}

/// A reply.
pub(super) struct Made {
    /// The pieces of its message.
    pub(super) pieces: Vec<Bytes>,
    /// The offset to go on from.
    pub(super) next: Offset,
    pub(super) records: u64,
    pub(super) record_bytes: u64,
    /// So many did not pass.
    pub(super) filtered: u64,
}

impl Made {
    pub(super) fn size_bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}

/// Makes a reply of what there is in batches, up to its bounds.
pub(super) async fn make(
    node: &Arc<Node>,
    piece: Piece,
    batches: Bytes,
    selection: Option<&Arc<Selection>>,
) -> Result<Made, Status> {
    let mut making = Making {
        frame: begin_frame(batches.len().min(piece.reply_bytes)),
        next: piece.next,
        records: 0,
        record_bytes: 0,
        filtered: 0,
        piece,
        is_full: false,
    };
    for batch in Batches::with_partial_tail(batches) {
        let batch = batch.map_err(|error| unreadable(&error))?;
        if batch.last_offset() < making.next {
            continue;
        }
        if batch.header().base_offset >= making.piece.until {
            making.next = making.piece.until;
            break;
        }
        if !batch.header().attributes.is_control() {
            making = making.add(node, &batch, selection).await?;
            if making.is_full {
                break;
            }
        }
        making.next = making.next.max(batch.last_offset().next()).min(making.piece.until);
        if making.is_enough() {
            break;
        }
    }
    Ok(making.finish())
}

struct Making {
    piece: Piece,
    frame: BytesMut,
    next: Offset,
    records: u64,
    record_bytes: u64,
    filtered: u64,
    /// There was no room for the next record.
    is_full: bool,
}

impl Making {
    /// Adds the records of a batch. What takes long is done where nobody waits for the network.
    async fn add(
        mut self,
        node: &Arc<Node>,
        batch: &Batch,
        selection: Option<&Arc<Selection>>,
    ) -> Result<Making, Status> {
        let records = node.records_of(batch, UNPACKED_MAX).await?;
        let records = records.map_err(|error| unreadable(&error))?;
        let of_records = selection.cloned();
        let add = move || {
            self.add_records(records, of_records.as_deref())?;
            Ok(self)
        };
        let is_evaluated = selection.is_some_and(|selection| selection.takes_long());
        match is_evaluated || takes_long(batch) {
            true => {
                // A few: what is evaluated takes memory beside the batch.
                let _place = EVALUATIONS.acquire().await;
                off_thread(add).await
            }
            false => add(),
        }
    }

    fn add_records(
        &mut self,
        records: RecordIter,
        selection: Option<&Selection>,
    ) -> Result<(), Status> {
        let mut looked_at_bytes = 0;
        for record in records {
            let record = record.map_err(|error| unreadable(&error))?;
            if record.offset < self.next {
                continue;
            }
            if record.offset >= self.piece.until {
                self.next = self.piece.until;
                self.is_full = true;
                return Ok(());
            }
            if self.is_enough() || looked_at_bytes >= SLICE_BYTES {
                self.is_full = true;
                return Ok(());
            }
            looked_at_bytes += record.value.as_ref().map_or(0, Bytes::len);
            let offset = record.offset;
            let selected = match selection {
                Some(selection) => selection.select(record, &mut looked_at_bytes),
                None => Ok(Selected::Sent(record)),
            };
            match selected {
                Ok(Selected::Sent(record)) => self.add_record(record),
                Ok(Selected::LeftOut) => self.filtered += 1,
                // What is before it is sent first.
                Err(_) if self.records > 0 => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(error) => return Err(not_projected(offset, &error)),
            }
            self.next = offset.next();
        }
        Ok(())
    }

    fn add_record(&mut self, record: Record) {
        let Record { offset, timestamp, key, value, headers } = record;
        let headers = headers.into_iter().map(|header| log::Header {
            name: String::from_utf8_lossy(&header.key).into_owned(),
            value: header.value,
        });
        let record = log::Record {
            offset: offset.0,
            timestamp_ms: timestamp.0,
            key,
            value,
            headers: headers.collect(),
        };
        let before = self.frame.len();
        prost::encoding::message::encode(RECORDS_TAG, &record, &mut self.frame);
        self.records += 1;
        self.record_bytes += (self.frame.len() - before) as u64;
    }

    /// One record is sent whatever the bounds are.
    fn is_enough(&self) -> bool {
        let is_full = self.frame.len() >= self.piece.reply_bytes
            || self.records >= self.piece.records_max
            || self.record_bytes >= self.piece.bytes_max;
        self.records > 0 && is_full
    }

    fn finish(mut self) -> Made {
        let Making { next, records, record_bytes, filtered, .. } = self;
        self.piece.head.next_offset = next.0;
        self.piece.head.encode_raw(&mut self.frame);
        let pieces = vec![end_frame(self.frame)];
        Made { pieces, next, records, record_bytes, filtered }
    }
}

/// A value whose fields cannot be found. It is not sent without a word: its reader would take it for one without those fields.
fn not_projected(offset: Offset, error: &ValueError) -> Status {
    let message = format!("record {offset} cannot be projected: {error}");
    Status::new(Code::FailedPrecondition, "NOT_PROJECTED", message).with("offset", offset).remedy(
        "leave such records out by a filter.expression such as has(value.a), or go on behind it",
    )
}

/// Batches that are worked on elsewhere at the same time.
static EVALUATIONS: Semaphore = Semaphore::const_new(4);

/// So many bytes of records are evaluated in one go; others have their turn then.
const SLICE_BYTES: usize = 8 << 20;

/// A batch that is larger than this is worked on elsewhere.
const SHORT_BYTES: usize = 64 << 10;

fn takes_long(batch: &Batch) -> bool {
    batch.size_bytes() > SHORT_BYTES || !is_plain(batch.bytes())
}
