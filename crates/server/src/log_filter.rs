//! What of the process's log is written, and the way to change it: there is one log in a process.

use std::sync::OnceLock;

use logway_broker::log_levels::{ApplyFilter, LogLevels};

static FILTER: OnceLock<LogFilter> = OnceLock::new();

struct LogFilter {
    base: String,
    reload: ApplyFilter,
}

/// Says which filter is in force, in `tracing`'s filter language, and how another one is put in its
/// place. What was said first counts.
pub fn set(base: String, reload: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) {
    let _ = FILTER.set(LogFilter { base, reload: Box::new(reload) });
}

/// Lets the clients of a broker change the filter.
pub(crate) fn connect(levels: &LogLevels) {
    if let Some(filter) = FILTER.get() {
        levels.connect(&filter.base, Box::new(|text| (filter.reload)(text)));
    }
}
