//! The log service: gRPC streams on top of a node.
//!
//! A log is a topic. Here is what decodes, asks for permission, calls the node, and encodes; no rule of the log.
//!
//! | module | what it is about |
//! |---|---|
//! | `server`, `connection`, `connection_info`, `service`, `shared`, `metrics` | listening, serving, stopping; what calls share |
//! | `grpc` | messages and statuses on the wire |
//! | [`messages`] | the messages, generated from `proto` (`cargo xtask codegen`) |
//! | `routes`, `authentication`, `call`, `quota` | from an HTTP request to its response: what is served, whom it is of, what that one may and uses |
//! | `open_streams`, `unread`, `building`, `client_turns` | bounds on what clients keep: streams, and replies that they do not take; turns of those who wait |
//! | `append`, `read`, `info`, `log_looks` | the methods of `logway.log.v1` |
//! | `logspec` | Akutan's service |
//! | `health`, `reflection` | gRPC's own services |
//! | `client` | the other side, for command lines |

mod append;
mod authentication;
mod building;
mod call;
mod client;
mod client_turns;
mod connection;
mod connection_info;
mod grpc;
mod health;
mod info;
mod log_looks;
mod logspec;
#[allow(missing_docs, clippy::all, reason = "generated; the proto files have the words")]
#[rustfmt::skip]
pub mod messages;
mod metrics;
mod open_streams;
mod quota;
mod read;
mod reflection;

mod routes;
mod server;
mod service;
mod shared;
mod unread;

pub use client::{AppendSender, DEFAULT_PORT, LogClient, LogClientError, NoHttp2, Replies};
pub use logway_node::listener::ListenError;
pub use server::{LogListeners, LogServer};
