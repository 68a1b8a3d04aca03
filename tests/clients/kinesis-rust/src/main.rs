//! One case of AWS's SDK for Rust, which fails by its exit code, or a program that writes until its input ends:
//!
//! ```text
//! logway-kinesis-rust-suite ENDPOINT CASE
//! logway-kinesis-rust-suite write ENDPOINT,… STREAM BATCH PAUSE_MS
//! ```

mod write;

use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::client::Waiters;
use aws_sdk_kinesis::config::retry::RetryConfig;
use aws_sdk_kinesis::config::{BehaviorVersion, Builder, Credentials, Region, SharedHttpClient};
use aws_sdk_kinesis::error::ProvideErrorMetadata;
use aws_sdk_kinesis::operation::subscribe_to_shard::SubscribeToShardOutput;
use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::{
    PutRecordsRequestEntry, ShardIteratorType, StartingPosition, SubscribeToShardEvent,
    SubscribeToShardEventStream,
};
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};

/// What fails ends the program.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const SHARD: &str = "shardId-000000000000";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, name] = [&arguments[0], &arguments[1]];
    if endpoint == "write" {
        return write::write(&arguments[1..]).await;
    }
    let config = config(endpoint)?.retry_config(RetryConfig::disabled()).build();
    let suite = Suite { client: Client::from_conf(config), stream: format!("rust-{name}") };
    match &**name {
        "records" => suite.records().await,
        "iterators" => suite.iterators().await,
        "fanOut" => suite.fan_out().await,
        "reshardWhileReading" => suite.reshard_while_reading().await,
        "errors" => suite.errors().await,
        unknown => Err(format!("no case is called {unknown}").into()),
    }
}

fn config(endpoint: &str) -> Outcome<Builder> {
    let key = |name| std::env::var(name);
    let session = std::env::var("AWS_SESSION_TOKEN").ok();
    let (id, secret) = (key("AWS_ACCESS_KEY_ID")?, key("AWS_SECRET_ACCESS_KEY")?);
    Ok(Builder::new()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new(id, secret, session, None, "environment"))
        .http_client(http_client()?))
}

/// One that believes the authority in the file AWS_CA_BUNDLE, which the SDK does not look at.
fn http_client() -> Outcome<SharedHttpClient> {
    let Ok(bundle) = std::env::var("AWS_CA_BUNDLE") else {
        return Ok(aws_smithy_http_client::Builder::new().build_http());
    };
    let store = TrustStore::empty().with_pem_certificate(std::fs::read(bundle)?);
    Ok(aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(TlsContext::builder().with_trust_store(store).build()?)
        .build_https())
}

fn equal<T: PartialEq + std::fmt::Debug>(found: T, wanted: T, what: &str) -> Outcome {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, and not {wanted:?}").into()),
    }
}

fn refused<T, E: ProvideErrorMetadata>(outcome: Result<T, E>, name: &str) -> Outcome {
    let error = outcome.err().ok_or_else(|| format!("was not refused by {name}"))?;
    equal(error.code(), Some(name), "the error")
}

fn text(data: &Blob) -> String {
    String::from_utf8_lossy(data.as_ref()).into_owned()
}

/// A client with the stream of a case.
struct Suite {
    client: Client,
    stream: String,
}

impl Suite {
    async fn create(&self, shards: i32) -> Outcome {
        self.client.create_stream().stream_name(&self.stream).shard_count(shards).send().await?;
        let exists = self.client.wait_until_stream_exists().stream_name(&self.stream);
        exists.wait(Duration::from_secs(30)).await?;
        Ok(())
    }

    async fn put(&self, data: &str) -> Outcome<String> {
        let data = Blob::new(data.as_bytes());
        let put =
            self.client.put_record().stream_name(&self.stream).partition_key("key").data(data);
        Ok(put.send().await?.sequence_number)
    }

    async fn iterator(&self, kind: ShardIteratorType) -> Outcome<String> {
        self.iterator_at(kind, None, None).await
    }

    async fn iterator_at(
        &self,
        kind: ShardIteratorType,
        sequence: Option<String>,
        time: Option<DateTime>,
    ) -> Outcome<String> {
        let asked = self.client.get_shard_iterator().stream_name(&self.stream).shard_id(SHARD);
        let asked = asked.set_starting_sequence_number(sequence).set_timestamp(time);
        let found = asked.shard_iterator_type(kind).send().await?;
        Ok(found.shard_iterator.ok_or("there is no iterator")?)
    }

    async fn read(&self, iterator: String, count: usize) -> Outcome<Vec<String>> {
        let (mut records, mut next) = (Vec::new(), Some(iterator));
        while let Some(iterator) = next.filter(|_| records.len() < count) {
            let answer = self.client.get_records().shard_iterator(iterator).send().await?;
            records.extend(answer.records.iter().map(|record| text(&record.data)));
            next = answer.next_shard_iterator;
        }
        Ok(records)
    }

