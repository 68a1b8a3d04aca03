//! Deleting groups.

use logway_wire::WireString;
use logway_wire::messages::DeleteGroupsRequest;

use crate::coordinator::{AfterBreak, CoordinatorKey};
use crate::error::check;
use crate::{Client, ClientError};

impl Client {
    /// Deletes a group with its committed offsets. It must have no members.
    pub async fn delete_group(&self, group: &str) -> Result<(), ClientError> {
        let request = |_| DeleteGroupsRequest {
            groups_names: vec![WireString::copy_of(group)],
            ..DeleteGroupsRequest::default()
        };
        let response = self
            .call_coordinator(
                CoordinatorKey::Group(group),
                i16::MAX,
                AfterBreak::GiveUp,
                request,
                |response| response.results.first().map_or(0, |result| result.error_code),
            )
            .await?;
        let what = || format!("delete group '{group}'");
        response.results.iter().try_for_each(|result| check(what, result.error_code, None))
    }
}
