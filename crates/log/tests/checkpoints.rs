//! The text files beside the data: Kafka's bytes, survival of crashes, and damage.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::Path;

use logway_log::LogError;
use logway_log::checkpoint::{
    LeaderEpochCache, MetaProperties, PartitionMetadata, clean_shutdown, leader_epoch,
    offset_checkpoint, replace_file, segment_lists,
};
use logway_log::fs::{Fs, OpenMode, SimFs, read_to_end};
use logway_model::{
    BrokerId, ClusterId, DirectoryId, LeaderEpoch, Offset, PartitionId, TopicId, TopicName,
    TopicPartition, Uuid,
};
use proptest::collection::vec;
use proptest::prelude::*;

const FILE: &str = "/checkpoint";

fn put(fs: &SimFs, content: &[u8]) {
    let file = fs.open(Path::new(FILE), OpenMode::CreateTruncate).expect("is created");
    file.write_all_at(&[IoSlice::new(content)], 0).expect("is written");
}

fn written(fs: &SimFs) -> String {
    let file = fs.open(Path::new(FILE), OpenMode::Read).expect("exists");
    String::from_utf8(read_to_end(&*file, 1 << 20).expect("is read")).expect("is text")
}

fn partition(topic: &str, number: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new(topic).expect("is valid"), PartitionId(number))
}

fn uuid(text: &str) -> Uuid {
    text.parse().expect("is valid")
}

/// One kind of file: an example, as Apache Kafka 4.3 writes it if it is Kafka's, and how it is read.
struct Format {
    example: &'static str,
    /// Reads the file, and writes what it found back.
    rewrite: fn(&SimFs) -> Result<(), LogError>,
    /// Whether a file of no bytes is right.
    may_be_empty: bool,
}

const FORMATS: [Format; 5] = [
    Format {
        example: "0\n2\norders 0 4711\norders 1 0\n",
        rewrite: |fs| {
            let offsets = offset_checkpoint::read(fs, Path::new(FILE))?.unwrap_or_default();
            offset_checkpoint::write(fs, Path::new(FILE), &offsets)
        },
        may_be_empty: true,
    },
    Format {
        example: "0\n2\n0 0\n5 1234\n",
        rewrite: |fs| {
            let epochs = leader_epoch::read(fs, Path::new(FILE))?;
            leader_epoch::write(fs, Path::new(FILE), &epochs)
        },
        may_be_empty: true,
    },
    Format {
        example: "version: 0\ntopic_id: ykSLSUUeSxCxXu2TE1BN2g",
        rewrite: |fs| match PartitionMetadata::read(fs, Path::new(FILE))? {
            Some(metadata) => metadata.write(fs, Path::new(FILE)),
            None => Ok(()),
        },
        may_be_empty: false,
    },
    Format {
        example: "version=1\nnode.id=1\ncluster.id=ykSLSUUeSxCxXu2TE1BN2g\n\
                  directory.id=C8YZHQRKTNCSQNzHhVnLLw\n",
        rewrite: |fs| match MetaProperties::read(fs, Path::new(FILE))? {
            Some(properties) => properties.write(fs, Path::new(FILE)),
            None => Ok(()),
        },
        may_be_empty: false,
    },
    Format {
        example: "0\n076311e4\n\
                  orders 0 ykSLSUUeSxCxXu2TE1BN2g 4711 0:1048576 3000:20480\n\
                  orders 1 ykSLSUUeSxCxXu2TE1BN2g 0 0:0\n",
        rewrite: |fs| {
            let lists = segment_lists::read(fs, Path::new(FILE))?;
            segment_lists::write(fs, Path::new(FILE), &lists)
        },
        may_be_empty: false,
    },
];

#[test]
fn what_kafka_writes_is_read_and_written_the_same() {
    for Format { example, rewrite, .. } in FORMATS {
        let fs = SimFs::new(0);
        rewrite(&fs).expect("a file that does not exist is no error");
        put(&fs, example.as_bytes());
        rewrite(&fs).expect("is valid");
        assert_eq!(written(&fs), example);
    }
}

