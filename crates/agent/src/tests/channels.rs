//! Channels: what is put is there as a whole, what is taken is gone when it is committed, whatever comes between.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{take_all, toml};
use crate::channel::{Channel, More};
use crate::counters::SourceCounters;
use crate::delivery::Delivery;
use crate::event::Event;
use crate::interceptor::Interceptor;
use crate::selector::Selector;
use crate::stop::Stopper;

const SOON: Duration = Duration::from_millis(200);

async fn open(kind: &str, more: &str) -> Arc<Channel> {
    let text = format!(
        "[sources.r]\ntype = 'seq'\nchannels = ['c']\n[channels.c]\ntype = '{kind}'\n'keep-alive' = 0\n{more}\n"
    );
    let config = toml(&text).expect("makes sense");
    Channel::open(&config.channels["c"]).await.expect("opens")
}

async fn open_file(folder: &Path, more: &str) -> Arc<Channel> {
    let more = format!("dataDirs = '{}'\nminimumRequiredSpace = 1048576\n{more}", folder.display());
    open("file", &more).await
}

async fn open_spillable(folder: &Path, more: &str) -> Arc<Channel> {
    let more = format!("dataDirs = '{}'\nminimumRequiredSpace = 1048576\n{more}", folder.display());
    open("spillablememory", &more).await
}

fn events(numbers: std::ops::Range<u32>) -> Vec<Event> {
    let event = |number: u32| {
        let mut event = Event::new(number.to_string());
        event.headers.set("n", number.to_string());
        event
    };
    numbers.map(event).collect()
}

/// In memory, on disk, and one in which some of the events that tests put are here and some there.
async fn three_kinds(folder: &Path) -> [Arc<Channel>; 3] {
    let spillable = "memoryCapacity = 2\noverflowTimeout = 0\ntransactionCapacity = 100";
    [
        open("memory", "capacity = 100").await,
        open_file(&folder.join("file"), "").await,
        open_spillable(&folder.join("spillable"), spillable).await,
    ]
}

async fn put(channel: &Arc<Channel>, numbers: std::ops::Range<u32>) {
    let events = events(numbers);
    channel.reserve(&events).await.expect("there is room").put(events).await.expect("is put");
}

