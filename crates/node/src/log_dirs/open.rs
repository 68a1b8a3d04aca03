//! Opening the log directories.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::thread;

use logway_log::checkpoint::known_dirs::{self, GIVEN_UP_DIRS_FILE, KNOWN_DIRS_FILE, KnownDirs};
use logway_log::checkpoint::{MetaProperties, remove_file};
use logway_log::fs::Fs;
use logway_log::{
    ACCEPT_LOSS_FILE, LogConfig, LogDir, LogDirOptions, LogError, LogMetrics, random_uuid,
};
use logway_metadata::settings::BrokerSettings;
use logway_model::{ClusterId, DirectoryId, TopicPartition};
use logway_quorum::MetadataQuorum;

use super::{ConfiguredDir, DirState, FailureReports, LogDirs};
use crate::cluster::Joined;
use crate::start::{METADATA_DIR, NodeError};

/// The directories, and what they say of their owner.
pub(crate) struct OpenedDirs {
    pub(crate) log_dirs: LogDirs,
    pub(crate) cluster_id: ClusterId,
}

type Opened = Result<LogDir, LogError>;

/// What opening the directories takes.
pub(crate) struct Opening<'a> {
    pub(crate) settings: &'a BrokerSettings,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) metrics: LogMetrics,
    pub(crate) reports: FailureReports,
    /// The cluster that has admitted this node just now.
    pub(crate) joined: Option<Joined>,
}

impl LogDirs {
    /// Opens the directories of `log.dirs`, those that are missing are made.
    ///
    /// One that cannot be used is offline, with its error in the log.
    ///
    /// # Errors
    ///
    /// If the first cannot be used, or is not the one that holds the metadata; or if another
    /// process uses one of them: then it may be about to use all of them.
    pub(crate) fn open(opening: &Opening<'_>) -> Result<OpenedDirs, NodeError> {
        let fs = &*opening.fs;
        let paths: Vec<PathBuf> = opening.settings.log_dirs.iter().map(absolute).collect();
        let owners: Vec<_> = paths
            .iter()
            .map(|path| MetaProperties::read(fs, &path.join(MetaProperties::FILE)))
            .collect();
        let mut known = known_dirs::read(fs, &paths[0].join(KNOWN_DIRS_FILE))?;
        let mut given_up = known_dirs::read(fs, &paths[0].join(GIVEN_UP_DIRS_FILE))?;
        known.retain(|_, id| !given_up.values().any(|given_up| given_up == id));
        let joined = opening.joined;
        let found = find_cluster(fs, &paths, &owners, &known)?;
        let cluster_id = found.unwrap_or_else(|| {
            joined.map_or_else(|| ClusterId(random_uuid()), |joined| joined.cluster)
        });

        let refused = refusals(fs, &paths, &owners, &known);
        let opened: Vec<Opened> = thread::scope(|scope| {
            let open = |(index, (path, refused)): (usize, (&PathBuf, Option<LogError>))| {
                let own_name = joined.filter(|_| index == 0).map(|joined| joined.directory);
                let (path, id) = (path.clone(), known.get(path).copied().or(own_name));
                scope.spawn(move || match refused {
                    Some(error) => Err(error),
                    None => open_one(opening, path, cluster_id, id),
                })
            };
            let opening: Vec<_> = paths.iter().zip(refused).enumerate().map(open).collect();
            let join = |opening: thread::ScopedJoinHandle<'_, Opened>| {
                opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            opening.into_iter().map(join).collect()
        });
        let is_fatal = |(index, opened): (usize, &Opened)| match opened {
            Err(error @ LogError::Locked { .. }) => Some(error.clone()),
            Err(error) if index == 0 => Some(error.clone()),
            _ => None,
        };
        if let Some(error) = opened.iter().enumerate().find_map(is_fatal) {
            return Err(error.into());
        }
        let dirs = paths.into_iter().zip(opened).map(|(path, opened)| {
            let known_id = known.get(&path).copied();
            ConfiguredDir::new(path, opened, known_id)
        });
        let dirs: Vec<ConfiguredDir> = dirs.collect();
        let is_configured = |id: DirectoryId| dirs.iter().any(|dir| dir.id() == Some(id));
        let mut missing = known;
        missing.retain(|_, id| !is_configured(*id));
        // One that is back is lost like any other when it is missing again.
        given_up.retain(|_, id| !is_configured(*id));
        let reports = opening.reports.clone();
        Ok(OpenedDirs { log_dirs: LogDirs { dirs, missing, given_up, reports }, cluster_id })
    }

