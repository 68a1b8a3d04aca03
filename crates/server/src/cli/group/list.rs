//! `logway group list`.

use clap::Args;
use logway_client::ListedGroup;
use logway_model::{BrokerId, GroupType};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// List the groups
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway group list
  logway group list --state empty,dead
  logway group list --type streams")]
pub(in crate::cli) struct ListArgs {
    /// Only groups in one of these states, as STATE[,STATE...]
    #[arg(
        long = "state",
        value_name = "STATE",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = STATES
    )]
    states: Vec<String>,
    /// Only groups of one of these types, as TYPE[,TYPE...]
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = TYPES
    )]
    types: Vec<String>,
}

/// The types of groups.
const TYPES: [&str; 3] =
    [GroupType::Classic.name(), GroupType::Consumer.name(), GroupType::Streams.name()];

/// The states of all types of groups (`GroupState`), in any case of letters.
const STATES: [&str; 8] = [
    "stable",
    "empty",
    "dead",
    "preparingrebalance",
    "completingrebalance",
    "assigning",
    "reconciling",
    "notready",
];

/// A group.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    group: String,
    /// `null` from brokers that do not tell
    state: Option<String>,
    /// `null` from brokers that do not tell
    #[serde(rename = "type")]
    group_type: Option<String>,
    protocol_type: String,
    #[schemars(with = "i32")]
    coordinator: BrokerId,
}

pub(super) async fn run(args: ListArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let groups = global.client()?.list_groups().await?;
    let is_wanted = |row: &Row| {
        is_among(row.state.as_deref(), &args.states)
            && is_among(row.group_type.as_deref(), &args.types)
    };
    let rows: Vec<Row> = groups.into_iter().map(Row::from).collect();
    let untold = |row: &&Row| {
        (row.state.is_none() && !args.states.is_empty())
            || (row.group_type.is_none() && !args.types.is_empty())
    };
    let untold = rows.iter().filter(untold).count();
    if untold > 0 {
        eprintln!(
            "warning: {untold} groups are left out, since their brokers do not tell states or types"
        );
    }
    let rows: Vec<Row> = rows.into_iter().filter(is_wanted).collect();
    match global.format {
        Format::Json => output::print_json(&rows),
        Format::Text => output::print(&table(rows).render()),
    }
}

/// Whether a word is among those that are wanted, if any are.
fn is_among(word: Option<&str>, wanted: &[String]) -> bool {
    let word = word.unwrap_or_default();
    wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(word))
}

impl From<ListedGroup> for Row {
    fn from(group: ListedGroup) -> Row {
        Row {
            group: group.name,
            state: group.state,
            group_type: group.group_type,
            protocol_type: group.protocol_type,
            coordinator: group.coordinator,
        }
    }
}

fn table(rows: Vec<Row>) -> Table {
    let mut table = Table::new(&["GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR"]);
    for row in rows {
        table.row([
            row.group,
            row.state.unwrap_or_default(),
            row.group_type.unwrap_or_default(),
            row.protocol_type,
            row.coordinator.to_string(),
        ]);
    }
    table
}
