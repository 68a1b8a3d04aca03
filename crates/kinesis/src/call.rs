//! One request on its way: who asks, what for, and the streams that it may ask for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_metadata::controller::{ChangeStream, StreamChange};
use logway_metadata::record::{Shard, StreamPhase, StreamState};
use logway_metadata::settings::{BrokerSettings, TopicSettings};
use logway_metadata::{MetadataImage, StreamImage, TopicImage};
use logway_model::{PartitionId, TopicId};
use logway_node::access::{Operation as Permission, Resource};
use logway_node::memory::BudgetShare;
use logway_node::streams::anywhere::Partition;
use logway_node::tasks::wall_clock;
use tokio::sync::{Notify, mpsc};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::names::{Account, Named, shard_id, shard_of_id};
use crate::service::Service;
use crate::shape::Operation;
use crate::token::TokenSealer;
use crate::validate::missing;
use crate::value::Structure;

/// How long a change of the metadata may take.
const COMMIT_MAX: Duration = Duration::from_secs(30);

/// A request.
pub(crate) struct Call {
    /// What is served.
    pub(crate) service: Arc<Service>,
    /// The operation.
    pub(crate) operation: &'static Operation,
    /// What it holds, which obeys its shape.
    pub(crate) input: Structure,
    /// Who asks.
    pub(crate) caller: Caller,
    /// Told when the connection is to be given up.
    pub(crate) give_up: Arc<Notify>,
}

/// What comes of a request.
pub(crate) enum Reply {
    /// A response without a word.
    Empty,
    /// A response.
    Structure(Structure),
    /// A large response, with the memory that it takes.
    Large(Structure, Vec<BudgetShare>),
    /// Frames of an event stream, as they come.
    Events(mpsc::Receiver<Bytes>),
}

impl From<Structure> for Reply {
    fn from(structure: Structure) -> Reply {
        Reply::Structure(structure)
    }
}

/// The longest retention period that AWS knows.
pub(crate) const RETENTION_HOURS_MAX: i64 = 8_760;

const HOUR_MS: i64 = 3_600_000;

/// A stream, as of one image.
#[derive(Clone)]
pub(crate) struct FoundStream {
    /// All of the metadata.
    pub(crate) image: Arc<MetadataImage>,
    topic: Arc<TopicImage>,
    broker: Arc<BrokerSettings>,
}

impl FoundStream {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.topic.name.as_str()
    }

    /// Its topic's id.
    pub(crate) fn id(&self) -> TopicId {
        self.topic.id
    }

    /// What it is.
    pub(crate) fn stream(&self) -> &StreamImage {
        self.topic.stream.as_ref().expect("it was found to be a stream")
    }

    /// The same, but for its shards.
    pub(crate) fn state(&self) -> &StreamState {
        &self.stream().state
    }

    /// Whether nothing has changed about it since another look.
    pub(crate) fn is_as_before(&self, before: &FoundStream) -> bool {
        Arc::ptr_eq(&self.topic, &before.topic)
    }

    /// How long records are kept, in ms; `None` is for ever. Kafka clients may have set it.
    pub(crate) fn retention_ms(&self) -> Option<i64> {
        TopicSettings::retention_ms(&self.topic.overrides, &self.image, &self.broker)
    }

    /// The same as AWS tells it.
    pub(crate) fn retention_hours(&self) -> i64 {
        let hours = self.retention_ms().map_or(RETENTION_HOURS_MAX, |ms| ms / HOUR_MS);
        hours.clamp(1, RETENTION_HOURS_MAX)
    }

    /// A shard as nodes name it.
    pub(crate) fn partition(&self, number: PartitionId) -> Partition {
        Partition { topic: self.topic.id, number }
    }

    /// Whether nothing is left of a shard: it was closed before all that is kept.
    pub(crate) fn has_expired(&self, shard: &Shard, now_ms: i64) -> bool {
        shard.closed.is_some_and(|end| {
            let retention_ms = self.retention_ms();
            retention_ms.is_some_and(|ms| end.at_ms.saturating_add(ms) < now_ms)
        })
    }
}

impl Call {
    /// The names in the account.
    pub(crate) fn account(&self) -> &Account {
        &self.service.account
    }

