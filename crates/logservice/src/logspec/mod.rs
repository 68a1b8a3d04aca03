//! Akutan's `logspec`: partition 0 of a topic as a log of entries.
//!
//! | logspec | here |
//! |---|---|
//! | index | offset plus one |
//! | entry | the value of a record |
//! | an entry to skip | an offset without a record: compaction took it, or the log wrote something of its own |
//! | redirect | not needed for another leader, which is asked instead; without a host where nobody leads |
//! | full | the disk has no room |

mod append;
mod read;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use logway_model::{ErrorCode, Offset};
use logway_node::access::Operation;
use logway_node::streams::anywhere::{Partition, Search};
use logway_node::{Failure, Node};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::call::{Call, Outcome};
use crate::grpc::inbound::Inbound;
use crate::grpc::outbound::{Reply, framed};
use crate::grpc::status::{Code, Status};
use crate::info::extent;
use crate::log_looks::Look;
use crate::messages::logspec::discard_reply::{Ok as DiscardOk, Reply as DiscardReplyKind};
use crate::messages::logspec::info_reply::{Ok as InfoOk, Reply as InfoReplyKind};
use crate::messages::logspec::{DiscardReply, DiscardRequest, InfoReply, InfoRequest, Redirect};
pub(crate) use append::append;
pub(crate) use read::read;

/// How often it is looked whether the log has changed.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The log, for a requester who may do that with it.
fn partition(call: &Call, log: &str, operation: Operation) -> Result<Partition, Status> {
    call.log(log, operation)?.partition(0)
}

/// Clients try any server in a while.
fn redirect() -> Redirect {
    Redirect { host: String::new() }
}

/// Whether nobody leads the partition just now.
fn is_leaderless(failure: &Failure) -> bool {
    matches!(failure.code, ErrorCode::NotLeaderOrFollower | ErrorCode::LeaderNotAvailable)
}

/// The index of an offset.
fn index_of(offset: Offset) -> u64 {
    offset.0.unsigned_abs() + 1
}

/// The offset of an index; 0 is none.
fn offset_of(index: u64) -> Result<Offset, Status> {
    let offset = index.checked_sub(1).and_then(|offset| i64::try_from(offset).ok());
    offset.map(Offset).ok_or_else(|| Status::invalid(format!("there is no index {index}")))
}

pub(crate) async fn discard(call: &Call, log: &str, inbound: &mut Inbound<Incoming>) -> Outcome {
    let request: DiscardRequest = inbound.only().await?;
    let partition = partition(call, log, Operation::Delete)?;
    let first = offset_of(request.first_index.max(1))?;
    let mut discarded = truncate(call, partition, first).await;
    if let Err(failure) = &discarded
        && failure.code == ErrorCode::OffsetOutOfRange
    {
        // The log goes on there: its next entry gets this index. That is more than a deletion.
        call.log(log, Operation::Write)?;
        discarded = match call.node().skip_anywhere(partition, first).await {
            Ok(_) => truncate(call, partition, first).await,
            Err(failure) if failure.code == ErrorCode::InvalidRequest => {
                return Err(Status::new(Code::OutOfRange, "BEYOND_END", failure.message)
                    .with("log", log)
                    .with("offset", first)
                    .remedy("go there in steps"));
            }
            Err(failure) => Err(failure),
        };
    }
    let kind = match discarded {
        Ok(()) => DiscardReplyKind::Ok(DiscardOk {}),
        Err(failure) if is_leaderless(&failure) => DiscardReplyKind::Redirect(redirect()),
        Err(failure) => return Err(Status::from(failure).with("log", log)),
    };
    Ok(framed(&DiscardReply { reply: Some(kind) }))
}

async fn truncate(call: &Call, partition: Partition, first: Offset) -> Result<(), Failure> {
    let node = call.node();
    let start = node.search_anywhere(partition, Search::Start).await?;
    // A lower one changes nothing.
    if first > start {
        node.truncate_anywhere(partition, Some(first)).await?;
    }
    Ok(())
}

