//! Bytes in, events out, and back. Nothing here waits but for the socket that it is given, and nothing allocates
//! on a length before its bytes have come.

pub(crate) mod avro;
pub(crate) mod avro_file;
pub(crate) mod avro_rpc;
pub(crate) mod budget;
pub(crate) mod deflated;
pub(crate) mod file_lines;
pub(crate) mod forward;
pub(crate) mod intake;
pub(crate) mod journal;
pub(crate) mod json;
pub(crate) mod json_tree;
pub(crate) mod lines;
pub(crate) mod msgpack;
pub(crate) mod otlp;
pub(crate) mod packing;
pub(crate) mod protobuf;
pub(crate) mod serializer;
pub(crate) mod syslog;
pub(crate) mod thrift;
pub(crate) mod time;
pub(crate) mod wire;

/// Why bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) String);

impl Malformed {
    pub(crate) fn new(what: impl Into<String>) -> Malformed {
        Malformed(what.into())
    }
}

/// Why a message is no events.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unread {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// There is no more memory for it.
    #[error(transparent)]
    Exhausted(#[from] budget::Exhausted),
    /// It has more events than so many.
    #[error(
        "there are more than {0} events, which is all that the source's channels take in one transaction \
         (transactionCapacity)"
    )]
    TooMany(usize),
}

impl Unread {
    /// Whether the same message will never be read.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Unread::Malformed(_) | Unread::TooMany(_) => true,
            Unread::Exhausted(why) => why.is_final(),
        }
    }
}
