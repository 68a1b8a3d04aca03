//! A record of `__consumer_offsets`, in words.

use logway_coordinator::{
    ConsumerRecord, GroupMetadata, GroupRecord, MemberId, OFFSETS_TOPIC, OwnedPartitions,
    Partitions, StreamsRecord, Subscription,
};
use logway_model::TopicName;
use logway_record::Record;

use crate::cli::timestamp;

/// Whether a topic's records are about groups.
pub(super) fn is_kept_in(topic: &TopicName) -> bool {
    topic.as_str() == OFFSETS_TOPIC
}

/// What a record says, as one line; `None` if it is none that this version knows.
pub(super) fn line(record: &Record) -> Option<String> {
    let decoded = GroupRecord::decode(record.key.as_ref()?, record.value.as_ref()).ok()??;
    let group = decoded.group().as_str().escape_debug();
    Some(match &decoded {
        GroupRecord::Offset { topic, partition, offset, .. } => {
            let topic = topic.as_str().escape_debug();
            let said = match offset {
                None => "removed".to_owned(),
                Some(committed) => {
                    let at = timestamp::format(committed.commit_timestamp);
                    format!("{} at {at}", committed.offset)
                }
            };
            format!("offset of {group} for {topic}-{partition}: {said}")
        }
        GroupRecord::Metadata { metadata, .. } => {
            let said = metadata.as_deref().map_or_else(|| "removed".to_owned(), generation);
            format!("group {group}: {said}")
        }
        GroupRecord::Consumer { record, .. } => {
            format!("consumer group {group}: {}", consumer_line(record))
        }
        GroupRecord::Streams { record, .. } => {
            format!("streams group {group}: {}", streams_line(record))
        }
    })
}

fn of_member(id: &MemberId, said: Option<String>) -> String {
    let said = said.unwrap_or_else(|| "removed".to_owned());
    format!("member {}, {said}", id.as_str().escape_debug())
}

fn streams_line(record: &StreamsRecord) -> String {
    match record {
        StreamsRecord::Group(None) => "removed".to_owned(),
        StreamsRecord::Group(Some(version)) => format!("epoch {}", version.epoch),
        StreamsRecord::Topology(None) => "topology, removed".to_owned(),
        StreamsRecord::Topology(Some(topology)) => format!("topology {}", topology.epoch()),
        StreamsRecord::Assignment(None) => "assignment, removed".to_owned(),
        StreamsRecord::Assignment(Some(version)) => format!("assignment epoch {}", version.epoch),
        StreamsRecord::Member(id, about) => {
            let said =
                about.as_ref().map(|it| format!("of process {}", it.process_id.escape_debug()));
            of_member(id, said)
        }
        StreamsRecord::Target(id, target) => {
            let said = target.as_ref().map(|it| format!("shall have {} tasks", it.task_count()));
            of_member(id, said.or_else(|| Some("target, removed".to_owned())))
        }
        StreamsRecord::Current(id, current) => {
            let said = current.as_ref().map(|it| {
                let (has, gives_up) = (it.assigned.task_count(), it.revoking.task_count());
                format!("epoch {}, has {has} tasks and gives up {gives_up}", it.epoch)
            });
            of_member(id, said.or_else(|| Some("has nothing".to_owned())))
        }
    }
}

fn consumer_line(record: &ConsumerRecord) -> String {
    match record {
        ConsumerRecord::Group(None) => "removed".to_owned(),
        ConsumerRecord::Group(Some(version)) => format!("epoch {}", version.epoch),
        ConsumerRecord::FormerTopics(_) => "topics as Kafka before 4.1 kept them".to_owned(),
        ConsumerRecord::Assignment(None) => "assignment, removed".to_owned(),
        ConsumerRecord::Assignment(Some(version)) => format!("assignment epoch {}", version.epoch),
        ConsumerRecord::Member(id, subscription) => {
            let said = subscription.as_ref().map(|it| subscription_text(it));
            of_member(id, said)
        }
        ConsumerRecord::Target(id, target) => {
            let count = |target: &Partitions| target.values().map(|of| of.len()).sum::<usize>();
            let said = target.as_ref().map(|it| format!("shall have {} partitions", count(it)));
            of_member(id, said.or_else(|| Some("target, removed".to_owned())))
        }
        ConsumerRecord::Current(id, current) => {
            let said = current.as_ref().map(|it| {
                let count = |of: &OwnedPartitions| of.values().map(|of| of.len()).sum::<usize>();
                let (has, gives_up) = (count(&it.assigned), count(&it.revoking));
                format!("epoch {}, has {has} partitions and gives up {gives_up}", it.epoch)
            });
            of_member(id, said.or_else(|| Some("has nothing".to_owned())))
        }
        ConsumerRecord::Pattern(pattern, resolved) => {
            let count = resolved.as_ref().map_or(0, |resolved| resolved.topics.len());
            format!("pattern {}, {count} topics", pattern.escape_debug())
        }
    }
}

fn subscription_text(subscription: &Subscription) -> String {
    let topics = subscription.topics.iter().map(|topic| topic.as_str());
    let pattern = subscription.pattern.as_deref().filter(|pattern| !pattern.is_empty());
    let all: Vec<String> =
        topics.chain(pattern).map(|text| text.escape_debug().to_string()).collect();
    format!("subscribes to {}", all.join(" "))
}

fn generation(metadata: &GroupMetadata) -> String {
    let mut text = format!("generation {}", metadata.generation);
    if let Some(protocol) = &metadata.protocol {
        text.push_str(&format!(", {}", protocol.as_str().escape_debug()));
    }
    for member in &metadata.members {
        text.push_str(&format!(", {}", member.member_id.as_str().escape_debug()));
    }
    text
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use logway_coordinator::{CommittedOffset, CommittedTopic, GroupId};
    use logway_model::{LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId};

    use super::*;

    fn record((key, value): (Bytes, Option<Bytes>)) -> Record {
        Record {
            offset: Offset(0),
            timestamp: TimestampMs(0),
            key: Some(key),
            value,
            headers: Vec::new(),
        }
    }

    #[test]
    fn offsets_and_groups_are_told_in_words() {
        let group = GroupId::from("billing");
        let offset = |offset| GroupRecord::Offset {
            group: group.clone(),
            topic: CommittedTopic::from("orders"),
            partition: PartitionId(3),
            offset,
        };
        let committed = CommittedOffset {
            offset: Offset(42),
            leader_epoch: LeaderEpoch::NONE,
            metadata: "".into(),
            commit_timestamp: TimestampMs(1000),
            expire_timestamp: None,
            topic_id: TopicId::default(),
        };
        let metadata = GroupMetadata {
            protocol_type: None,
            generation: 7,
            protocol: None,
            leader: None,
            state_timestamp: None,
            members: Vec::new(),
        };
        let group_record = |metadata| GroupRecord::Metadata { group: group.clone(), metadata };
        for (said, expected) in [
            (
                offset(Some(committed)),
                "offset of billing for orders-3: 42 at 1970-01-01T00:00:01.000Z",
            ),
            (offset(None), "offset of billing for orders-3: removed"),
            (group_record(Some(metadata.into())), "group billing: generation 7"),
            (group_record(None), "group billing: removed"),
        ] {
            assert_eq!(line(&record(said.encode())).as_deref(), Some(expected));
        }
        assert_eq!(line(&record((Bytes::from_static(b"\0\x09"), None))), None);
    }
}
