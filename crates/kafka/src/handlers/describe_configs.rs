//! DescribeConfigs: settings, their values, and where the values come from (KIP-133, KIP-226).
//!
//! A few bytes that name a topic ask for kilobytes about its settings. So each resource is written as
//! soon as it is described, and those whose settings find no room are refused by themselves.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use logway_metadata::settings::broker::broker_settings;
use logway_metadata::settings::topic::TOPIC_SETTINGS;
use logway_metadata::settings::{
    BrokerSettings, ConfigEntry, ConfigSource, ConfigSynonym, describe_broker,
    describe_broker_default, describe_client_metrics, describe_group, describe_topic,
};
use logway_metadata::{ConfigResource, MetadataImage};
use logway_model::{BrokerId, ErrorCode};
use logway_wire::messages::DescribeConfigsRequest;
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;
use logway_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use logway_wire::{ApiKey, Decoder, DescribeConfigsWriter, WireString};

use super::broker_loggers;
use super::building::with_all;
use super::cluster_events;
use super::config_resource::{self, BROKER_LOGGER, CLUSTER_EVENTS};
use crate::connection::UNCOUNTED_BYTES_MAX;
use crate::request::RequestCharge;
use crate::request::{EncodedReply, Reply};
use crate::request::{
    RequestContext, RequestError, Sizes, Work, decode_request, encode_error, refusal,
};
use logway_node::access::Operation;
use logway_node::failure::Failure;
use logway_node::log_levels::LogLevels;

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

/// Where Kafka does not say of which type a value is.
const UNKNOWN_TYPE: i8 = 0;

/// One setting on the wire, on average: its name, its value and what they are.
const SETTING_BYTES: usize = 64;

/// The places where it has a value, of which there are three at most, and one or two as a rule.
const SYNONYMS_BYTES: usize = 128;

/// The text about it.
const DOCUMENTATION_BYTES: usize = 160;

/// A resource without its settings, but with a message for a person.
const REFUSAL_BYTES: usize = 512;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let request: DescribeConfigsRequest = decode_request(&context, body)?;
    let built_bytes = built_bytes(&context, &request);
    Ok(Work::new(context, built_bytes, ApiKey::DescribeConfigs, |context| {
        Box::pin(async move { answer(context, request).await.map(Reply::Ready) })
    }))
}

/// Each resource is answered with all its settings, as long as there is room; beyond that it is only
/// named.
fn built_bytes(context: &RequestContext, request: &DescribeConfigsRequest) -> usize {
    let (sizes, own_id) = (context.sizes(), context.settings().node_id);
    let detail = Detail::of(request);
    let settings =
        request.resources.iter().map(|asked| settings_bytes(&sizes, own_id, asked, detail));
    let refused_bytes = request.resources.iter().map(refusal_bytes).sum();
    with_all(context, refused_bytes, settings.sum())
}

fn refusal_bytes(asked: &DescribeConfigsResource) -> usize {
    REFUSAL_BYTES + asked.resource_name.len()
}

/// What the settings of a resource take, if it exists. What was set counts by its length.
fn settings_bytes(
    sizes: &Sizes,
    own_id: BrokerId,
    asked: &DescribeConfigsResource,
    detail: Detail,
) -> usize {
    if asked.resource_type == CLUSTER_EVENTS {
        return cluster_events::BYTES_MAX;
    }
    let settings = match asked.resource_type {
        config_resource::TOPIC => TOPIC_SETTINGS.len(),
        _ => broker_settings().len(),
    };
    let synonyms_bytes = if detail.synonyms { SYNONYMS_BYTES } else { 0 };
    let documentation_bytes = if detail.documentation { DOCUMENTATION_BYTES } else { 0 };
    let resource = config_resource::resolve(asked.resource_type, &asked.resource_name, own_id);
    // The value that holds, and the place where it was set.
    let text_bytes = resource.map_or(0, |resource| sizes.override_bytes(&resource));
    settings * (SETTING_BYTES + synonyms_bytes + documentation_bytes) + text_bytes
}

