//! The Kafka front door: connections, requests and their handlers.
//!
//! It decodes, asks the node, and encodes; it holds no rule of the log. A request's way: `connection`
//! reads its frame, `routes` finds its handler, the handler in `handlers` makes the response of what the
//! node says, and the connection sends the reply when it is complete.

mod authentication;
mod connection;
mod fetch_session;
mod handlers;
mod metrics;
mod request;
mod routes;
mod server;
mod service;
mod telemetry;

pub use server::{KafkaServer, Listeners};