    async fn subscribe(&self) -> Outcome<SubscribeToShardOutput> {
        let summary =
            self.client.describe_stream_summary().stream_name(&self.stream).send().await?;
        let arn = summary.stream_description_summary.ok_or("there is no summary")?.stream_arn;
        let register = self.client.register_stream_consumer().stream_arn(arn).consumer_name("app");
        let consumer = register.send().await?.consumer.ok_or("there is no consumer")?;
        let start = StartingPosition::builder().r#type(ShardIteratorType::TrimHorizon).build()?;
        let subscribe = self.client.subscribe_to_shard().consumer_arn(consumer.consumer_arn);
        Ok(subscribe.shard_id(SHARD).starting_position(start).send().await?)
    }

    async fn records(&self) -> Outcome {
        self.create(2).await?;
        let mut put = self.client.put_records().stream_name(&self.stream);
        for number in 0..500 {
            let text = number.to_string();
            let entry =
                PutRecordsRequestEntry::builder().data(Blob::new(&*text)).partition_key(text);
            put = put.records(entry.build()?);
        }
        let answer = put.send().await?;
        equal(answer.failed_record_count, Some(0), "failed records")?;
        let is_first = |shard: &Option<String>| shard.as_deref() == Some(SHARD);
        let first = answer.records.iter().filter(|record| is_first(&record.shard_id)).count();
        let iterator = self.iterator(ShardIteratorType::TrimHorizon).await?;
        equal(self.read(iterator, first).await?.len(), first, "records of the first shard")
    }

    async fn iterators(&self) -> Outcome {
        self.create(1).await?;
        let mut numbers = Vec::new();
        for data in ["0", "1", "2"] {
            numbers.push(self.put(data).await?);
        }
        // So that the clock tells the records before from the one behind.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let middle = DateTime::from(std::time::SystemTime::now());
        let latest = self.iterator(ShardIteratorType::Latest).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.put("3").await?;
        let second = || Some(numbers[1].clone());
        let cases = [
            ("TRIM_HORIZON", self.iterator(ShardIteratorType::TrimHorizon).await?, "0"),
            (
                "AT",
                self.iterator_at(ShardIteratorType::AtSequenceNumber, second(), None).await?,
                "1",
            ),
            (
                "AFTER",
                self.iterator_at(ShardIteratorType::AfterSequenceNumber, second(), None).await?,
                "2",
            ),
            (
                "AT_TIMESTAMP",
                self.iterator_at(ShardIteratorType::AtTimestamp, None, Some(middle)).await?,
                "3",
            ),
            ("LATEST", latest, "3"),
        ];
        for (what, iterator, wanted) in cases {
            equal(self.read(iterator, 1).await?.swap_remove(0), wanted.to_owned(), what)?;
        }
        Ok(())
    }

    async fn fan_out(&self) -> Outcome {
        self.create(1).await?;
        self.put("before").await?;
        let mut subscription = self.subscribe().await?;
        self.put("after").await?;
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let event = next(&mut subscription).await?;
            let event =
                event.ok_or_else(|| format!("the subscription has ended behind {seen:?}"))?;
            seen.extend(event.records.iter().map(|record| text(&record.data)));
        }
        equal(seen, vec!["before".to_owned(), "after".to_owned()], "records")
    }

    async fn reshard_while_reading(&self) -> Outcome {
        self.create(1).await?;
        let mut subscription = self.subscribe().await?;
        self.put("last").await?;
        let split = self.client.split_shard().stream_name(&self.stream).shard_to_split(SHARD);
        split.new_starting_hash_key("1000").send().await?;
        let (mut seen, mut children) = (Vec::new(), Vec::new());
        while let Some(event) = next(&mut subscription).await? {
            seen.extend(event.records.iter().map(|record| text(&record.data)));
            children = event.child_shards.unwrap_or_default();
        }
        equal(seen, vec!["last".to_owned()], "records")?;
        equal(children.len(), 2, "children")?;
        let shards = self.client.list_shards().stream_name(&self.stream).send().await?.shards;
        equal(shards.map(|shards| shards.len()), Some(3), "shards")
    }

    async fn errors(&self) -> Outcome {
        let put = || self.client.put_record().stream_name(&self.stream).data(Blob::new("x"));
        refused(put().partition_key("key").send().await, "ResourceNotFoundException")?;
        self.create(1).await?;
        let again = self.client.create_stream().stream_name(&self.stream).shard_count(1);
        refused(again.send().await, "ResourceInUseException")?;
        refused(put().partition_key("").send().await, "ValidationException")?;
        let foreign = self.client.get_records().shard_iterator("x".repeat(200));
        let error = foreign.send().await.err().ok_or("was not refused")?.into_service_error();
        equal(error.is_invalid_argument_exception(), true, "the type of the error")
    }
}

/// The next event of a subscription; `None` behind its end.
async fn next(subscription: &mut SubscribeToShardOutput) -> Outcome<Option<SubscribeToShardEvent>> {
    while let Some(event) = subscription.event_stream.recv().await? {
        if let SubscribeToShardEventStream::SubscribeToShardEvent(event) = event {
            return Ok(Some(event));
        }
    }
    Ok(None)
}
