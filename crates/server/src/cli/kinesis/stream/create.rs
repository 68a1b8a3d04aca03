//! `logway kinesis stream create`.

use clap::Args;
use logway_kinesis::client::KinesisClient;
use serde_json::json;

use super::super::ask;
use super::active;
use super::capacity::ShardsArgs;
use super::describe::Description;
use crate::cli::error::CliError;
use crate::cli::output::Format;

/// Create a stream, and wait until it is active
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway kinesis stream create clicks --shards 4
  logway kinesis stream create clicks --records-per-second 5000 --record-bytes 700 --consumers 3")]
pub(in crate::cli) struct CreateArgs {
    /// The name of the stream
    #[arg(value_name = "STREAM")]
    stream: String,
    #[command(flatten)]
    shards: ShardsArgs,
    /// Let the service choose the number of shards
    #[arg(long, conflicts_with_all = ["shards", "records_per_second"])]
    on_demand: bool,
}

pub(super) async fn run(
    args: CreateArgs,
    client: &KinesisClient,
    format: Format,
) -> Result<(), CliError> {
    let CreateArgs { stream, shards, on_demand } = args;
    let input = match on_demand {
        true => {
            json!({ "StreamName": stream, "StreamModeDetails": { "StreamMode": "ON_DEMAND" } })
        }
        false => json!({ "StreamName": stream, "ShardCount": shards.count().unwrap_or(1) }),
    };
    ask(client, "CreateStream", input).await?;
    let summary = active(client, &stream).await?;
    Description::of(client, &summary).await?.print(format)
}
