//! Why a connection is closed instead of answered.

use logway_wire::{ApiKey, DecodeError, EncodeError, VersionRange, WireString};
use thiserror::Error;

/// A frame without an answerable request; its connection is closed, as Kafka closes it.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    /// The frame does not begin with a request header of a known API.
    #[error("request header: {0}")]
    Header(DecodeError),
    /// The API exists, but is not served here.
    #[error("{0} is not served")]
    NotServed(&'static str),
    /// The API is served, but not at that version.
    #[error("{api} version {version} is not served (versions {served} are)")]
    UnsupportedVersion {
        /// The API.
        api: &'static str,
        /// What the client asked for.
        version: i16,
        /// What there is.
        served: VersionRange,
    },
    /// The bytes are not what the header says.
    #[error("{api} version {version} could not be decoded: {source}")]
    Decode {
        /// The API.
        api: &'static str,
        /// The version.
        version: i16,
        /// What was wrong, and where.
        source: DecodeError,
    },
    /// A handler's answer does not fit the version: our mistake.
    #[error("the answer to {api} version {version} could not be encoded: {source}")]
    Encode {
        /// The API.
        api: &'static str,
        /// The version.
        version: i16,
        /// Which field.
        source: EncodeError,
    },
    /// A Produce with acks 0 failed. The client waits for no answer, so closing is the only way
    /// to tell it.
    #[error("a produce request with acks=0 failed: {0}")]
    UnacknowledgedProduce(WireString),
}

/// Says of which answer it is that something in it does not fit the version.
pub(crate) fn encode_error(
    api_key: ApiKey,
    version: i16,
) -> impl Fn(EncodeError) -> RequestError + Copy {
    move |source| RequestError::Encode { api: api_key.name(), version, source }
}
