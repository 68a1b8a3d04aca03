//! `logway cluster moves`.

use clap::Args;
use logway_client::OngoingMove;
use schemars::JsonSchema;
use serde::Serialize;

use super::survey::{self, Survey, numbers};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};
use crate::cli::quantity;

/// Show the partitions that are on their way to other nodes, wait for them, or put them back
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway cluster moves              what is on its way, what is left to copy, and what holds it up
  logway cluster moves --wait      wait until nothing is
  logway cluster moves --cancel     each partition stays where it was")]
pub(in crate::cli) struct MovesArgs {
    /// Wait until nothing is on its way
    #[arg(long, conflicts_with = "cancel")]
    wait: bool,
    /// Cancel all of them: what was copied is deleted
    #[arg(long)]
    cancel: bool,
}

/// A partition on its way.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    topic: String,
    partition: i32,
    /// Numbers of the nodes that get a replica
    adding: Vec<i32>,
    /// Numbers of the nodes that lose theirs
    removing: Vec<i32>,
    /// Still to be copied, by the sizes that nodes tell
    bytes_left: u64,
    /// Why it does not come to its end; `null` if it is copied, or nothing can be seen
    stuck_because: Option<String>,
}

pub(super) async fn run(args: MovesArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    if args.wait {
        survey::wait(&client, |_| true).await?;
    }
    let survey = Survey::of_ongoing(&client).await?;
    if args.cancel && !survey.ongoing.is_empty() {
        let all = survey.ongoing.iter().map(|it| (it.partition.clone(), None));
        survey::reassign(&client, all.collect()).await?;
        eprintln!("cancelled {} moves", survey.ongoing.len());
    }
    let rows: Vec<Row> = survey.ongoing.iter().map(|it| row(it, &survey)).collect();
    match global.format {
        Format::Json => output::print_json(&rows),
        Format::Text => output::print(&text(&rows)),
    }
}

fn row(it: &OngoingMove, survey: &Survey) -> Row {
    Row {
        topic: it.partition.topic.to_string(),
        partition: it.partition.partition.0,
        adding: numbers(&it.adding),
        removing: numbers(&it.removing),
        bytes_left: survey.bytes_left(it),
        stuck_because: survey.stuck_because(it),
    }
}

fn text(rows: &[Row]) -> String {
    let mut table = Table::new(&["PARTITION", "ADDING", "REMOVING", "TO COPY", "WAITS FOR"]);
    for row in rows {
        table.row([
            format!("{}-{}", row.topic, row.partition),
            output::list(&row.adding),
            output::list(&row.removing),
            quantity::bytes(row.bytes_left),
            row.stuck_because.clone().unwrap_or_default(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_is_left_and_what_holds_it_up() {
        let row = |stuck_because| Row {
            topic: "t".to_owned(),
            partition: 3,
            adding: vec![4],
            removing: Vec::new(),
            bytes_left: 0,
            stuck_because,
        };
        let expected = "\
PARTITION  ADDING  REMOVING  TO COPY  WAITS FOR
t-3        4       -         0 B      -
t-3        4       -         0 B      node 4
";
        assert_eq!(text(&[row(None), row(Some("node 4".to_owned()))]), expected);
    }
}
