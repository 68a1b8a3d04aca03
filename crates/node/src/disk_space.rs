//! How full the disks of the log directories are, as metrics.
//!
//! Asked of the file systems when somebody asks for the metrics. That can take for ever where a disk
//! hangs, so each directory is asked on a thread of its own, once at a time. Who reads the metrics waits
//! a moment for all of them. A directory that has not answered for a while is left out: an old number
//! would pass for a new one.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::{Instant, timeout_at};

use crate::Node;
use crate::log_dirs::ConfiguredDir;
use crate::replica::Replica;

/// How long who reads the metrics waits for all directories together.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// Older answers are not shown.
const SHOWN_MAX: Duration = Duration::from_secs(60);

/// The space of a file system.
#[derive(Debug, Clone, Copy)]
pub struct DiskSpace {
    /// All of it.
    pub total_bytes: i64,
    /// What a process without privileges can still use.
    pub usable_bytes: i64,
}

impl DiskSpace {
    /// Asks the file system of a path. Waits for its disk, which may hang.
    pub fn of(path: &Path) -> rustix::io::Result<DiskSpace> {
        let stat = rustix::fs::statvfs(path)?;
        let bytes =
            |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX);
        Ok(DiskSpace { total_bytes: bytes(stat.f_blocks), usable_bytes: bytes(stat.f_bavail) })
    }

    /// How much of it cannot be used any more, of 100.
    fn used_percent(self) -> u8 {
        let (total, usable) = (self.total_bytes.max(1), self.usable_bytes.max(0));
        let percent = i128::from(total - usable) * 100 / i128::from(total);
        u8::try_from(percent.clamp(0, 100)).unwrap_or(100)
    }
}

/// What was last heard of each log directory, in the order of `log.dirs`.
#[derive(Debug)]
pub(crate) struct DiskSpaces {
    dirs: Vec<Arc<Measured>>,
}

#[derive(Debug, Default)]
struct Measured {
    latest: Mutex<Option<(Instant, DiskSpace)>>,
    /// Held while the file system is asked.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl Measured {
    fn latest(&self) -> Option<DiskSpace> {
        let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.filter(|(at, _)| at.elapsed() < SHOWN_MAX).map(|(_, space)| space)
    }
}

impl DiskSpaces {
    /// Nothing was asked yet of so many directories.
    pub(crate) fn new(dirs: usize) -> DiskSpaces {
        DiskSpaces { dirs: (0..dirs).map(|_| Arc::default()).collect() }
    }
}

impl Node {
    /// Asks how full the disks of the log directories are. Ends soon, whether they have answered or not.
    pub async fn refresh_disk_space(&self) {
        let until = Instant::now() + WAIT_MAX;
        let mut asked = Vec::new();
        for (measured, dir) in self.disk_spaces.dirs.iter().zip(self.log_dirs.all()) {
            // One that hangs is not asked by a second thread.
            let Ok(asking) = Arc::clone(&measured.asking).try_lock_owned() else { continue };
            let (measured, path) = (Arc::clone(measured), dir.path().to_owned());
            asked.push(tokio::task::spawn_blocking(move || {
                let space = DiskSpace::of(&path).ok().map(|space| (Instant::now(), space));
                *measured.latest.lock().unwrap_or_else(PoisonError::into_inner) = space;
                drop(asking);
            }));
        }
        for asked in asked {
            // One that is late goes on by itself.
            let _ = timeout_at(until, asked).await;
        }
    }

    /// What was last heard of the disk that a replica is on; `None` where that was not asked, or did not answer.
    pub fn disk_space_of(&self, replica: &Replica) -> Option<DiskSpace> {
        let mut dirs = self.disk_spaces.dirs.iter().zip(self.log_dirs.all());
        let is_its = |dir: &ConfiguredDir| {
            dir.online().is_some_and(|online| online.directory_id() == replica.directory())
        };
        let (measured, _) = dirs.find(|(_, dir)| is_its(dir))?;
        measured.latest()
    }