#[test]
fn examples_mean_what_they_say() {
    let fs = SimFs::new(0);
    let path = Path::new(FILE);
    put(&fs, FORMATS[0].example.as_bytes());
    let offsets = offset_checkpoint::read(&fs, path).expect("is valid");
    let expected = [(partition("orders", 0), Offset(4711)), (partition("orders", 1), Offset(0))];
    assert_eq!(offsets, Some(BTreeMap::from(expected)));

    put(&fs, FORMATS[1].example.as_bytes());
    let epochs = leader_epoch::read(&fs, path).expect("is valid");
    let latest = epochs.latest().expect("has entries");
    assert_eq!((latest.epoch, latest.start_offset), (LeaderEpoch(5), Offset(1234)));

    put(&fs, FORMATS[2].example.as_bytes());
    let metadata = PartitionMetadata::read(&fs, path).expect("is valid");
    let topic_id = TopicId(uuid("ykSLSUUeSxCxXu2TE1BN2g"));
    assert_eq!(metadata, Some(PartitionMetadata { topic_id }));

    put(&fs, FORMATS[4].example.as_bytes());
    let lists = segment_lists::read(&fs, path).expect("is valid");
    let list = &lists[&partition("orders", 0)];
    assert_eq!((list.topic_id, list.end), (topic_id, Offset(4711)));
    let segments: Vec<_> = list.segments.iter().map(|s| (s.base_offset.0, s.size_bytes)).collect();
    assert_eq!(segments, [(0, 1_048_576), (3000, 20_480)]);

    // As `kafka-storage format` writes it.
    put(
        &fs,
        b"#\n#Sat Nov 21 21:24:49 UTC 2026\nnode.id=1\ndirectory.id=c3gU98ZNyGjdiadtXPamtw\n\
          version=1\ncluster.id=ykSLSUUeSxCxXu2TE1BN2g\n",
    );
    let properties = MetaProperties::read(&fs, path).expect("is valid");
    let expected = MetaProperties {
        node_id: BrokerId(1),
        cluster_id: ClusterId(uuid("ykSLSUUeSxCxXu2TE1BN2g")),
        directory_id: DirectoryId(uuid("c3gU98ZNyGjdiadtXPamtw")),
    };
    assert_eq!(properties, Some(expected));
}

