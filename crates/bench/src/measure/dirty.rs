//! Waiting for the disk between two runs.

use std::fs;
use std::time::{Duration, Instant};

/// So much unwritten memory is no burden on the next run.
const DIRTY_BYTES_MAX: u64 = 64 << 20;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until the system has written back most of what the run before left in memory, so that
/// one side's writes are not charged to the other; gives up in time, as a machine that others use is
/// never quiet.
pub(crate) async fn settle(patience: Duration) {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        if dirty_bytes(&meminfo) <= DIRTY_BYTES_MAX {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn dirty_bytes(meminfo: &str) -> u64 {
    let lines = meminfo.lines();
    let values = lines.filter_map(|line| {
        let value = line.strip_prefix("Dirty:").or_else(|| line.strip_prefix("Writeback:"))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    values.sum::<u64>() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_and_writeback_are_added() {
        let meminfo = "MemFree: 7 kB\nDirty:      3 kB\nWriteback:  2 kB\nWritebackTmp: 9 kB\n";
        assert_eq!(dirty_bytes(meminfo), 5 << 10);
        assert_eq!(dirty_bytes(""), 0);
    }
}
