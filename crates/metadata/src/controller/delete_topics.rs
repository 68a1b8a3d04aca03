//! DeleteTopics.

use std::collections::BTreeSet;

use logway_model::{ErrorCode, TopicId, TopicName};
use serde::{Deserialize, Serialize};

use super::{
    COMMAND_RECORDS_MAX, Command, ControllerError, Decision, too_many_records, topic_asked_twice,
};
use crate::error::excerpt;
use crate::image::{MetadataImage, TopicImage};
use crate::record::{MetadataRecord, RemoveTopicRecord};
use crate::settings::BrokerSettings;

/// Deletes topics, each by itself, for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteTopics {
    /// Which.
    pub topics: Vec<TopicReference>,
}

/// How a request names a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicReference {
    /// By its name, not checked.
    Name(String),
    /// By its id.
    Id(TopicId),
}

/// A topic that no longer exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedTopic {
    /// The name it had.
    pub name: TopicName,
    /// The id it had.
    pub id: TopicId,
}

impl Command for DeleteTopics {
    type Reply = Vec<Result<DeletedTopic, ControllerError>>;

    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        if !broker.delete_topics {
            let message = "Topics cannot be deleted: delete.topic.enable is false.";
            return Err(ControllerError::new(ErrorCode::TopicDeletionDisabled, message));
        }
        let mut deleted = BTreeSet::new();
        let reply: Self::Reply = self
            .topics
            .iter()
            .map(|reference| {
                let topic = find(image, reference)?;
                if deleted.len() == COMMAND_RECORDS_MAX {
                    return Err(too_many_records(COMMAND_RECORDS_MAX));
                }
                match deleted.insert(topic.id) {
                    true => Ok(DeletedTopic { name: topic.name.clone(), id: topic.id }),
                    false => Err(topic_asked_twice(topic.name.as_str())),
                }
            })
            .collect();
        let records = deleted
            .into_iter()
            .map(|id| MetadataRecord::RemoveTopic(RemoveTopicRecord { id }))
            .collect();
        Ok(Decision { records, reply })
    }
}

fn find<'a>(
    image: &'a MetadataImage,
    reference: &TopicReference,
) -> Result<&'a TopicImage, ControllerError> {
    match reference {
        TopicReference::Name(name) => match image.topic(name) {
            Some(topic) => Ok(topic),
            None => Err(unknown_topic(name)),
        },
        TopicReference::Id(id) => match image.topic_by_id(*id) {
            Some(topic) => Ok(topic),
            None => Err(unknown_topic_id(*id)),
        },
    }
}

/// The refusal of a command about the id of a topic that is not there.
pub fn unknown_topic_id(id: TopicId) -> ControllerError {
    ControllerError::new(ErrorCode::UnknownTopicId, format!("No topic has the id {id}."))
}

/// The refusal of a command about a topic that is not there.
pub fn unknown_topic(name: &str) -> ControllerError {
    let message = format!("Topic '{}' does not exist.", excerpt(name));
    ControllerError::new(ErrorCode::UnknownTopicOrPartition, message)
}
