//! Answers that can be much larger than their requests, and how large only the shards know.
//!
//! The shards are asked how much each part of the answer takes; the memory is taken; then they are
//! asked for it. All that happens when every earlier answer of the connection has been sent, so an
//! answer is never made before it can leave.

use std::future::Future;
use std::sync::Arc;

use logway_coordinator::Reply as ShardReply;
use logway_model::ErrorCode;
use logway_wire::{Decoder, Request};

use crate::connection::{BudgetShare, EncodedReply, Reply, UNCOUNTED_BYTES_MAX};
use crate::dispatch::{RequestContext, RequestError, Work, decode_request, encode_reply};
use crate::groups::Measuring;

/// The memory that is held for an answer until it is sent.
pub(super) type Held = Option<Arc<BudgetShare>>;

/// What one question to one shard costs, for as long as it is open.
pub(super) const QUESTION_BYTES: usize = 1_024;

/// Work whose answer is measured. `built_bytes` are for the questions.
pub(super) fn prepare<R, F>(
    context: RequestContext,
    body: Decoder,
    built_bytes: impl FnOnce(&R) -> usize,
    start: impl FnOnce(&RequestContext, R) -> F + Send + 'static,
) -> Result<Work, RequestError>
where
    R: Request + Send + 'static,
    F: Future<Output = (R::Response, Held)> + Send + 'static,
{
    let request: R = decode_request(&context, body)?;
    let built_bytes = built_bytes(&request);
    Ok(Work::new(context, built_bytes, R::API_KEY, |context| {
        let answer = start(&context, request);
        Box::pin(async move {
            Ok(Reply::Later(Box::pin(async move {
                let (response, held) = answer.await;
                let encoded = encode_reply(&context, &response, Vec::new())?;
                Ok(Some(EncodedReply { held, ..encoded }))
            })))
        })
    }))
}

/// Asks for the parts of an answer that is larger than `bytes_max` as far as they fit, but always
/// for the first; clients ask again for parts that are COORDINATOR_LOAD_IN_PROGRESS.
///
/// Together with the parts comes the memory for them, to be held until they are sent.
pub(super) async fn ask_measured<T>(
    context: &RequestContext,
    parts: Vec<(T, Measuring)>,
    bytes_max: usize,
) -> (Vec<(T, Result<ShardReply, ErrorCode>)>, Held) {
    let mut measured = Vec::with_capacity(parts.len());
    let mut answer_bytes = 0;
    for (part, measuring) in parts {
        let question = match measuring.measured().await {
            Ok(question) => {
                let with_this = answer_bytes + question.answer_bytes();
                match answer_bytes == 0 || with_this <= bytes_max {
                    true => {
                        answer_bytes = with_this;
                        Ok(question)
                    }
                    false => Err(ErrorCode::CoordinatorLoadInProgress),
                }
            }
            Err(code) => Err(code),
        };
        measured.push((part, question));
    }
    let held = match memory_for(context, answer_bytes).await {
        Ok(held) => held,
        Err(code) => {
            let refused = measured.into_iter().map(|(part, _)| (part, Err(code)));
            return (refused.collect(), None);
        }
    };
    // All are asked before any answer is waited for.
    let asked: Vec<_> = measured
        .into_iter()
        .map(|(part, question)| (part, question.map(|question| question.ask(held.clone()))))
        .collect();
    let mut answers = Vec::with_capacity(asked.len());
    for (part, pending) in asked {
        let answer = match pending {
            Ok(pending) => pending.reply().await,
            Err(code) => Err(code),
        };
        answers.push((part, answer));
    }
    (answers, held)
}

/// Waits for the memory, but not while others wait for what this connection holds: its client is
/// told to ask again then.
async fn memory_for(context: &RequestContext, bytes: usize) -> Result<Held, ErrorCode> {
    if bytes <= UNCOUNTED_BYTES_MAX {
        return Ok(None);
    }
    tokio::select! {
        biased;
        share = context.broker.building.take(bytes) => Ok(Some(Arc::new(share))),
        () = context.connection.hurry.asked() => Err(ErrorCode::CoordinatorLoadInProgress),
    }
}
