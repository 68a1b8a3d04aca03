//! `logway kinesis stream split`, `merge` and `scale`.

use clap::Args;
use logway_kinesis::client::KinesisClient;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::super::ask;
use super::capacity::ShardsArgs;
use super::describe::shard_table;
use super::shards::{Shard, shards};
use super::{active, number};
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// Split a shard into two, and wait until the stream is active
#[derive(Debug, Args)]
pub(in crate::cli) struct SplitArgs {
    /// The name of the stream
    #[arg(value_name = "STREAM")]
    stream: String,
    /// The shard, e.g. shardId-000000000003
    #[arg(value_name = "SHARD")]
    shard: String,
    /// The first hash key of the second half [default: in the middle]
    #[arg(long, value_name = "HASH")]
    at: Option<u128>,
}

/// Merge two neighbouring shards into one, and wait until the stream is active
#[derive(Debug, Args)]
pub(in crate::cli) struct MergeArgs {
    /// The name of the stream
    #[arg(value_name = "STREAM")]
    stream: String,
    /// The shard with the lower hash keys
    #[arg(value_name = "SHARD")]
    shard: String,
    /// The one behind it [default: the one that it has to be]
    #[arg(value_name = "NEXT")]
    next: Option<String>,
}

/// Give a stream another number of shards, all of the same size, and wait until it is active
///
/// A step at most doubles or halves them, as at AWS; there are as many steps as it takes. Where one fails, those before it
/// stay done.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway kinesis stream scale clicks --shards 16
  logway kinesis stream scale clicks --records-per-second 20000 --record-bytes 700")]
pub(in crate::cli) struct ScaleArgs {
    /// The name of the stream
    #[arg(value_name = "STREAM")]
    stream: String,
    #[command(flatten)]
    shards: ShardsArgs,
}

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Resharded {
    stream: String,
    /// Open shards, before and after
    shards_before: u64,
    shards_after: u64,
    /// The shards that are open now
    shards: Vec<Shard>,
}

pub(super) async fn split(
    args: SplitArgs,
    client: &KinesisClient,
    format: Format,
) -> Result<(), CliError> {
    let SplitArgs { stream, shard, at } = args;
    let before = open_shards(client, &stream).await?;
    let at = match at {
        Some(at) => at,
        None => {
            let (start, end) = find(&before, &shard)?.range()?;
            start + (end - start) / 2 + 1
        }
    };
    let input = json!({
        "StreamName": stream,
        "ShardToSplit": shard,
        "NewStartingHashKey": at.to_string(),
    });
    ask(client, "SplitShard", input).await?;
    finish(client, stream, before.len(), format).await
}

pub(super) async fn merge(
    args: MergeArgs,
    client: &KinesisClient,
    format: Format,
) -> Result<(), CliError> {
    let MergeArgs { stream, shard, next } = args;
    let before = open_shards(client, &stream).await?;
    let next = match next {
        Some(next) => next,
        None => neighbour(&before, &shard)?,
    };
    let input =
        json!({ "StreamName": stream, "ShardToMerge": shard, "AdjacentShardToMerge": next });
    ask(client, "MergeShards", input).await?;
    finish(client, stream, before.len(), format).await
}

pub(super) async fn scale(
    args: ScaleArgs,
    client: &KinesisClient,
    format: Format,
) -> Result<(), CliError> {
    let ScaleArgs { stream, shards } = args;
    let target = shards.count().ok_or_else(|| {
        CliError::Usage("give --shards, or --records-per-second and --record-bytes".to_owned())
    })?;
    let before = open_shards(client, &stream).await?;
    let mut current = before.len() as u64;
    while current != target {
        let step = step(current, target);
        eprintln!("'{stream}' has {current} shards, and gets {step}");
        let input = json!({
            "StreamName": stream,
            "TargetShardCount": step,
            "ScalingType": "UNIFORM_SCALING",
        });
        ask(client, "UpdateShardCount", input).await?;
        let now = number(&active(client, &stream).await?, "OpenShardCount");
        if now == current {
            let message = format!("'{stream}' still has {now} shards: others change it, too");
            return Err(CliError::Input(message));
        }
        current = now;
    }
    finish(client, stream, before.len(), format).await
}

/// The number of shards that is next on the way to another one.
fn step(current: u64, target: u64) -> u64 {
    target.clamp(current.div_ceil(2), current.saturating_mul(2))
}

async fn open_shards(client: &KinesisClient, stream: &str) -> Result<Vec<Shard>, CliError> {
    let mut found = shards(client, stream).await?;
    found.retain(Shard::is_open);
    Ok(found)
}

fn find<'a>(shards: &'a [Shard], id: &str) -> Result<&'a Shard, CliError> {
    let found = shards.iter().find(|shard| shard.shard == id);
    found.ok_or_else(|| CliError::Input(format!("the stream has no open shard '{id}'")))
}

/// The shard whose hash keys follow those of another one.
fn neighbour(shards: &[Shard], id: &str) -> Result<String, CliError> {
    let (_, end) = find(shards, id)?.range()?;
    for shard in shards {
        if Some(shard.range()?.0) == end.checked_add(1) {
            return Ok(shard.shard.clone());
        }
    }
    Err(CliError::Input(format!("'{id}' has the last hash keys: no shard comes behind it")))
}

async fn finish(
    client: &KinesisClient,
    stream: String,
    count_before: usize,
    format: Format,
) -> Result<(), CliError> {
    active(client, &stream).await?;
    let shards = open_shards(client, &stream).await?;
    let (shards_before, shards_after) = (count_before as u64, shards.len() as u64);
    match format {
        Format::Json => {
            output::print_json(&Resharded { stream, shards_before, shards_after, shards })
        }
        Format::Text => output::print(&shard_table(&shards).render()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: &str, start: u128, end: u128) -> Shard {
        Shard {
            shard: id.to_owned(),
            state: "open".to_owned(),
            start: start.to_string(),
            end: end.to_string(),
            parents: Vec::new(),
        }
    }

    #[test]
    fn steps_lead_to_each_number() {
        for (from, to) in [(1, 9), (9, 1), (3, 3), (16, 4), (4, 5), (500, 1), (1, 500)] {
            let mut current = from;
            let mut steps = 0;
            while current != to {
                let next = step(current, to);
                assert!(next <= current * 2 && next >= current.div_ceil(2), "{current} {next}");
                current = next;
                steps += 1;
            }
            assert!(steps <= 10, "{from} {to}");
        }
    }

    #[test]
    fn the_shard_behind_another_is_found() {
        let shards = [shard("b", 100, u128::MAX), shard("a", 0, 99)];
        assert_eq!(neighbour(&shards, "a").ok(), Some("b".to_owned()));
        assert!(neighbour(&shards, "b").is_err(), "it is the last");
        assert!(neighbour(&shards, "c").is_err(), "there is none");
    }
}
