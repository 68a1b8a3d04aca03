//! The machine that a run was made on.

use std::fs;
use std::path::Path;

use anyhow::Context;
use rustix::fs::statvfs;
use serde::{Deserialize, Serialize};

/// What a reader must know to compare figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// As the processor names itself.
    pub processor: String,
    /// How many the system uses.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The distribution and its release, as `/etc/os-release` has it.
    pub system: String,
    /// The kernel's name and version.
    pub kernel: String,
    /// The congestion control of TCP that sockets have unless they choose another: some send by a
    /// timetable, within the machine too.
    pub congestion_control: String,
    /// The file system that holds the brokers' data, and its device.
    pub data_file_system: String,
    /// Processes that wanted to run, averaged over the minute before the run.
    pub load_average: f64,
}

impl Machine {
    /// This machine, with the brokers' data in `data_dir`.
    pub(crate) fn look(data_dir: &Path) -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
        Machine {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            system: system(&read("/etc/os-release")),
            kernel: read("/proc/sys/kernel/ostype").trim().to_owned()
                + " "
                + read("/proc/sys/kernel/osrelease").trim(),
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control").trim().to_owned(),
            data_file_system: file_system(&read("/proc/self/mounts"), &data_dir),
            load_average: load_average().unwrap_or(0.0),
        }
    }
}

/// Processes that wanted to run, or waited for a disk, averaged over the minute before.
pub(super) fn load_average() -> Option<f64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split(' ').next()?.parse().ok()
}

/// What files may still take of the file system that holds a directory.
///
/// # Errors
///
/// There is no such directory.
pub(crate) fn free_bytes(directory: &Path) -> anyhow::Result<u64> {
    let found =
        statvfs(directory).with_context(|| format!("cannot see {}", directory.display()))?;
    Ok(found.f_bavail * found.f_frsize)
}

/// The value of the first `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib = field(meminfo, "MemTotal").and_then(|value| value.strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// The name for people to read, with or without quotes.
fn system(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("unknown", |name| name.trim().trim_matches(['"', '\''])).to_owned()
}

/// The mount with the longest path above `directory`; a later one hides an earlier one.
fn file_system(mounts: &str, directory: &Path) -> String {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, path, kind) = (words.next()?, words.next()?, words.next()?);
        directory.starts_with(path).then_some((path.len(), format!("{kind} on {device}")))
    });
    mounts.max_by_key(|(length, _)| *length).map_or("unknown".to_owned(), |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_is_the_file_system() {
        let mounts =
            "/dev/a / ext4 rw 0 0\n/dev/b /data xfs rw 0 0\ntmpfs /database tmpfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/data/logs")), "xfs on /dev/b");
        assert_eq!(file_system(mounts, Path::new("/home")), "ext4 on /dev/a");
        assert_eq!(file_system("", Path::new("/home")), "unknown");
    }

    #[test]
    fn a_system_has_a_name() {
        let quoted = "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=x\n";
        assert_eq!(system(quoted), "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(system("PRETTY_NAME=Arch\n"), "Arch");
        assert_eq!(system("NAME=x\n"), "unknown");
    }

    #[test]
    fn a_place_that_is_there_has_an_end() {
        let free = free_bytes(Path::new(".")).expect("we are here");
        assert!(free < 1 << 60, "{free}");
        assert!(free_bytes(Path::new("/no/such")).is_err());
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::look(Path::new("."));
        assert!(machine.cores > 0 && machine.memory_bytes > 0 && !machine.kernel.trim().is_empty());
    }
}
