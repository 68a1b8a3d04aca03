//! Subscriptions, over a socket.

mod common;

use std::time::Duration;

use common::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a subscriber has read so far.
struct Subscriber {
    socket: TcpStream,
    read: String,
}

impl Subscriber {
    async fn subscribe(door: &Door, arn: &str) -> Subscriber {
        let body = format!(
            r#"{{"ConsumerARN":"{arn}","ShardId":"0","StartingPosition":{{"Type":"LATEST"}}}}"#
        );
        let request = format!(
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-type: {JSON}\r\ncontent-length: {}\r\n\
             x-amz-target: Kinesis_20131202.SubscribeToShard\r\n{SIGNED}\r\n{body}",
            body.len()
        );
        let mut socket = TcpStream::connect(door.server.address()).await.expect("connects");
        socket.write_all(request.as_bytes()).await.expect("is taken");
        Subscriber { socket, read: String::new() }
    }

    /// Reads until this has come.
    async fn await_text(&mut self, text: &str) {
        let reading = async {
            let mut bytes = [0; 4_096];
            while !self.read.contains(text) {
                let count = self.socket.read(&mut bytes).await.expect("is open");
                assert!(count > 0, "{text} has not come: {}", self.read);
                self.read += &String::from_utf8_lossy(&bytes[..count]);
            }
        };
        timeout(PATIENCE, reading).await.expect("comes in time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_is_told_of_records_and_why_it_is_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let made = door.json("CreateStream", r#"{"StreamName":"s","ShardCount":1}"#).await;
    assert_eq!(made.0, 200, "{made:?}");
    let register =
        r#"{"StreamARN":"arn:aws:kinesis:us-east-1:000000000000:stream/s","ConsumerName":"c"}"#;
    let (_, registered) = door.json("RegisterStreamConsumer", register).await;
    let (_, arn) = registered.split_once(r#""ConsumerARN":""#).expect("has one");
    let (arn, _) = arn.split_once('"').expect("ends");
    let mut subscriber = Subscriber::subscribe(&door, arn).await;
    subscriber.await_text("ContinuationSequenceNumber").await;
    // What changes elsewhere does not disturb it.
    let other = door.json("CreateStream", r#"{"StreamName":"other","ShardCount":1}"#).await;
    assert_eq!(other.0, 200, "{other:?}");
    for data in ["Zmlyc3Q=", "c2Vjb25k"] {
        let put = format!(r#"{{"StreamName":"s","Data":"{data}","PartitionKey":"k"}}"#);
        assert_eq!(door.json("PutRecord", &put).await.0, 200);
        subscriber.await_text(data).await;
    }
    let delete = r#"{"StreamName":"s","EnforceConsumerDeletion":true}"#;
    assert_eq!(door.json("DeleteStream", delete).await.0, 200);
    subscriber.await_text(":exception-type").await;
    subscriber.await_text("ResourceNotFoundException").await;
    drop(subscriber);
    door.close().await;
}
