use logway_log::fs::{Fs, RealFs, SimFs};
use logway_log::random_uuid;
use logway_metadata::Intake;
use logway_metadata::controller::{ChangeStream, CreateStream, StreamChange};
use logway_metadata::record::StreamMode;
use logway_metadata::settings::BrokerSettings;
use logway_model::{ProducerEpoch, ProducerId, Sequence, Uuid};
use logway_record::{BatchBuilder, Compression};
use prometheus_client::registry::Registry;

use super::*;
use crate::coordinator_topics::ensure_offsets_topic;
use crate::groups::OFFSETS_TOPIC;
use crate::log_levels::LogLevels;
use crate::tasks::wall_clock;

/// A node alone, with a stream of one shard.
pub(crate) struct Alone {
    _dir: tempfile::TempDir,
    pub(crate) node: Arc<Node>,
    pub(crate) shard: Partition,
}

impl Alone {
    pub(crate) async fn start() -> Alone {
        Alone::start_on(Arc::new(RealFs), &[]).await
    }

    async fn start_on(fs: Arc<dyn Fs>, more: &[(&str, &str)]) -> Alone {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_str().expect("is text");
        let settings = [("log.dirs", path), ("offsets.topic.num.partitions", "1")];
        let settings = settings.iter().chain(more);
        let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = BrokerSettings::new(settings).expect("are valid");
        let mut registry = Registry::default();
        let node = Node::start_on(fs, settings, None, LogLevels::default(), &mut registry).await;
        let node = node.expect("starts");
        let topic = TopicId(random_uuid());
        let stream = CreateStream {
            name: "clicks".to_owned(),
            topic_id: topic,
            shard_count: 1,
            mode: StreamMode::Provisioned,
            max_record_kib: 1_024,
            warm_mibps: None,
            retention_ms: 86_400_000,
            tags: Default::default(),
            shards_max: None,
            now_ms: wall_clock().0,
            token_key: [Uuid([1; 16]), Uuid([2; 16])],
        };
        node.submit(stream, None, None).await.expect("is new");
        Alone { _dir: dir, node, shard: Partition { topic, number: PartitionId(0) } }
    }

    async fn append(&self, value_bytes: usize) -> Result<Appended, Failure> {
        let deadline = Instant::now() + SEARCH_MAX;
        let batches = vec![(self.shard, batch(value_bytes))];
        self.node.append_anywhere(batches, Until::Committed, deadline).await.remove(0)
    }

    async fn asked_by<A: Answer>(&self, from: BrokerId, task: Task) -> Option<Result<A, Failure>> {
        let Partition { topic, number: partition } = self.shard;
        let request = Request { topic, partition, task }.encode().into();
        let answer = self.node.answer_for_leader(from, &request).await?;
        Some(decode_answer(answer.into()))
    }
}

