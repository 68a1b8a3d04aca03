//! How much the parts of the broker write to its log, which can be changed while it runs (KIP-412).
//!
//! What was changed is not kept: a restart begins with the filter that the process was started with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use logway_model::ErrorCode;

use crate::failure::Failure;

/// The one that counts where nothing is said of a part.
pub const ROOT: &str = "root";

/// The parts whose level can be changed, in the order of their names. One includes those whose names
/// begin with its own. They are the modules that the log shows, with a dot where that has two colons:
/// Kafka's tool takes no colons.
pub const LOGGERS: &[&str] = &[
    "logway_broker",
    "logway_broker.clients",
    "logway_broker.connection",
    "logway_broker.groups",
    "logway_broker.handlers",
    "logway_broker.log_dirs",
    "logway_broker.replica_moves",
    "logway_broker.telemetry",
    "logway_coordinator",
    "logway_http",
    "logway_log",
    "logway_log.cleaner",
    "logway_log.journal",
    "logway_log.log_dir",
    "logway_log.recovery",
    "logway_log.writer",
    "logway_quorum",
    "logway_server",
    "openraft",
    ROOT,
];

/// Kafka's names of levels, and those of the filter. Nothing is fatal here.
const LEVELS: &[(&str, &str)] = &[
    ("DEBUG", "debug"),
    ("ERROR", "error"),
    ("FATAL", "error"),
    ("INFO", "info"),
    ("TRACE", "trace"),
    ("WARN", "warn"),
];

/// Puts a filter in force: directives with commas between them, each `LEVEL` or `NAME=LEVEL`, of
/// which a later one wins over an earlier one for the same name. The error says why it cannot.
pub type ApplyFilter = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The levels of all parts.
pub struct LogLevels {
    state: Mutex<State>,
}

struct State {
    /// The filter that the process was started with.
    base: String,
    changed: BTreeMap<&'static str, &'static str>,
    /// `None` in a process that has no log, or one that others look after.
    apply: Option<ApplyFilter>,
}

/// A change of one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LevelChange {
    /// To the level of a name, not checked yet.
    Set(String),
    /// To what the process was started with.
    Reset,
}

impl Default for LogLevels {
    fn default() -> LogLevels {
        let state = State { base: "info".to_owned(), changed: BTreeMap::new(), apply: None };
        LogLevels { state: Mutex::new(state) }
    }
}

impl fmt::Debug for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLevels").field("changed", &self.state().changed).finish_non_exhaustive()
    }
}

impl LogLevels {
    /// Has changes put in force by `apply`, over the filter `base`, which is.
    pub fn connect(&self, base: &str, apply: ApplyFilter) {
        let mut state = self.state();
        state.base = base.to_owned();
        state.apply = Some(apply);
    }

    /// Each part with its level, as Kafka writes it; `OFF` for one that writes nothing.
    pub fn all(&self) -> Vec<(&'static str, String)> {
        let state = self.state();
        LOGGERS.iter().map(|&logger| (logger, state.level_of(logger).to_uppercase())).collect()
    }

    /// Changes levels, all or none.
    ///
    /// Errors are `INVALID_CONFIG` for names and levels that do not exist, `INVALID_REQUEST` for a
    /// root without a level, and `UNKNOWN_SERVER_ERROR` if the log does not take the filter.
    pub fn change(
        &self,
        changes: &[(String, LevelChange)],
        validate_only: bool,
    ) -> Result<(), Failure> {
        let mut state = self.state();
        let mut changed = state.changed.clone();
        for (name, change) in changes {
            let logger = known_logger(name)?;
            match change {
                LevelChange::Set(level) => {
                    changed.insert(logger, known_level(level)?);
                }
                LevelChange::Reset if logger == ROOT => {
                    let message = format!("'{ROOT}' always has a level; set another one");
                    return Err(Failure::new(ErrorCode::InvalidRequest, message));
                }
                LevelChange::Reset => {
                    changed.remove(logger);
                }
            }
        }
        if validate_only {
            return Ok(());
        }
        if let Some(apply) = &state.apply {
            let filter = filter(&state.base, &changed);
            apply(&filter).map_err(|reason| Failure::new(ErrorCode::UnknownServerError, reason))?;
            tracing::warn!(filter, "the levels of the log were changed");
        }
        state.changed = changed;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The level of the directive with the longest name that the part's begins with.
    fn level_of(&self, logger: &str) -> &str {
        let wanted = target(logger);
        let (mut best_bytes, mut best) = (0, "off");
        let of_base = self.base.split(',').filter_map(directive);
        let of_base = of_base.map(|(name, level)| (name.to_owned(), level));
        let changed = self.changed.iter().map(|(&name, &level)| (target(name), level));
        for (name, level) in of_base.chain(changed) {
            if wanted.starts_with(&name) && name.len() >= best_bytes {
                (best_bytes, best) = (name.len(), level);
            }
        }
        best
    }
}

/// The name and the level of a directive; `None` for one about spans or fields.
fn directive(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    match text.split_once('=') {
        _ if text.is_empty() || text.contains(['[', '{']) => None,
        Some((name, level)) => Some((name.trim(), level.trim())),
        None if is_level(text) => Some(("", text)),
        None => Some((text, "trace")),
    }
}

fn is_level(text: &str) -> bool {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    levels.iter().any(|level| text.eq_ignore_ascii_case(level))
}

/// The name of a part in a directive; empty for the root.
fn target(logger: &str) -> String {
    if logger == ROOT { String::new() } else { logger.replace('.', "::") }
}

fn filter(base: &str, changed: &BTreeMap<&str, &str>) -> String {
    let directives = changed.iter().map(|(&name, &level)| match name {
        ROOT => level.to_owned(),
        _ => format!("{}={level}", target(name)),
    });
    let base = Some(base.to_owned()).filter(|base| !base.is_empty());
    base.into_iter().chain(directives).collect::<Vec<_>>().join(",")
}

fn known_logger(name: &str) -> Result<&'static str, Failure> {
    let known = LOGGERS.iter().find(|logger| **logger == name);
    known.copied().ok_or_else(|| {
        let message = format!("there is no logger of this name; there are {}", LOGGERS.join(", "));
        Failure::new(ErrorCode::InvalidConfig, message)
    })
}

