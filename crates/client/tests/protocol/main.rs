//! The client against a scripted broker on loopback: what real brokers do rarely or never.

mod admin;
mod committed_offsets;
mod connection;
mod consumer;
mod fake_broker;
mod fake_coordinator;
mod group;
mod metadata;
mod producer;
mod transactions;