async fn put_error(channel: &Arc<Channel>, numbers: std::ops::Range<u32>) -> String {
    channel.reserve(&events(numbers)).await.expect_err("there is no room").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_back_is_next_again_in_its_order() {
    let folder = tempfile::tempdir().expect("is made");
    for channel in three_kinds(folder.path()).await {
        put(&channel, 0..10).await;
        let first = channel.take(4, SOON).await.expect("is taken");
        assert_eq!(first.events, events(0..4));
        let second = channel.take(4, SOON).await.expect("is taken");
        assert_eq!(second.events, events(4..8));
        second.commit().await.expect("is committed");
        drop(first);
        assert_eq!(channel.len(), 6);
        let rest = channel.take(100, SOON).await.expect("is taken");
        assert_eq!(rest.events, [events(0..4), events(8..10)].concat());
        rest.commit().await.expect("is committed");
        assert_eq!(channel.len(), 0);
        assert!(channel.take(1, SOON).await.expect("is empty").events.is_empty());
        channel.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_event_can_be_committed_before_the_rest() {
    let folder = tempfile::tempdir().expect("is made");
    for channel in three_kinds(folder.path()).await {
        put(&channel, 0..3).await;
        let mut taken = channel.take(3, SOON).await.expect("is taken");
        assert_eq!(taken.commit_one(1), events(1..2)[0]);
        drop(taken);
        let left = channel.take(3, SOON).await.expect("is taken");
        assert_eq!(left.events, [events(0..1), events(2..3)].concat());
        left.commit().await.expect("is committed");
        assert_eq!(channel.len(), 0);
        channel.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_are_kept_and_named() {
    let channel =
        open("memory", "capacity = 10\ntransactionCapacity = 10\nbyteCapacity = 1024").await;
    put(&channel, 0..8).await;
    assert_eq!(put_error(&channel, 0..3).await, "channel c is full: 8 of 10 events");
    assert!(put_error(&channel, 0..11).await.contains("above the 10 events"));
    // What was taken and not committed holds its room.
    let taken = channel.take(5, SOON).await.expect("is taken");
    assert!(put_error(&channel, 0..3).await.contains("full"));
    taken.commit().await.expect("is committed");
    put(&channel, 0..3).await;
    let large = vec![Event::new(vec![0; 2000])];
    let error = channel.reserve(&large).await.expect_err("is too large").to_string();
    assert!(error.contains("above the 1024 bytes"), "{error}");

    let folder = tempfile::tempdir().expect("is made");
    let far = "capacity = 10\ntransactionCapacity = 10";
    let channel = open_file(folder.path(), far).await;
    put(&channel, 0..10).await;
    assert!(put_error(&channel, 0..1).await.contains("10 of 10 events"));
    channel.close().await;
    // The bound holds for what was there before, too.
    let channel = open_file(folder.path(), far).await;
    assert!(put_error(&channel, 0..1).await.contains("10 of 10 events"));
    channel.close().await;

    let text = format!(
        "dataDirs = '{}'\nminimumRequiredSpace = 9000000000000000000",
        folder.path().display()
    );
    let channel = open("file", &text).await;
    assert!(put_error(&channel, 0..1).await.contains("minimumRequiredSpace"));
    channel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_channel_keeps_what_was_not_committed() {
    let folder = tempfile::tempdir().expect("is made");
    let channel = open_file(folder.path(), "").await;
    for start in (0..1000).step_by(100) {
        put(&channel, start..start + 100).await;
    }
    channel.take(300, SOON).await.expect("is taken").commit().await.expect("is committed");
    let id = {
        let taken = channel.take(1, SOON).await.expect("is taken");
        taken.event_id(0).expect("has one")
    };
    channel.close().await;
    drop(channel);

    let channel = open_file(folder.path(), "").await;
    assert_eq!(channel.len(), 700);
    let taken = channel.take(1000, SOON).await.expect("is taken");
    assert_eq!(taken.event_id(0), Some(id), "an event keeps its name");
    assert_eq!(taken.events, events(300..1000));
    // Neither committed nor closed: as by a kill.
    drop(taken);
    drop(channel);
    let channel = open_file(folder.path(), "").await;
    assert_eq!(channel.len(), 700);
    channel.close().await;
}

/// Who does as the error says has the events.
#[tokio::test(flavor = "multi_thread")]
async fn a_channel_whose_identity_is_gone_or_damaged_says_how_to_make_it_anew() {
    for is_damaged in [false, true] {
        make_identity_anew(is_damaged).await;
    }
}

async fn make_identity_anew(is_damaged: bool) {
    let folder = tempfile::tempdir().expect("is made");
    let channel = open_file(folder.path(), "").await;
    put(&channel, 0..10).await;
    channel.close().await;
    drop(channel);
    let path = folder.path().join("logway-channel/meta.properties");
    match is_damaged {
        false => std::fs::remove_file(&path).expect("is removed"),
        true => std::fs::write(&path, [0xff; 80]).expect("is written"),
    }
    let text = format!(
        "[channels.c]\ntype = 'file'\ndataDirs = '{}'\n[sinks.k]\ntype = 'null'\nchannel = 'c'\n",
        folder.path().display()
    );
    let config = toml(&text).expect("makes sense");
    let error = Channel::open(&config.channels["c"]).await.expect_err("is refused");
    let lines = error.split([' ', ',']).filter(|word| word.contains('='));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 4, "{error}");
    std::fs::write(&path, lines.join("\n") + "\n").expect("is written");
    let channel = open_file(folder.path(), "").await;
    assert_eq!(take_all(&channel).await, events(0..10));
    channel.close().await;
}

/// The file of batches in a channel's directory that was begun first.
fn first_segment(folder: &Path) -> std::path::PathBuf {
    folder.join("logway-channel/channel-0/00000000000000000000.log")
}

/// Changes a byte of the batch in which an event of this number is.
fn damage(folder: &Path, number: &str) {
    let path = first_segment(folder);
    let mut bytes = std::fs::read(&path).expect("is there");
    // Its header, with the lengths of key and value.
    let mut header = vec![2, b'n', 2 * number.len() as u8];
    header.extend(number.as_bytes());
    let found = bytes.windows(header.len()).position(|window| window == header);
    bytes[found.expect("is there") + 3] ^= 0xff;
    std::fs::write(&path, bytes).expect("is written");
}

fn lost(channel: &Arc<Channel>) -> u64 {
    let counts = channel.own_counts();
    counts.iter().find(|(name, _)| *name == "EventLostCount").expect("is counted").1
}

/// Puts so many events into a channel, ten at a time, and closes it.
async fn fill_and_close(channel: Arc<Channel>, count: u32) {
    for start in (0..count).step_by(10) {
        put(&channel, start..start + 10).await;
    }
    channel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_on_the_disk_is_counted_and_holds_nothing_up() {
    let folder = tempfile::tempdir().expect("is made");
    fill_and_close(open_file(folder.path(), "").await, 1000).await;
    for number in ["500", "520", "990"] {
        damage(folder.path(), number);
    }
    let channel = open_file(folder.path(), "").await;
    assert_eq!(channel.len(), 1000);
    let found = take_all(&channel).await;
    assert_eq!(found, [events(0..500), events(510..520), events(530..990)].concat());
    assert_eq!((channel.len(), lost(&channel)), (0, 30));
    assert_eq!(channel.oldest_age(), None);
    put(&channel, 1000..1010).await;
    assert_eq!(take_all(&channel).await, events(1000..1010));
    channel.close().await;
    drop(channel);
    let channel = open_file(folder.path(), "").await;
    assert_eq!((channel.len(), lost(&channel)), (0, 0), "it is told and counted once");
    channel.close().await;
}

/// A header that is damaged hides where the next batch begins, and a log that is cut off has no next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lost_its_middle_and_its_end_gives_what_is_left() {
    let folder = tempfile::tempdir().expect("is made");
    fill_and_close(open_file(folder.path(), "").await, 1000).await;
    let path = first_segment(folder.path());
    let mut bytes = std::fs::read(&path).expect("is there");
    // All batches of three digits have the same length, and are behind those of fewer.
    let batch = bytes.len() / 100;
    bytes.truncate(bytes.len() - 20 * batch - batch / 2);
    let header = bytes.len() - 30 * batch;
    bytes[header..header + batch].fill(0xff);
    std::fs::write(&path, &bytes).expect("is written");

    let channel = open_file(folder.path(), "").await;
    let held = channel.len();
    put(&channel, 1000..1010).await;
    let found = take_all(&channel).await;
    assert!(found.ends_with(&events(1000..1010)), "{found:?}");
    assert_eq!(found.len() as u64 + lost(&channel), held + 10);
    assert!(found.len() >= 700 && lost(&channel) >= 220, "{} {}", found.len(), lost(&channel));
    channel.close().await;
}

/// The numbers of all that a channel gives.
async fn numbers(channel: &Arc<Channel>) -> Vec<u32> {
    let number = |event: Event| {
        let number = event.headers.get("n").expect("has one").parse();
        number.expect("is one")
    };
    take_all(channel).await.into_iter().map(number).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_delivered_behind_what_was_not_is_not_delivered_again() {
    for is_killed in [false, true] {
        let folder = tempfile::tempdir().expect("is made");
        let channel = open_file(folder.path(), "").await;
        put(&channel, 0..100).await;
        let mut refused = channel.take(10, SOON).await.expect("is taken");
        // 3 and 7 are refused.
        for index in [9, 8, 6, 5, 4, 2, 1, 0] {
            refused.commit_one(index);
        }
        let held = channel.take(10, SOON).await.expect("is taken");
        channel.take(50, SOON).await.expect("is taken").commit().await.expect("is committed");
        if is_killed {
            // What a kill leaves is what was written down by then, without another commit.
            let note = folder.path().join("logway-channel/delivered");
            let is_noted = || std::fs::read_to_string(&note).is_ok_and(|note| note.contains("+50"));
            while !is_noted() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        drop((refused, held));
        if !is_killed {
            channel.close().await;
        }
        drop(channel);

        let channel = open_file(folder.path(), "").await;
        assert_eq!(channel.len(), 42);
        let expected: Vec<u32> = [3, 7].into_iter().chain(10..20).chain(70..100).collect();
        assert_eq!(numbers(&channel).await, expected);
        assert_eq!((channel.len(), lost(&channel)), (0, 0));
        channel.close().await;
    }
}

fn large(numbers: std::ops::Range<u32>, body_bytes: usize) -> Vec<Event> {
    let with_body = |event: Event| Event { body: vec![b'y'; body_bytes].into(), ..event };
    events(numbers).into_iter().map(with_body).collect()
}

async fn put_large(channel: &Arc<Channel>, numbers: std::ops::Range<u32>, body_bytes: usize) {
    for number in numbers {
        let events = large(number..number + 1, body_bytes);
        channel.reserve(&events).await.expect("there is room").put(events).await.expect("is put");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_for_ever_does_not_hold_up_what_is_on_the_disk_behind_it() {
    let folder = tempfile::tempdir().expect("is made");
    let channel = open_file(folder.path(), "").await;
    put_large(&channel, 0..4, 2 << 20).await;
    channel.close().await;
    drop(channel);
    let channel = open_file(folder.path(), "").await;
    for passed in 1..4 {
        let mut taken = channel.take(100, SOON).await.expect("is taken");
        if taken.events.len() < 2 {
            // It is refused, and goes back.
            drop(taken);
            taken = channel.take(100, SOON).await.expect("is taken");
        }
        assert!(taken.events.len() >= 2, "the first is all that is taken");
        assert_eq!(taken.commit_one(1).headers.get("n"), Some(passed.to_string().as_str()));
    }
    assert_eq!(channel.len(), 1);
    channel.close().await;
}

/// So many events of 100 kB in segments of 1 MiB, which are closed in order, or left by a kill.
async fn three_segments(folder: &Path, is_closed: bool) -> Vec<std::path::PathBuf> {
    let channel = open_file(folder, "maxFileSize = 1048576").await;
    put_large(&channel, 0..30, 100_000).await;
    if is_closed {
        channel.close().await;
    }
    drop(channel);
    let files = std::fs::read_dir(folder.join("logway-channel/channel-0")).expect("is there");
    let files = files.map(|entry| entry.expect("is read").path());
    let mut segments: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    segments.sort();
    assert_eq!(segments.len(), 3);
    segments
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_costs_its_own_batch_alone_also_right_before_a_kill() {
    for (what, is_closed) in [
        ("flip", false),
        ("flip", true),
        ("first", false),
        ("first", true),
        ("again", false),
        ("again", true),
    ] {
        let folder = tempfile::tempdir().expect("is made");
        let segments = three_segments(folder.path(), is_closed).await;
        match what {
            "flip" => {
                let mut bytes = std::fs::read(&segments[2]).expect("is there");
                bytes[50_000] ^= 1;
                std::fs::write(&segments[2], bytes).expect("is written");
            }
            "first" => std::fs::remove_file(&segments[0]).expect("is there"),
            // What is at the end of the first was there before, and the second is gone.
            _ => {
                let mut bytes = std::fs::read(&segments[0]).expect("is there");
                bytes.extend_from_within(..bytes.len() / 2);
                std::fs::write(&segments[0], bytes).expect("is written");
                std::fs::remove_file(&segments[1]).expect("is there");
            }
        }
        let cost = if what == "flip" { 1 } else { 10 };
        let channel = open_file(folder.path(), "maxFileSize = 1048576").await;
        let found = numbers(&channel).await;
        assert!(found.is_sorted_by(|a, b| a < b), "{what} {is_closed}: {found:?}");
        assert_eq!((found.len() as u64, lost(&channel)), (30 - cost, cost), "{what} {is_closed}");
        assert_eq!(channel.len(), 0, "{what} {is_closed}");
        channel.close().await;
        drop(channel);
        let channel = open_file(folder.path(), "maxFileSize = 1048576").await;
        assert_eq!((channel.len(), lost(&channel)), (0, 0), "it is counted once");
        channel.close().await;
    }
}

/// A power cut tears what was written last: nobody was told that it is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_end_is_cut_off_and_no_loss() {
    let folder = tempfile::tempdir().expect("is made");
    let segments = three_segments(folder.path(), false).await;
    let bytes = std::fs::read(&segments[2]).expect("is there");
    std::fs::write(&segments[2], &bytes[..bytes.len() - 50_000]).expect("is written");
    let channel = open_file(folder.path(), "maxFileSize = 1048576").await;
    assert_eq!(numbers(&channel).await, (0..29).collect::<Vec<_>>());
    assert_eq!((channel.len(), lost(&channel)), (0, 0));
    channel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_below_memory_that_overflows_is_counted_and_holds_nothing_up() {
    let folder = tempfile::tempdir().expect("is made");
    fill_and_close(open_spillable(folder.path(), "memoryCapacity = 0").await, 100).await;
    let small = "memoryCapacity = 20\noverflowTimeout = 0\ntransactionCapacity = 100";
    for number in ["20", "60", "70", "80", "90"] {
        damage(folder.path(), number);
    }
    let channel = open_spillable(folder.path(), small).await;
    let first = channel.take(10, SOON).await.expect("is taken");
    assert_eq!(first.events, events(0..10));
    // What comes now is in memory, behind what is on the disk.
    first.commit().await.expect("is committed");
    for start in [100, 110] {
        put(&channel, start..start + 10).await;
    }
    let found = take_all(&channel).await;
    assert_eq!(found, [events(10..20), events(30..60), events(100..120)].concat());
    assert_eq!(lost(&channel), 50);
    channel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_overflows_comes_in_its_order_and_outlives_a_kill() {
    let folder = tempfile::tempdir().expect("is made");
    let small =
        "memoryCapacity = 10\noverflowCapacity = 30\noverflowTimeout = 0\ntransactionCapacity = 10";
    let channel = open_spillable(folder.path(), small).await;
    for start in (0..40).step_by(5) {
        put(&channel, start..start + 5).await;
    }
    assert_eq!((channel.len(), channel.capacity()), (40, Some(40)));
    assert_eq!(put_error(&channel, 40..41).await, "channel c is full: 30 of 30 events");
    // A transaction is from memory or from the disk.
    let first = channel.take(10, SOON).await.expect("is taken");
    assert_eq!(first.events, events(0..10));
    assert_eq!(first.event_id(0), None);
    let second = channel.take(10, SOON).await.expect("is taken");
    assert_eq!(second.events, events(10..20));
    assert!(second.event_id(0).is_some());
    drop(second);
    drop(first);
    for start in [0, 10] {
        let again = channel.take(10, SOON).await.expect("is taken");
        assert_eq!(again.events, events(start..start + 10));
        again.commit().await.expect("is committed");
    }
    // Memory has room again, and its events are behind those of the disk.
    put(&channel, 40..45).await;
    let next = channel.take(10, SOON).await.expect("is taken");
    assert_eq!(next.events, events(20..30));
    drop(next);
    // As by a kill: what is in memory is gone, and what is on disk is there.
    drop(channel);
    let channel = open_spillable(folder.path(), small).await;
    let mut found = Vec::new();
    while channel.len() > 0 {
        let taken = channel.take(10, SOON).await.expect("is taken");
        found.extend(taken.events.clone());
        taken.commit().await.expect("is committed");
    }
    assert_eq!(found.last(), events(39..40).last());
    assert!(found.ends_with(&events(20..40)), "{found:?}");
    channel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_take_grows_by_what_is_on_its_side_of_a_channel_that_overflows() {
    let folder = tempfile::tempdir().expect("is made");
    let small =
        "memoryCapacity = 10\noverflowCapacity = 30\noverflowTimeout = 0\ntransactionCapacity = 10";
    let channel = open_spillable(folder.path(), small).await;
    for start in (0..20).step_by(5) {
        put(&channel, start..start + 5).await;
    }
    let grow = async |taken: &mut _, max| {
        channel.take_more(taken, max, Duration::ZERO).await.expect("can be read")
    };
    let mut first = channel.take(3, SOON).await.expect("is taken");
    assert_eq!(grow(&mut first, 4).await, More::Events(4));
    assert_eq!(grow(&mut first, 10).await, More::Events(3));
    // What is next is on disk.
    assert_eq!(grow(&mut first, 10).await, More::Never);
    assert_eq!(first.events, events(0..10));
    drop(first);
    let first = channel.take(10, SOON).await.expect("is taken");
    assert_eq!(first.events, events(0..10));
    first.commit().await.expect("is committed");
    let mut second = channel.take(4, SOON).await.expect("is taken");
    // These have room in memory again, and are behind those on disk.
    put(&channel, 20..25).await;
    assert_eq!(grow(&mut second, 10).await, More::Events(6));
    assert_eq!(grow(&mut second, 10).await, More::Never);
    assert_eq!(second.events, events(10..20));
    assert!((0..10).all(|index| second.event_id(index).is_some()));
    assert_eq!(second.commit_one(9), events(19..20)[0]);
    drop(second);
    let mut third = channel.take(1, SOON).await.expect("is taken");
    assert_eq!(grow(&mut third, 10).await, More::Events(8));
    assert_eq!(third.events, events(10..19));
    third.commit().await.expect("is committed");
    let mut rest = channel.take(10, SOON).await.expect("is taken");
    assert_eq!(rest.events, events(20..25));
    assert_eq!(grow(&mut rest, 10).await, More::Events(0));
    rest.commit().await.expect("is committed");
    assert_eq!(channel.len(), 0);
    channel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_end_moves_what_is_in_memory_to_the_disk() {
    let folder = tempfile::tempdir().expect("is made");
    let channel = open_spillable(folder.path(), "").await;
    put(&channel, 0..50).await;
    assert!(channel.is_durable());
    assert_eq!(channel.close().await, 0);
    drop(channel);
    let channel = open_spillable(folder.path(), "").await;
    assert_eq!(channel.take(100, SOON).await.expect("is taken").events, events(0..50));
    channel.close().await;

    let without = "overflowCapacity = 0\nmemoryCapacity = 100\noverflowTimeout = 0";
    let channel = open_spillable(&folder.path().join("none"), without).await;
    put(&channel, 0..50).await;
    assert!(!channel.is_durable() && !folder.path().join("none").exists());
    assert!(put_error(&channel, 50..101).await.contains("50 of 100 events"));
    assert_eq!(channel.close().await, 50);
}

/// Two events that no file takes in one transaction, one that no file takes at all, and a small one behind them.
#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_end_moves_all_that_files_take_whatever_its_size() {
    let folder = tempfile::tempdir().expect("is made");
    let channel = open_spillable(folder.path(), "byteCapacity = 200000000").await;
    let sizes = [33 << 20, 33 << 20, 65 << 20, 1];
    for size in sizes {
        let events = vec![Event::new(vec![0; size])];
        channel.reserve(&events).await.expect("there is room").put(events).await.expect("is put");
    }
    assert_eq!(channel.close().await, 1);
    drop(channel);
    let channel = open_spillable(folder.path(), "").await;
    let mut found = Vec::new();
    while channel.len() > 0 {
        let taken = channel.take(10, SOON).await.expect("is taken");
        found.extend(taken.events.iter().map(|event| event.body.len()));
        taken.commit().await.expect("is committed");
    }
    assert_eq!(found, [33 << 20, 33 << 20, 1]);
    channel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_end_moves_as_many_events_as_the_disk_has_room_for() {
    let folder = tempfile::tempdir().expect("is made");
    let small = "memoryCapacity = 50\noverflowCapacity = 30\noverflowTimeout = 0";
    let channel = open_spillable(folder.path(), small).await;
    put(&channel, 0..50).await;
    assert_eq!(channel.close().await, 20);
    assert!(channel.own_counts().contains(&("EventLostCount", 20)));
    drop(channel);
    let channel = open_spillable(folder.path(), small).await;
    assert_eq!(channel.take(100, SOON).await.expect("is taken").events, events(0..30));
    channel.close().await;
}

/// The channel asks a cluster that is not there, and finds nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_take_that_found_nothing_wakes_no_other() {
    let settings = "'kafka.bootstrap.servers' = '127.0.0.1:1'";
    let text = format!(
        "[sources.r]\ntype = 'seq'\nchannels = ['c']\n[channels.c]\ntype = 'kafka'\n{settings}\n"
    );
    let config = toml(&text).expect("makes sense");
    let channel = Channel::open(&config.channels["c"]).await.expect("opens");
    let waiting = tokio::spawn({
        let channel = Arc::clone(&channel);
        async move { channel.take(1, SOON).await.map(|taken| taken.events.len()) }
    });
    while channel.counters.take_attempts.get() < 1 {
        tokio::task::yield_now().await;
    }
    drop(channel.take(1, Duration::ZERO).await.expect("is empty"));
    assert_eq!(waiting.await.expect("no panic").expect("is empty"), 0);
    assert_eq!(channel.counters.take_attempts.get(), 2);
    channel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_in_all_required_channels_or_in_none() {
    let first = open("memory", "capacity = 100").await;
    let second = open("memory", "capacity = 5\ntransactionCapacity = 5").await;
    let names = ["c".to_owned(), "d".to_owned()];
    let deliver = |optional: &str| {
        let text = format!(
            "[sources.r]\ntype = 'seq'\nchannels = ['c', 'd']\n[sources.r.selector]\n{optional}\n\
             [channels.c]\ntype = 'memory'\n[channels.d]\ntype = 'memory'\n"
        );
        let config = toml(&text).expect("makes sense");
        let selector = Selector::new(&config.sources[0].selector, &names).expect("fits");
        let counters = Arc::new(SourceCounters::default());
        let channels = vec![Arc::clone(&first), Arc::clone(&second)];
        (Delivery::new("r", channels, selector, Vec::new(), Arc::clone(&counters)), counters)
    };
    let (delivery, counters) = deliver("type = 'replicating'");
    assert_eq!(delivery.batch_max(), 5);
    delivery.deliver(events(0..4)).await.expect("there is room");
    delivery.deliver(events(4..8)).await.expect_err("the second has none");
    assert_eq!((first.len(), second.len()), (4, 4));
    assert_eq!(
        (counters.received.get(), counters.accepted.get(), counters.channel_failures.get()),
        (8, 4, 1)
    );

    let (delivery, counters) = deliver("optional = 'd'");
    delivery.deliver(events(4..8)).await.expect("the second need not");
    assert_eq!((first.len(), second.len()), (8, 4));
    assert_eq!((counters.accepted.get(), counters.optional_failures.get()), (4, 4));
}

/// A filter takes out the five, the selector has no channel for the even ones, and for a while there is room for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_out_is_counted_once_however_often_a_put_is_tried() {
    let channel = open("memory", "capacity = 100").await;
    put(&channel, 0..100).await;
    let text = "[sources.r]\ntype = 'seq'\nchannels = ['c']\n[channels.c]\ntype = 'memory'\n\
                [[sources.r.interceptors]]\ntype = 'regex_filter'\nregex = '^5$'\nexcludeEvents = true\n\
                [[sources.r.interceptors]]\ntype = 'regex_extractor'\nregex = '([13579])$'\n\
                [sources.r.interceptors.serializers.s]\nname = 'odd'\n\
                [sources.r.selector]\ntype = 'multiplexing'\nheader = 'odd'\nmapping.1 = 'c'\nmapping.3 = 'c'\n\
                mapping.7 = 'c'\nmapping.9 = 'c'\n";
    let config = toml(text).expect("makes sense");
    let interceptors = config.sources[0].interceptors.iter();
    let interceptors = interceptors.map(|one| Interceptor::new(one).expect("is made")).collect();
    let selector = Selector::new(&config.sources[0].selector, &["c".to_owned()]).expect("fits");
    let counters = Arc::new(SourceCounters::default());
    let channels = vec![Arc::clone(&channel)];
    let delivery = Delivery::new("r", channels, selector, interceptors, Arc::clone(&counters));
    let (_stopper, stop) = Stopper::new();
    let insisting = tokio::spawn(async move { delivery.insist(events(0..10), &stop).await });
    while counters.channel_failures.get() < 3 {
        tokio::task::yield_now().await;
    }
    channel.take(100, SOON).await.expect("is taken").commit().await.expect("is committed");
    assert!(insisting.await.expect("no panic"));
    let taken = channel.take(10, SOON).await.expect("is taken");
    let bodies: Vec<_> = taken.events.iter().map(|event| event.body.clone()).collect();
    assert_eq!(bodies, ["1", "3", "7", "9"]);
    assert_eq!((counters.intercepted.get(), counters.unmapped.get()), (1, 5));
    assert_eq!((counters.received.get(), counters.accepted.get()), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn a_full_optional_channel_does_not_keep_its_source() {
    let first = open("memory", "capacity = 1000").await;
    let text = "[sources.r]\ntype = 'seq'\nchannels = ['c', 'd']\nselector.optional = 'd'\n\
                [channels.c]\ntype = 'memory'\n[channels.d]\ntype = 'memory'\ncapacity = 1\ntransactionCapacity = 1\n'keep-alive' = 3\n";
    let config = toml(text).expect("makes sense");
    let second = Channel::open(&config.channels["d"]).await.expect("opens");
    let names = ["c".to_owned(), "d".to_owned()];
    let selector = Selector::new(&config.sources[0].selector, &names).expect("fits");
    let counters = Arc::new(SourceCounters::default());
    let channels = vec![Arc::clone(&first), Arc::clone(&second)];
    let delivery = Delivery::new("r", channels, selector, Vec::new(), Arc::clone(&counters));
    let began = tokio::time::Instant::now();
    for number in 0..100 {
        delivery.deliver(events(number..number + 1)).await.expect("there is room");
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!((first.len(), second.len()), (100, 1));
    assert_eq!(counters.optional_failures.get(), 99);
}

/// The source reads the batch again after the next start.
#[tokio::test(flavor = "multi_thread")]
async fn a_put_that_waits_for_room_ends_with_its_source_and_leaves_nothing_behind() {
    let text = "[sources.r]\ntype = 'seq'\nchannels = ['c']\n[channels.c]\ntype = 'memory'\ncapacity = 10\n\
                transactionCapacity = 10\nkeep-alive = 86400\n";
    let config = toml(text).expect("makes sense");
    let channel = Channel::open(&config.channels["c"]).await.expect("opens");
    put(&channel, 0..10).await;
    let source = &config.sources[0];
    let selector = Selector::new(&source.selector, &source.channels).expect("is one");
    let delivery = Delivery::new(
        "r",
        vec![Arc::clone(&channel)],
        selector,
        Vec::new(),
        Arc::new(SourceCounters::default()),
    );
    let (stopper, stop) = Stopper::new();
    let putting = tokio::spawn(async move { delivery.insist(events(10..15), &stop).await });
    while channel.counters.put_attempts.get() < 15 {
        tokio::task::yield_now().await;
    }
    stopper.stop();
    let put = tokio::time::timeout(Duration::from_secs(60), putting).await.expect("ends");
    assert!(!put.expect("no panic"), "it was not put");
    assert_eq!(take_all(&channel).await, events(0..10));
}

/// The log of the second one is closed, as if its disk were full.
#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_has_a_batch_does_not_get_it_again_while_another_fails() {
    let folder = tempfile::tempdir().expect("is made");
    let (first, second) = (folder.path().join("1"), folder.path().join("2"));
    let (first, second) = (open_file(&first, "").await, open_file(&second, "").await);
    second.close().await;
    let text = "[sources.r]\ntype = 'seq'\nchannels = ['c', 'd']\n[channels.c]\ntype = 'memory'\n[channels.d]\ntype = 'memory'\n";
    let config = toml(text).expect("makes sense");
    let source = &config.sources[0];
    let selector = Selector::new(&source.selector, &source.channels).expect("is one");
    let counters = Arc::new(SourceCounters::default());
    let channels = vec![Arc::clone(&first), Arc::clone(&second)];
    let delivery = Delivery::new("r", channels, selector, Vec::new(), Arc::clone(&counters));
    let (stopper, stop) = Stopper::new();
    let putting = tokio::spawn(async move { delivery.insist(events(0..10), &stop).await });
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while counters.channel_failures.get() < 3 {
        assert!(std::time::Instant::now() < deadline, "it is tried again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stopper.stop();
    assert!(!putting.await.expect("no panic"), "the second one does not have it");
    assert_eq!(take_all(&first).await, events(0..10));
    first.close().await;
}
