//! `logway kinesis stream describe`.

use clap::Args;
use logway_kinesis::client::KinesisClient;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::shards::{Shard, shards};
use super::{number, summary, text};
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// Describe a stream with its shards
#[derive(Debug, Args)]
pub(in crate::cli) struct DescribeArgs {
    /// The name of the stream
    #[arg(value_name = "STREAM")]
    stream: String,
    /// Also show shards that are closed
    #[arg(long)]
    closed: bool,
}

/// A stream with its shards.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Description {
    stream: String,
    arn: String,
    /// `CREATING`, `ACTIVE`, `UPDATING` or `DELETING`
    status: String,
    /// `PROVISIONED` or `ON_DEMAND`
    mode: String,
    retention_hours: u64,
    /// Data and key of the largest record, in KiB
    max_record_kib: u64,
    open_shard_count: u64,
    /// Consumers with fan-out
    consumer_count: u64,
    /// Open ones; with `--closed` all that have records
    shards: Vec<Shard>,
}

impl Description {
    /// The stream of a summary, with its open shards.
    pub(super) async fn of(
        client: &KinesisClient,
        summary: &Value,
    ) -> Result<Description, CliError> {
        let mut description = Description::with_closed(client, summary).await?;
        description.shards.retain(Shard::is_open);
        Ok(description)
    }

    async fn with_closed(client: &KinesisClient, summary: &Value) -> Result<Description, CliError> {
        let stream = text(summary, "StreamName");
        Ok(Description {
            arn: text(summary, "StreamARN"),
            status: text(summary, "StreamStatus"),
            mode: text(&summary["StreamModeDetails"], "StreamMode"),
            retention_hours: number(summary, "RetentionPeriodHours"),
            max_record_kib: number(summary, "MaxRecordSizeInKiB"),
            open_shard_count: number(summary, "OpenShardCount"),
            consumer_count: number(summary, "ConsumerCount"),
            shards: shards(client, &stream).await?,
            stream,
        })
    }

    /// Prints it.
    pub(super) fn print(&self, format: Format) -> Result<(), CliError> {
        if format == Format::Json {
            return output::print_json(self);
        }
        let mut table = Table::without_names();
        for (name, value) in [
            ("stream", self.stream.clone()),
            ("arn", self.arn.clone()),
            ("status", self.status.clone()),
            ("mode", self.mode.clone()),
            ("retention", format!("{} h", self.retention_hours)),
            ("largest record", format!("{} KiB", self.max_record_kib)),
            ("open shards", self.open_shard_count.to_string()),
            ("consumers", self.consumer_count.to_string()),
        ] {
            table.row([name.to_owned(), value]);
        }
        let shards = shard_table(&self.shards).render();
        output::print(&format!("{}\n{shards}", table.render()))
    }
}

/// Shards, one a line.
pub(super) fn shard_table(shards: &[Shard]) -> Table {
    let mut table = Table::new(&["SHARD", "STATE", "START", "END", "PARENTS"]);
    for Shard { shard, state, start, end, parents } in shards.iter().cloned() {
        table.row([shard, state, start, end, parents.join(",")]);
    }
    table
}

pub(super) async fn run(
    args: DescribeArgs,
    client: &KinesisClient,
    format: Format,
) -> Result<(), CliError> {
    let summary = summary(client, &args.stream).await?;
    let description = match args.closed {
        true => Description::with_closed(client, &summary).await?,
        false => Description::of(client, &summary).await?,
    };
    description.print(format)
}
