//! Writes the seeds of the corpora: `cargo run -p logway-fuzz-targets --example seeds`.
//!
//! Messages are those that the Java client has written (`crates/wire/tests/samples.txt`), files those that the engine
//! writes. What fuzzing has found lies beside them, under other names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::{CommittedOffset, GroupMetadata, GroupRecord, MemberMetadata};
use logway_fuzz_targets::parts::pack;
use logway_log::fs::{Fs, OpenMode, SimFs, read_to_end};
use logway_log::{AppendBatches, LogConfig, LogDir, LogDirOptions, LogMetrics, ManualClock};
use logway_model::{
    BrokerId, ClusterId, LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, Sequence,
    TimestampMs, TopicId, TopicName, TopicPartition, Uuid,
};
use logway_record::{Batch, BatchBuilder, Compression, Header};
use logway_wire::messages::{RequestHeader, ResponseHeader};
use logway_wire::{ApiKey, Encoder, Message, request_header_version, response_header_version};

const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

/// Larger ones make fuzzing slow and find no more.
const SEED_BYTES_MAX: usize = 2_048;

fn main() {
    let samples = samples();
    for api_key in ApiKey::ALL {
        for version in [api_key.oldest(), api_key.latest()] {
            seed_messages(&samples, api_key, version);
        }
    }
    seed_consumer_protocol(&samples);
    seed_batches();
    seed_group_records();
    seed_metadata();
    seed_files();
    seed_journal();
    seed_telemetry();
    seed_sasl();
}

fn write(target: &str, name: &str, seed: &[u8]) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    fs::create_dir_all(&dir).expect("a directory can be made");
    if seed.len() <= SEED_BYTES_MAX {
        fs::write(dir.join(format!("seed-{name}")), seed).expect("a file can be written");
    }
}

/// The random sample of each message at each version.
fn samples() -> BTreeMap<(String, i16), Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/samples.txt");
    let text = fs::read_to_string(path).expect("the samples can be read");
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        let [name, version, kind, hex] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("no sample: {line}")
        };
        if kind == "random" {
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
            let bytes = (0..hex.len()).step_by(2).map(byte).collect();
            samples.insert((name.to_owned(), version.parse().expect("is a number")), bytes);
        }
    }
    samples
}

fn encode(message: &impl Message, version: i16) -> Bytes {
    let mut encoder = Encoder::new();
    message.encode(&mut encoder, version).expect("the version has this");
    encoder.into_bytes().expect("no records are external")
}

fn seed_messages(samples: &BTreeMap<(String, i16), Vec<u8>>, api_key: ApiKey, version: i16) {
    let sample = |kind: &str| samples.get(&(format!("{api_key:?}{kind}"), version));
    if let Some(body) = sample("Request") {
        let header = RequestHeader {
            request_api_key: api_key.id(),
            request_api_version: version,
            correlation_id: 7,
            client_id: Some("client".into()),
            ..RequestHeader::default()
        };
        let header = encode(&header, request_header_version(api_key, version));
        write("request", &format!("{api_key:?}-{version}"), &[&header[..], body].concat());
    }
    if let Some(body) = sample("Response") {
        let header = ResponseHeader { correlation_id: 7, ..ResponseHeader::default() };
        let header = encode(&header, response_header_version(api_key, version));
        let (key, at) = (api_key.id().to_be_bytes(), version.to_be_bytes());
        let seed = [&key[..], &at, &header, body].concat();
        write("response", &format!("{api_key:?}-{version}"), &seed);
    }
}

fn seed_consumer_protocol(samples: &BTreeMap<(String, i16), Vec<u8>>) {
    for ((name, version), body) in samples {
        if name.starts_with("ConsumerProtocol") {
            let seed = [&version.to_be_bytes()[..], body].concat();
            write("consumer_protocol", &format!("{name}-{version}"), &seed);
        }
    }
}

/// Three records: with everything, with nothing, and one that compresses.
fn builder(codec: Compression) -> BatchBuilder {
    let headers = [Header::new("h", Some("1".into())), Header::new("h", None)];
    let mut builder = BatchBuilder::new(codec);
    let append = &mut |key, value: Option<&[u8]>, headers: &[Header]| {
        builder.append(NOW, key, value, headers).expect("it is short");
    };
    append(Some(b"key"), Some(b"value"), &headers);
    append(None, None, &[]);
    append(None, Some(&[b'x'; 300]), &[]);
    builder
}

