//! Streams groups (KIP-1071).

mod simulation;
mod stories;
mod story;