async fn answer(
    context: RequestContext,
    request: DescribeConfigsRequest,
) -> Result<EncodedReply, RequestError> {
    let fails = encode_error(ApiKey::DescribeConfigs, context.version);
    let detail = Detail::of(&request);
    let room_bytes = context.building.as_ref().map_or(0, |share| share.bytes());
    let room_bytes = room_bytes.max(UNCOUNTED_BYTES_MAX);
    // Kept free for those to come, so that each can be refused at least.
    let mut kept_bytes: usize = request.resources.iter().map(refusal_bytes).sum();
    let mut described = HashSet::new();
    let (id, count) = (context.correlation_id, request.resources.len());
    let mut writer = DescribeConfigsWriter::new(id, context.version, count).map_err(fails)?;
    for asked in request.resources {
        // A request about very many resources takes turns with others.
        tokio::task::coop::consume_budget().await;
        kept_bytes -= refusal_bytes(&asked);
        let is_new = described.insert((asked.resource_type, asked.resource_name.clone()));
        let entries = match is_new {
            true => described_entries(&context, &asked),
            false => Err(asked_twice()),
        };
        let told = result(&asked, entries, detail);
        let end_bytes = room_bytes.saturating_sub(kept_bytes);
        if !writer.write_within(&told, end_bytes).map_err(fails)? {
            let refused =
                result(&asked, Err(no_room(context.building_budget().limit_bytes())), detail);
            writer.write(&refused).map_err(fails)?;
        }
    }
    let settle = |charge: &Arc<RequestCharge>| charge.settle(ApiKey::DescribeConfigs, 0);
    let throttle_time_ms = context.charge.as_ref().map_or(0, settle);
    let bytes = writer.finish(throttle_time_ms).map_err(fails)?.bytes;
    Ok(EncodedReply { bytes, ..EncodedReply::default() })
}

/// Why a resource is not described for which all the memory that an answer can get is too little.
fn no_room(max_bytes: usize) -> Failure {
    let message = format!(
        "its settings do not fit into the answer; all answers together may take {max_bytes} bytes \
         (half of queued.max.request.bytes): ask for fewer resources at a time, or raise that setting"
    );
    Failure::new(ErrorCode::PolicyViolation, message)
}

/// An answer is hundreds of times as long as what asks for it, so that a request could be answered
/// only with far more memory than its own if it could ask for the same thing again and again.
fn asked_twice() -> Failure {
    Failure::new(ErrorCode::InvalidRequest, "the request has this resource more than once")
}

/// The settings of a resource that are asked for, if the requester may see them.
fn described_entries(
    context: &RequestContext,
    asked: &DescribeConfigsResource,
) -> Result<Vec<ConfigEntry>, Failure> {
    const OPERATION: Operation = Operation::DescribeConfigs;
    if asked.resource_type == BROKER_LOGGER {
        let cluster = context.cluster(OPERATION).map_err(refusal)?;
        config_resource::check_loggers(&asked.resource_name, context.settings().node_id)?;
        return Ok(only_asked(loggers(cluster.log_levels()), asked));
    }
    if asked.resource_type == CLUSTER_EVENTS {
        let cluster = context.cluster(OPERATION).map_err(refusal)?;
        return cluster_events::entries(cluster.events(), &asked.resource_name);
    }
    let resource = config_resource::guarded_by(asked.resource_type, &asked.resource_name)?;
    let image = context.metadata(OPERATION, resource).map_err(refusal)?;
    entries(context.settings(), &image, asked)
}

