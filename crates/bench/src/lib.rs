//! Experiments against any broker that speaks Kafka's protocol, Logway or Apache Kafka.
//!
//! The load is made of frames that are encoded once, so that what is measured is the broker and
//! not the generator.

pub mod appends;
mod pipeline;
