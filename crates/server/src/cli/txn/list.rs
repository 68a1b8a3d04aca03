//! `logway txn list`.

use clap::Args;
use logway_client::{ListedTransaction, TransactionFilter};
use logway_model::BrokerId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// List the transactional ids, with the state of each one's transaction
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway txn list
  logway txn list --state ongoing,preparecommit,prepareabort")]
pub(in crate::cli) struct ListArgs {
    /// Only ids in one of these states, as STATE[,STATE...]
    #[arg(
        long = "state",
        value_name = "STATE",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = STATES
    )]
    states: Vec<String>,
}

/// The states (`TransactionState`), in any case of letters.
const STATES: [&str; 6] =
    ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"];

/// A transactional id.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    transactional_id: String,
    state: String,
    producer_id: i64,
    #[schemars(with = "i32")]
    coordinator: BrokerId,
}

pub(super) async fn run(args: ListArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let name = |asked: &String| STATES.into_iter().find(|state| state.eq_ignore_ascii_case(asked));
    let states = args.states.iter().filter_map(name).map(str::to_owned).collect();
    let filter = TransactionFilter { states, ..TransactionFilter::default() };
    let listed = global.client()?.list_transactions(&filter).await?;
    let rows: Vec<Row> = listed.into_iter().map(Row::from).collect();
    match global.format {
        Format::Json => output::print_json(&rows),
        Format::Text => output::print(&table(rows).render()),
    }
}

impl From<ListedTransaction> for Row {
    fn from(listed: ListedTransaction) -> Row {
        Row {
            transactional_id: listed.transactional_id,
            state: listed.state,
            producer_id: listed.producer_id.0,
            coordinator: listed.coordinator,
        }
    }
}

fn table(rows: Vec<Row>) -> Table {
    let mut table = Table::new(&["TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR"]);
    for row in rows {
        let (producer, coordinator) = (row.producer_id.to_string(), row.coordinator.to_string());
        table.row([row.transactional_id, row.state, producer, coordinator]);
    }
    table
}
