//! Which groups there are.

use std::collections::BTreeSet;

use logway_model::BrokerId;
use logway_wire::WireString;
use logway_wire::messages::ListGroupsRequest;

use crate::error::check;
use crate::{Client, ClientError, MissingTopic, TopicSelection};

/// A group as its coordinator lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// The group's name.
    pub name: String,
    /// The coordinator that listed it.
    pub coordinator: BrokerId,
    /// Kafka's word for the state, such as `Stable`; `None` from brokers that do not tell.
    pub state: Option<String>,
    /// `classic`, `consumer`, `share` or `streams`; `None` from brokers that do not tell.
    pub group_type: Option<String>,
    /// What the members are, such as `consumer` or `connect`; empty for a group that only
    /// commits.
    pub protocol_type: String,
}

impl Client {
    /// The groups of all brokers, by name.
    ///
    /// # Errors
    ///
    /// That of any broker: a list that lacks groups would look like a complete one.
    pub async fn list_groups(&self) -> Result<Vec<ListedGroup>, ClientError> {
        let no_topics = BTreeSet::new();
        let selection = TopicSelection::Named(&no_topics);
        let metadata = self.refresh_metadata(selection, MissingTopic::Refuse).await?;
        let mut groups = Vec::new();
        for &broker in metadata.brokers.keys() {
            groups.extend(self.list_groups_of(broker).await?);
        }
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(groups)
    }

    async fn list_groups_of(&self, broker: BrokerId) -> Result<Vec<ListedGroup>, ClientError> {
        self.backoff().repeat(|| self.list_groups_once(broker)).await
    }

    async fn list_groups_once(&self, broker: BrokerId) -> Result<Vec<ListedGroup>, ClientError> {
        let connection = self.broker(broker).await?;
        let response = connection.call(&ListGroupsRequest::default()).await?;
        check(|| format!("list the groups of broker {broker}"), response.error_code, None)?;
        let groups = response.groups.into_iter().map(|group| ListedGroup {
            name: group.group_id.into(),
            coordinator: broker,
            state: told(group.group_state),
            group_type: told(group.group_type).map(|word| word.to_lowercase()),
            protocol_type: group.protocol_type.into(),
        });
        Ok(groups.collect())
    }
}

/// A word that is empty in versions that lack it.
fn told(word: WireString) -> Option<String> {
    (!word.is_empty()).then(|| word.into())
}
