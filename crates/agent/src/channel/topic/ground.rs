//! What has to be there before a channel in a topic takes anything: the topic, and the place where its group begins.

use std::collections::{BTreeMap, BTreeSet};

use logway_client::{Client, ClientError, MissingTopic, NewTopic, OffsetAt};
use logway_model::{ErrorCode, PartitionId, TopicName, TopicPartition};
use tokio::sync::OnceCell;

/// Made sure of once, before the first put and the first take.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) client: Client,
    pub(super) topic: TopicName,
    pub(super) group: String,
    /// How to make the topic if it is missing; without it, brokers may do that by themselves.
    pub(super) creation: Option<NewTopic>,
    /// Whether a group that has never committed in the topic begins where that ends now. It is committed before anything is
    /// put: or what is put before the group's first member comes would never be read.
    pub(super) begins_at_end: bool,
    pub(super) is_there: OnceCell<()>,
}

impl Ground {
    /// Makes sure; again after an error.
    pub(super) async fn prepare(&self) -> Result<(), ClientError> {
        self.is_there.get_or_try_init(|| self.prepare_now()).await.copied()
    }

    async fn prepare_now(&self) -> Result<(), ClientError> {
        let topics = BTreeSet::from([self.topic.clone()]);
        let missing =
            if self.creation.is_some() { MissingTopic::Refuse } else { MissingTopic::Create };
        let mut found = self.client.find_topics(&topics, missing).await;
        if let (Some(creation), Err(error)) = (&self.creation, &found)
            && error.code() == Some(ErrorCode::UnknownTopicOrPartition)
        {
            self.create(creation).await?;
            found = self.client.await_topics(&topics, MissingTopic::Await).await;
        }
        let count = found?.topics.get(&self.topic).map_or(0, |topic| topic.partitions.len());
        match self.begins_at_end {
            true => self.begin_at_end(count).await,
            false => Ok(()),
        }
    }

    async fn create(&self, creation: &NewTopic) -> Result<(), ClientError> {
        let outcomes = self.client.create_topics(std::slice::from_ref(creation), false).await?;
        for (_, outcome) in outcomes {
            match outcome {
                Err(error) if error.code() != Some(ErrorCode::TopicAlreadyExists) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn begin_at_end(&self, count: usize) -> Result<(), ClientError> {
        let committed = self.client.committed_offsets(&self.group).await?;
        let Some(all) = beginning(&self.topic, count, committed.keys()) else { return Ok(()) };
        let ends = self.client.list_offsets(&all, OffsetAt::End).await?;
        let ends: BTreeMap<_, _> = ends
            .into_iter()
            .filter_map(|(partition, listed)| Some((partition, listed.offset?)))
            .collect();
        for outcome in self.client.commit_offsets(&self.group, &ends).await?.into_values() {
            match outcome {
                // The group has members, who have begun already.
                Err(error) if error.code() == Some(ErrorCode::UnknownMemberId) => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }
}

/// The partitions of a topic that a group is to begin in; `None` if it has begun in any. A partition without an offset is
/// one that was added since then: what was put into it before this start is not passed over.
fn beginning<'a>(
    topic: &TopicName,
    count: usize,
    mut committed: impl Iterator<Item = &'a TopicPartition>,
) -> Option<BTreeSet<TopicPartition>> {
    if count == 0 || committed.any(|partition| partition.topic == *topic) {
        return None;
    }
    let all = (0..count).filter_map(|index| i32::try_from(index).ok());
    Some(all.map(|index| TopicPartition::new(topic.clone(), PartitionId(index))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_begins_at_the_end_once_and_partitions_added_later_are_read_from_their_start() {
        let [topic, other] = ["a", "b"].map(|name| TopicName::new(name).expect("a name"));
        let partition = |topic: &TopicName, id| TopicPartition::new(topic.clone(), PartitionId(id));
        let elsewhere = [partition(&other, 0)];
        let both = BTreeSet::from([partition(&topic, 0), partition(&topic, 1)]);
        assert_eq!(beginning(&topic, 2, elsewhere.iter()), Some(both));
        let begun = [partition(&topic, 0), partition(&other, 0)];
        assert_eq!(beginning(&topic, 2, begun.iter()), None);
    }
}
