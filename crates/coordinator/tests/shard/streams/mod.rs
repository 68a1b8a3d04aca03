//! Streams groups (KIP-1071).

mod bounds;
mod rules;
mod simulation;
mod stories;
mod story;
