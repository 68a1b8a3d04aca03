//! What all connections share.

use std::sync::Arc;

use logway_node::Node;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::grpc::status::{Code, Status};
use crate::metrics::Metrics;

/// Streams that may be open here, over all connections. Each may wait for another node.
const STREAMS_MAX: usize = 4_000;

/// A node as clients of the log service see it.
pub(crate) struct Service {
    /// What is served.
    pub(crate) node: Arc<Node>,
    /// Turns true when the front door closes.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) metrics: Metrics,
    streams: Arc<Semaphore>,
}

impl Service {
    pub(crate) fn new(
        node: Arc<Node>,
        metrics: Metrics,
        stopping: watch::Receiver<bool>,
    ) -> Service {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        Service { node, stopping, metrics, streams }
    }

    /// A place for one more stream.
    pub(crate) fn stream_place(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let message = format!("{STREAMS_MAX} streams are open at this node");
            Status::new(Code::ResourceExhausted, "TOO_MANY_STREAMS", message)
                .remedy("ask another node")
        })
    }
}
