//! Akutan's service, as its client uses it.

mod common;

use std::time::Duration;

use common::{Client, Door, Ended, append};
use logway_logservice::messages::log::OpenAppend;
use logway_logservice::messages::logspec::append_reply::Reply as AppendReplyKind;
use logway_logservice::messages::logspec::info_reply::Reply as InfoReplyKind;
use logway_logservice::messages::logspec::read_reply::Reply as ReadReplyKind;
use logway_logservice::messages::logspec::{
    AppendReply, AppendRequest, DiscardReply, DiscardRequest, InfoReply, InfoRequest, ReadReply,
    ReadRequest, discard_reply,
};
use tokio::time::{Instant, sleep};

async fn info(client: &mut Client) -> (u64, u64) {
    let reply: InfoReply =
        client.unary("/logspec.Log/Info", &InfoRequest::default()).await.expect("is told");
    match reply.reply {
        Some(InfoReplyKind::Ok(ok)) => {
            assert!(ok.bytes_total >= ok.bytes_used);
            (ok.first_index, ok.last_index)
        }
        other => panic!("{other:?}"),
    }
}

async fn discard(client: &mut Client, first_index: u64) -> Result<(), Ended> {
    let request = DiscardRequest { first_index };
    let reply: DiscardReply = client.unary("/logspec.Log/Discard", &request).await?;
    assert!(matches!(reply.reply, Some(discard_reply::Reply::Ok(_))), "{reply:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_appended_read_and_discarded_by_their_indexes() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("spec", 1, &[]).await;
    let mut client = door.logspec_client().await;
    assert_eq!(info(&mut client).await, (1, 0), "a new log");

    let mut appending = client.call("/logspec.Log/Append").await;
    let proposals = |values: &[&'static str]| values.iter().map(|it| (*it).into()).collect();
    for (sequence, values) in [(1, &["a", "b"][..]), (2, &[]), (3, &["c"])] {
        appending.send(&AppendRequest { sequence, proposals: proposals(values) });
    }
    for (sequence, indexes) in [(1, &[1, 2][..]), (2, &[]), (3, &[3])] {
        let reply: AppendReply = appending.next().await.expect("goes on").expect("is answered");
        let Some(AppendReplyKind::Ok(ok)) = reply.reply else { panic!("{reply:?}") };
        assert_eq!((ok.sequence, &ok.indexes[..]), (sequence, indexes));
    }
    appending.send(&AppendRequest { sequence: 5, proposals: Vec::new() });
    assert_eq!(appending.ended().await.code, 3, "4 comes next");
    assert_eq!(info(&mut client).await, (1, 3));

    let mut watching = client.call("/logspec.Log/InfoStream").await;
    watching.send(&InfoRequest::default());
    let _now: InfoReply = watching.next().await.expect("goes on").expect("at once");
    assert_eq!(discard(&mut client, 2).await, Ok(()));
    assert_eq!(discard(&mut client, 1).await, Ok(()), "a lower one changes nothing");
    assert_eq!(info(&mut client).await, (2, 3));
    let then: InfoReply = watching.next().await.expect("goes on").expect("of the change");
    assert!(matches!(then.reply, Some(InfoReplyKind::Ok(ok)) if ok.first_index == 2));

    let mut reading = client.call("/logspec.Log/Read").await;
    reading.send(&ReadRequest { next_index: 1 });
    let reply: ReadReply = reading.next().await.expect("is told").expect("is told");
    assert_eq!(reply.reply, Some(ReadReplyKind::Truncated(true)));
    assert_eq!(reading.ended().await.code, 0);

    let mut reading = client.call("/logspec.Log/Read").await;
    reading.send(&ReadRequest { next_index: 2 });
    let entries = next_entries(&mut reading).await;
    assert_eq!(entries, [(2, false, "b".to_owned()), (3, false, "c".to_owned())]);
    // What is beyond the end is waited for.
    let mut late = client.call("/logspec.Log/Read").await;
    late.send(&ReadRequest { next_index: 5 });
    let appending = client.call("/logspec.Log/Append").await;
    appending.send(&AppendRequest { sequence: 1, proposals: proposals(&["d", "e"]) });
    assert_eq!(next_entries(&mut late).await, [(5, false, "e".to_owned())]);
    assert_eq!(next_entries(&mut reading).await.len(), 2);

    door.close().await;
}

async fn append_one(client: &mut Client, proposal: &str) -> u64 {
    let mut appending = client.call("/logspec.Log/Append").await;
    appending.send(&AppendRequest { sequence: 1, proposals: vec![proposal.to_owned().into()] });
    let reply: AppendReply = appending.next().await.expect("goes on").expect("comes");
    let Some(AppendReplyKind::Ok(ok)) = reply.reply else { panic!("{reply:?}") };
    ok.indexes[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discard_beyond_the_end_moves_the_log_there() {
    // Further than one segment reaches.
    const FAR: u64 = 5 << 31;
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("spec", 1, &[]).await;
    let mut client = door.logspec_client().await;
    assert_eq!(discard(&mut client, 500).await, Ok(()));
    assert_eq!(info(&mut client).await, (500, 499));
    assert_eq!(append_one(&mut client, "a").await, 500);
    assert_eq!(discard(&mut client, 499).await, Ok(()), "a lower one changes nothing");
    assert_eq!(info(&mut client).await, (500, 500));
    let mut waiting = client.call("/logspec.Log/Read").await;
    waiting.send(&ReadRequest { next_index: 500 });
    assert_eq!(next_entries(&mut waiting).await, [(500, false, "a".to_owned())]);
    assert_eq!(discard(&mut client, FAR).await, Ok(()));
    assert_eq!(info(&mut client).await, (FAR, FAR - 1));
    assert_eq!(append_one(&mut client, "b").await, FAR);
    let mut behind = client.call("/logspec.Log/Read").await;
    behind.send(&ReadRequest { next_index: 501 });
    let reply: ReadReply = behind.next().await.expect("is told").expect("is told");
    assert_eq!(reply.reply, Some(ReadReplyKind::Truncated(true)));
    let too_far = discard(&mut client, 1 << 50).await.expect_err("is too far");
    assert_eq!(too_far.code, 11);
    assert!(too_far.details.contains("in steps"), "{too_far:?}");
    door.close().await;

    // It is so after a start.
    let door = Door::open(dir.path()).await;
    let mut client = door.logspec_client().await;
    assert_eq!(info(&mut client).await, (FAR, FAR));
    let mut reading = client.call("/logspec.Log/Read").await;
    reading.send(&ReadRequest { next_index: FAR });
    assert_eq!(next_entries(&mut reading).await, [(FAR, false, "b".to_owned())]);
    assert_eq!(append_one(&mut client, "c").await, FAR + 1);
    door.close().await;
}

async fn next_entries(reading: &mut common::Call) -> Vec<(u64, bool, String)> {
    let reply: ReadReply = reading.next().await.expect("goes on").expect("comes");
    let Some(ReadReplyKind::Ok(ok)) = reply.reply else { panic!("{reply:?}") };
    let text = |data: &[u8]| String::from_utf8(data.to_vec()).expect("is text");
    ok.entries.iter().map(|entry| (entry.index, entry.skip, text(&entry.data))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_chosen_by_the_listener_or_by_metadata() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("spec", 1, &[]).await;
    door.create("other", 1, &[]).await;
    let mut client = door.client().await;
    let mut appending = client.open_append(OpenAppend::default()).await;
    appending.opened().await;
    appending.append(append("other", 1, &["x"]));
    appending.appended().await;
    let ended = client
        .unary::<InfoReply>("/logspec.Log/Info", &InfoRequest::default())
        .await
        .expect_err("which log?");
    assert_eq!(ended.code, 9);
    client.headers.push(("log", "other".to_owned()));
    assert_eq!(info(&mut client).await, (1, 1));
    // On a listener of logspec there is nothing else.
    let mut client = door.logspec_client().await;
    assert_eq!(info(&mut client).await, (1, 0));
    let ended = client.open_append(OpenAppend::default()).await.0.ended().await;
    assert_eq!(ended.code, 12);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_watch_share_the_looks_and_each_hears_of_each_change() {
    const LOOKS: &str = "logway_log_service_looks_total";
    const WATCHERS: usize = 50;
    /// The time between two looks, however many watch.
    const INTERVAL: Duration = Duration::from_millis(200);
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("spec", 1, &[]).await;
    let mut client = door.logspec_client().await;
    let begun = Instant::now();
    let mut watching = Vec::new();
    for _ in 0..WATCHERS {
        let call = client.call("/logspec.Log/InfoStream").await;
        call.send(&InfoRequest::default());
        watching.push(call);
    }
    for last in 0..=2 {
        for call in &mut watching {
            let now: InfoReply = call.next().await.expect("goes on").expect("is told");
            let Some(InfoReplyKind::Ok(ok)) = now.reply else { panic!("{now:?}") };
            assert_eq!((ok.first_index, ok.last_index), (1, last));
        }
        sleep(3 * INTERVAL).await;
        append_one(&mut client, "more").await;
    }
    // One that was begun before is waited for, and so may be one more.
    let most = begun.elapsed().as_millis() / INTERVAL.as_millis() + 2;
    let looks = door.counted(LOOKS);
    assert!(looks >= 3 && u128::from(looks) <= most, "{looks} looks, {most} allowed");
    door.close().await;
}