    /// How full the fullest disk of the directories that can be used is, of 100; 0 where none has answered.
    pub(crate) fn fullest_disk_percent(&self) -> u8 {
        let online = self.disk_spaces.dirs.iter().zip(self.log_dirs.all());
        let known = online.filter(|(_, dir)| dir.online().is_some());
        known.filter_map(|(measured, _)| Some(measured.latest()?.used_percent())).max().unwrap_or(0)
    }

    /// Tells what is known of the directories that can be used.
    pub(crate) fn encode_disk_space(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let online = self.disk_spaces.dirs.iter().zip(self.log_dirs.all());
        let online = online.filter(|(_, dir)| dir.online().is_some());
        let known: Vec<(DirLabel, DiskSpace)> = online
            .filter_map(|(measured, dir)| Some((DirLabel::of(dir), measured.latest()?)))
            .collect();
        type Part = fn(&DiskSpace) -> i64;
        let families: [(&str, &str, Part); 2] = [
            (
                "logway_log_dir_free_bytes",
                "Bytes that are free on the disk of a log directory; absent while it cannot be used, or does not answer",
                |space| space.usable_bytes,
            ),
            (
                "logway_log_dir_total_bytes",
                "Bytes that the disk of a log directory has in all; absent while it cannot be used, or does not answer",
                |space| space.total_bytes,
            ),
        ];
        for (name, help, part) in families {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (label, space) in &known {
                ConstGauge::new(part(space)).encode(family.encode_family(label)?)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirLabel {
    log_dir: String,
}

impl DirLabel {
    fn of(dir: &ConfiguredDir) -> DirLabel {
        DirLabel { log_dir: dir.path().to_string_lossy().into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use logway_metadata::settings::BrokerSettings;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::log_levels::LogLevels;

    fn shown(registry: &Registry) -> Vec<(String, f64)> {
        let mut text = String::new();
        encode(&mut text, registry).expect("is text");
        let lines = text.lines().filter(|line| line.starts_with("logway_log_dir_"));
        let parts = lines.map(|line| line.rsplit_once(' ').expect("has a value"));
        parts.map(|(name, value)| (name.to_owned(), value.parse().expect("is a number"))).collect()
    }

    #[test]
    fn how_full_a_disk_is_is_told_of_100() {
        let used =
            |total_bytes, usable_bytes| DiskSpace { total_bytes, usable_bytes }.used_percent();
        assert_eq!([used(200, 200), used(200, 39), used(200, 0)], [0, 80, 100]);
        assert_eq!(used(i64::MAX, 1), 99);
        assert_eq!(used(0, 0), 100, "a file system of nothing");
    }

    #[tokio::test]
    async fn who_asks_does_not_wait_for_a_disk_that_hangs() {
        let dir = tempfile::tempdir().expect("a directory");
        let paths = ["a", "b"].map(|name| dir.path().join(name).display().to_string());
        let settings = [("log.dirs", &*paths.join(","))];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = BrokerSettings::new(settings).expect("are valid");
        let mut registry = Registry::default();
        let node = Node::start(settings, None, LogLevels::default(), &mut registry).await;
        let node = node.expect("starts");
        assert!(shown(&registry).is_empty(), "nothing was asked yet");

        // The second directory has been asked, and does not answer.
        let hangs = Arc::clone(&node.disk_spaces.dirs[1].asking).lock_owned().await;
        let until = Instant::now() + 20 * WAIT_MAX;
        while shown(&registry).is_empty() {
            timeout_at(until, node.refresh_disk_space()).await.expect("ends soon");
        }
        let names: Vec<_> = shown(&registry).into_iter().map(|(name, _)| name).collect();
        let of = |what| format!("logway_log_dir_{what}_bytes{{log_dir=\"{}\"}}", paths[0]);
        assert_eq!(names, [of("free"), of("total")]);

        drop(hangs);
        while shown(&registry).len() < 4 {
            timeout_at(until, node.refresh_disk_space()).await.expect("ends soon");
        }
        let [(_, free), _, (_, total), _] = &shown(&registry)[..] else { panic!("two of each") };
        assert!(0.0 < *free && free <= total, "{free} of {total}");
        node.stop().await.expect("stops");
    }
}
