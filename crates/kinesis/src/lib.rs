//! The Kinesis front door: AWS's requests on top of a node.
//!
//! A stream is a topic, a shard a partition, and a sequence number carries an offset: what a Kinesis client puts, a Kafka client
//! reads, and the other way round. Here is what decodes, asks for permission, calls the node, and encodes; no rule of the log.
//!
//! | module | what it is about |
//! |---|---|
//! | [`server`], `timed_io`, `service` | listening, serving, stopping; what all requests share |
//! | `http`, `body`, `authentication`, `signature` | from an HTTP request to its response, in AWS's order of checks |
//! | `shapes`, `shape` | the operations and types of AWS's model, as tables |
//! | `json`, `cbor`, `value`, `type_error`, `validate` | values in both encodings, and what they must obey |
//! | `call`, `caller`, `operations` | one request, who makes it, and what each operation does |
//! | `tables` | DynamoDB's tables, as far as AWS's client library needs them |
//! | `monitoring`, `identity`, `query` | CloudWatch's PutMetricData and STS's GetCallerIdentity, and the protocol of forms |
//! | `stream_metrics` | what is counted of streams and shards |
//! | `sequence`, `token`, `names`, `event_stream` | what clients hold in their hands |
//! | [`client`] | a client, for the command line |
//! | `error` | AWS's errors |

mod authentication;
mod body;
mod call;
mod caller;
mod cbor;
pub mod client;
mod error;
mod event_stream;
mod http;
mod identity;
mod json;
mod monitoring;
mod names;
mod operations;
mod query;
mod sequence;
pub mod server;
mod service;
mod shape;
mod shapes;
mod signature;
mod stream_metrics;
mod tables;
mod timed_io;
mod token;
mod type_error;
mod validate;
mod value;

pub use server::{BoundListener, KinesisServer, ListenError};