    /// The time, in ms since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        wall_clock().0
    }

    /// The metadata as it is now.
    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.service.node.image()
    }

    /// Refuses who may not do something with a stream.
    pub(crate) fn check(&self, permission: Permission, stream: &str) -> Result<(), ApiError> {
        match self.may(permission, Resource::Topic(stream)) {
            true => Ok(()),
            false => {
                let arn = self.account().stream_arn(stream);
                Err(ApiError::denied(self.operation.text, &arn))
            }
        }
    }

    /// Refuses who may not do something with all streams.
    pub(crate) fn check_cluster(&self, permission: Permission) -> Result<(), ApiError> {
        match self.may(permission, Resource::Cluster) {
            true => Ok(()),
            false => Err(ApiError::denied(self.operation.text, "*")),
        }
    }

    /// Whether the requester may do something.
    pub(crate) fn may(&self, permission: Permission, resource: Resource<'_>) -> bool {
        self.caller.may(&self.service, permission, resource)
    }

    /// The stream that the request names, for who may do that with it.
    pub(crate) fn stream(&self, permission: Permission) -> Result<FoundStream, ApiError> {
        let name = self.stream_name()?;
        self.stream_of_name(&name, permission)
    }

    /// The name of the stream that the request names, in one of two ways or in both.
    pub(crate) fn stream_name(&self) -> Result<String, ApiError> {
        let name = self.input.text("StreamName");
        let of_arn = match self.input.text("StreamARN") {
            Some(arn) => Some(self.named(arn)?.stream),
            None => None,
        };
        match (name, of_arn) {
            (Some(name), Some(of_arn)) if name != of_arn => {
                let message = format!("StreamName {name} is not that of the StreamARN.");
                Err(ApiError::argument(message))
            }
            (Some(name), _) => Ok(name.to_owned()),
            (None, Some(of_arn)) => Ok(of_arn),
            (None, None) => Err(ApiError::validation(missing("streamName"))),
        }
    }

    /// What an ARN names.
    pub(crate) fn named(&self, arn: &str) -> Result<Named, ApiError> {
        self.account().named(arn).ok_or_else(|| {
            ApiError::not_found(format!("{arn} is not found under account {}.", self.account().id))
        })
    }

    /// The stream of a name, for who may do that with it.
    pub(crate) fn stream_of_name(
        &self,
        name: &str,
        permission: Permission,
    ) -> Result<FoundStream, ApiError> {
        self.check(permission, name)?;
        self.find(name).ok_or_else(|| self.no_stream(name))
    }

    /// The stream of a name, without asking who wants it.
    pub(crate) fn find(&self, name: &str) -> Option<FoundStream> {
        let image = self.image();
        let topic = image.topic(name).filter(|topic| topic.stream.is_some()).cloned()?;
        Some(self.found(image, topic))
    }

    fn found(&self, image: Arc<MetadataImage>, topic: Arc<TopicImage>) -> FoundStream {
        FoundStream { image, topic, broker: Arc::clone(&self.service.node.settings) }
    }

    /// The stream that a token was made for, for who may do that with it.
    pub(crate) fn stream_of_id(
        &self,
        id: TopicId,
        permission: Permission,
    ) -> Result<Option<FoundStream>, ApiError> {
        let image = self.image();
        let topic = image.topic_by_id(id).filter(|topic| topic.stream.is_some()).cloned();
        let Some(topic) = topic else { return Ok(None) };
        self.check(permission, topic.name.as_str())?;
        Ok(Some(self.found(image, topic)))
    }

    /// What is said of a stream that does not exist.
    pub(crate) fn no_stream(&self, name: &str) -> ApiError {
        ApiError::not_found(format!("Stream {name} under account {} not found.", self.account().id))
    }

    /// The open or closed shard of a name.
    pub(crate) fn shard<'a>(
        &self,
        found: &'a FoundStream,
        id: &str,
    ) -> Result<(PartitionId, &'a Shard), ApiError> {
        let number = shard_of_id(id);
        let shard = number.and_then(|number| Some((number, found.stream().shard(number)?)));
        shard.ok_or_else(|| {
            let id = number.map_or_else(|| id.to_owned(), shard_id);
            ApiError::not_found(format!(
                "Could not find shard {id} in stream {} under account {}.",
                found.name(),
                self.account().id
            ))
        })
    }

    /// How a stream is seen.
    pub(crate) fn status(&self, found: &FoundStream) -> &'static str {
        let state = found.state();
        let is_in_phase =
            is_in_phase(state.phase_since_ms, self.service.stream_delay_ms, self.now_ms());
        match state.phase {
            StreamPhase::Deleting => "DELETING",
            StreamPhase::Created if is_in_phase => "CREATING",
            StreamPhase::Changed if is_in_phase => "UPDATING",
            _ if found.stream().is_resharding() => "UPDATING",
            _ => "ACTIVE",
        }
    }

    /// Refuses what needs an active stream.
    pub(crate) fn check_active(&self, found: &FoundStream) -> Result<(), ApiError> {
        match self.status(found) {
            "ACTIVE" => Ok(()),
            status => Err(ApiError::in_use(format!(
                "Stream {} under account {} not ACTIVE, instead in state {status}",
                found.name(),
                self.account().id
            ))),
        }
    }

    /// Seals and opens tokens.
    pub(crate) fn sealer(&self, image: &MetadataImage) -> Result<TokenSealer, ApiError> {
        let key = image.sealing_key();
        key.map(TokenSealer::new).ok_or_else(|| ApiError::internal("no stream was made yet"))
    }

    /// Has a change of the metadata committed.
    pub(crate) async fn submit<C: logway_metadata::controller::Command>(
        &self,
        command: C,
    ) -> Result<C::Reply, logway_node::Failure> {
        self.service.node.submit(command, Some(COMMIT_MAX), None).await
    }

    /// Changes a stream.
    pub(crate) async fn change(
        &self,
        found: &FoundStream,
        change: StreamChange,
    ) -> Result<(), ApiError> {
        let command = ChangeStream { topic_id: found.id(), change, now_ms: self.now_ms() };
        Ok(self.submit(command).await?)
    }
}

/// Whether a change is still seen. Another node may have made it, whose clock is ahead: without a delay no change ever is.
fn is_in_phase(since_ms: i64, delay_ms: i64, now_ms: i64) -> bool {
    delay_ms > 0 && now_ms < since_ms.saturating_add(delay_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_for_its_delay() {
        assert!(is_in_phase(1_000, 500, 1_499));
        assert!(!is_in_phase(1_000, 500, 1_500));
        assert!(!is_in_phase(1_000, 0, 900), "made by a clock that is ahead");
    }
}
