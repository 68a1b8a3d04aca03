//! Read: a partition, streamed as its client takes it.
//!
//! A piece is read when the client has taken the one before: what a slow reader holds is two pieces, which become small
//! while memory is short. Nothing is evaluated on the threads of the network that takes long: records are unpacked, filtered and
//! encoded elsewhere, a piece at a time.
//!
//! | file | idea |
//! |---|---|
//! | [`request`] | what a reader asks for, checked |
//! | [`begin`] | where to begin, and what an offset outside of the partition is told |
//! | [`records`] | records as replies have them |
//! | [`selection`] | what a reader gets of them |
//! | [`filter`] | which of them pass |
//! | [`projection`] | which fields of their values |
//! | [`value`] | values, whatever they are encoded in |

mod begin;
mod filter;
mod projection;
mod records;
mod request;
mod selection;
mod value;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use logway_metadata::quota::QuotaKey;
use logway_model::ErrorCode;
use logway_model::{Offset, PartitionId};
use logway_node::access::Operation;
use logway_node::memory::BudgetShare;
use logway_node::streams::anywhere::{Partition, PartitionRead, PartitionWish, ReadSource};
use logway_record::Batches;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::building::{Building, Unmade};
use crate::call::{Call, NoRoom};
use crate::grpc::inbound::Inbound;
use crate::grpc::outbound::{Reply, framed, framed_around};
use crate::grpc::status::Status;
use crate::messages::log::{Format, ReadReply, ReadRequest};
use crate::metrics::Open;
pub(crate) use begin::out_of_range;
use records::{Made, Piece};
use request::{Checked, checked};
use selection::Selection;

/// What is read at a time. The first batch may be larger.
const PIECE_BYTES: u32 = 1 << 20;

/// The same while memory is short. A reader that takes nothing holds two of them.
const SMALL_PIECE_BYTES: u32 = 16 << 10;

/// The longest wait for records at a leader.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Progress is told so often, where the client says nothing.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

const PROGRESS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The field of [`ReadReply`] that is sent as it was read.
const BATCHES_TAG: u32 = 2;

/// Serves a reader.
pub(crate) async fn read(
    call: Arc<Call>,
    mut inbound: Inbound<Incoming>,
    replies: mpsc::Sender<Reply>,
) -> Result<(), Status> {
    let _open = Open::of(&call.service.metrics.reads_open);
    let (request, share) = inbound.only_held::<ReadRequest>().await?;
    drop(inbound);
    // First of all: nothing is done for who may not read.
    let log = call.log(&request.log, Operation::Read)?;
    let partition = log.partition(request.partition)?;
    let place = Place { log: request.log.clone(), partition };
    let Checked { request, format, source, selection, kept } = checked(&call, request).await?;
    drop(share);
    let (next, end) = begin::begin(&call, &place, &request).await?;
    let until = request.until_offset.map(Offset);
    let until = end.map(|end| until.map_or(end, |it| it.min(end))).or(until);
    let interval = match request.progress_interval_ms {
        0 => PROGRESS_INTERVAL,
        ms => Duration::from_millis(ms.into()).max(PROGRESS_INTERVAL_MIN),
    };
    let mut reader = Reader {
        call,
        place,
        source,
        format,
        selection,
        _kept: kept,
        next,
        told_next: next,
        unresolved: 0,
        extent: (Offset::ZERO, Offset::ZERO),
        until,
        records_left: bound(request.records_max),
        bytes_left: bound(request.bytes_max),
        interval,
        told_at: Instant::now(),
        has_told: false,
        building: Building::default(),
    };
    reader.run(&replies).await
}

fn bound(max: u64) -> u64 {
    if max == 0 { u64::MAX } else { max }
}

/// What is read.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The name of the topic.
    pub(crate) log: String,
    pub(crate) partition: Partition,
}

impl Place {
    /// Says what a status is about.
    pub(crate) fn about(&self, status: Status) -> Status {
        let PartitionId(number) = self.partition.number;
        status.with("log", &self.log).with("partition", number)
    }
}

/// A stream of replies under way.
struct Reader {
    call: Arc<Call>,
    place: Place,
    source: ReadSource,
    format: Format,
    selection: Option<Arc<Selection>>,
    /// What the selection takes.
    _kept: Option<BudgetShare>,
    next: Offset,
    /// What the client knows of it.
    told_next: Offset,
    /// Records without a result that the client has not heard of.
    unresolved: u64,
    /// The start and the end of the partition, as they were read last.
    extent: (Offset, Offset),
    until: Option<Offset>,
    records_left: u64,
    bytes_left: u64,
    interval: Duration,
    told_at: Instant,
    /// A new reader learns at once where it is.
    has_told: bool,
    building: Building,
}

