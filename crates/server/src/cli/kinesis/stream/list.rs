//! `logway kinesis stream list`.

use clap::Args;
use logway_kinesis::client::KinesisClient;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::ask;
use super::text;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// List the streams
#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {}

/// A stream.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    stream: String,
    /// `CREATING`, `ACTIVE`, `UPDATING` or `DELETING`
    status: String,
    /// `PROVISIONED` or `ON_DEMAND`
    mode: String,
    arn: String,
}

impl Row {
    fn of(summary: &Value) -> Row {
        Row {
            stream: text(summary, "StreamName"),
            status: text(summary, "StreamStatus"),
            mode: text(&summary["StreamModeDetails"], "StreamMode"),
            arn: text(summary, "StreamARN"),
        }
    }
}

pub(super) async fn run(
    _args: ListArgs,
    client: &KinesisClient,
    format: Format,
) -> Result<(), CliError> {
    let mut rows = Vec::new();
    let mut input = json!({});
    loop {
        let page = ask(client, "ListStreams", input).await?;
        let summaries = page["StreamSummaries"].as_array().map_or(&[][..], Vec::as_slice);
        rows.extend(summaries.iter().map(Row::of));
        match page.get("NextToken") {
            Some(token) => input = json!({ "NextToken": token }),
            None => break,
        }
    }
    if format == Format::Json {
        return output::print_json(&rows);
    }
    let mut table = Table::new(&["STREAM", "STATUS", "MODE", "ARN"]);
    for Row { stream, status, mode, arn } in rows {
        table.row([stream, status, mode, arn]);
    }
    output::print(&table.render())
}
