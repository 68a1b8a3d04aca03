//! What the tests share: a log directory on a simulated disk, and batches.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use logway_log::fs::{Fs, SimFs};
use logway_log::{
    AppendBatches, AppendFuture, AppendOrigin, AppendOutcome, InlineRound, Log, LogConfig, LogDir,
    LogDirOptions, LogError, LogMetrics, ManualClock, ReadRequest, TailListener, TimestampType,
};
use logway_model::{
    BrokerId, ClusterId, LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, Sequence,
    TimestampMs, TopicId, TopicName, TopicPartition, Uuid,
};
use logway_record::{Batch, BatchBuilder, Batches, Compression, DecodeLimit, Record};

/// The time at which tests begin.
pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

/// The epoch in which tests append.
pub(crate) const EPOCH: LeaderEpoch = LeaderEpoch(3);

/// A log directory on a simulated disk, with a clock that stands still.
pub(crate) struct TestDisk {
    pub(crate) fs: SimFs,
    pub(crate) clock: ManualClock,
    pub(crate) config: LogConfig,
    pub(crate) metrics: LogMetrics,
    /// The size of the journal, which is made as soon as it is of any use; 0 for none.
    pub(crate) journal_bytes: u64,
    /// From so many unsynced bytes on logs are not synced while they are opened.
    pub(crate) sync_later_bytes: u64,
    /// How much of the end of a segment is always checked.
    pub(crate) checked_bytes_min: u64,
    /// How often high watermarks are written down, by the machine's clock.
    pub(crate) high_watermark_interval: Duration,
}

impl TestDisk {
    pub(crate) fn new(seed: u64) -> TestDisk {
        TestDisk {
            fs: SimFs::new(seed),
            clock: ManualClock::new(TimestampMs(NOW_MS)),
            config: LogConfig::default(),
            metrics: LogMetrics::new(),
            journal_bytes: 0,
            sync_later_bytes: u64::MAX,
            checked_bytes_min: u64::MAX,
            high_watermark_interval: Duration::from_secs(3600),
        }
    }

    /// The same with other settings for all its logs.
    pub(crate) fn with_config(self, config: LogConfig) -> TestDisk {
        TestDisk { config, ..self }
    }

    pub(crate) fn options(&self) -> LogDirOptions {
        let cluster_id = ClusterId(Uuid([7; 16]));
        LogDirOptions {
            fs: Arc::new(self.fs.clone()),
            clock: Arc::new(self.clock.clone()),
            default_config: Arc::new(self.config.clone()),
            journal_bytes: self.journal_bytes,
            sync_later_bytes: self.sync_later_bytes,
            checked_bytes_min: self.checked_bytes_min,
            high_watermark_interval: self.high_watermark_interval,
            journal_after_rounds: 0,
            ..LogDirOptions::new("/data", BrokerId(1), cluster_id)
        }
    }

    pub(crate) fn open(&self) -> LogDir {
        self.try_open().expect("the directory opens")
    }

    pub(crate) fn try_open(&self) -> Result<LogDir, LogError> {
        LogDir::open(self.options(), self.metrics.clone())
    }

    /// Cuts the power; what comes back may have lost all that was not synced.
    pub(crate) fn crash(self) -> TestDisk {
        TestDisk { fs: self.fs.crash(), ..self }
    }

    /// Ends the process; what it has written is there, synced or not.
    pub(crate) fn kill(self) -> TestDisk {
        TestDisk { fs: self.fs.kill(), ..self }
    }

    /// The space that is left.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.fs.free_bytes(Path::new("/data")).expect("the disk works")
    }

    /// Has so much space left from now on, of a disk of 1 GiB.
    pub(crate) fn leave_free(&self, free_bytes: u64) {
        self.fs.set_capacity_bytes((1 << 30) - self.free_bytes() + free_bytes);
    }

    /// Makes or finds the log of partition 0 of topic `t`.
    pub(crate) fn log(&self, dir: &LogDir) -> Arc<Log> {
        self.log_of(dir, 0)
    }

    pub(crate) fn log_of(&self, dir: &LogDir, number: i32) -> Arc<Log> {
        dir.create_log(partition(number), topic_id(), Arc::new(self.config.clone()))
            .expect("the log is created")
    }
}

