//! `logway group seek`.

mod seek_spec;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use logway_client::{Client, ClientError, CommittedOffset, MissingTopic};
use logway_model::{ErrorCode, Offset, TopicName, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;

use self::seek_spec::SeekSpec;
use self::target::Target;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};
use crate::cli::topic_filter::TopicFilter;

/// Move what a group has committed, so that it reads on elsewhere
///
/// The group must have no members: those would commit their own positions over it. Without
/// --topic, what the group has committed is moved, nothing else. Offsets are kept within what
/// each partition holds.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("target").required(true),
    after_help = "Examples:
  logway group seek billing --to start                     read everything again
  logway group seek billing --to @2026-01-31T00:00:00Z     read again what came since
  logway group seek billing --to @-1h                      read the last hour again
  logway group seek billing --to end --topic orders        skip what is unread of one topic
  logway group seek billing --by +1 --topic orders:3       skip one record of partition 3
  logway group seek billing-2 --to-group billing           begin where another group is"
)]
pub(in crate::cli) struct SeekArgs {
    /// Name of the group; one that does not exist is created if --topic, --to-group or --to-file
    /// says what to commit
    group: String,
    /// Where to: start, end, an offset, +COUNT (after the start), -COUNT (before the end) or @TIME
    /// (milliseconds, RFC 3339, or -1h30m: so long ago, in d, h, m, s and ms)
    #[arg(long, value_name = "OFFSET", group = "target", allow_hyphen_values = true)]
    to: Option<SeekSpec>,
    /// How many records forward, or back if negative, from what is committed
    #[arg(long, value_name = "COUNT", group = "target", allow_hyphen_values = true)]
    by: Option<i64>,
    /// Commit what another group has committed
    #[arg(long, value_name = "GROUP", group = "target")]
    to_group: Option<String>,
    /// Commit what a file says: lines of TOPIC PARTITION OFFSET
    #[arg(long, value_name = "FILE", group = "target")]
    to_file: Option<PathBuf>,
    /// Only this topic, or these partitions of it; repeatable
    #[arg(short, long = "topic", value_name = "TOPIC[:PARTITION,...]")]
    topics: Vec<TopicFilter>,
    /// Only show what would be committed
    #[arg(long)]
    dry_run: bool,
}

/// A partition whose committed offset was moved, or would be. Those that could not be are told of on
/// stderr.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    #[schemars(with = "String")]
    topic: TopicName,
    partition: i32,
    /// What was committed before; `null` if nothing was
    before: Option<i64>,
    after: i64,
}

impl SeekArgs {
    /// The group.
    pub(in crate::cli) fn group(&self) -> &str {
        &self.group
    }
}

pub(super) async fn run(args: SeekArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let target = target(&client, &args).await?;
    check_empty(&client, &args.group).await?;
    let committed = client.committed_offsets(&args.group).await?;
    let partitions = chosen(&client, &args, &target, &committed).await?;
    if partitions.is_empty() {
        return Err(nothing_to_move(&args));
    }
    let offsets = target.resolve(&client, &partitions, &committed).await?;
    let errors = match args.dry_run {
        true => BTreeMap::new(),
        false => commit(&client, &args.group, &offsets).await?,
    };
    let done = offsets.into_iter().filter(|(partition, _)| !errors.contains_key(partition));
    let rows = done.map(|(partition, offset)| row(partition, offset, &committed)).collect();
    print(rows, global.format)?;
    if args.dry_run {
        eprintln!("nothing was committed");
    }
    CliError::collect(errors.into_values().collect())
}

fn nothing_to_move(args: &SeekArgs) -> CliError {
    let nothing = |whose: &str| CliError::Input(format!("nothing to move: {whose}"));
    let there = if args.topics.is_empty() { "" } else { " there" };
    match (&args.to_group, &args.to_file) {
        (Some(other), _) => nothing(&format!("group '{other}' has committed nothing{there}"))
            .with_hint("see the groups with 'logway group list'"),
        (None, Some(path)) => nothing(&format!("{} names nothing{there}", path.display())),
        (None, None) => nothing(&format!("group '{}' has committed nothing{there}", args.group))
            .with_hint("name what to commit with --topic"),
    }
}

