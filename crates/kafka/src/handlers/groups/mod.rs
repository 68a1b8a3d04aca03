//! Groups: what clients ask of the coordinator.
//!
//! A handler asks the group's shard before the connection's next request is started, so the order
//! of a client's requests is the order in which the shard sees them; the answer is waited for in
//! the reply queue.

pub(crate) mod heartbeat;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod sync_group;

pub(crate) mod consumer_describe;
pub(crate) mod consumer_heartbeat;

pub(crate) mod streams_describe;
pub(crate) mod streams_heartbeat;

pub(crate) mod offset_commit;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;
mod topic_names;

pub(crate) mod delete_groups;
pub(crate) mod describe_groups;
mod describing;
pub(crate) mod list_groups;

use std::future::Future;

use logway_coordinator::{Client, Reply as ShardOutcome, RequestBody};
use logway_model::ErrorCode;
use logway_wire::{Decoder, Request, WireString};

use crate::request::{EncodedReply, Reply};
use crate::request::{RequestContext, RequestError, Work, decode_request, encode_reply};
use logway_node::access::Operation;
use logway_node::groups::{GroupOutcome, Pending, Question};

/// Work that ends when the shard has answered, which depends on the disk alone. Of the answer,
/// `built_bytes` is an estimate.
fn prepare<R, F>(
    context: RequestContext,
    body: Decoder,
    built_bytes: impl FnOnce(&RequestContext, &R) -> usize,
    start: impl FnOnce(&RequestContext, R) -> F + Send + 'static,
) -> Result<Work, RequestError>
where
    R: Request + Send + 'static,
    F: Future<Output = R::Response> + Send + 'static,
{
    let request: R = decode_request(&context, body)?;
    let built_bytes = built_bytes(&context, &request);
    Ok(Work::new(context, built_bytes, R::API_KEY, |context| {
        let response = start(&context, request);
        Box::pin(async move {
            Ok(Reply::Later(Box::pin(async move {
                encode_reply(&context, response.await, Vec::new()).map(Some)
            })))
        })
    }))
}

/// Work that ends when the group's other members have done their part, for which the memory of the
/// request is not held: the shard holds it until it has seen the request, and counts what it keeps.
fn prepare_with_group<R>(
    context: RequestContext,
    body: Decoder,
    ask: impl FnOnce(&RequestContext, R) -> Pending + Send + 'static,
    response: impl FnOnce(i16, Result<ShardOutcome, ErrorCode>) -> R::Response + Send + 'static,
) -> Result<Work, RequestError>
where
    R: Request + Send + 'static,
    R::Response: Send,
{
    let request: R = decode_request(&context, body)?;
    Ok(Work::new(context, 0, R::API_KEY, |mut context| {
        let pending = ask(&context, request);
        context.request_share = None;
        // A slice of the frame would keep all of it while the client waits.
        context.client_id = context.client_id.map(|id| id.detached());
        Box::pin(async move {
            Ok(Reply::Parked(Box::pin(async move {
                let (reply, held) = match group_outcome(&context, pending).await {
                    Ok((reply, held)) => (Ok(reply), held),
                    Err(code) => (Err(code), None),
                };
                let response = response(context.version, reply);
                let encoded = encode_reply(&context, response, Vec::new())?;
                Ok(Some(EncodedReply { held, ..encoded }))
            })))
        })
    }))
}

/// A question to a shard, from the client of a request.
pub(super) fn question(context: &RequestContext, body: RequestBody) -> Question {
    let host = context.connection.peer.ip().to_canonical();
    let client = Client {
        id: context.client_id.clone().unwrap_or_default(),
        // As Java prints an address without a name.
        host: WireString::from(format!("/{host}")),
    };
    let held = [&context.request_share, &context.building];
    let held = held.into_iter().flatten().cloned().collect();
    Question { version: context.version, client, body, held }
}

/// Asks the shard of a group, if the requester may do an operation with the group.
fn ask_group(
    context: &RequestContext,
    group: &WireString,
    operation: Operation,
    body: RequestBody,
) -> Pending {
    match context.group(group, operation) {
        Ok(group) => group.ask(question(context, body)),
        Err(code) => Pending::refused(code),
    }
}

/// Waits for a reply that depends on other members: no longer than this client does, and than the
/// broker runs. Then it is told to look for its coordinator and ask again, which every client does at
/// this code; at COORDINATOR_NOT_AVAILABLE some give up.
async fn group_outcome(context: &RequestContext, pending: Pending) -> GroupOutcome {
    tokio::select! {
        biased;
        answer = pending.outcome_of_parked() => answer,
        () = context.connection.hurry.asked() => Err(ErrorCode::NotCoordinator),
    }
}

/// Gathers what the shards of several groups answer for each; of those whose shard does not,
/// `refused` makes the answer.
async fn gather<T>(
    pending: Vec<(Vec<WireString>, Pending)>,
    answers: impl Fn(ShardOutcome) -> Vec<T>,
    refused: impl Fn(WireString, ErrorCode) -> T,
) -> Vec<T> {
    let mut gathered = Vec::new();
    for (groups, pending) in pending {
        match pending.reply().await {
            Ok(reply) => gathered.extend(answers(reply)),
            Err(code) => gathered.extend(groups.into_iter().map(|group| refused(group, code))),
        }
    }
    gathered
}

/// Takes the reply to a request out of those to all requests.
macro_rules! expect_reply {
    ($reply:expr, $kind:ident) => {
        match $reply {
            logway_coordinator::Reply::$kind(response) => response,
            other => unreachable!("the shard answered {other:?}"),
        }
    };
}
pub(super) use expect_reply;
