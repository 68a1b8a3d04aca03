//! `logway log forget-dir`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use logway_log::checkpoint::MetaProperties;
use logway_log::checkpoint::known_dirs::{self, KNOWN_DIRS_FILE, KnownDirs};
use logway_log::fs::RealFs;
use logway_log::inspect::{Access, DataDir};
use logway_model::{DirectoryId, TopicName};
use schemars::JsonSchema;
use serde::Serialize;

use super::check::with_advice;
use super::metadata;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};
use crate::cli::quantity;

/// Give up a log directory that is lost, and what is in it
///
/// A broker remembers each log directory that it has used. One that is missing from log.dirs, or was
/// emptied, keeps its partitions offline, as its disk may come back. Once it is given up, the next start
/// makes its partitions anew in the other directories: they are empty and begin at offset 0. The broker
/// must be stopped.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway log forget-dir logway-data /disk-2/logway --dry-run
  logway log forget-dir logway-data /disk-2/logway")]
pub(in crate::cli) struct ForgetDirArgs {
    /// The first of log.dirs, which holds the metadata
    #[arg(value_name = "DATA-DIR")]
    data_dir: PathBuf,
    /// The directory that is lost, by its path or its id
    #[arg(value_name = "LOST-DIR")]
    lost: PathBuf,
    /// Say what would be given up, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// What is given up.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    /// The directory's path; `null` if only its id is known
    directory: Option<PathBuf>,
    /// The directory's id
    directory_id: String,
    /// What was in it
    partitions: Vec<LostPartition>,
    /// Not with `--dry-run`
    done: bool,
}

/// A partition whose replica was in the directory.
#[derive(Debug, Serialize, JsonSchema)]
struct LostPartition {
    #[schemars(with = "String")]
    topic: TopicName,
    partition: i32,
}

pub(super) fn run(args: &ForgetDirArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let root = &args.data_dir;
    // Its lock keeps a broker away meanwhile.
    let access = if args.dry_run { Access::Read } else { Access::Repair };
    let data = DataDir::open(Arc::new(RealFs), root, access).map_err(with_advice)?;
    let known = known_dirs::read(&RealFs, &root.join(KNOWN_DIRS_FILE))?;
    let expected = metadata::read(root, data.owner())
        .map_err(|problem| {
            CliError::Input(format!("{}: {}", problem.path.display(), problem.reason))
        })?
        .ok_or_else(|| no_metadata(root))?;
    let in_use = expected.logs.values().map(|log| log.directory);
    let (dir, id) = find(&args.lost, &known, in_use)?;
    if data.owner().is_some_and(|owner| owner.directory_id == id) {
        let root = root.display();
        return Err(CliError::Input(format!("{root} holds the metadata: it cannot be given up")));
    }
    if let Some(dir) = &dir
        && let Ok(Some(found)) = MetaProperties::read(&RealFs, &dir.join(MetaProperties::FILE))
        && found.directory_id == id
    {
        let dir = dir.display();
        let there = CliError::Input(format!("{dir} is there, with all that was put into it"));
        return Err(there.with_hint("name it in log.dirs; to give it up, move it away first"));
    }
    let lost = expected.logs.iter().filter(|(_, log)| log.directory == id);
    let lost = lost.map(|(partition, _)| LostPartition {
        topic: partition.topic.clone(),
        partition: partition.partition.0,
    });
    let partitions: Vec<LostPartition> = lost.collect();
    if !args.dry_run {
        // Without a path of its own, one that no directory can have.
        let dir = dir.clone().unwrap_or_else(|| PathBuf::from(id.to_string()));
        known_dirs::give_up(&RealFs, root, &dir, id)?;
    }
    let directory_id = id.to_string();
    let row = Row { directory: dir, directory_id, partitions, done: !args.dry_run };
    match global.format {
        Format::Json => output::print_json(&row),
        Format::Text => output::print(&text(&row)),
    }
}

/// The directory that is meant: by its path as the broker remembers it, or by its id.
fn find(
    lost: &Path,
    known: &KnownDirs,
    mut in_use: impl Iterator<Item = DirectoryId>,
) -> Result<(Option<PathBuf>, DirectoryId), CliError> {
    let path = std::path::absolute(lost).unwrap_or_else(|_| lost.to_owned());
    if let Some(id) = known.get(&path) {
        return Ok((Some(path), *id));
    }
    if let Some(id) = lost.to_str().and_then(|id| id.parse().ok()).map(DirectoryId) {
        let by_id = known.iter().find(|(_, known)| **known == id);
        let is_known = by_id.is_some() || in_use.any(|used| used == id);
        if is_known && id != DirectoryId::UNASSIGNED {
            return Ok((by_id.map(|(path, _)| path.clone()), id));
        }
    }
    let listed: Vec<String> =
        known.iter().map(|(dir, id)| format!("{} ({id})", dir.display())).collect();
    let unknown = CliError::Input(format!("no log directory of this broker is {}", lost.display()));
    Err(unknown.with_hint(format!("known are {}", listed.join(", "))))
}

fn no_metadata(root: &Path) -> CliError {
    let error = CliError::Input(format!("{} does not hold the metadata", root.display()));
    error.with_hint("the first of log.dirs does")
}

fn text(row: &Row) -> String {
    let name =
        row.directory.as_ref().map_or(row.directory_id.clone(), |dir| dir.display().to_string());
    let count = quantity::count(row.partitions.len() as u64);
    let what = if row.done { "given up" } else { "would be given up" };
    let name_of = |lost: &LostPartition| format!("{}-{}", lost.topic, lost.partition);
    let names: Vec<String> = row.partitions.iter().map(name_of).collect();
    let mut text = format!("{name} {what}, with {count} partitions");
    if !row.partitions.is_empty() {
        text += &format!(
            ": {}\nthe next start makes them anew, empty, in the other directories",
            names.join(", ")
        );
    }
    text + "\n"
}
