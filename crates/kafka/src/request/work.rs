//! A decoded request, and the work on it.

use std::future::Future;
use std::sync::Arc;

use logway_node::memory::{BudgetShare, Held};
use logway_wire::messages::ProduceRequest;
use logway_wire::{ApiKey, Decoder, Request};

use super::context::RequestContext;
use super::encode::{decode_request, encode_reply};
use super::error::RequestError;
use super::reply::{Reply, ReplyFuture};
use crate::handlers::produce;

/// A decoded request, before its work begins.
pub(crate) struct Work {
    /// The API.
    pub(crate) api_key: ApiKey,
    /// What answering may take, in bytes and beyond the request's own memory: an estimate that the
    /// handler makes of the request, and that the connection gets before it runs the work.
    pub(crate) built_bytes: usize,
    context: RequestContext,
    todo: Todo,
}

/// What is to be done for a request.
enum Todo {
    /// By far the most frequent, and often done at once.
    Produce(ProduceRequest),
    Other(Box<dyn FnOnce(RequestContext) -> ReplyFuture + Send>),
}

/// Work that was started.
pub(crate) enum Started {
    /// It is done as far as the next request has to wait for it.
    Done(Reply),
    Working(ReplyFuture),
}

impl Work {
    /// The appends of a Produce.
    pub(crate) fn produce(
        context: RequestContext,
        built_bytes: usize,
        request: ProduceRequest,
    ) -> Work {
        let todo = Todo::Produce(request);
        Work { api_key: ApiKey::Produce, built_bytes, context, todo }
    }

    /// Work that `start` begins.
    pub(crate) fn new(
        context: RequestContext,
        built_bytes: usize,
        api_key: ApiKey,
        start: impl FnOnce(RequestContext) -> ReplyFuture + Send + 'static,
    ) -> Work {
        Work { api_key, built_bytes, context, todo: Todo::Other(Box::new(start)) }
    }

    /// Starts the work, with the memory of the request, and that for the answer where it takes much.
    ///
    /// Ends when the request has been worked on far enough for the next one of the connection to
    /// be started: its effects are ordered, its answer may come later.
    pub(crate) fn run(
        mut self,
        request_share: Arc<BudgetShare>,
        building: Held,
        is_heavy: bool,
    ) -> Started {
        self.context.request_share = Some(request_share);
        self.context.building = building;
        let Work { context, todo, .. } = self;
        match (context.charge.clone(), todo) {
            (Some(charge), todo) => Started::Working(Box::pin(charge.run(|| todo.start(context)))),
            (None, Todo::Produce(request)) if !is_heavy => {
                match produce::try_start_now(context, request) {
                    Ok(reply) => Started::Done(reply),
                    Err(slow) => {
                        let (context, request) = *slow;
                        Started::Working(produce::start_appends(context, request))
                    }
                }
            }
            (None, todo) => Started::Working(todo.start(context)),
        }
    }
}

impl Todo {
    fn start(self, context: RequestContext) -> ReplyFuture {
        match self {
            Todo::Produce(request) => produce::start_appends(context, request),
            Todo::Other(start) => start(context),
        }
    }
}

/// Decodes a request whose handler's answer is complete when it returns.
pub(crate) fn prepare_for<R, F>(
    context: RequestContext,
    body: Decoder,
    built_bytes: impl FnOnce(&RequestContext, &R) -> usize,
    handle: impl FnOnce(RequestContext, R) -> F + Send + 'static,
) -> Result<Work, RequestError>
where
    R: Request + Send + 'static,
    F: Future<Output = R::Response> + Send,
{
    let request: R = decode_request(&context, body)?;
    let built_bytes = built_bytes(&context, &request);
    Ok(Work::new(context, built_bytes, R::API_KEY, |context| {
        Box::pin(async move {
            let response = handle(context.clone(), request).await;
            encode_reply(&context, response, Vec::new()).map(Reply::Ready)
        })
    }))
}
