//! `logway user list`.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// List the users that have a password
#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {}

/// A user.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    user: String,
    /// By which the password can be told
    mechanisms: Vec<Mechanism>,
}

/// A mechanism of SASL.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Mechanism {
    name: &'static str,
    /// How often the password is hashed
    iterations: u32,
}

pub(super) async fn run(_args: ListArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let users = global.client()?.describe_users().await?;
    let rows = users.into_iter().map(|user| Row {
        user: user.name,
        mechanisms: user
            .mechanisms
            .into_iter()
            .map(|(mechanism, iterations)| Mechanism { name: mechanism.name(), iterations })
            .collect(),
    });
    let rows: Vec<Row> = rows.collect();
    if global.format == Format::Json {
        return output::print_json(&rows);
    }
    let mut table = Table::new(&["USER", "MECHANISMS"]);
    for row in rows {
        let mechanisms: Vec<&str> = row.mechanisms.iter().map(|it| it.name).collect();
        table.row([row.user, mechanisms.join(",")]);
    }
    output::print(&table.render())
}
