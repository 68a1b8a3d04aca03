//! Registered consumers.

use std::time::Duration;

use logway_metadata::controller::{CONSUMERS_MAX, StreamChange};
use logway_metadata::record::StreamConsumer;
use logway_model::{Offset, PartitionId};
use logway_node::access::Operation as Permission;

use super::tags::check_tags;
use crate::call::{Call, FoundStream, Reply};
use crate::error::ApiError;
use crate::token::{LIFE_MS, Purpose, Token};
use crate::validate::missing;
use crate::value::{Structure, Value};

/// Consumers of a page, where a client does not say.
const PAGE: usize = 100;

pub(super) async fn register(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Read)?;
    let name = call.input.text("ConsumerName").unwrap_or_default();
    let tags = call.input.text_map("Tags");
    check_tags(tags.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]))?;
    let change = StreamChange::Register(name.to_owned(), tags.into_iter().collect());
    let in_use = || {
        let id = &call.account().id;
        ApiError::in_use(format!(
            "Consumer {name} under stream {} already exists for account {id}.",
            found.name()
        ))
    };
    let limit = || {
        ApiError::limit(format!(
            "Stream {} under account {} has {CONSUMERS_MAX} consumers registered already.",
            found.name(),
            call.account().id
        ))
    };
    let consumers = &found.state().consumers;
    if consumers.contains_key(name) {
        return Err(in_use());
    }
    if consumers.len() >= CONSUMERS_MAX {
        return Err(limit());
    }
    call.change(&found, change).await.map_err(|error| match error.name {
        // Another one was faster.
        "ResourceInUseException" => in_use(),
        "LimitExceededException" => limit(),
        _ => error,
    })?;
    let now = call.find(found.name()).unwrap_or(found);
    let consumer = now.state().consumers.get(name);
    let consumer = consumer.ok_or_else(|| no_consumer(call, name))?;
    let created = consumer_description(call, &now, name, consumer, "CREATING");
    Ok(Structure::new().with("Consumer", created).into())
}

pub(super) async fn deregister(call: &Call) -> Result<Reply, ApiError> {
    let (found, name) = consumer_of_request(call, Permission::Alter)?;
    call.change(&found, StreamChange::Deregister(name)).await?;
    Ok(Reply::Empty)
}

pub(super) fn describe(call: &Call) -> Result<Reply, ApiError> {
    let (found, name) = consumer_of_request(call, Permission::Describe)?;
    let consumer = &found.state().consumers[&name];
    let description = consumer_description(call, &found, &name, consumer, status(call, consumer))
        .with("StreamARN", call.account().stream_arn(found.name()));
    Ok(Structure::new().with("ConsumerDescription", description).into())
}

pub(super) fn list(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Describe)?;
    let first = match call.input.text("NextToken") {
        None => 0,
        Some(text) => {
            let invalid = || ApiError::argument("Invalid NextToken.");
            let token = call.sealer(&found.image)?.open(text, Purpose::Consumers);
            let token = token.filter(|token| token.stream == found.id()).ok_or_else(invalid)?;
            if call.now_ms() - token.made_ms > LIFE_MS {
                return Err(ApiError::new(
                    "ExpiredNextTokenException",
                    "The NextToken has expired.",
                ));
            }
            usize::try_from(token.extra).unwrap_or(0)
        }
    };
    let limit = call.input.number("MaxResults").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(PAGE);
    let consumers = &found.state().consumers;
    let page = consumers.iter().skip(first).take(limit).map(|(name, consumer)| {
        consumer_description(call, &found, name, consumer, status(call, consumer)).into()
    });
    let page: Vec<Value> = page.collect();
    let next = first + page.len();
    let token = match next < consumers.len() {
        true => Some(call.sealer(&found.image)?.seal(&Token {
            purpose: Purpose::Consumers,
            stream: found.id(),
            shard: PartitionId(0),
            offset: Offset::ZERO,
            made_ms: call.now_ms(),
            extra: i64::try_from(next).unwrap_or(i64::MAX),
        })),
        false => None,
    };
    Ok(Structure::new().with("Consumers", page).with_some("NextToken", token).into())
}

fn status(call: &Call, consumer: &StreamConsumer) -> &'static str {
    let delay = Duration::from_millis(u64::try_from(call.service.stream_delay_ms).unwrap_or(0));
    let age_ms = u64::try_from(call.now_ms() - consumer.created_ms).unwrap_or(0);
    if Duration::from_millis(age_ms) < delay { "CREATING" } else { "ACTIVE" }
}

fn consumer_description(
    call: &Call,
    found: &FoundStream,
    name: &str,
    consumer: &StreamConsumer,
    status: &str,
) -> Structure {
    let created_ms = consumer.created_ms;
    let arn = call.account().consumer_arn(found.name(), name, created_ms);
    Structure::new()
        .with("ConsumerName", name)
        .with("ConsumerARN", arn)
        .with("ConsumerStatus", status)
        // Whole seconds, as in the ARN.
        .with("ConsumerCreationTimestamp", Value::Timestamp(created_ms.div_euclid(1_000) * 1_000))
}

fn no_consumer(call: &Call, consumer: &str) -> ApiError {
    let id = &call.account().id;
    ApiError::not_found(format!("Consumer {consumer} under account {id} not found."))
}

/// The consumer that a request names, by its ARN or by its name and that of its stream.
fn consumer_of_request(
    call: &Call,
    permission: Permission,
) -> Result<(FoundStream, String), ApiError> {
    if let Some(arn) = call.input.text("ConsumerARN") {
        return consumer_of_arn(call, arn, permission);
    }
    let Some(name) = call.input.text("ConsumerName") else {
        return Err(ApiError::argument(
            "Either ConsumerARN or both ConsumerName and StreamARN must be provided.",
        ));
    };
    if call.input.get("StreamARN").is_none() {
        return Err(ApiError::validation(missing("streamARN")));
    }
    let found = call.stream(permission)?;
    match found.state().consumers.contains_key(name) {
        true => Ok((found, name.to_owned())),
        false => Err(no_consumer(call, name)),
    }
}

/// The consumer of an ARN, as it was registered: not another one of its name.
pub(super) fn consumer_of_arn(
    call: &Call,
    arn: &str,
    permission: Permission,
) -> Result<(FoundStream, String), ApiError> {
    let named = call.named(arn)?;
    let Some((name, created_s)) = named.consumer else { return Err(no_consumer(call, arn)) };
    let found = call.stream_of_name(&named.stream, permission)?;
    let consumer = found.state().consumers.get(&name);
    match consumer.is_some_and(|it| it.created_ms.div_euclid(1_000) == created_s) {
        true => Ok((found, name)),
        false => Err(no_consumer(call, arn)),
    }
}
