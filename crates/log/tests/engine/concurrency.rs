//! Many threads on the machine's own file system.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use logway_log::{Log, LogConfig, LogDir, LogDirOptions, LogMetrics, ReadRequest};
use logway_model::{BrokerId, ClusterId, Offset, Uuid};
use logway_record::Batches;

use crate::support::*;

const THREADS: usize = 8;
const LOGS: i32 = 5;
const APPENDS: usize = 120;

fn open(path: &std::path::Path) -> LogDir {
    let cluster_id = ClusterId(Uuid([7; 16]));
    LogDir::open(LogDirOptions::new(path, BrokerId(1), cluster_id), LogMetrics::new())
        .expect("the directory opens")
}

/// Reads from the beginning to the log end again and again, as consumers do.
fn consume(log: &Log, is_done: &AtomicBool) {
    let mut offset = Offset(0);
    loop {
        let was_done = is_done.load(Ordering::Acquire);
        let request = ReadRequest {
            offset,
            max_bytes: 5000,
            upper_bound: log.log_end_offset(),
            at_least_one_batch: true,
        };
        let bytes = read_bytes(log, request).expect("the offset is in the log");
        let is_empty = bytes.is_empty();
        for batch in Batches::new(bytes) {
            let batch = batch.expect("batches are whole");
            batch.verify_crc().expect("the batch is as it was sent");
            assert_eq!(batch.base_offset(), offset, "offsets have no gap");
            offset = batch.last_offset().next();
        }
        if is_empty && was_done {
            break;
        }
        thread::yield_now();
    }
    assert_eq!(offset, log.log_end_offset());
}

#[test]
fn what_many_threads_append_to_many_logs_is_there_once_and_in_their_order() {
    let place = tempfile::tempdir().expect("there is room for temporary files");
    let dir = open(place.path());
    let durable = LogConfig { segment_bytes: 50_000, ..LogConfig::default() };
    let logs: Vec<Arc<Log>> = (0..LOGS)
        .map(|number| {
            let flush_messages = if number % 2 == 0 { 1 } else { 20 };
            let config = LogConfig { flush_messages, ..durable.clone() };
            dir.create_log(partition(number), topic_id(), Arc::new(config))
                .expect("the log is created")
        })
        .collect();
    let acknowledged: Mutex<BTreeMap<(i32, Offset), String>> = Mutex::default();
    let is_done = AtomicBool::new(false);

    thread::scope(|scope| {
        for log in &logs {
            scope.spawn(|| consume(log, &is_done));
        }
        let appenders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (logs, acknowledged) = (&logs, &acknowledged);
                scope.spawn(move || append_some(thread, logs, acknowledged))
            })
            .collect();
        for appender in appenders {
            appender.join().expect("an appender does not panic");
        }
        is_done.store(true, Ordering::Release);
    });

    let acknowledged = acknowledged.into_inner().expect("nobody panicked");
    assert_eq!(acknowledged.len(), THREADS * APPENDS);
    check(&logs, &acknowledged);
    drop(logs);
    dir.close().expect("it closes");
    let dir = open(place.path());
    assert!(dir.recovery_report().was_clean);
    check(&dir.logs(), &acknowledged);
    drop(dir);
    let dir = open(place.path());
    assert!(!dir.recovery_report().was_clean);
    check(&dir.logs(), &acknowledged);
}

/// Appends to the logs in turn, with a few appends under way at any time.
fn append_some(
    thread: usize,
    logs: &[Arc<Log>],
    acknowledged: &Mutex<BTreeMap<(i32, Offset), String>>,
) {
    let mut random = Random::new(thread as u64);
    let mut under_way = std::collections::VecDeque::new();
    for index in 0..APPENDS {
        let number = random.below(logs.len());
        let value = format!("{thread}/{index}/{}", "x".repeat(random.below(6000)));
        let batch = batch_of_values(&[&value]);
        let append = match random.below(2) {
            0 => append_inline(&logs[number], batch),
            _ => logs[number].append(append_of(batch)),
        };
        under_way.push_back((number as i32, value, append));
        if under_way.len() > 5 || index + 1 == APPENDS {
            let finished = if index + 1 == APPENDS { under_way.len() } else { 1 };
            for (number, value, append) in under_way.drain(..finished) {
                let outcome = append.wait().expect("the disk works");
                let mut acknowledged = acknowledged.lock().expect("nobody panicked");
                let earlier = acknowledged.insert((number, outcome.base_offset), value);
                assert_eq!(earlier, None, "an offset was given twice");
            }
        }
    }
}

fn check(logs: &[Arc<Log>], acknowledged: &BTreeMap<(i32, Offset), String>) {
    let mut found = BTreeMap::new();
    for log in logs {
        let number = log.topic_partition().partition.0;
        let mut last_of_thread = BTreeMap::new();
        for record in read_records(log, Offset(0)) {
            let value = record.value.expect("there is a value");
            let value = String::from_utf8(value.to_vec()).expect("we wrote text");
            let mut parts = value.split('/');
            let thread = parts.next().map(str::to_owned).expect("the thread is first");
            let index: usize =
                parts.next().and_then(|index| index.parse().ok()).expect("the index is next");
            let earlier = last_of_thread.insert(thread, index);
            assert!(earlier.is_none_or(|earlier| earlier < index), "out of order");
            found.insert((number, record.offset), value);
        }
    }
    assert_eq!(&found, acknowledged);
}
