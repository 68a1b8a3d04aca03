//! `logway config list`.

use std::collections::BTreeSet;

use clap::Args;
use logway_client::{
    Client, ClientError, ConfigKind, ConfigResource, MissingTopic, TopicSelection,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::parse_kind;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// List what can have settings
#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Only this kind: topic, broker, group or client-metrics
    #[arg(value_parser = parse_kind)]
    kind: Option<ConfigKind>,
}

/// Something that has settings, or could have.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    /// `topic`, `broker`, `group` or `client-metrics`
    kind: &'static str,
    name: String,
}

pub(super) async fn run(args: ListArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let resources = match args.kind {
        Some(kind) => of_kind(&client, kind).await?,
        None => of_every_kind(&client).await?,
    };
    let row = |resource: ConfigResource| Row { kind: resource.kind.name(), name: resource.name };
    let rows: Vec<Row> = resources.into_iter().map(row).collect();
    match global.format {
        Format::Json => output::print_json(&rows),
        Format::Text => output::print(&table(rows).render()),
    }
}

/// What the broker can list.
async fn of_every_kind(client: &Client) -> Result<Vec<ConfigResource>, ClientError> {
    let mut all = Vec::new();
    for kind in ConfigKind::ALL {
        match of_kind(client, kind).await {
            Ok(resources) => all.extend(resources),
            Err(ClientError::Unsupported { .. }) => {
                eprintln!("warning: the broker cannot list settings of kind {}", kind.name());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Topics and brokers are known by other means to brokers that cannot list resources.
async fn of_kind(client: &Client, kind: ConfigKind) -> Result<Vec<ConfigResource>, ClientError> {
    let listed = client.list_config_resources(kind).await;
    let names: Vec<String> = match (&listed, kind) {
        (Err(ClientError::Unsupported { .. }), ConfigKind::Topic) => {
            let all = TopicSelection::All;
            let metadata = client.refresh_metadata(all, MissingTopic::Refuse).await?;
            metadata.topics.keys().map(ToString::to_string).collect()
        }
        (Err(ClientError::Unsupported { .. }), ConfigKind::Broker) => {
            let none = BTreeSet::new();
            let selection = TopicSelection::Named(&none);
            let metadata = client.refresh_metadata(selection, MissingTopic::Refuse).await?;
            metadata.brokers.keys().map(ToString::to_string).collect()
        }
        _ => return listed,
    };
    Ok(names.into_iter().map(|name| ConfigResource { kind, name }).collect())
}

fn table(rows: Vec<Row>) -> Table {
    let mut table = Table::new(&["KIND", "NAME"]);
    for row in rows {
        table.row([row.kind.to_owned(), row.name]);
    }
    table
}
