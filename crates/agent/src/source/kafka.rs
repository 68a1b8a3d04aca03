//! The source `kafka`: the records of topics.

use std::collections::BTreeSet;
use std::time::Duration;

use logway_client::{ClientError, FetchEvent, GroupConsumer, GroupEvent, GroupOptions, StartAt};
use logway_model::{TopicName, TopicPartition};
use logway_record::Record;

use super::{Running, SourceContext, Starting};
use crate::codec::avro::Reader;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::event::Event;
use crate::kafka_cluster::{CLUSTER, CONSUMER_PROTOCOL, client};
use crate::settings::Settings;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "kafka",
    aliases: &["org.apache.flume.source.kafka.KafkaSource"],
    doc: "Reads topics of Kafka or Logway as a member of a group. Offsets are committed when events are in channels, five times \
          a second: after a kill some come again, and none is missed. The headers `topic`, `partition`, `offset`, `timestamp` and `key` \
          say where an event is from; the record's own headers, if they are text, come along.",
    keys: &[
        key("kafka.topics", Kind::Text, Fallback::Required, "The topics, with commas between."),
        key("kafka.consumer.group.id", Kind::Text, Fallback::Is("flume"), "The group."),
        key(
            "kafka.consumer.auto.offset.reset",
            Kind::Choice(&["earliest", "latest"]),
            Fallback::Is("latest"),
            "Where to begin when the group has no offset.",
        ),
        CONSUMER_PROTOCOL,
        key(
            "batchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("1000"),
            "How many records go into channels at once.",
        ),
        key(
            "batchDurationMillis",
            Kind::Ignored("what has come goes on at once"),
            Fallback::Nothing,
            "How long fewer wait for more.",
        ),
        key(
            "useFlumeEventFormat",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether values are Flume's events in Avro, with headers.",
        ),
        key(
            "setTopicHeader",
            Kind::Flag,
            Fallback::Is("true"),
            "Whether a header has the topic. A sink `kafka` writes the event into that topic again, unless it has \
             `allowTopicOverride = false`.",
        ),
        key("topicHeader", Kind::Text, Fallback::Is("topic"), "That header."),
        key(
            "backoffSleepIncrement",
            Kind::Ignored("the broker tells when there is more"),
            Fallback::Nothing,
            "How long Flume waits.",
        ),
        key(
            "maxBackoffSleep",
            Kind::Ignored("the broker tells when there is more"),
            Fallback::Nothing,
            "How long Flume waits at most.",
        ),
    ],
    shared: &[CLUSTER],
};

/// How often offsets are committed: each commit is a request, and what was not committed comes again after a kill.
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn start(context: SourceContext) -> Starting {
    Box::pin(async move {
        let settings = &context.settings;
        let client = client(settings)?;
        let names = settings
            .required("kafka.topics")
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let topics = names
            .map(|name| TopicName::new(name).map_err(|error| format!("kafka.topics: {error}")));
        let topics = topics.collect::<Result<BTreeSet<TopicName>, String>>()?;
        Ok(Box::pin(run(context, client, topics)) as Running)
    })
}

/// Reads until it is told to stop; after an error it joins again.
async fn run(context: SourceContext, client: logway_client::Client, topics: BTreeSet<TopicName>) {
    const PAUSE: Duration = Duration::from_secs(1);
    while !context.stop.is_set() {
        if let Err(error) = read(&context, &client, &topics).await {
            tracing::warn!(source = context.delivery.source(), %error, "topics cannot be read; trying again");
            context.stop.sleep(PAUSE).await;
        }
    }
}

async fn read(
    context: &SourceContext,
    client: &logway_client::Client,
    topics: &BTreeSet<TopicName>,
) -> Result<(), ClientError> {
    let settings = &context.settings;
    let start_at = if settings.is("kafka.consumer.auto.offset.reset", "earliest") {
        StartAt::Start
    } else {
        StartAt::End
    };
    let commit_interval = Some(COMMIT_INTERVAL);
    let options = GroupOptions { start_at, commit_interval, ..GroupOptions::default() };
    let group = settings.required("kafka.consumer.group.id").trim();
    let batch_max = settings.size("batchSize");
    let format = Format::of(settings);
    let mut member = GroupConsumer::open(client, group, topics.clone(), options).await?;
    // Records that were fetched before others got their partitions are left to them.
    'events: loop {
        let event = tokio::select! {
            () = context.stop.wait() => return member.close().await,
            event = member.next() => event?,
        };
        let Some(GroupEvent::Fetched(fetched)) = event else { continue };
        for one in fetched {
            match one {
                FetchEvent::Records(records) => {
                    let (partition, next) = (records.partition().clone(), records.next_offset());
                    let mut batch = Vec::new();
                    for record in records.records() {
                        let record = record?;
                        let offset = record.offset;
                        batch.push(to_event(context, &format, &partition, record));
                        if batch.len() == batch_max {
                            let batch = std::mem::take(&mut batch);
                            match deliver(context, &mut member, batch).await? {
                                Delivered::Yes => {}
                                Delivered::Stopped => return member.close().await,
                                Delivered::NotOurs => continue 'events,
                            }
                            member.consumed(&partition, offset + 1);
                            // What was fetched at once may take long to be delivered.
                            if !member.commit_in_time().await? {
                                continue 'events;
                            }
                        }
                    }
                    match deliver(context, &mut member, batch).await? {
                        Delivered::Yes => {}
                        Delivered::Stopped => return member.close().await,
                        Delivered::NotOurs => continue 'events,
                    }
                    member.consumed(&partition, next);
                }
                FetchEvent::Recreated { partition, from, to, .. } => {
                    tracing::warn!(source = context.delivery.source(), %partition, from = from.0, to = to.0, "the topic was deleted and made again: what was not read of it is gone, and the new one is read from its start");
                }
                FetchEvent::Skipped { partition, from, to } => {
                    tracing::warn!(source = context.delivery.source(), %partition, from = from.0, to = to.0, "records are gone before they were read");
                }
            }
        }
    }
}

