//! The sparse indexes of a segment, and that of aborted transactions.
//!
//! A sparse index is a hint: it says where to begin a scan and never what is in the log. It can be
//! rebuilt from the segment, so it is never synced on the hot path, and a reader checks what it
//! finds where the index sent it. After a crash the indexes that were not synced are to be rebuilt
//! and not cut: the file may have lost pages in its middle.

pub use offset_index::{OffsetIndex, OffsetPosition};
pub use sparse_index::SparseIndex;
pub use time_index::{TimeIndex, TimestampOffset};
pub(crate) use transaction_index::{
    Searched, TransactionIndex, encode as encode_aborted, read as read_aborted,
};

mod offset_index;
mod search;
mod sparse_index;
mod time_index;
mod transaction_index;

#[cfg(test)]
mod tests;
