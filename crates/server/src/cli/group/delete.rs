//! `logway group delete`.

use clap::Args;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;

/// Delete groups with all that they have committed
///
/// A group that has members cannot be deleted.
#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// Names of the groups
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
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
    let client = global.brokers.client()?;
    let mut errors = Vec::new();
    for group in &args.groups {
        match client.delete_group(group).await {
            Ok(()) => eprintln!("deleted group '{group}'"),
            Err(error) => errors.push(error),
        }
    }
    CliError::collect(errors)
}
