//! The shard as a driver sees it: stories, rules, and a simulation.

mod bounds;
mod cluster;
mod consumers;
mod driver;
mod format;
mod loading;
mod offsets;
mod rules;
mod simulation;
mod stories;
mod story;
mod streams;
