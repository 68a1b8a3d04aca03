//! `logway topic delete`.

use clap::Args;
use logway_model::TopicName;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;

/// Delete topics with all their records
#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// Names of the topics
    #[arg(required = true, value_name = "NAME")]
    names: Vec<TopicName>,
}

pub(super) async fn run(args: DeleteArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.brokers.client()?;
    let mut errors = Vec::new();
    for (name, outcome) in client.delete_topics(&args.names).await? {
        match outcome {
            Ok(()) => eprintln!("deleted topic '{name}'"),
            Err(error) => errors.push(error),
        }
    }
    CliError::collect(errors)
}
