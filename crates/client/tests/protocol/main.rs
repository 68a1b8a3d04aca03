//! The client against a scripted broker on loopback: what real brokers do rarely or never.

mod connection;
mod consumer;
mod fake_broker;
mod metadata;
mod producer;
