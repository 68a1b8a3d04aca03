//! DescribeGroups.

use std::collections::HashSet;
use std::future::Future;

use logway_coordinator::{Reply as ShardOutcome, RequestBody};
use logway_model::ErrorCode;
use logway_wire::messages::describe_groups_response::DescribedGroup;
use logway_wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use logway_wire::{Decoder, WireString};

use super::describing::{Asked, Described, describe};
use super::expect_reply;
use crate::handlers::measured::{self, QUESTION_BYTES};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::memory::Held;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let built_bytes = |request: &DescribeGroupsRequest| request.groups.len() * QUESTION_BYTES;
    measured::prepare(context, body, built_bytes, start)
}

fn start(
    context: &RequestContext,
    request: DescribeGroupsRequest,
) -> impl Future<Output = (DescribeGroupsResponse, Held)> + use<> {
    let asked = Asked {
        groups: request.groups,
        body: |groups| RequestBody::DescribeGroups { groups },
        is_served: true,
        tells_operations: request.include_authorized_operations,
    };
    let described = describe(context, asked);
    async move {
        let (groups, held) = described.await;
        (DescribeGroupsResponse { groups, ..Default::default() }, held)
    }
}

impl Described for DescribedGroup {
    fn refused(
        group_id: WireString,
        code: ErrorCode,
        message: Option<&'static str>,
    ) -> DescribedGroup {
        DescribedGroup {
            group_id,
            error_code: code.code(),
            error_message: message.map(Into::into),
            ..Default::default()
        }
    }

    fn of_outcome(outcome: ShardOutcome) -> Vec<DescribedGroup> {
        expect_reply!(outcome, DescribeGroups)
    }

    fn group_id(&self) -> &WireString {
        &self.group_id
    }

    fn error_code(&self) -> i16 {
        self.error_code
    }

    fn named_topics(&self) -> HashSet<&str> {
        // What members are assigned is opaque to the broker.
        HashSet::new()
    }

    fn set_authorized_operations(&mut self, operations: i32) {
        self.authorized_operations = operations;
    }
}
