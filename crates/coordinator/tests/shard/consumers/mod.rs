//! Consumer groups (KIP-848).

mod migration;
mod rules;
mod simulation;
mod stories;
mod story;