/// The settings of a resource that are asked for.
fn entries(
    settings: &BrokerSettings,
    image: &MetadataImage,
    asked: &DescribeConfigsResource,
) -> Result<Vec<ConfigEntry>, Failure> {
    let own_id = settings.node_id;
    let entries = match config_resource::resolve(asked.resource_type, &asked.resource_name, own_id)?
    {
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
    Ok(only_asked(entries, asked))
}

/// As in Kafka, an empty list of names asks for all, as none does.
fn only_asked(mut entries: Vec<ConfigEntry>, asked: &DescribeConfigsResource) -> Vec<ConfigEntry> {
    if let Some(keys) = asked.configuration_keys.as_ref().filter(|keys| !keys.is_empty()) {
        entries.retain(|entry| keys.iter().any(|key| **key == *entry.name));
    }
    entries
}

/// The parts of the broker's log, with their levels as values.
fn loggers(levels: &LogLevels) -> Vec<ConfigEntry> {
    let entry = |(name, level): (&'static str, _)| ConfigEntry {
        name: name.into(),
        value: Some(level),
        source: ConfigSource::DynamicBrokerLoggerConfig,
        read_only: false,
        sensitive: false,
        type_code: UNKNOWN_TYPE,
        documentation: Cow::Borrowed(""),
        synonyms: Vec::new(),
    };
    broker_loggers::all(levels).into_iter().map(entry).collect()
}

fn result(
    asked: &DescribeConfigsResource,
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
        resource_name: asked.resource_name.clone(),
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
            true => entry.synonyms.into_iter().map(|it| synonym(it, entry.sensitive)).collect(),
            false => Vec::new(),
        },
        config_type: entry.type_code,
        documentation: detail.documentation.then(|| WireString::copy_of(&entry.documentation)),
        ..Default::default()
    }
}

fn synonym(synonym: ConfigSynonym, is_sensitive: bool) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym {
        name: synonym.name.into(),
        value: (!is_sensitive).then(|| synonym.value.into()),
        source: synonym.source as i8,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use logway_metadata::record::{ConfigRecord, MetadataRecord, TopicRecord};
    use logway_model::{TopicId, TopicName, Uuid};

    use super::config_resource::{BROKER, CLIENT_METRICS, GROUP, TOPIC};
    use super::*;

    const OWN_ID: BrokerId = BrokerId(1);

    /// A topic `plain`, and one `own` that overrides every setting.
    fn image() -> MetadataImage {
        let mut records = Vec::new();
        for (id, name) in [(1, "plain"), (2, "own")] {
            let name = TopicName::new(name).expect("a legal name");
            records.push(MetadataRecord::Topic(TopicRecord { name, id: TopicId(Uuid([id; 16])) }));
        }
        let own = ConfigResource::Topic(TopicName::new("own").expect("a legal name"));
        records.extend(TOPIC_SETTINGS.iter().map(|setting| {
            MetadataRecord::Config(ConfigRecord {
                resource: own.clone(),
                name: setting.name.to_owned(),
                value: setting.default.map(str::to_owned),
            })
        }));
        MetadataImage::default().apply(&records).expect("the records fit")
    }

    /// Those of a broker whose file has every setting.
    fn settings() -> BrokerSettings {
        let given = broker_settings().iter();
        let given = given.filter_map(|row| Some((row.name.to_owned(), row.default?.to_owned())));
        BrokerSettings::new(given).expect("defaults are valid")
    }

    fn written_bytes(version: i16, told: &DescribeConfigsResult) -> usize {
        let mut writer = DescribeConfigsWriter::new(0, version, 1).expect("is a version");
        writer.write(told).expect("can be written");
        writer.finish(0).expect("is short").bytes.len()
    }

    #[test]
    fn nothing_that_is_told_of_a_resource_is_more_than_its_estimate() {
        let (image, settings) = (Arc::new(image()), settings());
        let sizes = Sizes::from(Arc::clone(&image));
        for (resource_type, name) in [
            (TOPIC, "plain"),
            (TOPIC, "own"),
            (BROKER, "1"),
            (BROKER, ""),
            (GROUP, "g"),
            (CLIENT_METRICS, "m"),
        ] {
            let resource_name = name.into();
            let asked =
                DescribeConfigsResource { resource_type, resource_name, ..Default::default() };
            for (synonyms, documentation) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let detail = Detail { synonyms, documentation };
                let estimate_bytes =
                    refusal_bytes(&asked) + settings_bytes(&sizes, OWN_ID, &asked, detail);
                for version in 1..=4 {
                    let told = result(&asked, entries(&settings, &image, &asked), detail);
                    assert_eq!(told.error_code, 0, "{name}");
                    let bytes = written_bytes(version, &told);
                    assert!(bytes <= estimate_bytes, "{name}: {bytes} > {estimate_bytes}");
                    let refused = result(&asked, Err(no_room(usize::MAX)), detail);
                    assert!(written_bytes(version, &refused) <= refusal_bytes(&asked), "{name}");
                }
            }
        }
    }
}
