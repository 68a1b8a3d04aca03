//! A request from its frame to its reply, as handlers see it.
//!
//! | file | idea |
//! |---|---|
//! | [`context`], [`connection_info`] | what a handler knows beside the request |
//! | [`access`] | what it gets of the node, by name and operation |
//! | [`work`] | a decoded request, and the work on it |
//! | [`encode`] | bytes to fields, and back |
//! | [`reply`] | what the connection sends |
//! | [`error`] | why it is closed instead |
//! | [`hurry`], [`mute`] | what the connection asks of requests that wait, and how long it is not read |
//! | [`charge`], [`timer`] | what a request uses up of its client's quotas |

mod access;
mod charge;
mod connection_info;
mod context;
mod encode;
mod error;
mod hurry;
mod mute;
mod reply;
mod timer;
mod work;

pub(crate) use access::{
    Cluster, KnownTopics, ServedTopics, Sizes, TopicGrant, refusal, refusal_text,
};
pub(crate) use charge::{OverQuota, RequestCharge};
pub(crate) use connection_info::{ClientSoftware, ConnectionInfo};
pub(crate) use context::{RequestContext, RequestOrigin};
pub(crate) use encode::{DENSE_BYTES_MIN, decode_request, decoded_bytes_max, encode_reply};
pub(crate) use error::{RequestError, encode_error};
pub(crate) use hurry::Hurry;
pub(crate) use mute::Mute;
pub(crate) use reply::{EncodedReply, PendingReply, Reply, ReplyFuture};
pub(crate) use work::{Started, Work, prepare_for};
