//! Records as replies have them: unpacked, filtered, and copied once.

use std::iter::Peekable;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use logway_model::Offset;
use logway_node::Node;
use logway_node::append::is_plain;
use logway_node::tasks::off_thread;
use logway_record::{Batch, Batches, Header, Record, RecordIter};
use prost::Message as _;
use tokio::sync::Semaphore;

use super::selection::{Selected, Selection};
use super::unreadable;
use super::value::ValueError;
use crate::building::{Rest, Room, Unmade};
use crate::grpc::outbound::{begin_frame, end_frame};
use crate::grpc::status::{Code, Status};
use crate::messages::log::{self, ReadReply};

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
    /// Of those, the expression had no result for so many.
    pub(super) unresolved: u64,
    /// Where it ends within a batch: the records behind it, and the last offset of the batch.
    pub(super) left: Option<Rest>,
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
    room: &Room,
) -> Result<Made, Unmade> {
    let mut making = Making::new(piece, batches.len());
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
            making = making.add(node, &batch, selection, room).await?;
            if making.is_full {
                return Ok(making.finish_within(batch.last_offset()));
            }
        }
        making.next = making.next.max(batch.last_offset().next()).min(making.piece.until);
        if making.is_enough() {
            break;
        }
    }
    Ok(making.finish())
}

/// Makes another reply of what is left of a batch.
pub(super) async fn go_on(
    piece: Piece,
    (records, last): Rest,
    selection: Option<&Arc<Selection>>,
) -> Result<Made, Status> {
    let _place = EVALUATIONS.acquire().await;
    let mut making = Making::new(piece, 0).add_elsewhere(records, selection).await?;
    if making.is_full {
        return Ok(making.finish_within(last));
    }
    making.next = making.next.max(last.next()).min(making.piece.until);
    Ok(making.finish())
}

struct Making {
    piece: Piece,
    frame: BytesMut,
    next: Offset,
    records: u64,
    record_bytes: u64,
    filtered: u64,
    unresolved: u64,
    /// There was no room for the next record.
    is_full: bool,
    /// That one and those behind it, if they can be gone on with.
    left: Option<Peekable<RecordIter>>,
}

impl Making {
    /// Nothing yet of so many bytes of batches.
    fn new(piece: Piece, bytes: usize) -> Making {
        Making {
            frame: begin_frame(bytes.min(piece.reply_bytes)),
            next: piece.next,
            records: 0,
            record_bytes: 0,
            filtered: 0,
            unresolved: 0,
            piece,
            is_full: false,
            left: None,
        }
    }

    /// Adds the records of a batch. What takes long is done where nobody waits for the network.
    async fn add(
        mut self,
        node: &Arc<Node>,
        batch: &Batch,
        selection: Option<&Arc<Selection>>,
        room: &Room,
    ) -> Result<Making, Unmade> {
        let is_evaluated = selection.is_some_and(|selection| selection.takes_long());
        let takes_long = is_evaluated || takes_long(batch);
        // Before it is unpacked: who waits holds no more than the batch.
        let _place = match takes_long {
            true => Some(EVALUATIONS.acquire().await),
            false => None,
        };
        let records = match room.records_of(node, batch).await {
            Ok(records) => records,
            // What is before it is sent first.
            Err(_) if self.records > 0 => {
                self.is_full = true;
                return Ok(self);
            }
            Err(unmade) => return Err(unmade),
        };
        let records = records.peekable();
        match takes_long {
            true => Ok(self.add_elsewhere(records, selection).await?),
            false => {
                self.add_records(records, selection.map(|selection| &**selection))?;
                Ok(self)
            }
        }
    }

    /// The same where nobody waits for the network.
    async fn add_elsewhere(
        mut self,
        records: Peekable<RecordIter>,
        selection: Option<&Arc<Selection>>,
    ) -> Result<Making, Status> {
        let selection = selection.cloned();
        let add = move || {
            self.add_records(records, selection.as_deref())?;
            Ok(self)
        };
        off_thread(add).await
    }

