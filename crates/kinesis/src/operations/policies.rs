//! Resource policies: kept and told, as they were given. They grant nothing here.

use logway_metadata::controller::StreamChange;
use logway_node::access::Operation as Permission;
use serde::de::IgnoredAny;

use super::tags::resource;
use crate::call::{Call, Reply};
use crate::error::ApiError;
use crate::value::Structure;

/// The longest policy, in bytes.
const POLICY_BYTES_MAX: usize = 20 << 10;

/// What a resource has that was given none.
const NO_POLICY: &str = "{}";

pub(super) async fn put(call: &Call) -> Result<Reply, ApiError> {
    let (found, consumer) = resource(call, Permission::Alter)?;
    let policy = call.input.text("Policy").unwrap_or_default();
    if policy.len() > POLICY_BYTES_MAX {
        return Err(ApiError::argument(format!("A policy has at most {POLICY_BYTES_MAX} bytes.")));
    }
    if serde_json::from_str::<IgnoredAny>(policy).is_err() {
        return Err(ApiError::argument("The policy is not JSON."));
    }
    call.change(&found, StreamChange::Policy(consumer, Some(policy.to_owned()))).await?;
    Ok(Reply::Empty)
}

pub(super) fn get(call: &Call) -> Result<Reply, ApiError> {
    let (found, consumer) = resource(call, Permission::Describe)?;
    let state = found.state();
    let policy = match &consumer {
        Some(name) => state.consumers.get(name).and_then(|consumer| consumer.policy.clone()),
        None => state.policy.clone(),
    };
    let policy = policy.unwrap_or_else(|| NO_POLICY.to_owned());
    Ok(Structure::new().with("Policy", policy).into())
}

pub(super) async fn delete(call: &Call) -> Result<Reply, ApiError> {
    let (found, consumer) = resource(call, Permission::Alter)?;
    call.change(&found, StreamChange::Policy(consumer, None)).await?;
    Ok(Reply::Empty)
}
