//! The client of command lines, against a server.

mod common;

use common::Door;
use logway_client::{BrokerAddress, ConnectionOptions, Password, Security};
use logway_logservice::messages::log::append_reply::Reply;
use logway_logservice::messages::log::{Append, NewRecord, OpenAppend, ReadRequest};
use logway_logservice::{LogClient, LogClientError};
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};

fn address(door: &Door) -> BrokerAddress {
    let address = door.server.addresses()[0];
    BrokerAddress::new(address.ip().to_string(), address.port())
}

fn of(log: &str) -> ReadRequest {
    ReadRequest { log: log.to_owned(), until_end: true, ..ReadRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_appended_is_read_and_told_of() {
    const COUNT: u64 = 300;
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("lines", 1, &[]).await;
    let connect = async || LogClient::connect(&address(&door), ConnectionOptions::default()).await;
    let mut client = connect().await.expect("connects");
    let (appends, mut replies) = client.append(OpenAppend::default()).await.expect("opens");
    let append = async {
        for sequence in 1..=COUNT {
            // Together they are far more than the windows of a stream.
            let value = vec![u8::try_from(sequence % 256).expect("is a byte"); 10_000];
            let record = NewRecord { value: Some(value.into()), ..NewRecord::default() };
            let log = "lines".to_owned();
            let append = Append { sequence, log, records: vec![record], ..Append::default() };
            assert!(appends.send(append).await);
        }
        drop(appends);
    };
    let acknowledge = async {
        let mut acknowledged = 0;
        while let Some(reply) = replies.next().await.expect("goes on") {
            if let Some(Reply::Appended(appended)) = reply.reply {
                acknowledged += 1;
                assert_eq!(appended.sequence, acknowledged);
            }
        }
        acknowledged
    };
    let ((), acknowledged) = tokio::join!(append, acknowledge);
    assert_eq!(acknowledged, COUNT);

    let mut reader = connect().await.expect("connects");
    let mut replies = reader.read(&of("lines")).await.expect("begins");
    let mut offset = 0;
    while let Some(reply) = replies.next().await.expect("goes on") {
        for record in reply.records {
            assert_eq!((record.offset, record.value().len()), (offset, 10_000));
            offset += 1;
        }
    }
    assert_eq!(offset, i64::try_from(COUNT).expect("is small"));
    let info = reader.info("lines").await.expect("is told");
    assert_eq!(info.partitions[0].end_offset, Some(offset));
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_with_its_reason_and_remedy() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let options = ConnectionOptions::default();
    let mut client = LogClient::connect(&address(&door), options.clone()).await.expect("connects");
    let refused = match client.read(&of("nowhere")).await {
        Ok(mut replies) => replies.next().await.expect_err("is no log"),
        Err(refused) => refused,
    };
    assert!(!refused.may_pass(), "{refused:?}");
    let LogClientError::Refused { code, reason, remedy, message } = refused else { panic!() };
    assert_eq!((code, reason.as_str()), (5, "UNKNOWN_LOG"));
    assert!(remedy.is_some() && message.contains("nowhere"), "{message}");
    assert!(client.info("nowhere").await.is_err());

    // Whoever hashes passwords elsewhere does not send them as they are.
    let password = Password {
        mechanism: SaslMechanism::Scram(ScramMechanism::Sha256),
        user: "u".to_owned(),
        password: "p".to_owned(),
        is_delegation_token: false,
    };
    let security = Security { tls: None, password: Some(password) };
    let options = ConnectionOptions { security, ..options };
    let refused = LogClient::connect(&address(&door), options).await;
    assert!(matches!(refused, Err(LogClientError::PasswordInTheClear)));
    door.close().await;
}
