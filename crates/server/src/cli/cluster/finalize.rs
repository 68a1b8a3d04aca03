//! `logway cluster finalize`.

use clap::Args;
use logway_client::{Client, ClientError, DescribedBroker, FeatureLevels};
use logway_metadata::{METADATA_FEATURE, MetadataLevel};
use logway_model::BrokerId;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::JoinSet;

use super::state::ANSWER_PATIENCE;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table, yes_or_no};

/// Let the cluster use what its newest version brings, after a rolling upgrade, or show what that would do
///
/// Nodes of several versions can form a cluster as long as its metadata has only what the oldest of them can read. That is
/// its metadata level. When all nodes are upgraded, this command finalises the newest level that all of them know. From then
/// on nodes that do not know it stop and cannot join, so there is no way back to their version.
///
/// Each node has to answer, also those that only vote. With the setting 'logway.auto.finalize.after.ms' the cluster does it by
/// itself.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway cluster finalize           show which levels nodes know, and what it would do
  logway cluster finalize --yes     do it")]
pub(in crate::cli) struct FinalizeArgs {
    /// Do it, instead of showing what it would do
    #[arg(short, long)]
    yes: bool,
}

/// What becomes of the metadata level.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Finalization {
    /// The level that was finalised before
    finalized: i16,
    /// The newest that all brokers know; as `finalized` if there is nothing to do
    level: i16,
    /// Whether it was done
    done: bool,
    /// What the levels up to it bring
    brings: Vec<String>,
    /// What cannot be done any more afterwards; `null` if there is nothing to do
    makes_impossible: Option<String>,
    nodes: Vec<Node>,
    /// Why it is not done; `null` if it can be, or was
    refused_because: Option<String>,
}

/// A broker.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Node {
    id: i32,
    /// The newest level that it knows; `null` if it does not tell
    newest: Option<i16>,
}

pub(super) async fn run(args: FinalizeArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let mut done = Finalization::of(&levels(&client).await?)?;
    if done.level > done.finalized {
        match client.raise_feature(METADATA_FEATURE, done.level, !args.yes).await {
            Ok(()) => done.done = args.yes,
            Err(ClientError::Refused { message: Some(message), .. }) => {
                done.refused_because = Some(message);
            }
            Err(error) => return Err(error.into()),
        }
    }
    match global.format {
        Format::Json => output::print_json(&done)?,
        Format::Text => output::print(&text(&done))?,
    }
    match (&done.refused_because, done.done) {
        (Some(reason), _) => {
            let refused = format!("level {} is not finalised: {reason}", done.level);
            Err(CliError::Input(refused))
        }
        (None, true) => Ok(()),
        (None, false) if done.level > done.finalized => {
            eprintln!("nothing was done: to do it, say --yes");
            Ok(())
        }
        (None, false) => {
            eprintln!("{}", done.why_nothing());
            Ok(())
        }
    }
}

/// What each broker tells of the metadata level; `None` if it does not.
async fn levels(client: &Client) -> Result<Vec<(BrokerId, Option<FeatureLevels>)>, CliError> {
    let mut asked = JoinSet::new();
    for DescribedBroker { id, address, .. } in client.describe_cluster().await?.brokers {
        let client = client.clone();
        asked.spawn(async move {
            let features = client.describe_features(&address, ANSWER_PATIENCE).await;
            (id, features.and_then(|features| features.get(METADATA_FEATURE).copied()))
        });
    }
    let mut levels = asked.join_all().await;
    levels.sort_by_key(|(id, _)| *id);
    Ok(levels)
}

impl Finalization {
    fn of(levels: &[(BrokerId, Option<FeatureLevels>)]) -> Result<Finalization, CliError> {
        let told = || levels.iter().filter_map(|(_, levels)| *levels);
        // A broker may not have heard yet of what was finalised a moment ago.
        let Some(finalized) = told().map(|levels| levels.finalized).max() else {
            return Err(CliError::Input("no broker tells of a metadata level".to_owned()));
        };
        let newest = told().map(|levels| levels.newest).min().unwrap_or(finalized);
        let level = newest.max(finalized);
        let brings = (finalized + 1..=level).filter_map(|level| MetadataLevel(level).brings());
        let node = |(id, levels): &(BrokerId, Option<FeatureLevels>)| Node {
            id: id.0,
            newest: levels.map(|levels| levels.newest),
        };
        let makes_impossible = (level > finalized).then(|| {
            let below = level - 1;
            format!("nodes of versions that know level {below} at most stop, and cannot join: no way back to them")
        });
        Ok(Finalization {
            finalized,
            level,
            done: false,
            brings: brings.map(str::to_owned).collect(),
            makes_impossible,
            nodes: levels.iter().map(node).collect(),
            refused_because: None,
        })
    }

    /// Why there is nothing to finalise.
    fn why_nothing(&self) -> String {
        let newest = self.nodes.iter().filter_map(|node| node.newest).max();
        let oldest = self.nodes.iter().find(|node| node.newest == Some(self.level));
        match oldest.filter(|_| newest > Some(self.level)) {
            Some(Node { id, .. }) => {
                let level = self.level;
                format!(
                    "nothing is to be finalised: node {id} knows level {level} at most; upgrade it first"
                )
            }
            None => "nothing is to be finalised: no node knows a newer level".to_owned(),
        }
    }
}

fn text(done: &Finalization) -> String {
    let mut table = Table::without_names();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("FINALISED", done.finalized.to_string());
    row("LEVEL", done.level.to_string());
    row("BRINGS", done.brings.join(", "));
    row("IMPOSSIBLE THEN", done.makes_impossible.clone().unwrap_or_default());
    row("DONE", yes_or_no(done.done));
    let mut nodes = Table::new(&["NODE", "NEWEST"]);
    for Node { id, newest } in &done.nodes {
        let newest = newest.map_or_else(|| "unknown".to_owned(), |newest| newest.to_string());
        nodes.row([id.to_string(), newest]);
    }
    format!("{}\n{}", table.render(), nodes.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(levels: &[Option<(i16, i16)>]) -> Result<Finalization, CliError> {
        let tell = |(id, levels): (i32, &Option<(i16, i16)>)| {
            let levels = levels.map(|(newest, finalized)| FeatureLevels { newest, finalized });
            (BrokerId(id), levels)
        };
        Finalization::of(&(1..).zip(levels).map(tell).collect::<Vec<_>>())
    }

    #[test]
    fn the_newest_level_that_all_know_is_shown_with_what_it_costs() {
        let shown = text(&of(&[Some((2, 1)), None, Some((3, 1))]).expect("some tell"));
        let expected = "\
FINALISED        1
LEVEL            2
BRINGS           eligible leader replicas (KIP-966)
IMPOSSIBLE THEN  nodes of versions that know level 1 at most stop, and cannot join: no way back to them
DONE             no

NODE  NEWEST
1     2
2     unknown
3     3
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_older_node_is_named_as_what_keeps_the_level() {
        let older = of(&[Some((2, 1)), Some((1, 1))]).expect("they tell");
        assert_eq!((older.level, &older.makes_impossible), (1, &None));
        let why = "nothing is to be finalised: node 2 knows level 1 at most; upgrade it first";
        assert_eq!(older.why_nothing(), why);
        let done = of(&[Some((2, 2)), Some((2, 1))]).expect("they tell");
        assert_eq!((done.finalized, done.level), (2, 2), "one has not heard yet");
        let why = "nothing is to be finalised: no node knows a newer level";
        assert_eq!(done.why_nothing(), why);
        of(&[None, None]).expect_err("nobody tells");
    }
}