#[test]
fn a_clean_shutdown_leaves_kafkas_mark() {
    let fs = SimFs::new(0);
    let path = Path::new(FILE);
    assert!(!clean_shutdown::is_marked(&fs, path).expect("is known"));
    clean_shutdown::unmark(&fs, path).expect("is not there");
    clean_shutdown::mark(&fs, path, 17).expect("is marked");
    assert_eq!(written(&fs), r#"{"version":0,"brokerEpoch":17}"#);
    let fs = fs.crash();
    assert!(clean_shutdown::is_marked(&fs, path).expect("is known"));
    clean_shutdown::unmark(&fs, path).expect("is removed");
    assert!(!clean_shutdown::is_marked(&fs.crash(), path).expect("is known"));
}

#[test]
fn a_file_that_was_cut_anywhere_is_not_taken_for_a_whole_one() {
    for Format { example, rewrite, may_be_empty } in FORMATS {
        for len in 0..example.len() {
            let fs = SimFs::new(0);
            put(&fs, &example.as_bytes()[..len]);
            let result = rewrite(&fs);
            if len == 0 && may_be_empty {
                result.expect("an empty file is an empty list");
                continue;
            }
            let error = result.expect_err("it is cut");
            assert!(matches!(error, LogError::Malformed { .. }), "{len} bytes: {error}");
        }
    }
}

#[test]
fn damage_is_reported_with_file_and_line() {
    let offsets: [(&[u8], &str); 12] = [
        (b"1\n0\n", "/checkpoint:1: unknown version '1'"),
        (b"0\nmany\n", "/checkpoint:2: 'many' is no count of entries"),
        (b"0\n2\na 0 1\n", "/checkpoint:2: 2 entries were announced, 1 are there"),
        (b"0\n0\na 0 1\n", "/checkpoint:2: 0 entries were announced, 1 are there"),
        (b"0\n99999999999999999999\n", "'99999999999999999999' is no count of entries"),
        (b"0\n1\na 0\n", "/checkpoint:3: a topic, a partition and an offset are expected: 'a 0'"),
        (b"0\n1\na 0 1 2\n", "/checkpoint:3: a topic, a partition and an offset are expected"),
        (b"0\n1\na/b 0 1\n", "/checkpoint:3: topic name 'a/b' is invalid"),
        (b"0\n1\na -1 1\n", "/checkpoint:3: the partition is not valid"),
        (b"0\n2\na 0 1\na 0 9223372036854775808\n", "/checkpoint:4: the offset is not valid"),
        (b"0\n2\na 0 1\na 0 2\n", "/checkpoint:4: the partition is there twice"),
        (b"0\n1\na 0 \xff\n", "/checkpoint:3: it is not UTF-8"),
    ];
    for (content, expected) in offsets {
        let fs = SimFs::new(0);
        put(&fs, content);
        let error = offset_checkpoint::read(&fs, Path::new(FILE)).expect_err("is damaged");
        assert!(error.to_string().contains(expected), "{error}");
    }

    let epochs: [(&[u8], &str); 4] = [
        (b"0\n1\n1\n", "/checkpoint:3: an epoch and its start offset are expected"),
        (b"0\n1\n+1 0\n", "/checkpoint:3: the epoch is not valid"),
        (b"0\n2\n1 0\n1 5\n", "/checkpoint:4: epochs and start offsets must increase"),
        (b"0\n2\n1 5\n2 5\n", "/checkpoint:4: epochs and start offsets must increase"),
    ];
    for (content, expected) in epochs {
        let fs = SimFs::new(0);
        put(&fs, content);
        let error = leader_epoch::read(&fs, Path::new(FILE)).expect_err("is damaged");
        assert!(error.to_string().contains(expected), "{error}");
    }

    let properties: [(&[u8], &str); 5] = [
        (b"version=2\n", "/checkpoint:1: unknown version '2'"),
        (b"version=1\n\nnode.id=x\n", "/checkpoint:3: node.id is not a number of a broker"),
        (b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (b"version=1\nversion=1\n", "/checkpoint:2: 'version' is there twice"),
        (b"version=1\nnode.id=1\ncluster.id=!\n", "/checkpoint:3: cluster.id: '!' is not a base64"),
    ];
    for (content, expected) in properties {
        let fs = SimFs::new(0);
        put(&fs, content);
        let error = MetaProperties::read(&fs, Path::new(FILE)).expect_err("is damaged");
        assert!(error.to_string().contains(expected), "{error}");
    }

    let fs = SimFs::new(0);
    put(&fs, format!("version: 0\ntopic_id: {}", Uuid::ZERO).as_bytes());
    let error = PartitionMetadata::read(&fs, Path::new(FILE)).expect_err("is damaged");
    assert_eq!(error.to_string(), "/checkpoint:2: the topic id is zero");
}

#[test]
fn a_crash_while_a_file_is_replaced_leaves_the_old_or_the_new() {
    let old = "old ".repeat(400);
    let new = "new ".repeat(700);
    for seed in 0..50 {
        // The last operation count is that without a crash.
        for crash_at in 1..=6 {
            let fs = SimFs::new(seed);
            replace_file(&fs, Path::new(FILE), old.as_bytes()).expect("is written");
            fs.crash_at_change(crash_at);
            let result = replace_file(&fs, Path::new(FILE), new.as_bytes());
            assert_eq!(result.is_ok(), crash_at == 6, "change {crash_at}");
            let found = written(&fs.crash());
            if result.is_ok() {
                assert!(found == new, "seed {seed}: what was reported as durable is not");
            } else {
                assert!(found == old || found == new, "seed {seed}, change {crash_at}");
            }
        }
    }
}

proptest! {
    /// Whatever is in the file, reading ends with a value or an error.
    #[test]
    fn no_content_is_too_strange_to_be_read(content in vec(any::<u8>(), 0..200)) {
        for Format { rewrite, .. } in FORMATS {
            let fs = SimFs::new(0);
            put(&fs, &content);
            let _ = rewrite(&fs);
        }
    }

    #[test]
    fn a_changed_byte_is_refused_or_gives_another_valid_file(
        position in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        for Format { example, rewrite, .. } in FORMATS {
            let fs = SimFs::new(0);
            let mut content = example.as_bytes().to_vec();
            content[position.index(example.len())] = byte;
            put(&fs, &content);
            if rewrite(&fs).is_ok() {
                rewrite(&fs).expect("what was written is valid");
            }
        }
    }

    #[test]
    fn offsets_come_back_as_they_were_written(
        offsets in prop::collection::btree_map(("[a-z._-]{3,20}", 0..1000i32), 0..Offset::LIMIT.0, 0..50),
    ) {
        let offsets: BTreeMap<TopicPartition, Offset> = offsets
            .into_iter()
            .map(|((topic, number), offset)| (partition(&topic, number), Offset(offset)))
            .collect();
        let fs = SimFs::new(0);
        offset_checkpoint::write(&fs, Path::new(FILE), &offsets).expect("is written");
        let found = offset_checkpoint::read(&fs.crash(), Path::new(FILE)).expect("is valid");
        prop_assert_eq!(found, Some(offsets));
    }
}

/// A log as the list of the epochs of its records, from its start offset on.
#[derive(Debug, Default)]
struct EpochModel {
    start: i64,
    epochs: Vec<i32>,
}

impl EpochModel {
    fn end(&self) -> i64 {
        self.start + self.epochs.len() as i64
    }

    /// The largest epoch at or below the asked one, and the offset after its last record.
    fn end_offset_for(&self, asked: i32) -> Option<(i32, i64)> {
        let latest = *self.epochs.last()?;
        if asked == latest {
            return Some((asked, self.end()));
        }
        if asked < 0 || asked > latest {
            return None;
        }
        let count = self.epochs.iter().take_while(|&&epoch| epoch <= asked).count();
        let epoch = if count == 0 { asked } else { self.epochs[count - 1] };
        Some((epoch, self.start + count as i64))
    }
}

#[derive(Debug, Clone)]
enum EpochStep {
    /// Appends records of an epoch that is this much newer.
    Append { newer: i32, records: u8 },
    /// Cuts so many records from the end.
    CutEnd { records: u8 },
    /// Cuts so many records from the start.
    CutStart { records: u8 },
}

fn epoch_step() -> impl Strategy<Value = EpochStep> {
    prop_oneof![
        3 => (0..3i32, 1..5u8).prop_map(|(newer, records)| EpochStep::Append { newer, records }),
        1 => (0..8u8).prop_map(|records| EpochStep::CutEnd { records }),
        1 => (0..8u8).prop_map(|records| EpochStep::CutStart { records }),
    ]
}

proptest! {
    /// The cache answers as one would who looks at every record.
    #[test]
    fn epochs_are_those_of_the_records(steps in vec(epoch_step(), 0..40)) {
        let mut model = EpochModel::default();
        let mut cache = LeaderEpochCache::default();
        let mut newest = 0;
        for step in steps {
            match step {
                EpochStep::Append { newer, records } => {
                    newest += newer;
                    let is_new = model.epochs.last() != Some(&newest);
                    prop_assert_eq!(cache.assign(LeaderEpoch(newest), Offset(model.end())), is_new);
                    model.epochs.extend((0..records).map(|_| newest));
                }
                EpochStep::CutEnd { records } => {
                    let kept = model.epochs.len().saturating_sub(usize::from(records));
                    model.epochs.truncate(kept);
                    cache.truncate_from_end(Offset(model.end()));
                }
                EpochStep::CutStart { records } => {
                    // A log that lost all records keeps the epoch it is in; the model cannot.
                    let cut = usize::from(records).min(model.epochs.len().saturating_sub(1));
                    model.epochs.drain(..cut);
                    model.start += cut as i64;
                    cache.truncate_from_start(Offset(model.start));
                }
            }
            for asked in -1..=newest + 1 {
                let found = cache.end_offset_for(LeaderEpoch(asked), Offset(model.end()));
                let found = found.map(|end| (end.epoch.0, end.end_offset.0));
                prop_assert_eq!(found, model.end_offset_for(asked), "epoch {}", asked);
            }
            for (offset, epoch) in (model.start..).zip(&model.epochs) {
                prop_assert_eq!(cache.epoch_at(Offset(offset)), Some(LeaderEpoch(*epoch)));
            }
            prop_assert_eq!(cache.epoch_at(Offset(model.start - 1)), None);
        }

        let fs = SimFs::new(0);
        leader_epoch::write(&fs, Path::new(FILE), &cache).expect("is written");
        let found = leader_epoch::read(&fs.crash(), Path::new(FILE)).expect("is valid");
        prop_assert_eq!(found, cache);
    }
}

#[test]
fn an_epoch_that_contradicts_older_ones_replaces_them() {
    let mut cache = LeaderEpochCache::default();
    assert!(cache.assign(LeaderEpoch(1), Offset(0)));
    assert!(cache.assign(LeaderEpoch(3), Offset(10)));
    assert!(!cache.assign(LeaderEpoch(3), Offset(15)), "an epoch starts once");
    assert!(cache.assign(LeaderEpoch(3), Offset(8)), "unless it turns out to start earlier");
    assert!(cache.assign(LeaderEpoch(4), Offset(8)), "an epoch without records gives way");
    let entries: Vec<(i32, i64)> =
        cache.entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect();
    assert_eq!(entries, [(1, 0), (4, 8)]);
    assert!(cache.assign(LeaderEpoch(0), Offset(0)));
    assert_eq!(cache.entries().len(), 1);
}

#[test]
fn a_log_that_lost_all_its_records_is_still_in_its_epoch() {
    let mut cache = LeaderEpochCache::default();
    cache.assign(LeaderEpoch(1), Offset(0));
    cache.assign(LeaderEpoch(2), Offset(10));
    assert!(cache.truncate_from_start(Offset(20)));
    let entries: Vec<(i32, i64)> =
        cache.entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect();
    assert_eq!(entries, [(2, 20)]);
    assert!(!cache.truncate_from_start(Offset(20)));
    cache.clear();
    assert_eq!(cache.latest(), None);
    assert_eq!(cache.end_offset_for(LeaderEpoch(2), Offset(20)), None);
}
