//! `logway topic trim`.

use std::collections::BTreeSet;

use clap::Args;
use logway_client::{Client, ClientError, MissingTopic, OffsetAt, StartAt};
use logway_model::{Offset, PartitionId, TopicName, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::offset_spec::OffsetSpec;
use crate::cli::output::{self, Format, Table};

/// Delete the oldest records of partitions, up to an offset
#[derive(Debug, Args)]
#[command(
    visible_alias = "truncate",
    after_help = "Examples:
  logway topic trim events -p 0 -o 1000     keep what begins at offset 1000
  logway topic trim events -p 0,1 -o -500   keep the last 500 offsets of each
  logway topic trim events -p 0 -o @2026-01-31T00:00:00Z
  logway topic trim events -p 0 -o @-7d     keep the last week"
)]
pub(in crate::cli) struct TrimArgs {
    /// Name of the topic
    name: TopicName,
    /// Partitions to trim, as N[,N...]; repeatable
    #[arg(
        short,
        long,
        required = true,
        value_delimiter = ',',
        value_parser = clap::value_parser!(i32).range(0..)
    )]
    partitions: Vec<i32>,
    /// First offset to keep: an offset, end, -COUNT or @TIME (milliseconds, RFC 3339, or -1h30m: so
    /// long ago, in d, h, m, s and ms)
    #[arg(short, long, allow_hyphen_values = true)]
    offset: OffsetSpec,
}

/// A partition that was trimmed. Those that could not be are told of on stderr.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    #[schemars(with = "String")]
    topic: TopicName,
    #[schemars(with = "i32")]
    partition: PartitionId,
    /// The first offset that is left
    start_offset: i64,
}

impl TrimArgs {
    /// The topic.
    pub(super) fn name(&self) -> &TopicName {
        &self.name
    }
}

pub(super) async fn run(args: TrimArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let names = BTreeSet::from([args.name.clone()]);
    client.await_topics(&names, MissingTopic::Refuse).await?;
    let ids: BTreeSet<PartitionId> = args.partitions.into_iter().map(PartitionId).collect();
    let mut rows = Vec::new();
    let mut errors = Vec::new();
    for id in ids {
        let partition = TopicPartition::new(args.name.clone(), id);
        match trim(&client, &partition, args.offset).await {
            Ok(start) => {
                let (topic, start_offset) = (args.name.clone(), start.0);
                rows.push(Row { topic, partition: id, start_offset });
            }
            Err(error) => errors.push(error),
        }
    }
    match global.format {
        Format::Json => output::print_json(&rows)?,
        Format::Text if rows.is_empty() => {}
        Format::Text => output::print(&table(&rows).render())?,
    }
    CliError::collect(errors)
}

/// Deletes what lies before the offset, and returns where the partition begins then.
async fn trim(
    client: &Client,
    partition: &TopicPartition,
    offset: OffsetSpec,
) -> Result<Offset, ClientError> {
    let before = match offset.0 {
        StartAt::Offset(offset) => Some(offset),
        StartAt::End => None,
        StartAt::Start => look_up(client, partition, OffsetAt::Start).await?,
        StartAt::Timestamp(time) => look_up(client, partition, OffsetAt::Timestamp(time)).await?,
        StartAt::BeforeEnd(count) => {
            let start = look_up(client, partition, OffsetAt::Start).await?.unwrap_or(Offset::ZERO);
            let end = look_up(client, partition, OffsetAt::End).await?.unwrap_or(Offset::ZERO);
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            Some(Offset(end.0.saturating_sub(count)).max(start))
        }
    };
    client.delete_records(partition, before).await
}

async fn look_up(
    client: &Client,
    partition: &TopicPartition,
    at: OffsetAt,
) -> Result<Option<Offset>, ClientError> {
    let listed = client.list_offsets(&BTreeSet::from([partition.clone()]), at).await?;
    Ok(listed.get(partition).and_then(|listed| listed.offset))
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["PARTITION", "START"]);
    for row in rows {
        table.row([row.partition.to_string(), row.start_offset.to_string()]);
    }
    table
}
