//! DescribeConfigs: settings, their values, and where the values come from (KIP-133, KIP-226).

use std::collections::HashSet;

use logway_metadata::settings::broker::broker_settings;
use logway_metadata::settings::topic::TOPIC_SETTINGS;
use logway_metadata::settings::{
    ConfigEntry, ConfigSynonym, describe_broker, describe_broker_default, describe_client_metrics,
    describe_group, describe_topic,
};
use logway_metadata::{ConfigResource, MetadataImage};
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;
use logway_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use logway_wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use super::building::{ENTRY_WITH_MESSAGE_BYTES, SETTING_BYTES};
use super::config_resource;
use crate::Broker;
use crate::dispatch::RequestContext;
use crate::failure::Failure;

/// What a client wants to see of each setting.
#[derive(Clone, Copy)]
struct Detail {
    synonyms: bool,
    documentation: bool,
}

impl Detail {
    fn of(request: &DescribeConfigsRequest) -> Detail {
        Detail { synonyms: request.include_synonyms, documentation: request.include_documentation }
    }
}

/// The places where one setting has a value, three at most.
const SYNONYMS_BYTES: usize = 768;

/// The text about one setting.
const DOCUMENTATION_BYTES: usize = 512;

/// Each resource is answered with all its settings.
pub(crate) fn built_bytes(_context: &RequestContext, request: &DescribeConfigsRequest) -> usize {
    let detail = Detail::of(request);
    let setting_bytes = SETTING_BYTES
        + if detail.synonyms { SYNONYMS_BYTES } else { 0 }
        + if detail.documentation { DOCUMENTATION_BYTES } else { 0 };
    let settings = |resource: &DescribeConfigsResource| match resource.resource_type {
        config_resource::TOPIC => TOPIC_SETTINGS.len(),
        _ => broker_settings().len(),
    };
    let resources = request.resources.iter();
    let bytes =
        resources.map(|resource| ENTRY_WITH_MESSAGE_BYTES + settings(resource) * setting_bytes);
    bytes.sum()
}

pub(crate) async fn handle(
    context: RequestContext,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let detail = Detail::of(&request);
    let image = context.image();
    let mut described = HashSet::new();
    let mut results = Vec::with_capacity(request.resources.len());
    for asked in request.resources {
        // A request about very many resources takes turns with others.
        tokio::task::coop::consume_budget().await;
        let is_new = described.insert((asked.resource_type, asked.resource_name.clone()));
        let entries = match is_new {
            true => entries(&context, &image, &asked),
            false => Err(asked_twice()),
        };
        results.push(result(asked, entries, detail));
    }
    DescribeConfigsResponse { results, ..Default::default() }
}

/// An answer is hundreds of times as long as what asks for it, so that a request could be answered
/// only with far more memory than its own if it could ask for the same thing again and again.
fn asked_twice() -> Failure {
    Failure::new(ErrorCode::InvalidRequest, "the request has this resource more than once")
}

/// The settings of a resource that are asked for.
fn entries(
    broker: &Broker,
    image: &MetadataImage,
    asked: &DescribeConfigsResource,
) -> Result<Vec<ConfigEntry>, Failure> {
    let settings = &broker.settings;
    let own_id = settings.node_id;
    let mut entries =
        match config_resource::resolve(asked.resource_type, &asked.resource_name, own_id)? {
            ConfigResource::Topic(name) => match image.topic(name.as_str()) {
                Some(topic) => describe_topic(&topic.overrides, image, settings),
                None => {
                    let message = format!("topic '{name}' does not exist");
                    return Err(Failure::new(ErrorCode::UnknownTopicOrPartition, message));
                }
            },
            ConfigResource::Broker(_) => describe_broker(image, settings),
            ConfigResource::BrokerDefault => describe_broker_default(image),
            group @ ConfigResource::Group(_) => describe_group(image.overrides(&group)),
            subscription @ ConfigResource::ClientMetrics(_) => {
                describe_client_metrics(image.overrides(&subscription))
            }
        };
    // As in Kafka, an empty list of names asks for all, as none does.
    if let Some(keys) = asked.configuration_keys.as_ref().filter(|keys| !keys.is_empty()) {
        entries.retain(|entry| keys.iter().any(|key| *key == entry.name));
    }
    Ok(entries)
}

fn result(
    asked: DescribeConfigsResource,
    entries: Result<Vec<ConfigEntry>, Failure>,
    detail: Detail,
) -> DescribeConfigsResult {
    let (code, message, configs) = match entries {
        Ok(entries) => {
            (ErrorCode::None, None, entries.into_iter().map(|e| config(e, detail)).collect())
        }
        Err(failure) => (failure.code, Some(failure.message.into()), Vec::new()),
    };
    DescribeConfigsResult {
        error_code: code.code(),
        error_message: message,
        resource_type: asked.resource_type,
        resource_name: asked.resource_name,
        configs,
        ..Default::default()
    }
}

fn config(entry: ConfigEntry, detail: Detail) -> DescribeConfigsResourceResult {
    DescribeConfigsResourceResult {
        name: entry.name.into(),
        value: entry.value.filter(|_| !entry.sensitive).map(WireString::from),
        read_only: entry.read_only,
        config_source: entry.source as i8,
        is_sensitive: entry.sensitive,
        synonyms: match detail.synonyms {
            true => entry.synonyms.into_iter().map(synonym).collect(),
            false => Vec::new(),
        },
        config_type: entry.type_code,
        documentation: detail.documentation.then(|| WireString::copy_of(&entry.documentation)),
        ..Default::default()
    }
}

fn synonym(synonym: ConfigSynonym) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym {
        name: synonym.name.into(),
        value: Some(synonym.value.into()),
        source: synonym.source as i8,
        ..Default::default()
    }
}
