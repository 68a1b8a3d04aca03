//! ListConfigResources: what has settings (KIP-1142); version 0 lists the subscriptions to clients'
//! metrics alone (KIP-1000).

use std::collections::BTreeSet;

use logway_metadata::{ConfigResource, MetadataImage};
use logway_model::{BrokerId, ErrorCode};
use logway_wire::WireString;
use logway_wire::messages::list_config_resources_response;
use logway_wire::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};

use super::building::{ENTRY_BYTES, with_all};
use super::config_resource::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use crate::request::RequestContext;
use logway_node::access::Operation;

/// Before this version there were no types to choose from.
const WITH_TYPES_FROM: i16 = 1;

/// Everything that has settings may be in the answer.
pub(crate) fn built_bytes(
    context: &RequestContext,
    _request: &ListConfigResourcesRequest,
) -> usize {
    let sizes = context.sizes();
    let all = sizes.topic_count() + sizes.overriding_count() + sizes.broker_count();
    with_all(context, 0, all * ENTRY_BYTES)
}

pub(crate) async fn handle(
    context: RequestContext,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    let cluster = match context.cluster(Operation::DescribeConfigs) {
        Ok(cluster) => cluster,
        Err(code) => return refused(code),
    };
    let types = match asked_types(context.version, &request.resource_types) {
        Ok(types) => types,
        Err(code) => return refused(code),
    };
    let image = cluster.metadata();
    let resources = types.into_iter().flat_map(|resource_type| {
        let names = names(&image, resource_type).into_iter();
        names.map(move |resource_name| list_config_resources_response::ConfigResource {
            resource_name,
            resource_type,
            ..Default::default()
        })
    });
    ListConfigResourcesResponse { config_resources: resources.collect(), ..Default::default() }
}

fn refused(code: ErrorCode) -> ListConfigResourcesResponse {
    ListConfigResourcesResponse { error_code: code.code(), ..Default::default() }
}

/// The types to list, each once; no list of types asks for all.
fn asked_types(version: i16, types: &[i8]) -> Result<BTreeSet<i8>, ErrorCode> {
    const ALL: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];
    if version < WITH_TYPES_FROM {
        return Ok(BTreeSet::from([CLIENT_METRICS]));
    }
    match types {
        [] => Ok(BTreeSet::from(ALL)),
        _ if types.iter().all(|asked| ALL.contains(asked)) => Ok(types.iter().copied().collect()),
        _ => Err(ErrorCode::UnsupportedVersion),
    }
}

/// What there is of one type.
fn names(image: &MetadataImage, resource_type: i8) -> Vec<WireString> {
    let number = |id: BrokerId| WireString::from(id.to_string());
    match resource_type {
        TOPIC => {
            image.topics_from("").map(|topic| WireString::copy_of(topic.name.as_str())).collect()
        }
        BROKER | BROKER_LOGGER => image.brokers().map(|broker| number(broker.id)).collect(),
        _ => {
            let named = image.overriding().filter_map(|(resource, _)| match resource {
                ConfigResource::Group(name) if resource_type == GROUP => Some(name),
                ConfigResource::ClientMetrics(name) if resource_type == CLIENT_METRICS => {
                    Some(name)
                }
                _ => None,
            });
            named.map(|name| WireString::copy_of(name)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_chosen_from_version_1_on() {
        assert_eq!(asked_types(0, &[]), Ok(BTreeSet::from([CLIENT_METRICS])));
        assert_eq!(asked_types(1, &[]).map(|types| types.len()), Ok(5));
        assert_eq!(asked_types(1, &[TOPIC, GROUP, TOPIC]), Ok(BTreeSet::from([TOPIC, GROUP])));
        assert_eq!(asked_types(1, &[TOPIC, 1]), Err(ErrorCode::UnsupportedVersion));
    }
}
