//! What a client may do, as bit fields (KIP-430).
//!
//! Bit *n* stands for the operation that Kafka's `AclOperation` numbers *n*. The fields come from
//! [`RequestContext::authorized_operations`](crate::request::RequestContext::authorized_operations).

/// The answer to a client that did not ask.
pub(super) const NOT_ASKED: i32 = i32::MIN;