/// What came of a try to make a reply.
enum Tried {
    Reply(Reply),
    /// There is nothing to say yet.
    Nothing,
    /// The reply takes so many bytes, which are not to be had now.
    NoRoom(usize),
    /// There is a batch up to this offset that takes more memory than there was for it.
    Large(Offset),
}

impl Reader {
    async fn run(&mut self, replies: &mpsc::Sender<Reply>) -> Result<(), Status> {
        loop {
            let is_over = self.until.is_some_and(|until| self.next >= until)
                || self.records_left == 0
                || self.bytes_left == 0;
            if is_over {
                // Others need not wait until the client has taken the last reply.
                self.building = Building::default();
                return self.finish(replies).await;
            }
            let call = Arc::clone(&self.call);
            let quota = call.await_quota(QuotaKey::ConsumerByteRate);
            self.building.while_kept(&call, quota).await;
            let permit = self.building.while_kept(&call, call.room(replies)).await?;
            // Who loses the permission reads no more.
            let log = self.call.log(&self.place.log, Operation::Read)?;
            if log.topic.id != self.place.partition.topic {
                let status = Status::invalid("the log was deleted and made again");
                return Err(self.place.about(status));
            }
            if let Some(reply) = self.step().await? {
                permit.send(reply);
                self.note_told();
            }
        }
    }

    fn note_told(&mut self) {
        (self.told_at, self.has_told) = (Instant::now(), true);
        (self.told_next, self.unresolved) = (self.next, 0);
    }

    /// Tells how far the reader has come, if it does not know.
    async fn finish(&mut self, replies: &mpsc::Sender<Reply>) -> Result<(), Status> {
        if self.next != self.told_next || self.unresolved > 0 {
            self.call.room(replies).await?.send(self.progress());
        }
        Ok(())
    }

    /// The next reply; `None` where there is nothing to say yet.
    async fn step(&mut self) -> Result<Option<Reply>, Status> {
        let mut reserved = None;
        loop {
            match self.try_step(reserved.take()).await? {
                Tried::Reply(reply) => return Ok(Some(reply)),
                Tried::Nothing => return Ok(None),
                // It is made again when there is room for it: who waits holds nothing.
                Tried::NoRoom(size_bytes) => {
                    let call = Arc::clone(&self.call);
                    let memory = call.reply_memory(size_bytes);
                    reserved = Some(self.building.while_kept(&call, memory).await);
                }
                Tried::Large(until) => self.building.note_large(until),
            }
        }
    }

    async fn try_step(&mut self, reserved: Option<BudgetShare>) -> Result<Tried, Status> {
        let is_progress_due = !self.has_told || self.told_at.elapsed() >= self.interval;
        let call = Arc::clone(&self.call);
        let memory = &call.node().memory;
        let share = match reserved {
            Some(share) => Some(share),
            // The other half is for others.
            None if !memory.replies.is_short() => memory.replies.try_take(PIECE_BYTES as usize),
            None => None,
        };
        let piece_bytes = share.as_ref().map_or(SMALL_PIECE_BYTES, |_| PIECE_BYTES);
        let left = u32::try_from(self.bytes_left).unwrap_or(u32::MAX);
        let piece_bytes = self.call.quota_reply_bytes(piece_bytes.min(left.max(1)));
        // Before any memory is taken: those whose turn it is not hold none.
        let evaluates = self.selection.as_ref().is_some_and(|selection| selection.takes_long());
        let turn = match evaluates {
            // Those who have one may wait for the large batch that is kept here.
            true => Some(self.building.while_kept(&call, call.evaluation.acquire()).await),
            false => None,
        };
        let (mut made, room) = match self.building.kept(self.next) {
            Some(rest) => {
                let piece = self.piece(self.next, piece_bytes);
                let made = records::go_on(piece, rest, self.selection.as_ref()).await;
                (made.map_err(|status| self.place.about(status))?, None)
            }
            None => {
                // A small piece, too, is made of a whole batch.
                let room = self.building.room(&call, self.place.partition, self.next).await;
                let first_max_bytes = room.batch_bytes_max();
                let read = self.read_piece(piece_bytes, first_max_bytes, Duration::ZERO).await?;
                let Some(read) = read.filter(|read| room.has_room_for(read.batches.len())) else {
                    return Ok(Tried::Large(self.next));
                };
                self.extent = (read.start, read.end);
                if read.batches.is_empty() {
                    drop((room, share, turn));
                    if is_progress_due {
                        return Ok(Tried::Reply(self.progress()));
                    }
                    let due = self.interval.saturating_sub(self.told_at.elapsed()).min(WAIT_MAX);
                    self.read_piece(0, 0, due).await?;
                    return Ok(Tried::Nothing);
                }
                let made = match self.format {
                    Format::Batches => Ok(self.batches(read)),
                    Format::Records | Format::Unspecified => {
                        let piece = self.piece(self.next.max(read.start), piece_bytes);
                        let selection = self.selection.as_ref();
                        records::make(call.node(), piece, read.batches, selection, &room).await
                    }
                };
                match made {
                    Ok(made) => (made, Some(room)),
                    Err(Unmade::Larger(until)) => return Ok(Tried::Large(until)),
                    Err(Unmade::Refused(status)) => return Err(self.place.about(status)),
                }
            }
        };
        let size_bytes = made.size_bytes();
        let share = match self.call.reply_share(share, size_bytes) {
            Ok(share) => share,
            Err(NoRoom) => return Ok(Tried::NoRoom(size_bytes)),
        };
        self.building.keep(made.left.take(), room);
        Ok(match self.accept(made, share, is_progress_due) {
            Some(reply) => Tried::Reply(reply),
            None => Tried::Nothing,
        })
    }

