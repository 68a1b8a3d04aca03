//! `logway cluster events`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use logway_client::{
    Client, ClientError, ClusterChange, MissingTopic, TopicSelection, knows_no_changes,
};
use logway_model::{BrokerId, TimestampMs};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::cli::GlobalArgs;
use crate::cli::ends::{Ends, Second};
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};
use crate::cli::timestamp;

/// How often --follow looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A node that does not answer for so long is passed over: the others have seen the same.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// --follow asks so far back each time: a node may be a little behind.
const OVERLAP_COMMITS: u64 = 100;

/// Show what has changed in the cluster, one line for each change
///
/// Nodes that came and went, leaders, replicas in sync, moves, voters, features. A change of very many partitions is one line.
/// Each node keeps the last 1000 lines in memory, and writes them to its log. This asks all nodes, and shows what any of them has. After a
/// restart a node has those of the metadata's log since its last snapshot again, without the time. So lines are gone for good only here
/// and not in the logs, and only if all nodes were restarted since.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway cluster events
  logway cluster events --follow
  logway cluster events --format json | jq -r '.[] | select(.kind == \"node_fenced\") | .text'")]
pub(in crate::cli) struct EventsArgs {
    /// Go on with what changes from now on, until Ctrl-C; with --format json each is a line
    #[arg(short, long)]
    follow: bool,
}

/// A change of the cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    /// RFC 3339, in UTC, when the first node has seen it; `null` if all nodes were started after that
    time: Option<String>,
    /// A word that stays the same in later versions
    kind: String,
    /// For people
    text: String,
    /// The commit of the metadata that it is a part of
    index: u64,
}

pub(super) async fn run(args: EventsArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let mut seen = Seen::default();
    let first = seen.take(&client, 0).await?;
    if !args.follow {
        let rows: Vec<Row> = first.into_iter().map(row).collect();
        return match global.format {
            Format::Json => output::print_json(&rows),
            Format::Text => output::print(&rows.iter().map(line).collect::<String>()),
        };
    }
    let mut ends = Ends::listen(Second::Exits)?;
    let following = async {
        let mut news = first;
        loop {
            for row in news.into_iter().map(row) {
                output::print(&match global.format {
                    Format::Json => output::json_line(&row)?,
                    Format::Text => line(&row),
                })?;
            }
            sleep(LOOK_INTERVAL).await;
            let since = seen.last.saturating_sub(OVERLAP_COMMITS);
            news = match seen.take(&client, since).await {
                // Nodes may come and go meanwhile.
                Err(CliError::Client(_)) => Vec::new(),
                taken => taken?,
            };
        }
    };
    tokio::select! {
        outcome = following => outcome,
        _ = ends.any() => Ok(()),
    }
}

/// What was shown already.
#[derive(Default)]
struct Seen {
    /// The last commit.
    last: u64,
    /// Of the last commits, the changes by their place.
    shown: BTreeSet<(u64, u32)>,
}

impl Seen {
    /// What any node has seen since a commit, and was not taken before.
    async fn take(&mut self, client: &Client, since: u64) -> Result<Vec<ClusterChange>, CliError> {
        let changes = ask_all(client, since).await?;
        Ok(self.news(changes))
    }

    /// Each change once, in order, at the earliest time that a node has seen it.
    fn news(&mut self, changes: Vec<ClusterChange>) -> Vec<ClusterChange> {
        let mut news: BTreeMap<(u64, u32), ClusterChange> = BTreeMap::new();
        for change in changes {
            let place = (change.index, change.position);
            if self.shown.contains(&place) {
                continue;
            }
            let known = news.entry(place).or_insert_with(|| change.clone());
            known.at = match (known.at, change.at) {
                (Some(known), Some(other)) => Some(known.min(other)),
                (known, other) => known.or(other),
            };
        }
        self.shown.extend(news.keys());
        self.last = self.shown.last().map_or(self.last, |(index, _)| *index);
        self.shown = self.shown.split_off(&(self.last.saturating_sub(OVERLAP_COMMITS), 0));
        news.into_values().collect()
    }
}

/// Asks all nodes at the same time. Fails if none has answered.
async fn ask_all(client: &Client, since: u64) -> Result<Vec<ClusterChange>, CliError> {
    let cluster = client.describe_cluster().await?;
    let ids: Vec<BrokerId> = cluster.brokers.iter().map(|broker| broker.id).collect();
    client.refresh_metadata(TopicSelection::Named(&BTreeSet::new()), MissingTopic::Refuse).await?;
    let mut asked = JoinSet::new();
    for id in ids {
        let client = client.clone();
        asked.spawn(
            async move { timeout(ANSWER_PATIENCE, client.cluster_changes(id, since)).await },
        );
    }
    let (mut changes, mut failure, mut has_answer) = (Vec::new(), None, false);
    while let Some(Ok(answer)) = asked.join_next().await {
        match answer {
            Ok(Ok(some)) => {
                has_answer = true;
                changes.extend(some);
            }
            Ok(Err(error)) => failure = Some(error),
            Err(_) => {}
        }
    }
    match failure {
        Some(error) if !has_answer => Err(not_told(error)),
        _ => Ok(changes),
    }
}

fn not_told(error: ClientError) -> CliError {
    let is_unknown = knows_no_changes(&error);
    let error = CliError::from(error);
    match is_unknown {
        true => {
            error.with_hint("brokers of other makes, and of earlier versions, keep no such list")
        }
        false => error,
    }
}

fn row(change: ClusterChange) -> Row {
    let ClusterChange { index, at, kind, text, .. } = change;
    Row { time: at.map(timestamp::format), kind, text, index }
}

/// Those without a time are as long.
fn line(row: &Row) -> String {
    let width = timestamp::format(TimestampMs(0)).len();
    format!("{:width$}  {}\n", row.time.as_deref().unwrap_or("-"), row.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(index: u64, position: u32, at: Option<i64>) -> ClusterChange {
        let (kind, text) = ("node_serves".to_owned(), format!("node {index} serves"));
        ClusterChange { index, position, at: at.map(TimestampMs), kind, text }
    }

    #[test]
    fn what_several_nodes_have_seen_is_shown_once_at_the_earliest_time() {
        let mut seen = Seen::default();
        let of_one = [change(5, 0, Some(1_000)), change(7, 0, None)];
        let of_other = [change(4, 0, None), change(5, 0, Some(900)), change(7, 0, Some(2_000))];
        let news = seen.news(of_one.into_iter().chain(of_other).collect());
        let expected = [change(4, 0, None), change(5, 0, Some(900)), change(7, 0, Some(2_000))];
        assert_eq!(news, expected);
        let news = seen.news(vec![change(7, 0, Some(1_999)), change(6, 1, Some(1_500))]);
        assert_eq!(news, [change(6, 1, Some(1_500))], "a node was behind");
        let lines: String = expected.into_iter().map(row).map(|row| line(&row)).collect();
        let text = "\
-                         node 4 serves
1970-01-01T00:00:00.900Z  node 5 serves
1970-01-01T00:00:02.000Z  node 7 serves
";
        assert_eq!(lines, text);
    }
}
