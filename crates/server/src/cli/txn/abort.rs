//! `logway txn abort`.

use std::collections::BTreeSet;

use clap::Args;
use logway_client::{Client, MissingTopic, OpenTransaction};
use logway_model::{Offset, PartitionId, TopicName, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;

use super::open_row::OpenRow;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// Abort a transaction that hangs in a partition
///
/// Its records stay unseen by those who read only what is committed, and what comes behind them is
/// read. A transaction that its coordinator knows is refused: to abort it in one partition would tear it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway txn find-hanging                 see what hangs, and from which offset on
  logway txn abort orders -p 3 -o 4711    abort what hangs there")]
pub(in crate::cli) struct AbortArgs {
    /// Topic that the transaction has written to
    topic: TopicName,
    /// Partition of it
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(0..))]
    partition: i32,
    /// Offset of the first record of the transaction there
    #[arg(short = 'o', long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    start_offset: i64,
}

/// A transaction that was aborted.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Aborted {
    /// `aborted`
    status: &'static str,
    #[serde(flatten)]
    transaction: OpenRow,
}

pub(super) async fn run(args: AbortArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let hanging = find(&client, &args).await?;
    client.abort_in_partition(&hanging).await?;
    let transaction = OpenRow::from(&hanging);
    eprintln!(
        "aborted the transaction of producer {} in {}, from offset {} on",
        transaction.producer_id, hanging.partition, transaction.start_offset
    );
    match global.format {
        Format::Json => output::print_json(&Aborted { status: "aborted", transaction }),
        Format::Text => Ok(()),
    }
}

/// The transaction that is meant, if it hangs.
async fn find(client: &Client, args: &AbortArgs) -> Result<OpenTransaction, CliError> {
    let topics = BTreeSet::from([args.topic.clone()]);
    client.await_topics(&topics, MissingTopic::Refuse).await?;
    let partition = TopicPartition::new(args.topic.clone(), PartitionId(args.partition));
    let open = client.open_transactions(&BTreeSet::from([partition.clone()])).await?;
    let start = Offset(args.start_offset);
    let Some(meant) = open.into_iter().find(|open| open.start == start) else {
        let none = format!("no transaction is open in {partition} from offset {start} on");
        return Err(
            CliError::Input(none).with_hint("see what hangs with 'logway txn find-hanging'")
        );
    };
    let producer_id = meant.producer_id;
    client.hanging_among(vec![meant]).await?.pop().ok_or_else(|| {
        let known = format!(
            "the transaction of producer {producer_id} in {partition} does not hang: its coordinator \
             knows it, or it has just ended"
        );
        CliError::Input(known).with_hint("its producer or its timeout ends it; see 'logway txn list'")
    })
}
