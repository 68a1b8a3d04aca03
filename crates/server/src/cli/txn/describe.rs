//! `logway txn describe`.

use clap::Args;
use logway_client::DescribedTransaction;
use logway_model::BrokerId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// Show transactions: whose they are, since when, and which partitions they have written to
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway txn describe billing-1
  logway txn describe billing-1 --format json | jq '.[].partitions'")]
pub(in crate::cli) struct DescribeArgs {
    /// Transactional ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

/// What the coordinator knows of a transactional id.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Described {
    transactional_id: String,
    #[schemars(with = "i32")]
    coordinator: BrokerId,
    state: String,
    producer_id: i64,
    producer_epoch: i16,
    timeout_ms: i32,
    /// When the transaction began; `null` if there is none
    started_ms: Option<i64>,
    partitions: Vec<Written>,
}

/// A partition that a transaction has written to.
#[derive(Debug, Serialize, JsonSchema)]
struct Written {
    topic: String,
    partition: i32,
}

pub(super) async fn run(args: DescribeArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let mut described = Vec::with_capacity(args.ids.len());
    for id in &args.ids {
        described.push(Described::from(client.describe_transaction(id).await?));
    }
    match global.format {
        Format::Json => output::print_json(&described),
        Format::Text => {
            let sections: Vec<String> = described.iter().map(render).collect();
            output::print(&sections.join("\n"))
        }
    }
}

impl From<DescribedTransaction> for Described {
    fn from(described: DescribedTransaction) -> Described {
        let partitions = described.partitions.into_iter().map(|partition| Written {
            topic: partition.topic.to_string(),
            partition: partition.partition.0,
        });
        Described {
            transactional_id: described.transactional_id,
            coordinator: described.coordinator,
            state: described.state,
            producer_id: described.producer_id.0,
            producer_epoch: described.producer_epoch.0,
            timeout_ms: described.timeout_ms,
            started_ms: described.started.map(|started| started.0),
            partitions: partitions.collect(),
        }
    }
}

/// A summary, and the partitions.
fn render(described: &Described) -> String {
    let mut summary = Table::without_names();
    let mut row = |name: &str, value: String| summary.row([name.to_owned(), value]);
    row("TRANSACTIONAL ID", described.transactional_id.clone());
    row("STATE", described.state.clone());
    row("PRODUCER", format!("{} (epoch {})", described.producer_id, described.producer_epoch));
    row("COORDINATOR", described.coordinator.to_string());
    row("TIMEOUT MS", described.timeout_ms.to_string());
    row("STARTED MS", described.started_ms.map(|ms| ms.to_string()).unwrap_or_default());
    if described.partitions.is_empty() {
        return summary.render();
    }
    let mut partitions = Table::new(&["TOPIC", "PARTITION"]);
    for written in &described.partitions {
        partitions.row([written.topic.clone(), written.partition.to_string()]);
    }
    format!("{}\n{}", summary.render(), partitions.render())
}
