//! ListGroups.

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_model::ErrorCode;
use logway_wire::messages::{ListGroupsRequest, ListGroupsResponse};
use logway_wire::{Decoder, WireString};

use super::{expect_reply, question};
use crate::handlers::measured::{self, Part, TooLarge, ask_measured};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::memory::Held;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    measured::prepare(context, body, |_: &ListGroupsRequest| 0, start)
}

fn start(
    context: &RequestContext,
    request: ListGroupsRequest,
) -> impl Future<Output = (ListGroupsResponse, Held)> + use<> {
    let request = ListGroupsRequest {
        states_filter: distinct(request.states_filter),
        types_filter: distinct(request.types_filter),
        ..Default::default()
    };
    let ask = || question(context, RequestBody::ListGroups(request.clone()));
    let shards = context.measure_all_groups(ask).into_iter();
    let parts = shards.map(|measuring| Part { about: (), measuring, mentions: 1 }).collect();
    let context = context.clone();
    async move {
        let mut response = ListGroupsResponse::default();
        let (told, held) = ask_measured(&context, parts, TooLarge::Refuse).await;
        for part in told {
            let shard = match part.answer {
                Ok(reply) => expect_reply!(reply, ListGroups),
                // One that has just gone has no groups here any more.
                Err(ErrorCode::NotCoordinator) => continue,
                Err(code) => ListGroupsResponse { error_code: code.code(), ..Default::default() },
            };
            if shard.error_code != 0 {
                response.error_code = shard.error_code;
            }
            response.groups.extend(shard.groups);
        }
        let is_seen = context.seen_groups();
        response.groups.retain(|group| is_seen(&group.group_id));
        (response, held)
    }
}

/// A filter as every shard gets it: there are fewer states and types than this, however often a
/// request names them.
fn distinct(names: Vec<WireString>) -> Vec<WireString> {
    const NAMES_MAX: usize = 32;
    let mut distinct: Vec<WireString> = Vec::new();
    for name in names {
        if distinct.len() < NAMES_MAX && !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}
