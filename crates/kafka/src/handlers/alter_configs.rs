//! AlterConfigs: gives resources exactly the settings of the request (KIP-133).

use logway_metadata::controller::{AlterConfigs, ResourceConfigs, resource_asked_twice};
use logway_model::{BrokerId, ErrorCode};
use logway_wire::messages::alter_configs_request::AlterConfigsResource;
use logway_wire::messages::alter_configs_response::AlterConfigsResourceResponse;
use logway_wire::messages::{AlterConfigsRequest, AlterConfigsResponse};

use super::batched_command::submit_each;
use super::building::{ENTRY_WITH_MESSAGE_BYTES, SETTING_BYTES};
use super::config_resource;
use super::repeats::repeated;
use crate::request::RequestContext;
use logway_node::failure::Failure;

/// One answer for each resource, and a copy of what it is to have.
pub(crate) fn built_bytes(_context: &RequestContext, request: &AlterConfigsRequest) -> usize {
    let resources = request.resources.iter();
    let bytes =
        resources.map(|resource| ENTRY_WITH_MESSAGE_BYTES + resource.configs.len() * SETTING_BYTES);
    bytes.sum()
}

pub(crate) async fn handle(
    context: RequestContext,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let validate_only = request.validate_only;
    let own_id = context.settings().node_id;
    let names = request.resources.iter().map(|asked| (asked.resource_type, &*asked.resource_name));
    let asked_twice = repeated(names);
    let judged = |asked: &AlterConfigsResource| {
        if asked_twice.contains(&(asked.resource_type, &*asked.resource_name)) {
            return Err(resource_asked_twice(&change(asked, own_id)?.resource).into());
        }
        config_resource::check_alteration(&context, asked.resource_type, &asked.resource_name)?;
        change(asked, own_id)
    };
    let changes = request.resources.iter().map(judged).collect();
    let alter = |resources| AlterConfigs { resources, validate_only };
    let results = submit_each(&context, None, changes, alter).await;
    let responses = request.resources.into_iter().zip(results);
    AlterConfigsResponse {
        responses: responses.map(|(resource, result)| response(resource, result)).collect(),
        ..Default::default()
    }
}

fn change(asked: &AlterConfigsResource, own_id: BrokerId) -> Result<ResourceConfigs, Failure> {
    let resource = config_resource::resolve(asked.resource_type, &asked.resource_name, own_id)?;
    let configs = asked
        .configs
        .iter()
        .map(|config| (config.name.to_string(), config.value.as_ref().map(ToString::to_string)));
    Ok(ResourceConfigs { resource, configs: configs.collect() })
}

fn response(
    asked: AlterConfigsResource,
    result: Result<(), Failure>,
) -> AlterConfigsResourceResponse {
    let failure = result.err();
    AlterConfigsResourceResponse {
        error_code: failure.as_ref().map_or(ErrorCode::None, |failure| failure.code).code(),
        error_message: failure.map(|failure| failure.message.into()),
        resource_type: asked.resource_type,
        resource_name: asked.resource_name,
        ..Default::default()
    }
}
