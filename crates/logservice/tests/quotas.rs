//! Clients that append or read more than their quota wait, and nobody else does.

mod common;

use std::time::{Duration, Instant};

use common::{Client, Door, append, record};
use logway_logservice::messages::log::{Append, OpenAppend, ReadReply, ReadRequest};
use logway_metadata::controller::{AlterClientQuotas, QuotaAlteration};
use logway_metadata::quota::{QuotaEntity, QuotaKey, QuotaLimit, QuotaName};

const SLOW: &str = "slow";

/// Bytes per second. At first there is as much as for one second.
const RATE: usize = 10_000;

/// An append of so much is a debt of a second.
const APPEND_BYTES: usize = 2 * RATE;

/// The debt, but for what has come in while it was made.
const WAIT_MIN: Duration = Duration::from_millis(500);

async fn door(dir: &std::path::Path, key: QuotaKey) -> Door {
    let door = Door::open(dir).await;
    door.create("bytes", 1, &[]).await;
    let limit = QuotaLimit::new(RATE as f64).expect("is one");
    let change = QuotaAlteration {
        entity: QuotaEntity::ClientId(QuotaName::Named(SLOW.into())),
        limits: vec![(key, Some(limit))],
    };
    let command = AlterClientQuotas { entities: vec![change], validate_only: false };
    let altered = door.node.submit(command, None, None).await.expect("is done");
    assert_eq!(altered, [Ok(())]);
    door
}

async fn slow_client(door: &Door) -> Client {
    let mut client = door.client().await;
    client.headers.push(("client-id", SLOW.to_owned()));
    client
}

fn large(sequence: u64) -> Append {
    Append { records: vec![record("x".repeat(APPEND_BYTES))], ..append("bytes", sequence, &[]) }
}

/// Appends so much on a stream of its own; says how long that took.
async fn append_one(client: &mut Client) -> Duration {
    let begun = Instant::now();
    let mut appending = client.open_append(OpenAppend::default()).await;
    appending.opened().await;
    appending.append(large(1));
    appending.appended().await;
    begun.elapsed()
}

fn throttled(door: &Door, key: QuotaKey) -> u64 {
    door.counted(&format!("logway_throttled_requests_total{{quota=\"{}\"}}", key.name()))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_appends_more_than_the_quota_waits_on_every_stream() {
    let key = QuotaKey::ProducerByteRate;
    let dir = tempfile::tempdir().expect("a directory");
    let door = door(dir.path(), key).await;
    let mut slow = slow_client(&door).await;
    append_one(&mut slow).await;
    // Neither another connection nor another session helps.
    let mut again = slow_client(&door).await;
    let mut others = door.client().await;
    let begun = Instant::now();
    let mut appending = again.open_append(OpenAppend::default()).await;
    appending.opened().await;
    appending.append(large(1));
    appending.appended().await;
    assert!(begun.elapsed() >= WAIT_MIN, "{:?}", begun.elapsed());
    let waited = throttled(&door, key);
    assert!(waited > 0);
    // Clients of other names have no quota.
    append_one(&mut others).await;
    append_one(&mut others).await;
    assert_eq!(throttled(&door, key), waited);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_more_than_the_quota_waits() {
    const COUNT: u64 = 3;
    let key = QuotaKey::ConsumerByteRate;
    let dir = tempfile::tempdir().expect("a directory");
    let door = door(dir.path(), key).await;
    let mut others = door.client().await;
    for _ in 0..COUNT {
        append_one(&mut others).await;
    }
    let read = async |client: &mut Client| {
        let request =
            ReadRequest { log: "bytes".to_owned(), records_max: COUNT, ..ReadRequest::default() };
        let mut call = client.read(request).await;
        let (mut records, mut replies) = (0, 0);
        while let Some(reply) = call.next::<ReadReply>().await.expect("can be read") {
            records += reply.records.len() as u64;
            replies += 1;
        }
        assert_eq!(records, COUNT);
        replies
    };
    let begun = Instant::now();
    read(&mut slow_client(&door).await).await;
    // Whoever comes next under the name pays for it, whatever connection that is on.
    read(&mut slow_client(&door).await).await;
    assert!(begun.elapsed() >= WAIT_MIN, "{:?}", begun.elapsed());
    let waited = throttled(&door, key);
    assert!(waited > 0, "{waited}");
    read(&mut others).await;
    assert_eq!(throttled(&door, key), waited, "who has no quota does not wait");
    door.close().await;
}