fn known_level(level: &str) -> Result<&'static str, Failure> {
    let known = LEVELS.iter().find(|(kafkas, _)| *kafkas == level);
    known.map(|(_, ours)| *ours).ok_or_else(|| {
        let levels: Vec<&str> = LEVELS.iter().map(|(kafkas, _)| *kafkas).collect();
        let message = format!("there is no such level; there are {}", levels.join(", "));
        Failure::new(ErrorCode::InvalidConfig, message)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn set(name: &str, level: &str) -> (String, LevelChange) {
        (name.to_owned(), LevelChange::Set(level.to_owned()))
    }

    fn level(levels: &LogLevels, name: &str) -> String {
        levels.all().into_iter().find(|(logger, _)| *logger == name).expect("is there").1
    }

    #[test]
    fn a_part_has_the_level_of_the_nearest_that_was_said() {
        let levels = LogLevels::default();
        let applied = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&applied);
        let apply = move |filter: &str| {
            sink.lock().expect("nobody panicked").push(filter.to_owned());
            Ok(())
        };
        levels.connect("info,openraft=error,logway_http", Box::new(apply));
        for (name, expected) in [
            (ROOT, "INFO"),
            ("openraft", "ERROR"),
            ("logway_http", "TRACE"),
            ("logway_log", "INFO"),
        ] {
            assert_eq!(level(&levels, name), expected, "{name}");
        }
        levels.change(&[set("logway_log", "DEBUG"), set(ROOT, "WARN")], false).expect("is known");
        assert_eq!(level(&levels, "logway_log.writer"), "DEBUG");
        assert_eq!(level(&levels, "logway_quorum"), "WARN");
        let reset = [
            ("logway_log".to_owned(), LevelChange::Reset),
            set("logway_quorum", "FATAL"),
            set("logway_http", "ERROR"),
            set("logway_log.writer", "TRACE"),
        ];
        levels.change(&reset, false).expect("is known");
        for (name, expected) in [
            ("logway_log", "WARN"),
            ("logway_log.writer", "TRACE"),
            ("logway_http", "ERROR"),
            ("logway_quorum", "ERROR"),
        ] {
            assert_eq!(level(&levels, name), expected, "{name}");
        }
        let applied = applied.lock().expect("nobody panicked");
        let base = "info,openraft=error,logway_http";
        let expected = [
            format!("{base},logway_log=debug,warn"),
            format!("{base},logway_http=error,logway_log::writer=trace,logway_quorum=error,warn"),
        ];
        assert_eq!(*applied, expected);
    }

    #[test]
    fn what_does_not_exist_changes_nothing() {
        let levels = LogLevels::default();
        let before = levels.all();
        let root = (ROOT.to_owned(), LevelChange::Reset);
        for (wrong, code) in [
            (set("kafka.server", "DEBUG"), ErrorCode::InvalidConfig),
            (set("logway_log", "debug"), ErrorCode::InvalidConfig),
            (set("logway_log", "LOUD"), ErrorCode::InvalidConfig),
            (root, ErrorCode::InvalidRequest),
        ] {
            let changes = [set("openraft", "TRACE"), wrong];
            let refused = levels.change(&changes, false).expect_err("is refused");
            assert_eq!((refused.code, levels.all()), (code, before.clone()));
        }
        levels.change(&[set("openraft", "TRACE")], true).expect("is valid");
        assert_eq!(levels.all(), before);
    }

    #[test]
    fn names_are_sorted_and_given_once() {
        assert!(LOGGERS.is_sorted_by(|a, b| a < b));
    }
}