    fn add_records(
        &mut self,
        mut records: Peekable<RecordIter>,
        selection: Option<&Selection>,
    ) -> Result<(), Status> {
        let mut worked_bytes = 0;
        loop {
            match records.peek() {
                None => return Ok(()),
                Some(Ok(record)) if record.offset < self.next => {}
                Some(Ok(record)) if record.offset >= self.piece.until => {
                    self.next = self.piece.until;
                    self.is_full = true;
                    return Ok(());
                }
                Some(_) if self.is_enough() || worked_bytes >= SLICE_BYTES => {
                    self.is_full = true;
                    self.left = Some(records);
                    return Ok(());
                }
                Some(_) => {}
            }
            let Some(record) = records.next() else { return Ok(()) };
            let record = record.map_err(|error| unreadable(&error))?;
            if record.offset < self.next {
                continue;
            }
            worked_bytes += work_of(&record);
            let offset = record.offset;
            let selected = match selection {
                Some(selection) => selection.select(record, &mut worked_bytes),
                None => Ok(Selected::Sent(record)),
            };
            match selected {
                Ok(Selected::Sent(record)) => self.add_record(record),
                Ok(Selected::LeftOut) => self.filtered += 1,
                Ok(Selected::Unresolved) => {
                    self.filtered += 1;
                    self.unresolved += 1;
                }
                // What is before it is sent first.
                Err(_) if self.records > 0 => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(error) => return Err(not_projected(offset, &error)),
            }
            self.next = offset.next();
        }
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

    /// Ends within the batch up to an offset.
    fn finish_within(mut self, last: Offset) -> Made {
        let left = self.left.take().map(|records| (records, last));
        Made { left, ..self.finish() }
    }

    fn finish(mut self) -> Made {
        let Making { next, records, record_bytes, filtered, unresolved, .. } = self;
        self.piece.head.next_offset = next.0;
        self.piece.head.unresolved_records += unresolved;
        self.piece.head.encode_raw(&mut self.frame);
        let pieces = vec![end_frame(self.frame)];
        Made { pieces, next, records, record_bytes, filtered, unresolved, left: None }
    }
}

/// What a look at a record counts for, in bytes: many records may have none.
fn work_of(record: &Record) -> usize {
    const RECORD_BYTES: usize = 16;
    let of = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let of_header = |header: &Header| RECORD_BYTES + header.key.len() + of(&header.value);
    let of_headers: usize = record.headers.iter().map(of_header).sum();
    RECORD_BYTES + of(&record.key) + of(&record.value) + of_headers
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

/// So many bytes of work are done in one go; others have their turn then.
const SLICE_BYTES: usize = 8 << 20;

/// A batch that is larger than this is worked on elsewhere.
const SHORT_BYTES: usize = 64 << 10;

fn takes_long(batch: &Batch) -> bool {
    batch.size_bytes() > SHORT_BYTES || !is_plain(batch.bytes())
}

#[cfg(test)]
mod tests {
    use logway_model::TimestampMs;
    use logway_record::{BatchBuilder, Compression, DecodeLimit};

    use super::*;
    use crate::messages::log::{Filter, ReadRequest};

    /// A batch of so many records without a key, a value and headers.
    fn empty_records(count: usize) -> Bytes {
        let mut builder = BatchBuilder::new(Compression::None);
        for _ in 0..count {
            builder.append(TimestampMs(1), None, None, &[]).expect("has room");
        }
        builder.finish().expect("is a batch")
    }

    /// How many records of a batch are worked on in one go, from `next` on.
    fn worked_on(batch: &Bytes, next: Offset, expression: &str) -> i64 {
        let filter = Filter { expression: expression.to_owned(), ..Filter::default() };
        let request = ReadRequest { filter: Some(filter), ..ReadRequest::default() };
        let selection = Selection::new(&request).expect("is one");
        let piece = Piece {
            head: ReadReply::default(),
            next,
            until: Offset(i64::MAX),
            records_max: u64::MAX,
            bytes_max: u64::MAX,
            reply_bytes: 1 << 20,
        };
        let mut making = Making::new(piece, 0);
        let batch = Batches::new(batch.clone()).next().expect("is there").expect("is whole");
        let records = batch.records(DecodeLimit::DEFAULT).expect("unpacks");
        making.add_records(records.peekable(), selection.as_ref()).expect("is worked on");
        making.next.0 - next.0
    }

    #[test]
    fn records_without_bytes_and_steps_of_expressions_are_work() {
        const COUNT: usize = 600_000;
        let batch = empty_records(COUNT);
        let in_one_go = |expression| worked_on(&batch, Offset::ZERO, expression);
        let short = in_one_go("offset < 0");
        let long = in_one_go(&vec!["offset in [-1, -2, -3, -4, -5, -6, -7, -8]"; 20].join("||"));
        let all = i64::try_from(COUNT).expect("is small");
        assert!(short < all && long < short / 10 && long > 0, "{short}, {long} of {all}");
        // It goes on where it was.
        assert_eq!(worked_on(&batch, Offset(short), "offset < 0"), short.min(all - short));
    }
}