fn batch(value_bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(wall_clock(), None, Some(&vec![0; value_bytes]), &[]).expect("fits");
    builder.finish().expect("fits")
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_the_cluster_are_served_what_clients_may_have_and_not_all_at_once() {
    let mut alone = Alone::start().await;
    for _ in 0..13 {
        alone.append(1 << 20).await.expect("is taken");
    }
    let own = alone.node.settings.node_id;
    let all = Task::Read { offset: Offset(0), max_bytes: u32::MAX, wait_ms: 0 };
    let read: PartitionRead =
        alone.asked_by(own, all.clone()).await.expect("is known").expect("is led");
    assert_eq!(read.end, Offset(13));
    assert!(read.batches.len() <= READ_BYTES_MAX as usize, "{}", read.batches.len());
    let stranger = alone.asked_by::<PartitionRead>(BrokerId(own.0 + 1), all.clone()).await;
    assert_eq!(stranger, None);
    ensure_offsets_topic(&alone.node).await.expect("is made");
    alone.shard.topic = alone.node.image().topic(OFFSETS_TOPIC).expect("was made").id;
    let refused = alone.asked_by::<PartitionRead>(own, all).await.expect("is known");
    assert_eq!(refused.expect_err("is internal").code, ErrorCode::InvalidTopicException);
    alone.node.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_has_one_limit_for_all_nodes() {
    // So little that no second passes with room for more.
    let rates =
        [("kinesis.shard.write.bytes.per.second", "10"), ("kinesis.shard.reads.per.second", "1")];
    let alone = Alone::start_on(Arc::new(RealFs), &rates).await;
    let own = alone.node.settings.node_id;
    let large = Demand::Write(vec![10_000]);
    let met = alone.node.meter_anywhere(alone.shard, large.clone()).await;
    assert_eq!(met, Ok(Met(vec![true])), "nothing was written in this second");
    let met = alone.asked_by::<Met>(own, Task::Meter(large)).await.expect("is known");
    assert_eq!(met, Ok(Met(vec![false])), "another node's client comes too late");
    let stranger = alone.asked_by::<Met>(BrokerId(own.0 + 1), Task::Meter(Demand::Read)).await;
    assert_eq!(stranger, None);
    let nowhere = Partition { number: PartitionId(7), ..alone.shard };
    let refused = alone.node.meter_anywhere(nowhere, Demand::Read).await;
    assert_eq!(refused.expect_err("it does not exist").code, ErrorCode::UnknownTopicOrPartition);
    alone.node.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_append_at_the_same_end_one_does() {
    let alone = Alone::start().await;
    alone.append(1).await.expect("is taken");
    let deadline = Instant::now() + SEARCH_MAX;
    let append = |end| alone.node.append_at_anywhere(alone.shard, Offset(end), batch(1), deadline);
    let offset = |appended: Result<Appended, Failure>| {
        appended.map(|appended| appended.base_offset.0).map_err(|failure| failure.code)
    };
    for early_or_late in [0, 2] {
        assert_eq!(offset(append(early_or_late).await), Err(ErrorCode::OffsetOutOfRange));
    }
    let (one, other) = tokio::join!(append(1), append(1));
    let mut outcomes = [offset(one), offset(other)];
    outcomes.sort_by_key(Result::is_err);
    assert_eq!(outcomes, [Ok(1), Err(ErrorCode::OffsetOutOfRange)]);
    let task = |end| Task::AppendAt { end: Offset(end), wait_ms: 9_000, batch: batch(1) };
    let own = alone.node.settings.node_id;
    assert_eq!(
        offset(alone.asked_by(own, task(1)).await.expect("is known")),
        Err(ErrorCode::OffsetOutOfRange)
    );
    assert_eq!(offset(alone.asked_by(own, task(2)).await.expect("is known")), Ok(2));
    alone.node.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_behind_a_batch_that_came_too_early_is_refused_like_it() {
    let alone = Alone::start().await;
    let replica = alone.node.leading(alone.shard).expect("it leads");
    let append = async |sequence: i32| {
        let builder = BatchBuilder::new(Compression::None);
        let mut builder =
            builder.with_producer(ProducerId(7), ProducerEpoch(0), Sequence(sequence));
        builder.append(wall_clock(), None, Some(b"value"), &[]).expect("fits");
        let batch = Batch::parse(builder.finish().expect("fits")).expect("is whole");
        let appender = Appender::default();
        let appending = alone.node.append(&replica, batch, Acks::All, &appender);
        let appending = appender.drive(async { Ok(appending.await?.finish().await?) }).await;
        appending.map(|outcome| outcome.base_offset).map_err(|failure: Failure| failure.code)
    };
    replica.set_intake(Intake::NotYet);
    assert_eq!(append(0).await, Err(ErrorCode::LeaderNotAvailable));
    replica.set_intake(Intake::Open);
    assert_eq!(
        append(1).await,
        Err(ErrorCode::LeaderNotAvailable),
        "not taken for the first of all"
    );
    assert_eq!(append(0).await, Ok(Offset(0)));
    assert_eq!(append(1).await, Ok(Offset(1)));
    replica.set_intake(Intake::Closed);
    assert_eq!(append(2).await, Err(ErrorCode::PolicyViolation));
    alone.node.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_hangs_holds_up_nobody_beyond_the_deadline() {
    let fs = SimFs::new(1);
    let alone = Alone::start_on(Arc::new(fs.clone()), &[]).await;
    alone.append(10).await.expect("the disk works");
    fs.hold_syncs();
    // More than once, as one client: who is alone writes itself elsewhere.
    for _ in 0..3 {
        let deadline = Instant::now() + Duration::from_millis(200);
        let batches = vec![(alone.shard, batch(10))];
        let appending = alone.node.append_anywhere(batches, Until::Committed, deadline);
        let outcome = timeout_at(Instant::now() + SEARCH_MAX, appending).await;
        let outcome = outcome.expect("ends in time").into_iter().next().expect("there is one");
        assert_eq!(outcome.expect_err("it is not synced").code, ErrorCode::RequestTimedOut);
    }
    fs.release_syncs();
    alone.node.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_to_be_deleted_goes_whatever_the_front_door_does() {
    let alone = Alone::start().await;
    let (topic_id, now_ms) = (alone.shard.topic, wall_clock().0);
    let begin = ChangeStream { topic_id, change: StreamChange::BeginDeletion, now_ms };
    let mut images = alone.node.quorum.watch();
    alone.node.submit(begin, None, None).await.expect("is there");
    let gone = async {
        while alone.node.image().topic_by_id(topic_id).is_some() {
            images.changed().await.expect("the node runs");
        }
    };
    timeout_at(Instant::now() + SEARCH_MAX, gone).await.expect("goes in time");
    alone.node.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_waits_is_given_no_records() {
    let alone = Alone::start().await;
    let wait = SEARCH_MAX;
    let wish = PartitionWish { offset: Offset(0), max_bytes: 0, first_max_bytes: 0, wait };
    let (woken, appended) =
        tokio::join!(alone.node.read_anywhere(alone.shard, wish), alone.append(10));
    appended.expect("is taken");
    let woken = woken.expect("it leads");
    assert_eq!((woken.next, woken.end, woken.batches.len()), (Offset(0), Offset(1), 0));
    alone.node.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_in_a_hurry_waits_for_no_leader_for_long() {
    let alone = Alone::start().await;
    alone.node.await_leader(alone.shard).await.expect("it leads");
    alone.node.leading(alone.shard).expect("it leads").go_offline();
    let begun = Instant::now();
    let refused = alone.node.await_leader(alone.shard).await.expect_err("nobody leads");
    assert_eq!(refused.code, ErrorCode::NotLeaderOrFollower);
    let wish = PartitionWish {
        offset: Offset(0),
        max_bytes: 1,
        first_max_bytes: u32::MAX,
        wait: Duration::ZERO,
    };
    alone.node.read_anywhere(alone.shard, wish).await.expect_err("nobody leads");
    assert!(begun.elapsed() < SEARCH_MAX, "{:?}", begun.elapsed());
    alone.node.stop().await.expect("stops");
}
