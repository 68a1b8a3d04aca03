//! Looking at data directories, for `logway log verify` and `logway log repair`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use logway_log::LogError;
use logway_log::fs::RealFs;
use logway_log::inspect::{self, Access, Change, DataDir, Problem, Verified};

use super::{metadata, no_partitions};
use crate::cli::error::CliError;

/// A partition that was looked at, or the data directory's own files.
pub(super) struct Checked<'a> {
    /// The data directory.
    pub(super) data: &'a DataDir,
    /// The partition's directory, or the data directory.
    pub(super) dir: &'a Path,
    /// What was looked at; `None` for the data directory's own files.
    pub(super) verified: Option<Verified>,
    pub(super) problems: Vec<Problem>,
    /// What a repair does.
    pub(super) changes: Vec<Change>,
}

/// A data directory, and what of it is looked at.
struct Root {
    data: DataDir,
    partitions: Vec<PathBuf>,
    /// All partitions, and the directory's own files.
    is_whole: bool,
    /// What is wrong with the metadata in it.
    metadata_problem: Option<Problem>,
}

/// Looks at data directories, or directories of partitions, one partition after the other.
pub(super) fn check_all(
    dirs: &[PathBuf],
    access: Access,
    mut on_checked: impl FnMut(Checked<'_>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut roots = open_all(dirs, access)?;
    if access != Access::BesideBroker {
        expect_logs(&mut roots);
    }
    let bar = progress(roots.iter().map(|root| root.partitions.len() as u64).sum());
    // What is printed meanwhile stands above the bar.
    let mut on_checked = |checked: Checked<'_>| bar.suspend(|| on_checked(checked));
    for root in &mut roots {
        root.check(&bar, &mut on_checked)?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// How many of the partitions were looked at; drawn on stderr if that is a terminal.
fn progress(partitions: u64) -> ProgressBar {
    const TEMPLATE: &str = "{bar:40} {pos} of {len} partitions, {elapsed}, {eta} left {msg}";
    let style =
        ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    let target = ProgressDrawTarget::stderr();
    ProgressBar::with_draw_target(Some(partitions), target).with_style(style)
}

impl Root {
    fn open(path: &Path, access: Access) -> Result<Root, CliError> {
        let data = DataDir::open(Arc::new(RealFs), path, access).map_err(with_advice)?;
        Ok(Root { data, partitions: Vec::new(), is_whole: false, metadata_problem: None })
    }

    fn check(
        &mut self,
        bar: &ProgressBar,
        on_checked: &mut impl FnMut(Checked<'_>) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        for dir in &self.partitions {
            bar.set_message(dir.display().to_string());
            let mut problems = Vec::new();
            let checked = self.data.check_partition(dir, |problem| problems.push(problem))?;
            on_checked(Checked {
                data: &self.data,
                dir,
                verified: Some(checked.verified),
                problems,
                changes: checked.changes,
            })?;
            bar.inc(1);
        }
        if !self.is_whole {
            return Ok(());
        }
        let mut problems: Vec<Problem> = self.metadata_problem.take().into_iter().collect();
        let changes = self.data.check_files(|problem| problems.push(problem));
        let (data, dir) = (&self.data, self.data.path());
        on_checked(Checked { data, dir, verified: None, problems, changes })
    }
}

/// Takes the data directories, each once: their locks are for one.
fn open_all(dirs: &[PathBuf], access: Access) -> Result<Vec<Root>, CliError> {
    let mut roots: Vec<Root> = Vec::new();
    for dir in dirs {
        let is_partition = !inspect::segments(&RealFs, dir)?.is_empty();
        let path = if is_partition { parent_of(dir) } else { dir.clone() };
        let is_same = |root: &Root| absolute(root.data.path()) == absolute(&path);
        let index = match roots.iter().position(is_same) {
            Some(index) => index,
            None => {
                roots.push(Root::open(&path, access)?);
                roots.len() - 1
            }
        };
        let root = &mut roots[index];
        if is_partition && !root.is_whole {
            root.partitions.push(dir.clone());
        } else if !is_partition {
            root.partitions = root.data.partition_dirs()?;
            root.is_whole = true;
        }
    }
    // Several directories are often what a pattern of the shell has found.
    roots.retain(|root| !root.partitions.is_empty() || root.data.is_log_dir());
    match dirs.first().filter(|_| roots.is_empty()) {
        Some(first) => Err(no_partitions(first)),
        None => Ok(roots),
    }
}

/// Has the logs compared with the metadata, which is in one of a broker's data directories.
fn expect_logs(roots: &mut [Root]) {
    for index in 0..roots.len() {
        let owner = roots[index].data.owner();
        match metadata::read(roots[index].data.path(), owner) {
            Err(problem) => roots[index].metadata_problem = Some(problem),
            Ok(None) => {}
            Ok(Some(expected)) => {
                let cluster = owner.map(|owner| owner.cluster_id);
                for (other, root) in roots.iter_mut().enumerate() {
                    let of_other = root.data.owner().map(|owner| owner.cluster_id);
                    if other == index || (cluster.is_some() && of_other == cluster) {
                        root.data.expect(expected.clone());
                    }
                }
            }
        }
    }
}

pub(super) fn with_advice(error: LogError) -> CliError {
    let is_locked = matches!(error, LogError::Locked { .. });
    match CliError::from(error) {
        error if is_locked => error.with_hint(
            "a broker runs on it: stop that one; 'logway log verify --while-running' looks at it all \
             the same",
        ),
        error => error,
    }
}

fn parent_of(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) => PathBuf::from("."),
        None => dir.to_owned(),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
