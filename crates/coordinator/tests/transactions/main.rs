//! The coordinator of transactions, driven from outside.

mod driver;
mod offsets;
mod random;
mod simulation;
mod stories;
mod story;