pub(crate) fn partition(number: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new("t").expect("a good name"), PartitionId(number))
}

pub(crate) fn topic_id() -> TopicId {
    TopicId(Uuid([9; 16]))
}

/// A segment's file in the directory of partition 0.
pub(crate) fn segment_path(base_offset: i64) -> std::path::PathBuf {
    Path::new("/data/t-0").join(format!("{base_offset:020}.log"))
}

/// A batch of records with these timestamps and values of so many bytes.
pub(crate) fn batch_at(timestamps_ms: &[i64], value_bytes: usize) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None);
    for (index, &timestamp_ms) in timestamps_ms.iter().enumerate() {
        let value = vec![b'a' + (index % 26) as u8; value_bytes];
        builder
            .append(TimestampMs(timestamp_ms), Some(b"key"), Some(&value), &[])
            .expect("the record fits");
    }
    parsed(builder)
}

/// A batch of so many records of the present.
pub(crate) fn batch(records: usize, value_bytes: usize) -> Batch {
    batch_at(&vec![NOW_MS; records], value_bytes)
}

/// A batch with these values.
pub(crate) fn batch_of_values<V: AsRef<[u8]>>(values: &[V]) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None);
    for value in values {
        builder
            .append(TimestampMs(NOW_MS), None, Some(value.as_ref()), &[])
            .expect("the record fits");
    }
    parsed(builder)
}

/// A batch of so many records by an idempotent producer.
pub(crate) fn producer_batch(id: i64, epoch: i16, sequence: i32, records: usize) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(
        ProducerId(id),
        ProducerEpoch(epoch),
        Sequence(sequence),
    );
    for _ in 0..records {
        builder.append(TimestampMs(NOW_MS), None, Some(b"v"), &[]).expect("the record fits");
    }
    parsed(builder)
}

fn parsed(builder: BatchBuilder) -> Batch {
    Batch::parse(builder.finish().expect("the batch is encoded")).expect("the batch is good")
}

/// An append of a batch; one that is part of a transaction as if the coordinator had been asked.
pub(crate) fn append_of(batch: Batch) -> AppendBatches {
    let origin = match batch.header().attributes.is_transactional() {
        true => AppendOrigin::Coordinator,
        false => AppendOrigin::Client,
    };
    AppendBatches { origin, ..AppendBatches::new(vec![batch], EPOCH) }
}

/// Appends a batch and waits until it is acknowledged.
pub(crate) fn append(log: &Log, batch: Batch) -> Result<AppendOutcome, LogError> {
    log.append(append_of(batch)).wait()
}

/// Appends a batch on this thread if the writer has nothing to do.
pub(crate) fn append_inline(log: &Log, batch: Batch) -> AppendFuture {
    let mut held = None;
    let answer = log.append_inline(append_of(batch), &mut held);
    held.into_iter().for_each(InlineRound::run);
    answer
}

/// Appends a batch of so many records, acknowledged; returns its first offset.
pub(crate) fn append_records(log: &Log, records: usize, value_bytes: usize) -> Offset {
    append(log, batch(records, value_bytes)).expect("the append succeeds").base_offset
}

/// The bytes of a read.
pub(crate) fn read_bytes(log: &Log, request: ReadRequest) -> Result<Bytes, LogError> {
    let slice = log.read(request)?;
    Ok(slice.read().expect("what was found can be read"))
}

/// All batches from `from` to the log end, each checked.
pub(crate) fn read_batches(log: &Log, from: Offset) -> Vec<Batch> {
    let bytes = read_bytes(log, everything_from(from)).expect("the offset is in the log");
    let batches: Vec<Batch> =
        Batches::new(bytes).map(|batch| batch.expect("the log has whole batches")).collect();
    for batch in &batches {
        batch.verify_crc().expect("the batch is as it was sent");
    }
    batches
}

/// All records from `from` to the log end.
pub(crate) fn read_records(log: &Log, from: Offset) -> Vec<Record> {
    let batches = read_batches(log, from);
    let records = batches
        .iter()
        .flat_map(|batch| batch.records(DecodeLimit::DEFAULT).expect("the records decompress"));
    let records = records.map(|record| record.expect("the record is good"));
    records.filter(|record| record.offset >= from).collect()
}