async fn target(client: &Client, args: &SeekArgs) -> Result<Target, CliError> {
    if let Some(group) = &args.to_group {
        let committed = client.committed_offsets(group).await?;
        let offsets = committed.into_iter().map(|(partition, at)| (partition, at.offset));
        return Ok(Target::Each(offsets.collect()));
    }
    match (&args.to_file, args.to, args.by) {
        (Some(path), _, _) => target::read_file(path).map(Target::Each),
        (None, Some(spec), _) => Ok(Target::To(spec)),
        // Clap lets no command line pass that has no target.
        (None, None, by) => Ok(Target::By(by.unwrap_or_default())),
    }
}

/// Refuses a group whose members would undo the change. The broker does as well, but with words
/// that only its authors understand (`UNKNOWN_MEMBER_ID`).
async fn check_empty(client: &Client, group: &str) -> Result<(), ClientError> {
    let members = match client.describe_group(group).await {
        Ok(description) => description.members.len(),
        // To commit creates it.
        Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => 0,
        Err(error) => return Err(error),
    };
    let message = match members {
        0 => return Ok(()),
        1 => "it has 1 member".to_owned(),
        _ => format!("it has {members} members"),
    };
    Err(ClientError::Refused {
        what: format!("move the offsets of group '{group}'"),
        code: ErrorCode::NonEmptyGroup,
        message: Some(message),
    })
}

/// The partitions to move.
async fn chosen(
    client: &Client,
    args: &SeekArgs,
    target: &Target,
    committed: &BTreeMap<TopicPartition, CommittedOffset>,
) -> Result<BTreeSet<TopicPartition>, CliError> {
    let mut partitions: BTreeSet<TopicPartition> = match target {
        Target::Each(offsets) => offsets.keys().cloned().collect(),
        Target::To(_) | Target::By(_) => committed.keys().cloned().collect(),
    };
    if args.topics.is_empty() {
        return Ok(partitions);
    }
    partitions.retain(|partition| args.topics.iter().any(|topic| topic.contains(partition)));
    if matches!(target, Target::To(_)) {
        // Who names a topic wants it committed, whether or not it has been before.
        let names = args.topics.iter().map(|topic| topic.name.clone()).collect();
        let metadata = client.await_topics(&names, MissingTopic::Refuse).await?;
        for topic in &args.topics {
            partitions.extend(topic.partitions(&metadata)?);
        }
    }
    Ok(partitions)
}

/// Commits, and returns what went wrong with single partitions.
async fn commit(
    client: &Client,
    group: &str,
    offsets: &BTreeMap<TopicPartition, Offset>,
) -> Result<BTreeMap<TopicPartition, ClientError>, ClientError> {
    let outcomes = client.commit_offsets(group, offsets).await?;
    let failed = |(partition, outcome): (_, Result<(), _>)| Some((partition, outcome.err()?));
    Ok(outcomes.into_iter().filter_map(failed).collect())
}

fn row(
    partition: TopicPartition,
    offset: Offset,
    committed: &BTreeMap<TopicPartition, CommittedOffset>,
) -> Row {
    Row {
        before: committed.get(&partition).map(|committed| committed.offset.0),
        topic: partition.topic,
        partition: partition.partition.0,
        after: offset.0,
    }
}

fn print(rows: Vec<Row>, format: Format) -> Result<(), CliError> {
    match format {
        Format::Json => output::print_json(&rows),
        Format::Text if rows.is_empty() => Ok(()),
        Format::Text => {
            let mut table = Table::new(&["TOPIC", "PARTITION", "BEFORE", "AFTER"]);
            for row in rows {
                table.row([
                    row.topic.to_string(),
                    row.partition.to_string(),
                    row.before.map(|offset| offset.to_string()).unwrap_or_default(),
                    row.after.to_string(),
                ]);
            }
            output::print(&table.render())
        }
    }
}
