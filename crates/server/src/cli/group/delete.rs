//! `logway group delete`.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// Delete groups with all that they have committed
///
/// A group that has members cannot be deleted.
#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// Names of the groups
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
}

/// A group that is gone. Those that could not be deleted are told of on stderr.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    group: String,
    /// `deleted`
    status: &'static str,
}

impl DeleteArgs {
    /// The group, if there is only one.
    pub(super) fn only_group(&self) -> Option<&str> {
        match &*self.groups {
            [only] => Some(only),
            _ => None,
        }
    }
}

pub(super) async fn run(args: DeleteArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for group in args.groups {
        match client.delete_group(&group).await {
            Ok(()) => {
                eprintln!("deleted group '{group}'");
                rows.push(Row { group, status: "deleted" });
            }
            Err(error) => errors.push(error),
        }
    }
    if global.format == Format::Json {
        output::print_json(&rows)?;
    }
    CliError::collect(errors)
}
