//! Append: each request is one batch, and the n-th reply is for the n-th request.
//!
//! Requests wait their turn: while one is on its way to the disk, clients put more proposals into the next.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use logway_metadata::quota::QuotaKey;
use logway_model::{ErrorCode, Offset};
use logway_node::access::Operation;
use logway_node::streams::anywhere::Until;
use logway_node::tasks::wall_clock;
use logway_node::{Failure, Node};
use logway_record::{BatchBuilder, Compression};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{index_of, is_leaderless, partition, redirect};
use crate::call::Call;
use crate::grpc::fields::{Field, Fields};
use crate::grpc::inbound::Inbound;
use crate::grpc::outbound::{Reply, framed};
use crate::grpc::status::Status;
use crate::messages::logspec::AppendReply;
use crate::messages::logspec::append_reply::{Ok as AppendOk, Reply as AppendReplyKind};

/// How long an append may take.
const APPEND_MAX: Duration = Duration::from_secs(30);

/// Proposals of one request. The reply has an index for each.
const PROPOSALS_MAX: usize = 1 << 20;

/// A batch is not larger, where proposals are smaller: as much as a topic takes by default, with what surrounds a record.
const BATCH_BYTES: usize = 900 << 10;

pub(crate) async fn append(
    call: Arc<Call>,
    log: String,
    mut inbound: Inbound<Incoming>,
    replies: mpsc::Sender<Reply>,
) -> Result<(), Status> {
    const QUOTA: QuotaKey = QuotaKey::ProducerByteRate;
    let mut expected = 1;
    loop {
        call.await_quota(QUOTA).await;
        let Some(received) = inbound.next().await? else { return Ok(()) };
        call.charge(QUOTA, received.bytes.len());
        let proposals = Proposals::decode(received.bytes)?;
        if proposals.sequence != expected {
            let message = format!("sequence {} where {expected} comes next", proposals.sequence);
            return Err(Status::invalid(message)
                .with("log", &log)
                .remedy("count requests of a stream from 1 on"));
        }
        expected += 1;
        let kind = match append_all(&call, &log, &proposals).await? {
            Ok(indexes) => AppendReplyKind::Ok(AppendOk { sequence: proposals.sequence, indexes }),
            Err(failure) if is_leaderless(&failure) => AppendReplyKind::Redirect(redirect()),
            Err(failure) if failure.is_disk_full => AppendReplyKind::Full(true),
            Err(failure) => return Err(refused(failure).with("log", &log)),
        };
        let is_last = !matches!(kind, AppendReplyKind::Ok(_));
        drop(received.share);
        let permit = call.room(&replies).await?;
        let message = framed(&AppendReply { reply: Some(kind) });
        permit.send(call.reply(message).await);
        if is_last {
            return Ok(());
        }
    }
}

/// Proposals have no session to come back with.
fn refused(failure: Failure) -> Status {
    let is_unknown = matches!(
        failure.code,
        ErrorCode::RequestTimedOut | ErrorCode::NotEnoughReplicasAfterAppend
    );
    match is_unknown {
        true => Status::from(failure)
            .remedy("read the end of the log: the proposals may be there, and are there twice if they are sent again"),
        false => failure.into(),
    }
}

/// A request, its proposals encoded.
struct Proposals {
    sequence: u64,
    message: Bytes,
    count: usize,
}

impl Proposals {
    fn decode(message: Bytes) -> Result<Proposals, Status> {
        let malformed = |_| Status::invalid("a message cannot be read");
        let (mut sequence, mut count) = (0, 0);
        for field in Fields::of(message.clone()) {
            match field.map_err(malformed)? {
                (1, Field::Varint(number)) => sequence = number,
                (2, Field::Bytes(_)) => count += 1,
                _ => {}
            }
        }
        match count > PROPOSALS_MAX {
            true => Err(Status::invalid(format!("{PROPOSALS_MAX} proposals are the most"))
                .remedy("send fewer proposals at once")),
            false => Ok(Proposals { sequence, message, count }),
        }
    }

    fn iter(&self) -> impl Iterator<Item = Bytes> {
        Fields::of(self.message.clone()).filter_map(|field| match field {
            Ok((2, Field::Bytes(proposal))) => Some(proposal),
            _ => None,
        })
    }
}

/// Appends the proposals of one request, batch by batch, so that they fit into what topics take. Proposals that a failure
/// leaves are not acknowledged, nor are those before them.
async fn append_all(
    call: &Call,
    log: &str,
    proposals: &Proposals,
) -> Result<Result<Vec<u64>, Failure>, Status> {
    let partition = partition(call, log, Operation::Write)?;
    let deadline = Instant::now() + APPEND_MAX;
    let mut indexes = Vec::with_capacity(proposals.count);
    if proposals.count == 0 {
        // Whether it could be written to.
        let led = call.node().await_leader(partition).await;
        return Ok(led.map(|()| indexes));
    }
    let mut waiting = proposals.iter().peekable();
    while waiting.peek().is_some() {
        let mut batch = BatchBuilder::new(Compression::None);
        let now = wall_clock();
        while let Some(next) = waiting.peek() {
            if !batch.is_empty() && batch.uncompressed_bytes() + next.len() > BATCH_BYTES {
                break;
            }
            let refused = |error| Status::invalid(format!("a proposal cannot be kept: {error}"));
            batch.append(now, None, Some(next), &[]).map_err(refused)?;
            waiting.next();
        }
        let count = i64::from(batch.record_count());
        let batch =
            batch.finish().map_err(|error| Status::invalid(format!("no batch: {error}")))?;
        match append_one(call.node(), partition, batch, deadline).await {
            Ok(first) => indexes.extend((0..count).map(|delta| index_of(first + delta))),
            Err(failure) => return Ok(Err(failure)),
        }
    }
    Ok(Ok(indexes))
}

async fn append_one(
    node: &Arc<Node>,
    partition: logway_node::streams::anywhere::Partition,
    batch: Bytes,
    deadline: Instant,
) -> Result<Offset, Failure> {
    let batches = vec![(partition, batch)];
    let outcome = node.append_anywhere(batches, Until::Committed, deadline).await.pop();
    let lost = || Err(Failure::new(ErrorCode::UnknownServerError, "no outcome"));
    Ok(outcome.unwrap_or_else(lost)?.base_offset)
}