fn parsed(builder: BatchBuilder) -> Batch {
    Batch::parse(builder.finish().expect("it has records")).expect("it is a batch")
}

fn seed_batches() {
    for codec in Compression::ALL {
        let batch = parsed(builder(codec));
        write("batches", codec.name(), batch.bytes());
        let plain = parsed(builder(Compression::None)).body();
        write("packed_records", codec.name(), &[&[codec.id(), 3][..], &plain].concat());
    }
    let (id, epoch) = (ProducerId(7), ProducerEpoch(1));
    let stamped = builder(Compression::None).with_producer(id, epoch, Sequence(3));
    write("batches", "producer", parsed(stamped).bytes());
    let two = [parsed(builder(Compression::Lz4)), parsed(builder(Compression::Zstd))];
    write("batches", "two", &[two[0].bytes().clone(), two[1].bytes().clone()].concat());
    // Of the Java client, and of librdkafka.
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/tests/fixtures");
    for entry in fs::read_dir(fixtures).expect("the fixtures are there") {
        let path: PathBuf = entry.expect("an entry can be read").path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            let stem = path.file_stem().expect("is a name").to_string_lossy();
            write("batches", &stem, &fs::read(&path).expect("a fixture can be read"));
        }
    }
}

fn seed_group_records() {
    let offset = |expire_timestamp: Option<TimestampMs>| CommittedOffset {
        offset: Offset(42),
        leader_epoch: LeaderEpoch(if expire_timestamp.is_none() { 7 } else { -1 }),
        metadata: "text".into(),
        commit_timestamp: NOW,
        expire_timestamp,
        topic_id: TopicId::default(),
    };
    let committed = |offset| GroupRecord::Offset {
        group: "g".into(),
        topic: "t".into(),
        partition: PartitionId(3),
        offset,
    };
    let member = MemberMetadata {
        member_id: "member".into(),
        instance_id: Some("instance".into()),
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 10_000,
        subscription: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"),
        assignment: Bytes::from_static(b"\0\0\0\0\0\0\xff\xff\xff\xff"),
    };
    let metadata = GroupMetadata {
        protocol_type: Some("consumer".into()),
        generation: 4,
        protocol: Some("range".into()),
        leader: Some("member".into()),
        state_timestamp: Some(NOW),
        members: vec![member],
    };
    let group = |metadata: Option<GroupMetadata>| GroupRecord::Metadata {
        group: "g".into(),
        metadata: metadata.map(Arc::new),
    };
    let stories: [(&str, Vec<GroupRecord>); 5] = [
        ("offset", vec![committed(Some(offset(None)))]),
        ("expiring", vec![committed(Some(offset(Some(NOW))))]),
        ("group", vec![group(Some(metadata.clone())), committed(Some(offset(None)))]),
        ("removed", vec![committed(Some(offset(None))), committed(None)]),
        ("ended", vec![group(Some(metadata)), group(None)]),
    ];
    for (name, records) in stories {
        let coded = records.iter().map(GroupRecord::encode);
        let pieces: Vec<Bytes> =
            coded.flat_map(|(key, value)| [key, value.unwrap_or_default()]).collect();
        write("group_records", name, &pack(&pieces));
    }
}

