//! `logway topic delete`.

use clap::Args;
use logway_model::TopicName;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// Delete topics with all their records
#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// Names of the topics
    #[arg(required = true, value_name = "NAME")]
    names: Vec<TopicName>,
}

/// A topic that is gone. Those that could not be deleted are told of on stderr.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    #[schemars(with = "String")]
    topic: TopicName,
    /// `deleted`
    status: &'static str,
}

pub(super) async fn run(args: DeleteArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for (name, outcome) in client.delete_topics(&args.names).await? {
        match outcome {
            Ok(()) => {
                eprintln!("deleted topic '{name}'");
                rows.push(Row { topic: name, status: "deleted" });
            }
            Err(error) => errors.push(error),
        }
    }
    if global.format == Format::Json {
        output::print_json(&rows)?;
    }
    CliError::collect(errors)
}
