//! How large the batches are that requests bring.

use std::collections::VecDeque;

use super::frames::BatchSize;

/// Of each request in turn, as it is counted.
#[derive(Debug)]
pub(crate) enum Sizes {
    /// Those of a tape, at least one, again and again.
    InTurn { sizes: Vec<BatchSize>, counted: usize },
    /// Of what was encoded and is not yet counted: no more than is on its way.
    AsEncoded(VecDeque<BatchSize>),
}

impl Sizes {
    /// The size of the batch whose turn it is.
    pub(super) fn next(&mut self) -> BatchSize {
        match self {
            Sizes::InTurn { sizes, counted } => {
                let size = sizes[*counted % sizes.len()];
                *counted += 1;
                size
            }
            Sizes::AsEncoded(sizes) => sizes.pop_front().expect("each was encoded before"),
        }
    }

    /// One more will come.
    pub(super) fn push(&mut self, size: BatchSize) {
        if let Sizes::AsEncoded(sizes) = self {
            sizes.push_back(size);
        }
    }
}
