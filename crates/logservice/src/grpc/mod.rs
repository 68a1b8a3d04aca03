//! gRPC over HTTP/2: messages in frames of five bytes and a payload, and a status in the trailers.
//!
//! It is done here and not by a framework for two reasons. Memory is taken as a message's bytes come, while a framework
//! allocates what its prefix announces. And batches of the log are sent from where they were read to, without a copy.
//!
//! | file | idea |
//! |---|---|
//! | [`status`] | codes, and details that name log, offset and remedy |
//! | [`inbound`] | the messages of a request |
//! | [`outbound`] | the messages of a response, and its end |
//! | [`timeout`] | a client's deadline |
//! | [`fields`] | a message field by field, where it must not be decoded at once |
//!
//! Source: the protocol's description, `doc/PROTOCOL-HTTP2.md` of grpc/grpc.

pub(crate) mod fields;
pub(crate) mod inbound;
pub(crate) mod outbound;
pub(crate) mod status;
pub(crate) mod timeout;

/// A frame's flag whether it is compressed, and the length of its message.
pub(crate) const PREFIX_BYTES: usize = 5;
