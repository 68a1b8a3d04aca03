//! What is in the batches that requests bring.

use std::collections::VecDeque;

use super::frames::Payload;

/// Of each request in turn, as it is counted.
#[derive(Debug)]
pub(crate) enum Payloads {
    /// Those of a tape, at least one, again and again.
    InTurn { payloads: Vec<Payload>, counted: usize },
    /// Of what was encoded and is not yet counted: no more than is on its way.
    AsEncoded(VecDeque<Payload>),
}

impl Payloads {
    /// What is in the batch whose turn it is.
    pub(super) fn next(&mut self) -> Payload {
        match self {
            Payloads::InTurn { payloads, counted } => {
                let payload = payloads[*counted % payloads.len()];
                *counted += 1;
                payload
            }
            Payloads::AsEncoded(payloads) => payloads.pop_front().expect("each was encoded before"),
        }
    }

    /// One more will come.
    pub(super) fn push(&mut self, payload: Payload) {
        if let Payloads::AsEncoded(payloads) = self {
            payloads.push_back(payload);
        }
    }
}
