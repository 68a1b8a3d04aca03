//! Compaction: of each key the newest record stays.
//!
//! A log is read from where the last round ended for the newest offset of each key; then everything
//! older is written anew without what is superseded, a group of segments at a time, and each group's
//! successor takes its place. Offsets stay, so that nobody has to know.
//!
//! | file | idea |
//! |---|---|
//! | [`range`] | which part of a log may be cleaned, whether it is time, which segments become one |
//! | [`key_hash`] | by what keys are known |
//! | [`key_map`] | the newest offset of each key, in bounded memory |
//! | [`transactions`] | which transactions were taken back |
//! | [`batches`] | reading what is to be cleaned, with a check of everything |
//! | [`filter`] | what becomes of a batch |
//! | [`rewrite`] | writing the successor of a group |
//! | [`swap`] | putting it in their place, whatever crashes when |
//! | [`round`] | all of it, for one log |
//! | [`log_cleaner`] | which log is cleaned when, and by whom |
//! | [`pace`] | how fast, and how it is stopped |

pub use log_cleaner::{CleanerOptions, LogCleaner};
pub use metrics::CleanerMetrics;

pub(crate) use filter::{LastWrite, LastWrites};
pub(crate) use pace::Cancel;
pub(crate) use swap::{
    CLEANED_SUFFIX, SWAP_SUFFIX, cleaned_path, discard as discard_cleaned,
    end_of as end_of_cleaned, finish as finish_swap, name as name_swap, swap_path,
};

mod batches;
mod filter;
mod key_hash;
mod key_map;
mod log_cleaner;
mod metrics;
mod pace;
mod range;
mod rewrite;
mod round;
mod swap;
mod transactions;
