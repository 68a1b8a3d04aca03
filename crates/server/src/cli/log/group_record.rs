//! A record of `__consumer_offsets`, in words.

use logway_coordinator::{GroupMetadata, GroupRecord, OFFSETS_TOPIC};
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
    })
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