const METADATA: &str = r#"{"feature/0":{"name":"metadata.version","level":29}}
{"broker/1":{"id":1,"endpoint":{"host":"broker.example","port":9092},"rack":null,"log_dirs":["CAgICAgICAgICAgICAgICA"]}}
{"producer_ids/0":{"next":1000}}
{"config/0":{"resource":"broker_default","name":"retention.ms","value":"5"}}
{"config/0":{"resource":{"group":"g"},"name":"retention.ms","value":"5"}}
{"client_quota/0":{"entity":{"user":"default"},"key":"producer_byte_rate","limit":1000.0}}
{"topic/0":{"name":"orders","id":"BwcHBwcHBwcHBwcHBwcHBw"}}
{"partition/1":{"topic_id":"BwcHBwcHBwcHBwcHBwcHBw","partition":0,"replicas":[1],"directories":["CAgICAgICAgICAgICAgICA"],"isr":[1],"leader":1,"leader_epoch":3,"partition_epoch":4}}
{"partition/0":{"topic_id":"BwcHBwcHBwcHBwcHBwcHBw","partition":1,"replicas":[1],"isr":[1],"leader":null,"leader_epoch":0,"partition_epoch":0}}
{"config/0":{"resource":{"topic":"orders"},"name":"retention.ms","value":"5"}}
{"remove_topic/0":{"id":"BwcHBwcHBwcHBwcHBwcHBw"}}"#;

fn seed_metadata() {
    let lines: Vec<&str> = METADATA.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        write("metadata_records", &format!("{number:02}"), line.as_bytes());
    }
    write("metadata_records", "all", METADATA.as_bytes());
    write("metadata_records", "living", lines[..lines.len() - 1].join("\n").as_bytes());
}

/// What the engine leaves behind: a log of two segments, the second of which begins at offset 8.
fn seed_files() {
    let disk = SimFs::new(0);
    let batch = |sequence| {
        let producer = (ProducerId(7), ProducerEpoch(0), Sequence(sequence));
        let mut builder =
            BatchBuilder::new(Compression::None).with_producer(producer.0, producer.1, producer.2);
        builder.append(NOW, Some(b"key"), Some(b"value"), &[]).expect("it is short");
        parsed(builder)
    };
    let config = Arc::new(LogConfig {
        segment_bytes: u32::try_from(8 * batch(0).size_bytes()).expect("it is small"),
        index_interval_bytes: 1,
        ..LogConfig::default()
    });
    let options = LogDirOptions {
        fs: Arc::new(disk.clone()),
        clock: Arc::new(ManualClock::new(NOW)),
        default_config: Arc::clone(&config),
        ..LogDirOptions::new("/data", BrokerId(1), ClusterId(Uuid([7; 16])))
    };
    let dir = LogDir::open(options, LogMetrics::new()).expect("the disk works");
    let partition = TopicPartition::new(TopicName::new("t").expect("is a name"), PartitionId(0));
    let log = dir.create_log(partition, TopicId(Uuid([9; 16])), config).expect("the disk works");
    for number in 0..12 {
        let leader_epoch = LeaderEpoch(number / 5);
        let batches = vec![batch(number)];
        log.append(AppendBatches::new(batches, leader_epoch)).wait().expect("the disk works");
    }
    dir.close().expect("the disk works");

    let read = |name: &str| {
        let file = disk.open(&Path::new("/data").join(name), OpenMode::Read);
        let file = file.unwrap_or_else(|error| panic!("{name}: {error}"));
        read_to_end(&*file, 1 << 20).expect("the disk works")
    };
    let (first, second) = ("t-0/00000000000000000000", "t-0/00000000000000000008");
    for (number, (base_offset, segment)) in [(0_i64, first), (8, second)].into_iter().enumerate() {
        let base_offset = base_offset.to_be_bytes();
        let index = [&base_offset[..], &read(&format!("{segment}.index"))].concat();
        write("offset_index", &number.to_string(), &index);
        let index = [&base_offset[..], &read(&format!("{segment}.timeindex"))].concat();
        write("time_index", &number.to_string(), &index);
    }
    let snapshot = read(&format!("{second}.snapshot"));
    write("producer_snapshot", "written", &snapshot);
    let files = [
        read(&format!("{first}.log")),
        read(&format!("{first}.index")),
        read(&format!("{first}.timeindex")),
        read(&format!("{second}.log")),
        snapshot,
        read("t-0/leader-epoch-checkpoint"),
    ];
    write("partition", "written", &pack(&files));
    write("partition", "segments", &pack(&[&files[0], &vec![], &vec![], &files[3]]));
    write("partition", "batches", &pack(&files[..1]));

    let lists = read("segment-lists");
    let lists = lists.splitn(3, |&byte| byte == b'\n').last().expect("it has three lines");
    let checkpoints = [
        read("recovery-point-offset-checkpoint"),
        read("t-0/leader-epoch-checkpoint"),
        b"0\n1\nykSLSUUeSxCxXu2TE1BN2g /data/one\n".to_vec(),
        lists.to_vec(),
        read("meta.properties"),
        read("t-0/partition.metadata"),
        b"version: 0\nstate: moved\nfrom: ykSLSUUeSxCxXu2TE1BN2g\n".to_vec(),
    ];
    for (format, content) in (0_u8..).zip(&checkpoints) {
        write("checkpoint", &format.to_string(), &[&[format][..], content].concat());
    }
}

