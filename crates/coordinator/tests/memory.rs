//! What offsets cost in memory. Alone in its process, which is what is measured.

use std::sync::Arc;

use logway_coordinator::{
    CommittedOffset, ElapsedMs, EmptyCluster, GroupMemory, GroupRecord, GroupSettings, GroupShard,
    Moment,
};
use logway_model::{LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId, Uuid};

/// Bytes that this process has in use, as Linux counts them.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: usize = statm.split(' ').nth(1).expect("has fields").parse().expect("a number");
    pages * 4096
}

#[test]
fn a_million_offsets_are_cheap() {
    const GROUPS: usize = 10_000;
    const OFFSETS_PER_GROUP: i32 = 100;
    let memory = GroupMemory::new(1 << 30);
    let before = resident_bytes();
    let mut shard =
        GroupShard::new(GroupSettings::default(), memory.clone(), Arc::new(EmptyCluster));
    let topics = ["orders", "payments", "shipments", "returns"];
    for number in 0..GROUPS {
        for place in 0..OFFSETS_PER_GROUP {
            let topic = place as usize % topics.len();
            shard.replay(&GroupRecord::Offset {
                group: format!("application-{number}").as_str().into(),
                topic: topics[topic].into(),
                partition: PartitionId(place / topics.len() as i32),
                offset: Some(CommittedOffset {
                    offset: Offset(1_000_000 + i64::from(place)),
                    leader_epoch: LeaderEpoch(7),
                    metadata: "".into(),
                    commit_timestamp: TimestampMs(1_700_000_000_000),
                    expire_timestamp: None,
                    topic_id: TopicId(Uuid([topic as u8 + 1; 16])),
                }),
            });
        }
    }
    let offsets: usize = shard.groups().map(|group| group.offset_count()).sum();
    assert_eq!((shard.group_count(), offsets), (GROUPS, 1_000_000));
    let bytes_per_offset = (resident_bytes() - before) / offsets;
    println!("{bytes_per_offset} bytes for each of a million offsets, groups included");
    assert!(bytes_per_offset < 150, "{bytes_per_offset} bytes per offset");

    let taken_bytes = resident_bytes() - before;
    shard.loaded(Moment { elapsed: ElapsedMs(0), wall: TimestampMs(1_700_000_000_000) });
    let counted_bytes = memory.used_bytes();
    println!("{counted_bytes} bytes are counted, {taken_bytes} are taken");
    assert!(counted_bytes > taken_bytes * 3 / 4 && counted_bytes < taken_bytes * 3 / 2);
    drop(shard);
    assert_eq!(memory.used_bytes(), 0);
}
