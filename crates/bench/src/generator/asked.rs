//! The requests that wait for their answers.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Context, ensure};

/// When each request that has no answer yet was due, the oldest first: brokers answer the requests
/// of a connection in their order.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(super) due: VecDeque<Instant>,
    next_answer_id: i32,
}

impl Asked {
    /// A request was sent.
    pub(crate) fn push(&mut self, due: Instant) {
        self.due.push_back(due);
    }

    /// The oldest request is answered. Returns when it was due.
    ///
    /// # Errors
    ///
    /// Nothing was asked.
    pub(crate) fn pop(&mut self) -> anyhow::Result<Instant> {
        self.due.pop_front().context("an answer without a request")
    }

    /// The same for an answer of Kafka's protocol, which begins with its request's id.
    ///
    /// # Errors
    ///
    /// Nothing was asked, or it was something else.
    pub(super) fn answered(&mut self, head: &[u8]) -> anyhow::Result<Instant> {
        let id = head.first_chunk().map(|&id| i32::from_be_bytes(id));
        ensure!(id == Some(self.next_answer_id), "an answer out of order");
        self.next_answer_id = self.next_answer_id.wrapping_add(1);
        self.pop()
    }
}
