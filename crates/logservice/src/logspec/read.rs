//! Read: entries with indexes that follow each other, for ever.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use logway_metadata::quota::QuotaKey;
use logway_model::{ErrorCode, Offset};
use logway_node::access::Operation;
use logway_node::streams::anywhere::{Partition, PartitionWish, Search};
use logway_record::Batches;
use tokio::sync::mpsc;

use super::{index_of, is_leaderless, offset_of, partition, redirect};
use crate::building::{Building, Room, Unmade};
use crate::call::{Call, NoRoom};
use crate::grpc::inbound::Inbound;
use crate::grpc::outbound::{Reply, framed};
use crate::grpc::status::{Code, Status};
use crate::messages::logspec::read_reply::{Ok as ReadOk, Reply as ReadReplyKind};
use crate::messages::logspec::{Entry, ReadReply, ReadRequest};
use crate::read::unreadable;

/// What is read at a time. The first batch may be larger.
const PIECE_BYTES: u32 = 512 << 10;

/// A reply is sent when it has so much, or so many entries.
const REPLY_BYTES: usize = 1 << 20;

/// The same while memory is short. So little is not counted.
const SMALL_REPLY_BYTES: usize = 16 << 10;

const ENTRIES_MAX: usize = 10_000;

/// The longest wait for records at a leader.
const WAIT_MAX: Duration = Duration::from_secs(10);

pub(crate) async fn read(
    call: Arc<Call>,
    log: String,
    mut inbound: Inbound<Incoming>,
    replies: mpsc::Sender<Reply>,
) -> Result<(), Status> {
    let request: ReadRequest = inbound.only().await?;
    drop(inbound);
    let mut next = offset_of(request.next_index)?;
    let of_log = partition(&call, &log, Operation::Read)?;
    let mut building = Building::default();
    let mut reserved = None;
    loop {
        // Who has memory waits for nothing else.
        let taken = reserved.take();
        if taken.is_none() {
            call.await_quota(QuotaKey::ConsumerByteRate).await;
        }
        let permit = call.room(&replies).await?;
        let now = partition(&call, &log, Operation::Read)?;
        if now.topic != of_log.topic {
            let message = "the log was deleted and made again";
            return Err(Status::new(Code::NotFound, "UNKNOWN_LOG", message).with("log", &log));
        }
        let kind = match step(&call, of_log, next, &building).await {
            Ok(Step::Entries { entries, end }) => {
                let kind = Some(ReadReplyKind::Ok(ReadOk { entries }));
                let message = framed(&ReadReply { reply: kind });
                let size_bytes = message.len();
                match call.reply_share(taken, size_bytes) {
                    Ok(share) => {
                        next = end;
                        call.charge(QuotaKey::ConsumerByteRate, size_bytes);
                        permit.send(Reply::Message(call.unread.pieces(message, share)));
                    }
                    // It is made again when there is room for it: who waits holds nothing.
                    Err(NoRoom) => {
                        drop(message);
                        reserved = Some(call.reply_memory(size_bytes).await);
                    }
                }
                continue;
            }
            Ok(Step::Nothing) => continue,
            Ok(Step::Large(until)) => {
                building.note_large(until);
                continue;
            }
            Ok(Step::Truncated) => ReadReplyKind::Truncated(true),
            Ok(Step::Leaderless) => ReadReplyKind::Redirect(redirect()),
            Err(status) => return Err(status.with("log", &log)),
        };
        permit.send(call.unread.reply(framed(&ReadReply { reply: Some(kind) })));
        return Ok(());
    }
}

enum Step {
    Entries {
        entries: Vec<Entry>,
        end: Offset,
    },
    Nothing,
    /// There is a batch up to this offset that takes more memory than there was for it.
    Large(Offset),
    Truncated,
    Leaderless,
}