/// Metrics of a client: a gauge, and a sum of deltas, each of one point with an attribute.
/// A journal with entries in both halves.
fn seed_journal() {
    let disk = SimFs::new(0);
    let options = LogDirOptions {
        fs: Arc::new(disk.clone()),
        clock: Arc::new(ManualClock::new(NOW)),
        journal_bytes: 16 << 10,
        journal_after_rounds: 0,
        ..LogDirOptions::new("/data", BrokerId(1), ClusterId(Uuid([7; 16])))
    };
    let metrics = LogMetrics::new();
    let dir = LogDir::open(options, metrics.clone()).expect("the disk works");
    let partition = TopicPartition::new(TopicName::new("t").expect("is a name"), PartitionId(0));
    let config = Arc::new(LogConfig::default());
    let log = dir.create_log(partition, TopicId(Uuid([9; 16])), config).expect("the disk works");
    while metrics.journal_bytes.get() < 16 << 10 {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(NOW, Some(b"key"), Some(b"value"), &[]).expect("it is short");
        let batches = vec![parsed(builder)];
        let appended = log.append(AppendBatches::new(batches, LeaderEpoch(1))).wait();
        appended.expect("the disk works");
    }
    let file = disk.open(Path::new("/data/journal"), OpenMode::Read).expect("it was written");
    let journal = read_to_end(&*file, 1 << 20).expect("the disk works");
    // Most of an entry are zeros. The CRCs are put right by the target.
    let shortened = |half: &[u8]| [&half[..8], &512_u32.to_be_bytes(), &half[12..512]].concat();
    let seed: Vec<u8> = journal.chunks_exact(journal.len() / 2).flat_map(shortened).collect();
    write("journal", "written", &seed);
}

fn seed_telemetry() {
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("seeds are short");
        [&[number << 3 | 2, length][..], content].concat()
    }
    let attribute = [field(1, b"client-id"), field(2, &field(1, b"c"))].concat();
    let value = [&[4 << 3 | 1][..], &1.5_f64.to_le_bytes()].concat();
    let point = field(1, &[value, field(7, &attribute)].concat());
    let gauge = [field(1, b"org.apache.kafka.a"), field(5, &point)].concat();
    let sum = [&point[..], &[2 << 3, 1, 3 << 3, 1]].concat();
    let sum = [field(1, b"org.apache.kafka.b"), field(7, &sum)].concat();
    for (name, metric) in [("gauge", gauge), ("sum", sum)] {
        write("telemetry", name, &field(1, &field(2, &field(2, &metric))));
    }
}

/// The messages of each mechanism, with a proof of the right length.
fn seed_sasl() {
    let proof = format!("c=biws,r=xy,p={}", "A".repeat(43) + "=");
    let by_token = "n,,n=5dkfy8KPQ4-hLMJ6M1DWsg,r=x,tokenauth=true";
    let seeds: [(&str, u8, &[&str]); 5] = [
        ("plain", 0, &["\0alice\0secret"]),
        ("scram", 1, &["n,,n=alice,r=x", &proof]),
        ("scram-token", 2, &[by_token, &proof]),
        ("scram-extensions", 1, &["n,a=a=2Cb,n=a=2Cb,r=x,a=b,tokenauth=TRUE", &proof]),
        ("bearer", 3, &["n,,\u{1}auth=Bearer a.b.c\u{1}\u{1}", "\u{1}"]),
    ];
    for (name, mechanism, messages) in seeds {
        write("sasl", name, &[&[mechanism][..], &pack(messages)].concat());
    }
}