pub(crate) fn everything_from(offset: Offset) -> ReadRequest {
    ReadRequest {
        offset,
        max_bytes: u64::MAX,
        upper_bound: Offset(i64::MAX),
        at_least_one_batch: true,
    }
}

/// The length of a file that is there.
pub(crate) fn file_len(disk: &TestDisk, path: &Path) -> u64 {
    disk.fs.file_len(path).expect("the disk works").expect("it is there")
}

/// The files of a directory, by name.
pub(crate) fn names_in(fs: &SimFs, path: &str) -> Vec<String> {
    use logway_log::fs::Fs;
    let entries = fs.read_dir(Path::new(path)).expect("the directory can be listed");
    entries.into_iter().map(|entry| entry.name.into_string().expect("our names are text")).collect()
}

/// Panics when a log tells it that it has grown.
pub(crate) struct Panics;

impl TailListener for Panics {
    fn on_tail(&self, _log_end: Offset, _flushed: Offset) {
        panic!("a bug in a listener, on purpose");
    }

    fn stable_offset(&self) -> Offset {
        Offset::ZERO
    }
}

/// Small segments and dense indexes.
pub(crate) fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 4096, index_interval_bytes: 256, ..LogConfig::default() }
}

/// A disk with one log of 60 records in small segments, closed in good order.
pub(crate) fn closed_log_of_60_records() -> TestDisk {
    closed_log_on(TestDisk::new(1))
}

/// As [`closed_log_of_60_records`], on this disk.
pub(crate) fn closed_log_on(disk: TestDisk) -> TestDisk {
    let disk = disk.with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 2, 300);
    }
    dir.close().expect("it closes");
    disk
}

pub(crate) fn remove(disk: &TestDisk, path: &Path) {
    disk.fs.remove_file(path).expect("it is there");
}

/// A log whose appends are not synced.
pub(crate) fn not_durable() -> LogConfig {
    LogConfig { flush_messages: u64::MAX, ..LogConfig::default() }
}

/// A log that stamps its records.
pub(crate) fn log_append_time() -> LogConfig {
    LogConfig { timestamp_type: TimestampType::LogAppendTime, ..LogConfig::default() }
}

/// Whether the answer is there.
pub(crate) fn is_answered(append: &mut AppendFuture) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    Pin::new(append).poll(&mut context).is_ready()
}

/// Waits until a log is flushed up to an offset.
pub(crate) struct FlushedAt {
    receiver: Receiver<()>,
}

/// Waits until a log ends at an offset or behind.
pub(crate) struct LogEndAt {
    receiver: Receiver<()>,
}

/// Tells a test that waits when a tail is as it should be.
struct TailAwaited<F> {
    is_it: F,
    sender: Mutex<Sender<()>>,
}

impl<F: Fn(Offset, Offset) -> bool + Send + Sync> TailListener for TailAwaited<F> {
    fn on_tail(&self, log_end: Offset, flushed: Offset) {
        if (self.is_it)(log_end, flushed) {
            // The test may have stopped to listen.
            let _ = self.sender.lock().expect("nobody panicked").send(());
        }
    }

    fn stable_offset(&self) -> Offset {
        Offset::ZERO
    }
}

fn listen(
    log: &Log,
    is_it: impl Fn(Offset, Offset) -> bool + Send + Sync + 'static,
) -> Receiver<()> {
    let (sender, receiver) = channel();
    let listener = Arc::new(TailAwaited { is_it, sender: Mutex::new(sender) });
    log.set_tail_listener(Arc::clone(&listener) as Arc<dyn TailListener>);
    // It may have come about before there was anybody to tell.
    listener.on_tail(log.log_end_offset(), log.flushed_offset());
    receiver
}

impl FlushedAt {
    pub(crate) fn listen(log: &Log, offset: Offset) -> FlushedAt {
        FlushedAt { receiver: listen(log, move |_, flushed| flushed >= offset) }
    }

    pub(crate) fn wait(self) {
        self.receiver.recv().expect("the log still has its listener");
    }
}

impl LogEndAt {
    pub(crate) fn listen(log: &Log, offset: Offset) -> LogEndAt {
        LogEndAt { receiver: listen(log, move |log_end, _| log_end >= offset) }
    }

    pub(crate) fn wait(self) {
        self.receiver.recv().expect("the log still has its listener");
    }
}

/// Numbers that a seed repeats (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}
