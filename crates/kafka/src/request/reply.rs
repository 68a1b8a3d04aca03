//! What a connection sends for a request.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use logway_log::FileRange;
use logway_node::memory::Held;

use super::error::RequestError;

/// A reply as it goes out: bytes in memory, with file ranges in between for `sendfile`.
#[derive(Debug, Default)]
pub(crate) struct EncodedReply {
    /// The whole frame but for the file ranges, length field first.
    pub(crate) bytes: Bytes,
    /// In the order of their places.
    pub(crate) files: Vec<FileSpan>,
    /// The memory that this was made with, beside that of its [`OwedReply`].
    pub(crate) held: Held,
}

/// Ranges of a segment file that belong at a place of a reply.
#[derive(Debug)]
pub(crate) struct FileSpan {
    /// Sent after this many bytes of [`EncodedReply::bytes`].
    pub(crate) after_bytes: usize,
    /// What to send.
    pub(crate) range: FileRange,
}

/// A reply that is still in the making; `None` where the client asked for none (acks 0), and an
/// error where the connection must end.
pub(crate) type PendingReply =
    Pin<Box<dyn Future<Output = Result<Option<EncodedReply>, RequestError>> + Send>>;

/// What a handler returns.
pub(crate) enum Reply {
    /// The answer is here.
    Ready(EncodedReply),
    /// The answer waits for something, a disk sync or new records; meanwhile the connection goes
    /// on to its next request.
    Later(PendingReply),
    /// The answer waits for other clients. The memory of the request is given back now: what is
    /// still held of it is counted elsewhere.
    Parked(PendingReply),
}

/// A handler at work.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = Result<Reply, RequestError>> + Send>>;