    /// Goes on behind what was made of a piece.
    fn accept(
        &mut self,
        made: Made,
        share: Option<BudgetShare>,
        is_progress_due: bool,
    ) -> Option<Reply> {
        let metrics = &self.call.service.metrics;
        metrics.filtered_records.inc_by(made.filtered);
        metrics.unresolved_records.inc_by(made.unresolved);
        self.next = made.next;
        self.unresolved += made.unresolved;
        self.records_left -= made.records;
        self.bytes_left = self.bytes_left.saturating_sub(made.record_bytes);
        if made.record_bytes == 0 && !is_progress_due {
            return None;
        }
        self.call.charge(QuotaKey::ConsumerByteRate, made.size_bytes());
        let mut pieces = made.pieces;
        if let Some(last) = pieces.pop() {
            pieces.extend(self.call.unread.pieces(last, share));
        }
        Some(Reply::Message(pieces))
    }

    /// Reads on; `None` where the first batch is larger than `first_max_bytes`.
    async fn read_piece(
        &self,
        max_bytes: u32,
        first_max_bytes: u32,
        wait: Duration,
    ) -> Result<Option<PartitionRead>, Status> {
        let wish = PartitionWish { offset: self.next, max_bytes, first_max_bytes, wait };
        let node = self.call.node();
        match node.read_from(self.place.partition, wish, &self.source).await {
            Ok(read) => Ok(Some(read)),
            Err(failure) if failure.code == ErrorCode::MessageTooLarge => Ok(None),
            Err(failure) if failure.code == ErrorCode::ReplicaNotAvailable => {
                Err(self.place.about(failure.into()).with("offset", self.next))
            }
            Err(failure) => Err(out_of_range(&self.call, &self.place, self.next, failure).await),
        }
    }

    fn head(&self, next: Offset) -> ReadReply {
        let (start, end) = self.extent;
        ReadReply {
            next_offset: next.0,
            start_offset: start.0,
            end_offset: end.0,
            unresolved_records: self.unresolved,
            ..ReadReply::default()
        }
    }

    fn progress(&self) -> Reply {
        self.call.unread.reply(framed(&self.head(self.next)))
    }

    /// Batches as they were read, without a copy.
    fn batches(&self, read: PartitionRead) -> Made {
        let (mut next, mut sent_bytes) = (self.next.max(read.start), 0);
        for batch in Batches::with_partial_tail(read.batches.clone()) {
            let Ok(batch) = batch else { break };
            if self.until.is_some_and(|until| batch.header().base_offset >= until) {
                break;
            }
            next = next.max(batch.last_offset().next());
            sent_bytes += batch.size_bytes();
        }
        if sent_bytes == 0 {
            next = self.until.unwrap_or(next);
        }
        let head = self.head(next);
        let pieces = framed_around(&head, BATCHES_TAG, read.batches.slice(..sent_bytes));
        Made {
            pieces,
            next,
            records: 0,
            record_bytes: sent_bytes as u64,
            filtered: 0,
            unresolved: 0,
            left: None,
        }
    }

    /// What is to be made of records from an offset on.
    fn piece(&self, next: Offset, reply_bytes: u32) -> Piece {
        Piece {
            head: self.head(next),
            next,
            until: self.until.unwrap_or(Offset(i64::MAX)),
            records_max: self.records_left,
            bytes_max: self.bytes_left,
            reply_bytes: reply_bytes as usize,
        }
    }
}

/// What is said of records that cannot be read.
pub(crate) fn unreadable(error: &impl std::fmt::Display) -> Status {
    let code = crate::grpc::status::Code::DataLoss;
    Status::new(code, "DAMAGED", format!("records cannot be read: {error}"))
}
