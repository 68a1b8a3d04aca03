//! What a session would do to a broker that it has not started, so that its user can be asked.

use std::fmt;
use std::time::Duration;

use crate::load::Run;

/// All runs of an experiment on a broker that runs already.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    runs: u64,
    /// Warm-up and measurement; what is written before a run that reads comes on top.
    lasts: Duration,
    /// Bytes of batches, at most.
    bytes_max: u64,
    /// The most of one run, which is what the topic of that run holds.
    bytes_of_run_max: u64,
}

impl Plan {
    /// So many runs with so many bytes each.
    pub(super) fn add(&mut self, runs: u32, run: &Run, bytes_max: u64) {
        self.runs += u64::from(runs);
        self.lasts += (run.warm_up + run.measured) * runs;
        self.bytes_max = self.bytes_max.saturating_add(bytes_max.saturating_mul(runs.into()));
        self.bytes_of_run_max = self.bytes_of_run_max.max(bytes_max);
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { runs, lasts, bytes_max, bytes_of_run_max } = *self;
        let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        write!(
            f,
            "{runs} for about {}, at most {} written in all and {} in a run",
            duration(lasts),
            size(bytes_max),
            size(bytes_of_run_max),
        )
    }
}

fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 100.0 => format!("{} s", seconds.ceil()),
        seconds => format!("{} min", (seconds / 60.0).ceil()),
    }
}

fn size(bytes: u64) -> String {
    match bytes as f64 / 1e6 {
        megabytes if megabytes < 1000.0 => format!("{} MB", megabytes.ceil()),
        megabytes => format!("{:.1} GB", megabytes / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_plan_adds_up() {
        let run = Run {
            warm_up: Duration::from_millis(300),
            measured: Duration::from_secs(1),
            preloaded_bytes: 0,
            empty_partitions: 0,
            sent_bytes_max: None,
            stop: Arc::default(),
        };
        let mut plan = Plan::default();
        plan.add(1, &run, 7_000_000);
        assert_eq!(
            plan.to_string(),
            "1 run for about 2 s, at most 7 MB written in all and 7 MB in a run"
        );
        plan.add(100, &run, 500_000_000);
        let expected =
            "101 runs for about 3 min, at most 50.0 GB written in all and 500 MB in a run";
        assert_eq!(plan.to_string(), expected);
        plan.add(3, &run, u64::MAX);
        assert_eq!(plan.bytes_max, u64::MAX);
    }
}