async fn step(
    call: &Call,
    partition: Partition,
    next: Offset,
    building: &Building,
) -> Result<Step, Status> {
    let node = call.node();
    let piece_bytes = call.quota_reply_bytes(PIECE_BYTES);
    let room = building.room(call, partition, next).await;
    let first_max_bytes = room.batch_bytes_max();
    let wish = |max_bytes, wait| PartitionWish { offset: next, max_bytes, first_max_bytes, wait };
    let read = match node.read_anywhere(partition, wish(piece_bytes, Duration::ZERO)).await {
        Ok(read) if !room.has_room_for(read.batches.len()) => return Ok(Step::Large(next)),
        Ok(read) => read,
        Err(failure) if failure.code == ErrorCode::OffsetOutOfRange => {
            drop(room);
            return outside(call, partition, next).await;
        }
        Err(failure) if failure.code == ErrorCode::MessageTooLarge => {
            return Ok(Step::Large(next));
        }
        Err(failure) if is_leaderless(&failure) => return Ok(Step::Leaderless),
        Err(failure) => return Err(failure.into()),
    };
    if read.batches.is_empty() {
        drop(room);
        return match node.read_anywhere(partition, wish(0, WAIT_MAX)).await {
            Ok(_) => Ok(Step::Nothing),
            Err(failure) if failure.code == ErrorCode::OffsetOutOfRange => {
                outside(call, partition, next).await
            }
            Err(failure) if is_leaderless(&failure) => Ok(Step::Leaderless),
            Err(failure) => Err(failure.into()),
        };
    }
    match entries(call, read.batches, next, &room).await {
        Ok(step) => Ok(step),
        Err(Unmade::Larger(until)) => Ok(Step::Large(until)),
        Err(Unmade::Refused(status)) => Err(status),
    }
}

/// An index below the first was discarded; one beyond the end is waited for.
async fn outside(call: &Call, partition: Partition, next: Offset) -> Result<Step, Status> {
    match call.node().search_anywhere(partition, Search::Start).await {
        Ok(start) if next < start => Ok(Step::Truncated),
        Ok(_) => {
            tokio::time::sleep(super::LOOK_INTERVAL).await;
            Ok(Step::Nothing)
        }
        Err(failure) if is_leaderless(&failure) => Ok(Step::Leaderless),
        Err(failure) => Err(failure.into()),
    }
}

/// Entries from an offset on, without a gap.
async fn entries(
    call: &Call,
    batches: Bytes,
    mut next: Offset,
    room: &Room,
) -> Result<Step, Unmade> {
    let (mut entries, mut size_bytes) = (Vec::new(), 0);
    let reply_bytes = match call.node().memory.replies.is_short() {
        true => SMALL_REPLY_BYTES,
        false => REPLY_BYTES,
    };
    for batch in Batches::with_partial_tail(batches) {
        let batch = batch.map_err(|error| unreadable(&error))?;
        if batch.last_offset() < next {
            continue;
        }
        if !batch.header().attributes.is_control() {
            let records = match room.records_of(call.node(), &batch).await {
                Ok(records) => records,
                // What is before it is sent first.
                Err(_) if !entries.is_empty() => return Ok(Step::Entries { entries, end: next }),
                Err(unmade) => return Err(unmade),
            };
            for record in records {
                let record = record.map_err(|error| unreadable(&error))?;
                if record.offset < next {
                    continue;
                }
                if !skip_to(&mut entries, &mut next, record.offset) || size_bytes >= reply_bytes {
                    return Ok(Step::Entries { entries, end: next });
                }
                let data = record.value.unwrap_or_default();
                size_bytes += data.len();
                entries.push(Entry { index: index_of(record.offset), skip: false, data });
                next = record.offset.next();
            }
        }
        if !skip_to(&mut entries, &mut next, batch.last_offset().next()) {
            break;
        }
    }
    Ok(Step::Entries { entries, end: next })
}

/// Fills a gap. Says whether there was room for it.
fn skip_to(entries: &mut Vec<Entry>, next: &mut Offset, offset: Offset) -> bool {
    while *next < offset && entries.len() < ENTRIES_MAX {
        entries.push(Entry { index: index_of(*next), skip: true, data: Bytes::new() });
        *next = next.next();
    }
    entries.len() < ENTRIES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_filled_as_far_as_there_is_room() {
        let (mut entries, mut next) = (Vec::new(), Offset(3));
        assert!(skip_to(&mut entries, &mut next, Offset(5)));
        let indexes: Vec<u64> = entries.iter().map(|entry| entry.index).collect();
        assert_eq!((indexes, next), (vec![4, 5], Offset(5)));
        assert!(!skip_to(&mut entries, &mut next, Offset(1 << 40)));
        assert_eq!(entries.len(), ENTRIES_MAX);
        assert!(entries.iter().all(|entry| entry.skip));
        assert_eq!(next, Offset(3) + ENTRIES_MAX as i64);
    }
}
