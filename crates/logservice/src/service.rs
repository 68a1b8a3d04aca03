//! What all connections share.

use std::sync::Arc;

use bytes::Bytes;
use logway_model::TopicId;
use logway_node::Node;
use logway_node::memory::MemoryBudget;
use tokio::sync::watch;

use crate::client_turns::ClientTurns;
use crate::log_looks::LogLooks;
use crate::logspec;
use crate::metrics::Metrics;
use crate::open_streams::OpenStreams;
use crate::shared::Shared;

/// Filters, projections and schemas that readers keep may take this part of what requests may.
const SELECTIONS_PART: usize = 8;

/// A node as clients of the log service see it.
pub(crate) struct Service {
    /// What is served.
    pub(crate) node: Arc<Node>,
    /// Turns true when the front door closes.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) metrics: Metrics,
    pub(crate) streams: OpenStreams,
    /// What there is to tell of each log that somebody asks about.
    pub(crate) looks: Shared<TopicId, LogLooks<Bytes>>,
    /// The same in the words of `logspec`.
    pub(crate) logspec_looks: Shared<TopicId, LogLooks<logspec::Seen>>,
    pub(crate) reply_turns: ClientTurns,
    /// Of those who read batches that take much memory.
    pub(crate) large_turns: ClientTurns,
    /// What readers keep for as long as they read. It is not that of requests: appends would wait for readers that never end.
    pub(crate) selections: MemoryBudget,
}

impl Service {
    pub(crate) fn new(
        node: Arc<Node>,
        metrics: Metrics,
        stopping: watch::Receiver<bool>,
    ) -> Service {
        let memory = &node.memory;
        let selections_bytes = memory.requests.limit_bytes() / SELECTIONS_PART;
        let selections = MemoryBudget::new(selections_bytes, Arc::clone(&memory.attention));
        Service {
            node,
            stopping,
            metrics,
            streams: OpenStreams::default(),
            looks: Shared::default(),
            logspec_looks: Shared::default(),
            reply_turns: ClientTurns::default(),
            large_turns: ClientTurns::default(),
            selections,
        }
    }
}
