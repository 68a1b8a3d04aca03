//! What the operating system says of this process, read when it is asked for.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Resident memory, CPU time and open files, from `/proc/self`; nothing where there is none.
#[derive(Debug)]
pub struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(bytes) = resident_bytes() {
            let gauge = ConstGauge::new(bytes);
            let name = "process_resident_memory_bytes";
            let metric =
                encoder.encode_descriptor(name, "Resident memory", None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let help = "User and system CPU time";
            let metric = encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                counter.metric_type(),
            )?;
            counter.encode(metric)?;
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            let gauge = ConstGauge::new(i64::try_from(open.count()).unwrap_or(i64::MAX));
            let help = "Open file descriptors";
            let metric =
                encoder.encode_descriptor("process_open_fds", help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}

/// `VmRSS` of `/proc/self/status`, which is in KiB.
fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// `utime + stime` of `/proc/self/stat`, in the 1/100 s that Linux reports to programs.
fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses and may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}
