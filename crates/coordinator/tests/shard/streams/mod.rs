//! Streams groups (KIP-1071).

mod bounds;
mod simulation;
mod stories;
mod story;