/// What became of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivered {
    Yes,
    /// The source is to stop.
    Stopped,
    /// The partitions are another member's now, which reads the events again.
    NotOurs,
}

/// Delivers events, however long that takes.
async fn deliver(
    context: &SourceContext,
    member: &mut GroupConsumer,
    events: Vec<Event>,
) -> Result<Delivered, ClientError> {
    if events.is_empty() {
        return Ok(Delivered::Yes);
    }
    while_member(member, context.delivery.insist(events, &context.stop)).await
}

/// Who gives signs of life to a group.
trait Holds {
    /// Gives them until something happens. Cancel safe.
    fn hold(&mut self) -> impl Future<Output = Result<Option<GroupEvent>, ClientError>> + Send;
}

impl Holds for GroupConsumer {
    fn hold(&mut self) -> impl Future<Output = Result<Option<GroupEvent>, ClientError>> + Send {
        GroupConsumer::hold(self)
    }
}

/// Waits for a delivery. A member that gave no sign meanwhile would be taken for stuck, and others would read what it
/// goes on to deliver.
async fn while_member(
    member: &mut impl Holds,
    delivery: impl Future<Output = bool>,
) -> Result<Delivered, ClientError> {
    tokio::pin!(delivery);
    loop {
        let event = tokio::select! {
            biased;
            is_delivered = &mut delivery => {
                return Ok(if is_delivered { Delivered::Yes } else { Delivered::Stopped });
            }
            event = member.hold() => event?,
        };
        match event {
            Some(GroupEvent::Lost | GroupEvent::Revoked | GroupEvent::Assigned(_)) => {
                return Ok(Delivered::NotOurs);
            }
            Some(GroupEvent::Fetched(_)) | None => {}
        }
    }
}

/// How a record becomes an event.
struct Format {
    /// Its value is an event in Avro.
    is_avro: bool,
    /// The header for its topic.
    topic_header: Option<String>,
}

impl Format {
    fn of(settings: &Settings) -> Format {
        let topic_header = settings.text_if("setTopicHeader", "topicHeader");
        Format {
            is_avro: settings.flag("useFlumeEventFormat"),
            topic_header: topic_header.map(str::to_owned),
        }
    }
}

fn to_event(
    context: &SourceContext,
    format: &Format,
    partition: &TopicPartition,
    record: Record,
) -> Event {
    let value = record.value.unwrap_or_default();
    let mut event = Event::default();
    for header in &record.headers {
        let value = header.value.as_deref().unwrap_or_default();
        if let (Ok(name), Ok(value)) =
            (std::str::from_utf8(&header.key), std::str::from_utf8(value))
        {
            event.headers.set(name, value);
        }
    }
    let decoded = format.is_avro.then(|| Reader::new(&value).event());
    match decoded {
        Some(Ok(decoded)) => {
            decoded.headers.iter().for_each(|(name, value)| event.headers.set(name, value));
            event.body = decoded.body;
        }
        Some(Err(error)) => {
            context.delivery.counters().malformed.add(1);
            tracing::warn!(source = context.delivery.source(), %partition, offset = record.offset.0, %error, "a value is no event; its bytes become the body");
            event.body = bytes::Bytes::copy_from_slice(&value);
        }
        None => event.body = bytes::Bytes::copy_from_slice(&value),
    }
    if event.headers.get("timestamp").is_none() {
        event.headers.set("timestamp", record.timestamp.0.to_string());
    }
    if let Some(header) = &format.topic_header {
        event.headers.set(header.as_str(), partition.topic.as_str());
    }
    event.headers.set("partition", partition.partition.0.to_string());
    event.headers.set("offset", record.offset.0.to_string());
    if let Some(key) = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()) {
        event.headers.set("key", key);
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the events, and is silent when there are no more; says when.
    struct Member {
        events: Vec<Option<GroupEvent>>,
        silent: Option<tokio::sync::oneshot::Sender<()>>,
    }

    impl Holds for Member {
        async fn hold(&mut self) -> Result<Option<GroupEvent>, ClientError> {
            if let Some(event) = self.events.pop() {
                return Ok(event);
            }
            self.silent.take().expect("once").send(()).expect("it is waited for");
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn who_waits_for_channels_stays_a_member_and_gives_up_what_is_of_others() {
        // It is delivered only after the member was held.
        let (silent, delivered) = tokio::sync::oneshot::channel();
        let mut member = Member { events: vec![None, None], silent: Some(silent) };
        let outcome = while_member(&mut member, async { delivered.await.is_ok() }).await;
        assert_eq!(outcome.expect("a member"), Delivered::Yes);
        for event in [GroupEvent::Lost, GroupEvent::Revoked] {
            let mut member = Member { events: vec![Some(event)], silent: None };
            let outcome = while_member(&mut member, std::future::pending()).await;
            assert_eq!(outcome.expect("no error"), Delivered::NotOurs);
        }
    }
}