    /// Writes down which directories there are. To be done when there is metadata: the file tells
    /// the next start that there must be.
    ///
    /// # Errors
    ///
    /// If that cannot be done, unless the disk is full.
    pub(crate) fn write_known(&self, fs: &dyn Fs) -> Result<(), LogError> {
        let root = &self.dirs[0].path;
        let write = |name: &str, dirs: &KnownDirs| {
            let path = root.join(name);
            match known_dirs::read(fs, &path)? == *dirs {
                true => Ok(()),
                false => known_dirs::write(fs, &path, dirs),
            }
        };
        // In this order, as one that is in both is given up.
        let known = write(KNOWN_DIRS_FILE, &self.known());
        match known.and_then(|()| write(GIVEN_UP_DIRS_FILE, &self.given_up)) {
            // Without it the broker can make space, and it is only needed when something is missing.
            Err(error) if error.is_disk_full() => {
                tracing::error!(%error, "the log directories cannot be written down; the next start tries again");
                Ok(())
            }
            result => result,
        }
    }

    /// The ids of the directories as far as they are known. Of two that were under one path, the one
    /// that is there now.
    fn known(&self) -> KnownDirs {
        let mut known = self.missing.clone();
        known.extend(self.dirs.iter().filter_map(|dir| Some((dir.path.clone(), dir.id()?))));
        known
    }
}

impl ConfiguredDir {
    fn new(path: PathBuf, opened: Opened, known_id: Option<DirectoryId>) -> ConfiguredDir {
        let state = match opened {
            Ok(dir) => {
                let report = dir.recovery_report();
                tracing::info!(path = %path.display(), id = %dir.directory_id(),
                    logs = report.opened_logs, elapsed = ?report.elapsed, "a log directory is open");
                DirState::Online(Arc::new(dir))
            }
            Err(error) => {
                tracing::error!(path = %path.display(), %error,
                    "a log directory cannot be used; the partitions in it are offline");
                DirState::Offline { id: known_id, error }
            }
        };
        ConfiguredDir { path, state: RwLock::new(state) }
    }
}

/// The same wherever the broker is started. A path that cannot be made absolute is left as it is,
/// and opening it says why.
fn absolute(path: &PathBuf) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.clone())
}

type Owner = Result<Option<MetaProperties>, LogError>;

/// The cluster that the first directory belongs to; `None` if no directory belongs to any.
///
/// A new cluster in the first directory while another has an older one's logs would take them all
/// for strays: the order of `log.dirs` was changed, or the first disk is not mounted. So would one
/// in place of metadata that was lost: `known-log-dirs` is written when there is some.
fn find_cluster(
    fs: &dyn Fs,
    paths: &[PathBuf],
    owners: &[Owner],
    known: &KnownDirs,
) -> Result<Option<ClusterId>, NodeError> {
    let (first, log) = (&paths[0], MetadataQuorum::log_path(&paths[0].join(METADATA_DIR)));
    let with_metadata = || paths.iter().skip(1).find(|path| has_metadata(fs, path)).cloned();
    let elsewhere = |other| NodeError::MetadataElsewhere { first: first.clone(), other };
    let had_metadata = fs.exists(&first.join(KNOWN_DIRS_FILE)).unwrap_or(false);
    match &owners[0] {
        Err(error) => Err(error.clone().into()),
        Ok(Some(owner)) if has_metadata(fs, first) => Ok(Some(owner.cluster_id)),
        Ok(Some(owner)) => match (with_metadata(), paths.iter().find(|path| has_logs(fs, path))) {
            _ if had_metadata => Err(NodeError::MetadataLogMissing(log)),
            (Some(other), _) => Err(elsewhere(other)),
            (None, Some(_)) if has_metadata_dir(fs, first) => {
                Err(NodeError::MetadataLogMissing(log))
            }
            (None, Some(path)) => Err(NodeError::MetadataMissing(path.clone())),
            // The very first start has ended before there was any metadata.
            (None, None) => Ok(Some(owner.cluster_id)),
        },
        // Whether it may be opened is asked later, by its path.
        Ok(None) if known.contains_key(first) => {
            let others = owners.iter().filter_map(|owner| owner.as_ref().ok()?.as_ref());
            Ok(others.map(|owner| owner.cluster_id).next())
        }
        Ok(None) if had_metadata || has_metadata(fs, first) => {
            Err(LogError::IdentityMissing { dir: first.clone() }.into())
        }
        Ok(None) => {
            let is_owned = |(_, owner): &(&PathBuf, &Owner)| matches!(owner, Ok(Some(_)));
            match paths.iter().zip(owners).find(is_owned) {
                Some((other, _)) => Err(elsewhere(with_metadata().unwrap_or(other.clone()))),
                None => Ok(None),
            }
        }
    }
}

fn has_metadata_dir(fs: &dyn Fs, path: &Path) -> bool {
    fs.exists(&path.join(METADATA_DIR)).unwrap_or(false)
}

/// Whether the log of the metadata is in a log directory. One that cannot be looked for is taken to
/// be there: opening it says why.
fn has_metadata(fs: &dyn Fs, path: &Path) -> bool {
    fs.exists(&MetadataQuorum::log_path(&path.join(METADATA_DIR))).unwrap_or(true)
}

