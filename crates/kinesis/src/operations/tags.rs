//! Tags of streams and consumers.

use std::collections::BTreeMap;

use logway_metadata::controller::{StreamChange, TAGS_MAX};
use logway_node::access::Operation as Permission;

use super::consumers::consumer_of_arn;
use crate::call::{Call, FoundStream, Reply};
use crate::error::ApiError;
use crate::value::{Structure, Value};

/// Tags of a page, where a client does not say.
const PAGE: usize = 50;

pub(super) async fn add_tags_to_stream(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Alter)?;
    add(call, &found, None).await
}

pub(super) async fn remove_tags_from_stream(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Alter)?;
    remove(call, &found, None).await
}

pub(super) fn list_tags_for_stream(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Describe)?;
    let limit = call.input.number("Limit").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(PAGE);
    let after = call.input.text("ExclusiveStartTagKey");
    let tags = found.state().tags.iter();
    let tags = tags.filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
    let mut page: Vec<_> = tags.take(limit + 1).collect();
    let has_more = page.len() > limit;
    page.truncate(limit);
    Ok(Structure::new().with("Tags", described(page)).with("HasMoreTags", has_more).into())
}

pub(super) async fn tag_resource(call: &Call) -> Result<Reply, ApiError> {
    let (found, consumer) = resource(call, Permission::Alter)?;
    add(call, &found, consumer).await
}

pub(super) async fn untag_resource(call: &Call) -> Result<Reply, ApiError> {
    let (found, consumer) = resource(call, Permission::Alter)?;
    remove(call, &found, consumer).await
}

pub(super) fn list_tags_for_resource(call: &Call) -> Result<Reply, ApiError> {
    let (found, consumer) = resource(call, Permission::Describe)?;
    let tags = tags_of(&found, consumer.as_deref());
    Ok(Structure::new().with("Tags", described(tags.iter().collect())).into())
}

/// The stream or consumer that an ARN names.
pub(super) fn resource(
    call: &Call,
    permission: Permission,
) -> Result<(FoundStream, Option<String>), ApiError> {
    let arn = call.input.text("ResourceARN").unwrap_or_default();
    match call.named(arn)?.consumer {
        Some(_) => {
            let (found, consumer) = consumer_of_arn(call, arn, permission)?;
            Ok((found, Some(consumer)))
        }
        None => Ok((call.stream_of_name(&call.named(arn)?.stream, permission)?, None)),
    }
}

fn tags_of<'a>(found: &'a FoundStream, consumer: Option<&str>) -> &'a BTreeMap<String, String> {
    let state = found.state();
    let consumer = consumer.and_then(|name| state.consumers.get(name));
    consumer.map_or(&state.tags, |consumer| &consumer.tags)
}

fn described(tags: Vec<(&String, &String)>) -> Vec<Value> {
    let tag = |(key, value): (&String, &String)| {
        Structure::new().with("Key", key.as_str()).with("Value", value.as_str()).into()
    };
    tags.into_iter().map(tag).collect()
}

async fn add(
    call: &Call,
    found: &FoundStream,
    consumer: Option<String>,
) -> Result<Reply, ApiError> {
    let tags: BTreeMap<String, String> = call.input.text_map("Tags").into_iter().collect();
    let texts = || tags.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
    check_tags(texts())?;
    let of = format!("stream {} under account {}", found.name(), call.account().id);
    if texts().any(|text| text.contains('%')) {
        return Err(ApiError::argument(format!("Failed to add tags to {of} because {ILLEGAL}")));
    }
    let known = tags_of(found, consumer.as_deref());
    let new = tags.keys().filter(|key| !known.contains_key(*key)).count();
    if known.len() + new > TAGS_MAX {
        return Err(ApiError::argument(format!(
            "Failed to add tags to {of} because a given stream cannot have more than {TAGS_MAX} tags associated with it."
        )));
    }
    call.change(found, StreamChange::AddTags(consumer, tags)).await?;
    Ok(Reply::Empty)
}

async fn remove(
    call: &Call,
    found: &FoundStream,
    consumer: Option<String>,
) -> Result<Reply, ApiError> {
    let keys = call.input.texts("TagKeys");
    check_tags(keys.iter().map(String::as_str))?;
    if keys.iter().any(|key| key.contains('%')) {
        return Err(ApiError::argument(format!(
            "Failed to remove tags from stream {} under account {} because {ILLEGAL}",
            found.name(),
            call.account().id
        )));
    }
    call.change(found, StreamChange::RemoveTags(consumer, keys)).await?;
    Ok(Reply::Empty)
}

const ILLEGAL: &str = "some tags contained illegal characters. The allowed characters are Unicode letters, \
    white-spaces, '_',',','/','=','+','-','@'.";

/// Refuses characters that no tag may have.
pub(super) fn check_tags<'a>(mut texts: impl Iterator<Item = &'a str>) -> Result<(), ApiError> {
    let is_allowed = |letter: char| letter.is_alphanumeric() || "_./=+-% @:".contains(letter);
    match texts.all(|text| text.chars().all(is_allowed)) {
        true => Ok(()),
        false => Err(ApiError::argument(
            "Some tags contain invalid characters. Valid characters: Unicode letters, digits, white space, _ . / = + - % \
             @.",
        )),
    }
}
