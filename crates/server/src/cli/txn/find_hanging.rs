//! `logway txn find-hanging`.

use std::collections::BTreeSet;

use clap::Args;
use logway_client::{Client, ClientError, MissingTopic, TopicSelection};
use logway_model::{BrokerId, PartitionId, TimestampMs, TopicName, TopicPartition};

use super::open_row::OpenRow;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};
use crate::cli::timestamp;
use crate::cli::topic_filter::TopicFilter;

/// Find transactions that are open in partitions, and that no coordinator knows
///
/// Nobody will end such a transaction, and what is behind it is not read by those who read only what is
/// committed. Every partition is looked at unless options say otherwise. Whoever asks has to have the
/// right to DESCRIBE all transactional ids: transactions of those kept from them look as if they hung.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway txn find-hanging
  logway txn find-hanging --topic orders --older-than 1h
  logway txn find-hanging --format json | jq -r '.[] | \"\\(.topic) -p \\(.partition) -o \\(.start_offset)\"'")]
pub(in crate::cli) struct FindHangingArgs {
    /// Only partitions of this topic
    #[arg(short, long, value_name = "TOPIC")]
    topic: Option<TopicName>,
    /// Only these partitions of the topic, as N[,N...]; repeatable
    #[arg(
        short,
        long = "partition",
        value_name = "PARTITION",
        requires = "topic",
        value_delimiter = ',',
        value_parser = clap::value_parser!(i32).range(0..)
    )]
    partitions: Vec<i32>,
    /// Only partitions that this broker leads
    #[arg(long, value_name = "NODE")]
    broker: Option<i32>,
    /// Only transactions whose last record is older, as 1d12h, 90m or 500ms. It should be no less than
    /// what `transaction.max.timeout.ms` lets a transaction take
    #[arg(
        long,
        value_name = "PERIOD",
        default_value = "15m",
        value_parser = timestamp::parse_period_ms
    )]
    older_than: i64,
}

pub(super) async fn run(args: FindHangingArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let mut open = client.open_transactions(&searched(&client, &args).await?).await?;
    let newest = TimestampMs(timestamp::now().0.saturating_sub(args.older_than));
    open.retain(|open| open.last_timestamp < newest);
    let hanging = client.hanging_among(open).await?;
    let rows: Vec<OpenRow> = hanging.iter().map(OpenRow::from).collect();
    match global.format {
        Format::Json => output::print_json(&rows),
        Format::Text => output::print(&table(rows).render()),
    }
}

/// The partitions to look at.
async fn searched(
    client: &Client,
    args: &FindHangingArgs,
) -> Result<BTreeSet<TopicPartition>, ClientError> {
    let metadata = match &args.topic {
        Some(topic) => {
            let names = BTreeSet::from([topic.clone()]);
            client.find_topics(&names, MissingTopic::Refuse).await?
        }
        None => client.refresh_metadata(TopicSelection::All, MissingTopic::Refuse).await?,
    };
    let names =
        metadata.topics.keys().filter(|name| args.topic.as_ref().is_none_or(|it| it == *name));
    let mut searched = BTreeSet::new();
    for name in names {
        let partitions = args.partitions.iter().copied().map(PartitionId).collect();
        let meant = TopicFilter { name: name.clone(), partitions }.partitions(&metadata)?;
        let leader = |it: &TopicPartition| metadata.partition(it).and_then(|known| known.leader);
        let is_led =
            |it: &TopicPartition| args.broker.is_none_or(|id| leader(it) == Some(BrokerId(id)));
        searched.extend(meant.into_iter().filter(is_led));
    }
    match args.broker.map(BrokerId) {
        Some(id) if !metadata.brokers.contains_key(&id) => Err(ClientError::UnknownBroker { id }),
        _ => Ok(searched),
    }
}

fn table(rows: Vec<OpenRow>) -> Table {
    let mut table = Table::new(&[
        "TOPIC",
        "PARTITION",
        "START OFFSET",
        "PRODUCER",
        "EPOCH",
        "COORDINATOR EPOCH",
        "LAST RECORD",
    ]);
    for row in rows {
        table.row([
            row.topic,
            row.partition.to_string(),
            row.start_offset.to_string(),
            row.producer_id.to_string(),
            row.producer_epoch.to_string(),
            row.coordinator_epoch.map(|epoch| epoch.to_string()).unwrap_or_default(),
            timestamp::format(TimestampMs(row.last_timestamp_ms)),
        ]);
    }
    table
}
