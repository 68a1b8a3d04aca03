//! Answers that can be much larger than their requests, and how large only the shards know.
//!
//! The shards are asked how much each part of the answer takes; the memory is taken; then they are
//! asked for it. All that happens when every earlier answer of the connection has been sent, so an
//! answer is never made before it can leave.

use std::future::Future;
use std::sync::Arc;

use logway_coordinator::{GroupShard, StateMachine};
use logway_model::ErrorCode;
use logway_wire::{Decoder, Request};

use crate::connection::UNCOUNTED_BYTES_MAX;
use crate::request::{EncodedReply, Reply};
use crate::request::{RequestContext, RequestError, Work, decode_request, encode_reply};
use logway_node::memory::Held;
use logway_node::shards::{Measured, Measuring};

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
                let encoded = encode_reply(&context, response, Vec::new())?;
                Ok(Some(EncodedReply { held, ..encoded }))
            })))
        })
    }))
}

/// A part of an answer, before it is measured.
pub(super) struct Part<T, M: StateMachine = GroupShard> {
    /// What it is about.
    pub(super) about: T,
    pub(super) measuring: Measuring<M>,
    /// How often the answer tells it.
    pub(super) mentions: usize,
}

/// A part of an answer.
pub(super) struct ToldPart<T, M: StateMachine = GroupShard> {
    /// What it is about.
    pub(super) about: T,
    pub(super) answer: Result<M::Reply, ErrorCode>,
    /// How often there is memory to tell it.
    pub(super) mentions: usize,
}

/// What becomes of an answer for which all memory there can be is too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooLarge {
    /// The parts that fit are told. Of the others, those that would fit alone are COORDINATOR_LOAD_IN_PROGRESS, at
    /// which clients ask again, and those that would not are POLICY_VIOLATION.
    TellInParts,
    /// All of it is POLICY_VIOLATION: a part is of no use.
    Refuse,
}

/// A part whose size is known, with how often it can be told.
struct Fitting<T, M: StateMachine> {
    about: T,
    question: Result<Measured<M>, ErrorCode>,
    mentions: usize,
}

/// Asks for the parts of an answer, as far as they fit into the memory for making answers.
///
/// Together with the parts comes the memory for them, to be held until they are sent.
pub(super) async fn ask_measured<T, M: StateMachine>(
    context: &RequestContext,
    parts: Vec<Part<T, M>>,
    too_large: TooLarge,
) -> (Vec<ToldPart<T, M>>, Held) {
    let bytes_max = context.building_budget().limit_bytes();
    let (fitting, answer_bytes) = fit(parts, bytes_max, too_large).await;
    let held = match memory_for(context, answer_bytes).await {
        Ok(held) => held,
        Err(code) => {
            let refuse =
                |Fitting { about, mentions, .. }| ToldPart { about, answer: Err(code), mentions };
            return (fitting.into_iter().map(refuse).collect(), None);
        }
    };
    // All are asked before any answer is waited for.
    let asked: Vec<_> = fitting
        .into_iter()
        .map(|Fitting { about, question, mentions }| {
            (about, question.map(|question| question.ask(held.clone())), mentions)
        })
        .collect();
    let mut told = Vec::with_capacity(asked.len());
    for (about, pending, mentions) in asked {
        let answer = match pending {
            Ok(pending) => pending.reply().await,
            Err(code) => Err(code),
        };
        told.push(ToldPart { about, answer, mentions });
    }
    (told, held)
}

/// Measures the parts; what of them fits, and how much that takes.
async fn fit<T, M: StateMachine>(
    parts: Vec<Part<T, M>>,
    bytes_max: usize,
    too_large: TooLarge,
) -> (Vec<Fitting<T, M>>, usize) {
    let (mut answer_bytes, mut left_out) = (0, false);
    let mut fitting = Vec::with_capacity(parts.len());
    for Part { about, measuring, mentions } in parts {
        let measured = measuring.measured().await;
        let bytes = measured.as_ref().map_or(0, |measured| measured.answer_bytes());
        let room = (bytes_max - answer_bytes).checked_div(bytes).unwrap_or(mentions);
        let (question, mentions) = match room.min(mentions) {
            0 if bytes > bytes_max => (Err(ErrorCode::PolicyViolation), mentions),
            0 => (measured.and(Err(ErrorCode::CoordinatorLoadInProgress)), mentions),
            mentions => (measured, mentions),
        };
        left_out |= question.is_err() && bytes > 0;
        answer_bytes += if question.is_ok() { bytes * mentions } else { 0 };
        fitting.push(Fitting { about, question, mentions });
    }
    if left_out && too_large == TooLarge::Refuse {
        fitting.iter_mut().for_each(|part| part.question = Err(ErrorCode::PolicyViolation));
        answer_bytes = 0;
    }
    (fitting, answer_bytes)
}

/// Waits for the memory, but not while others wait for what this connection holds: its client is
/// told to ask again then.
///
/// What was taken for the questions, which are over, is for the answer too: else a connection could wait for what it
/// holds itself.
async fn memory_for(context: &RequestContext, bytes: usize) -> Result<Held, ErrorCode> {
    let bytes = bytes.saturating_sub(context.building.as_ref().map_or(0, |share| share.bytes()));
    if bytes <= UNCOUNTED_BYTES_MAX {
        return Ok(None);
    }
    tokio::select! {
        biased;
        share = context.building_budget().take(bytes) => Ok(Some(Arc::new(share))),
        () = context.connection.hurry.asked() => Err(ErrorCode::CoordinatorLoadInProgress),
    }
}
