//! Records are Kafka's, byte for byte.

use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::{
    CommittedOffset, GroupMetadata, GroupRecord, MemberMetadata, RecordError,
};
use logway_model::{LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId, Uuid};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn offset_record(expire_timestamp: Option<TimestampMs>) -> GroupRecord {
    GroupRecord::Offset {
        group: "g".into(),
        topic: "t".into(),
        partition: PartitionId(3),
        offset: Some(CommittedOffset {
            offset: Offset(42),
            leader_epoch: if expire_timestamp.is_some() {
                LeaderEpoch::NONE
            } else {
                LeaderEpoch(7)
            },
            metadata: "m".into(),
            commit_timestamp: TimestampMs(1000),
            expire_timestamp,
            topic_id: match expire_timestamp {
                Some(_) => TopicId::default(),
                None => TopicId(Uuid([0xaa; 16])),
            },
        }),
    }
}

fn metadata_record() -> GroupRecord {
    let member = MemberMetadata {
        member_id: "m".into(),
        instance_id: Some("i".into()),
        client_id: "c".into(),
        client_host: "/h".into(),
        rebalance_timeout_ms: 2,
        session_timeout_ms: 1,
        subscription: Bytes::from_static(&[1, 2]),
        assignment: Bytes::from_static(&[3]),
    };
    GroupRecord::Metadata {
        group: "g".into(),
        metadata: Some(Arc::new(GroupMetadata {
            protocol_type: Some("consumer".into()),
            generation: 5,
            protocol: Some("range".into()),
            leader: Some("m".into()),
            state_timestamp: Some(TimestampMs(1000)),
            members: vec![member],
        })),
    }
}

#[test]
fn records_have_kafkas_bytes() {
    let (key, value) = offset_record(None).encode();
    // Type 1; group, topic, partition.
    assert_eq!(hex(&key), "0001".to_owned() + "000167" + "000174" + "00000003");
    // Version 4; offset, epoch, compact text, timestamp, one tagged field: the topic's id.
    let fields = "000000000000002a".to_owned() + "00000007" + "026d" + "00000000000003e8";
    assert_eq!(hex(&value.unwrap()), "0004".to_owned() + &fields + "010010" + &"aa".repeat(16));

    let (_, value) = offset_record(Some(TimestampMs(2000))).encode();
    // Version 1; offset, text, timestamp, expiry.
    let fields = "000000000000002a".to_owned() + "00016d" + "00000000000003e8" + "00000000000007d0";
    assert_eq!(hex(&value.unwrap()), "0001".to_owned() + &fields);

    let (key, value) = metadata_record().encode();
    assert_eq!(hex(&key), "0002".to_owned() + "000167");
    let group = "0008636f6e73756d6572".to_owned() + "00000005" + "000572616e6765" + "00016d";
    let member = "00016d".to_owned()
        + "000169"
        + "000163"
        + "00022f68"
        + "00000002"
        + "00000001"
        + "000000020102"
        + "0000000103";
    let expected = "0003".to_owned() + &group + "00000000000003e8" + "00000001" + &member;
    assert_eq!(hex(&value.unwrap()), expected);
}

#[test]
fn records_come_back_as_they_were() {
    let tombstones = [
        GroupRecord::Metadata { group: "g".into(), metadata: None },
        GroupRecord::Offset {
            group: "".into(),
            topic: "t".into(),
            partition: PartitionId(0),
            offset: None,
        },
    ];
    let records = [offset_record(None), offset_record(Some(TimestampMs(1))), metadata_record()];
    for record in records.into_iter().chain(tombstones) {
        let (key, value) = record.encode();
        assert_eq!(GroupRecord::decode(&key, value.as_ref()), Ok(Some(record)));
    }
}

#[test]
fn records_of_other_types_are_passed_over_and_damaged_ones_are_errors() {
    // Type 11 is a share group's (KIP-932); its value is not looked at.
    let key = Bytes::from_static(&[0, 11, 0, 1, b'g']);
    assert_eq!(GroupRecord::decode(&key, Some(&Bytes::from_static(b"?"))), Ok(None));
    assert_eq!(GroupRecord::decode(&Bytes::from_static(&[0]), None), Err(RecordError::NoKey));

    let (key, value) = metadata_record().encode();
    let value = value.unwrap();
    for len in 0..key.len() {
        assert!(GroupRecord::decode(&key.slice(..len), None).is_err(), "a key of {len} bytes");
    }
    for len in 0..value.len() {
        let cut = value.slice(..len);
        assert!(GroupRecord::decode(&key, Some(&cut)).is_err(), "a value of {len} bytes");
    }
    let future = Bytes::from_static(&[0, 5]);
    assert!(matches!(GroupRecord::decode(&key, Some(&future)), Err(RecordError::Value { .. })));
}

#[test]
fn what_a_later_kafka_adds_is_skipped() {
    let (key, value) = offset_record(None).encode();
    let mut value = value.unwrap().to_vec();
    // One more tagged field (KIP-915): tag 9, two bytes.
    let tagged = value.len() - 19;
    assert_eq!(value[tagged], 1);
    value[tagged] = 2;
    value.extend_from_slice(&[9, 2, 1, 1]);
    let decoded = GroupRecord::decode(&key, Some(&value.into()));
    assert_eq!(decoded, Ok(Some(offset_record(None))));
}

#[test]
fn offsets_of_kafka_0_8_are_read() {
    let (key, value) = offset_record(Some(TimestampMs(2000))).encode();
    let mut key = key.to_vec();
    key[1] = 0;
    assert_eq!(
        GroupRecord::decode(&key.into(), value.as_ref()),
        Ok(Some(offset_record(Some(TimestampMs(2000)))))
    );
}
