//! IncrementalAlterConfigs: changes single settings of resources (KIP-339).

use logway_metadata::controller::{
    ConfigOperation, IncrementalAlterConfigs, OperationKind, ResourceOperations,
    resource_asked_twice,
};
use logway_model::{BrokerId, ErrorCode};
use logway_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use logway_wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use logway_wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::batched_command::submit_each;
use super::broker_loggers::{self, LevelChange};
use super::building::{ENTRY_WITH_MESSAGE_BYTES, SETTING_BYTES};
use super::config_resource::{self, BROKER_LOGGER};
use super::repeats::repeated;
use crate::request::{RequestContext, refusal};
use logway_node::access::{Operation, Resource};
use logway_node::failure::Failure;

/// One answer for each resource, and a copy of what it is to have.
pub(crate) fn built_bytes(
    _context: &RequestContext,
    request: &IncrementalAlterConfigsRequest,
) -> usize {
    let resources = request.resources.iter();
    let bytes =
        resources.map(|resource| ENTRY_WITH_MESSAGE_BYTES + resource.configs.len() * SETTING_BYTES);
    bytes.sum()
}

pub(crate) async fn handle(
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let validate_only = request.validate_only;
    let own_id = context.settings().node_id;
    let names = request.resources.iter().map(|asked| (asked.resource_type, &*asked.resource_name));
    let repeated = repeated(names);
    let of_log = request.resources.iter().map(|asked| {
        let is_repeated = repeated.contains(&(asked.resource_type, &*asked.resource_name));
        (asked.resource_type == BROKER_LOGGER)
            .then(|| change_levels(&context, asked, is_repeated, validate_only))
    });
    let of_log: Vec<Option<Result<(), Failure>>> = of_log.collect();
    let others = request.resources.iter().filter(|asked| asked.resource_type != BROKER_LOGGER);
    let judged = |asked: &AlterConfigsResource| {
        if repeated.contains(&(asked.resource_type, &*asked.resource_name)) {
            return Err(resource_asked_twice(&change(asked, own_id)?.resource).into());
        }
        config_resource::check_alteration(&context, asked.resource_type, &asked.resource_name)?;
        change(asked, own_id)
    };
    let changes = others.map(judged).collect();
    let alter = |resources| IncrementalAlterConfigs { resources, validate_only };
    let mut results = submit_each(&context, None, changes, alter).await.into_iter();
    let mut next = || results.next().expect("there is a result for each of the others");
    let results = of_log.into_iter().map(|result| result.unwrap_or_else(&mut next));
    let responses = request.resources.into_iter().zip(results);
    IncrementalAlterConfigsResponse {
        responses: responses.map(|(resource, result)| response(resource, result)).collect(),
        ..Default::default()
    }
}

fn change(asked: &AlterConfigsResource, own_id: BrokerId) -> Result<ResourceOperations, Failure> {
    let resource = config_resource::resolve(asked.resource_type, &asked.resource_name, own_id)?;
    let operations = asked.configs.iter().map(operation).collect::<Result<_, _>>()?;
    Ok(ResourceOperations { resource, operations })
}

/// Changes the levels of the broker's log, which are not kept (KIP-412).
fn change_levels(
    context: &RequestContext,
    asked: &AlterConfigsResource,
    is_repeated: bool,
    validate_only: bool,
) -> Result<(), Failure> {
    let cluster = context.cluster(Operation::ClusterAction);
    // As Kafka asks for an operation that is no administration by itself.
    context.audit(Operation::ClusterAction, Resource::Cluster, cluster.is_ok());
    let cluster = cluster.map_err(refusal)?;
    let invalid = |message: &str| Err(Failure::new(ErrorCode::InvalidRequest, message));
    if is_repeated {
        return invalid("the request has these loggers twice");
    }
    if !repeated(asked.configs.iter().map(|config| &*config.name)).is_empty() {
        return invalid("the request has a logger twice");
    }
    config_resource::check_loggers(&asked.resource_name, context.settings().node_id)?;
    let mut changes = Vec::with_capacity(asked.configs.len());
    for config in &asked.configs {
        let ConfigOperation { name, kind, value } = operation(config)?;
        let change = match (kind, value) {
            (OperationKind::Set, Some(level)) => LevelChange::Set(level),
            (OperationKind::Set, None) => return invalid("a level is missing"),
            (OperationKind::Delete, _) => LevelChange::Reset,
            (OperationKind::Append | OperationKind::Subtract, _) => {
                return invalid("a level is no list, to which something could be added");
            }
        };
        changes.push((name, change));
    }
    broker_loggers::change(cluster.log_levels(), &changes, validate_only)
}

fn operation(config: &AlterableConfig) -> Result<ConfigOperation, Failure> {
    let code = config.config_operation;
    let kind = OperationKind::from_code(code).ok_or_else(|| {
        let message =
            format!("operation {code} is unknown; 0 is set, 1 delete, 2 append, 3 subtract");
        Failure::new(ErrorCode::InvalidRequest, message)
    })?;
    let value = config.value.as_ref().map(ToString::to_string);
    Ok(ConfigOperation { name: config.name.to_string(), kind, value })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unknown_operation_refuses_its_resource() {
        const TOPIC: i8 = 2;
        let config = |config_operation| AlterableConfig {
            name: "cleanup.policy".into(),
            config_operation,
            value: Some("compact".into()),
            ..Default::default()
        };
        let resource = |configs| AlterConfigsResource {
            resource_type: TOPIC,
            resource_name: "a".into(),
            configs,
            ..Default::default()
        };
        let append = change(&resource(vec![config(2)]), BrokerId(1)).expect("valid");
        assert_eq!(append.operations[0].kind, OperationKind::Append);
        let failure = change(&resource(vec![config(0), config(4)]), BrokerId(1)).expect_err("4");
        assert_eq!(failure.code, ErrorCode::InvalidRequest);
    }
}