pub(crate) async fn info(call: &Call, log: &str, inbound: &mut Inbound<Incoming>) -> Outcome {
    let _request: InfoRequest = inbound.only().await?;
    let partition = partition(call, log, Operation::Describe)?;
    let looks = call.service.logspec_looks.at(partition.topic);
    let now = looks.fresh(|| look(call, partition)).await;
    Ok(framed(&told(&now, log)?))
}

pub(crate) async fn watch(
    call: Arc<Call>,
    log: String,
    mut inbound: Inbound<Incoming>,
    replies: mpsc::Sender<Reply>,
) -> Result<(), Status> {
    let _request: InfoRequest = inbound.only().await?;
    let mut ticks = interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The looks are kept between ticks: those that nobody has are forgotten.
    let (mut last, mut _kept) = (None, None);
    loop {
        ticks.tick().await;
        let permit = call.room(&replies).await?;
        let partition = partition(&call, &log, Operation::Describe)?;
        let looks = call.service.logspec_looks.at(partition.topic);
        let now = looks.recent(LOOK_INTERVAL, || look(&call, partition)).await;
        _kept = Some(looks);
        let now = told(&now, &log)?;
        let is_redirect = matches!(now.reply, Some(InfoReplyKind::Redirect(_)));
        if is_news(last.as_ref(), &now) {
            permit.send(call.unread.reply(framed(&now)));
            last = Some(now);
        }
        if is_redirect {
            return Ok(());
        }
    }
}

/// What was seen of a log, for one who asks about it.
fn told(look: &Look<Seen>, log: &str) -> Result<InfoReply, Status> {
    let kind = look.seen.clone().map_err(|status| status.with("log", log))?;
    Ok(InfoReply { reply: Some(kind) })
}

/// What is seen of a log.
pub(crate) type Seen = Result<InfoReplyKind, Status>;

fn look(call: &Call, partition: Partition) -> impl Future<Output = Seen> + Send + use<> {
    call.service.metrics.looks.inc();
    look_at(Arc::clone(call.node()), partition)
}

async fn look_at(node: Arc<Node>, partition: Partition) -> Seen {
    match extent(&node, partition).await {
        Ok((start, end)) => {
            let (bytes_used, bytes_total) = space(&node, partition).await;
            Ok(InfoReplyKind::Ok(InfoOk {
                first_index: index_of(start),
                last_index: index_of(end) - 1,
                bytes_used,
                bytes_total,
            }))
        }
        Err(failure) if is_leaderless(&failure) => Ok(InfoReplyKind::Redirect(redirect())),
        Err(failure) => Err(failure.into()),
    }
}

/// What the log takes, and what it could take; 0 where this node has no replica of it.
async fn space(node: &Arc<Node>, partition: Partition) -> (u64, u64) {
    let replica = {
        let topics = node.topics();
        let topic = topics.by_id(partition.topic).ok();
        topic.and_then(|topic| topic.replica(partition.number)).cloned()
    };
    let Some(replica) = replica else { return (0, 0) };
    node.refresh_disk_space().await;
    let used_bytes = replica.log().size_bytes();
    let usable_bytes = node.disk_space_of(&replica).map_or(0, |space| space.usable_bytes);
    (used_bytes, used_bytes.saturating_add(usable_bytes.unsigned_abs()))
}

/// Whether a client should hear of a change: free space changes all the time.
fn is_news(told: Option<&InfoReply>, now: &InfoReply) -> bool {
    let extent = |reply: &InfoReply| match &reply.reply {
        Some(InfoReplyKind::Ok(ok)) => Some((ok.first_index, ok.last_index)),
        _ => None,
    };
    told.map(extent) != Some(extent(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_begin_with_one() {
        assert_eq!(offset_of(1), Ok(Offset::ZERO));
        assert_eq!(index_of(Offset(41)), 42);
        assert!(offset_of(0).is_err() && offset_of(u64::MAX).is_err());
    }
}
