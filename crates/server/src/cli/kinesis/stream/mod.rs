//! `logway kinesis stream`: what there is to do with streams.

mod capacity;
mod create;
mod describe;
mod list;
mod reshard;
mod shards;

use std::time::Duration;

use clap::Subcommand;
use logway_kinesis::client::KinesisClient;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::ask;
use crate::cli::error::CliError;
use crate::cli::output::Format;
use crate::cli::shapes::Shape;

/// How long a stream may take to become active.
const ACTIVE_MAX: Duration = Duration::from_secs(600);

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The commands.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum StreamCommand {
    Create(create::CreateArgs),
    List(list::ListArgs),
    Describe(describe::DescribeArgs),
    Split(reshard::SplitArgs),
    Merge(reshard::MergeArgs),
    Scale(reshard::ScaleArgs),
    Capacity(capacity::CapacityArgs),
}

/// Carries a command out.
pub(super) async fn run(
    command: StreamCommand,
    client: &KinesisClient,
    format: Format,
) -> Result<(), CliError> {
    match command {
        StreamCommand::Create(args) => create::run(args, client, format).await,
        StreamCommand::List(args) => list::run(args, client, format).await,
        StreamCommand::Describe(args) => describe::run(args, client, format).await,
        StreamCommand::Split(args) => reshard::split(args, client, format).await,
        StreamCommand::Merge(args) => reshard::merge(args, client, format).await,
        StreamCommand::Scale(args) => reshard::scale(args, client, format).await,
        StreamCommand::Capacity(args) => capacity::run(&args, format),
    }
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<describe::Description>("kinesis stream create"),
        Shape::document::<Vec<list::Row>>("kinesis stream list"),
        Shape::document::<describe::Description>("kinesis stream describe"),
        Shape::document::<reshard::Resharded>("kinesis stream split"),
        Shape::document::<reshard::Resharded>("kinesis stream merge"),
        Shape::document::<reshard::Resharded>("kinesis stream scale"),
        Shape::document::<capacity::Capacity>("kinesis stream capacity"),
    ]
}

/// A stream as DescribeStreamSummary tells it.
async fn summary(client: &KinesisClient, stream: &str) -> Result<Value, CliError> {
    let answer = ask(client, "DescribeStreamSummary", json!({ "StreamName": stream })).await?;
    Ok(answer["StreamDescriptionSummary"].clone())
}

/// The same, once the stream is active.
async fn active(client: &KinesisClient, stream: &str) -> Result<Value, CliError> {
    let until = Instant::now() + ACTIVE_MAX;
    loop {
        let summary = summary(client, stream).await?;
        let status = summary["StreamStatus"].as_str().unwrap_or_default();
        if status == "ACTIVE" {
            return Ok(summary);
        }
        if status == "DELETING" || Instant::now() >= until {
            let message = format!("the stream '{stream}' does not become ACTIVE, it is {status}");
            return Err(CliError::Input(message));
        }
        sleep(LOOK_INTERVAL).await;
    }
}

/// A number that an answer has.
fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_default()
}

/// A text that an answer has.
fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