fn has_logs(fs: &dyn Fs, path: &Path) -> bool {
    let entries = fs.read_dir(path).unwrap_or_default();
    entries.iter().any(|entry| {
        entry.name.to_str().is_some_and(|name| TopicPartition::from_dir_name(name).is_some())
    })
}

/// Why directories must not be opened, by what is known before.
fn refusals(
    fs: &dyn Fs,
    paths: &[PathBuf],
    owners: &[Owner],
    known: &KnownDirs,
) -> Vec<Option<LogError>> {
    let is_accepted = |path: &Path| fs.exists(&path.join(ACCEPT_LOSS_FILE)).unwrap_or(false);
    // The ids that they have, or are about to get again.
    let id_of = |(path, owner): (&PathBuf, &Owner)| match owner {
        Err(_) => None,
        Ok(Some(owner)) => Some(owner.directory_id),
        Ok(None) => known.get(path).copied().filter(|_| is_accepted(path)),
    };
    let ids: Vec<Option<DirectoryId>> = paths.iter().zip(owners).map(id_of).collect();
    let refusal = |(index, path): (usize, &PathBuf)| {
        if let Err(error) = &owners[index] {
            return Some(error.clone());
        }
        let Some(id) = ids[index] else {
            let id = *known.get(path)?;
            return Some(LogError::DirectoryEmptied { dir: path.clone(), id });
        };
        let is_other = |(other, other_id): &(usize, &Option<DirectoryId>)| {
            *other != index && **other_id == Some(id)
        };
        let (other, _) = ids.iter().enumerate().find(is_other)?;
        let (dir, other) = (path.clone(), paths[other].clone());
        Some(LogError::DuplicateDirectory { dir, other, id })
    };
    paths.iter().enumerate().map(refusal).collect()
}

/// Opens a directory. One that was emptied, which somebody has accepted, keeps its id, so that the
/// partitions that were in it begin anew there.
fn open_one(
    opening: &Opening<'_>,
    path: PathBuf,
    cluster_id: ClusterId,
    known_id: Option<DirectoryId>,
) -> Opened {
    let Opening { settings, fs, metrics, reports, .. } = opening;
    let defaults = LogDirOptions::new(path.clone(), settings.node_id, cluster_id);
    let options = LogDirOptions {
        new_directory_id: known_id,
        failure_listener: Some(reports.listener(&path)),
        fs: Arc::clone(fs),
        checkpoint_interval: settings.checkpoint_interval,
        retention_check_interval: settings.retention_check_interval,
        journal_bytes: settings.journal_bytes,
        producer_expiration_ms: i64::try_from(settings.producer_id_expiration.as_millis())
            .unwrap_or(i64::MAX),
        queue_bytes_max: match settings.log_dirs.len() {
            1 => defaults.queue_bytes_max,
            // What waits for a disk that hangs, and what is in its writer's hands: half of it.
            _ => settings.requests_memory_max_bytes / 4,
        },
        producers_max: settings.producers_max / settings.log_dirs.len(),
        // Until the topics' own settings are known nothing may be deleted.
        default_config: Arc::new(LogConfig { retention_ms: None, ..LogConfig::default() }),
        ..defaults
    };
    let dir = LogDir::open(options, metrics.clone())?;
    remove_file(&**fs, &path.join(ACCEPT_LOSS_FILE))?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use logway_log::fs::SimFs;
    use logway_log::fs::sim::{Failure, Fault, SimOperation};

    use super::*;

    fn open(fs: &SimFs) -> Result<OpenedDirs, NodeError> {
        let settings = [("log.dirs".to_owned(), "/a,/b".to_owned())];
        let fs: Arc<dyn Fs> = Arc::new(fs.clone());
        let (reports, _failures) = FailureReports::new(Arc::clone(&fs));
        LogDirs::open(&Opening {
            settings: &BrokerSettings::new(settings).expect("are valid"),
            fs,
            metrics: LogMetrics::new(),
            reports,
            joined: None,
        })
    }

    #[test]
    fn a_full_disk_does_not_keep_the_broker_from_starting() {
        let fs = SimFs::new(1);
        let full = Fault::new(SimOperation::Write, Failure::NoSpace).in_path(KNOWN_DIRS_FILE);
        fs.inject(full);
        let opened = open(&fs).map_err(|error| error.to_string()).expect("opens");
        assert_eq!(opened.log_dirs.offline_count(), 0);
        opened.log_dirs.write_known(&fs).expect("a full disk is no error");
        opened.log_dirs.close().expect("closes");
        drop(opened);
        let path = Path::new("/a").join(KNOWN_DIRS_FILE);
        assert!(!fs.exists(&path).expect("can be looked for"));
        fs.heal();
        let opened = open(&fs).map_err(|error| error.to_string()).expect("opens");
        assert_eq!(opened.log_dirs.offline_count(), 0);
        opened.log_dirs.write_known(&fs).expect("there is space");
        assert!(fs.exists(&path).expect("can be looked for"));
    }
}
