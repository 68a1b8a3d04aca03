//! The parts of the broker's log as Kafka's tools see them: loggers with levels (KIP-412).
//!
//! What was changed is not kept: a restart begins with the levels that the process is started with.

use logway_model::ErrorCode;
use tracing::level_filters::LevelFilter;

use logway_node::failure::Failure;
use logway_node::log_levels::{Levels, LogLevels};

/// The one that counts where nothing is said of a part.
const ROOT: &str = "root";

/// The parts whose level can be changed, in the order of their names. One includes those whose names
/// begin with its own. They are the modules that the log shows, with a dot where that has two colons:
/// Kafka's tool takes no colons.
const LOGGERS: &[&str] = &[
    "logway_coordinator",
    "logway_http",
    "logway_kafka",
    "logway_kafka.connection",
    "logway_kafka.handlers",
    "logway_kafka.telemetry",
    "logway_log",
    "logway_log.cleaner",
    "logway_log.journal",
    "logway_log.log_dir",
    "logway_log.recovery",
    "logway_log.writer",
    "logway_node",
    "logway_node.append",
    "logway_node.clients",
    "logway_node.groups",
    "logway_node.log_dirs",
    "logway_node.reconcile",
    "logway_node.replica_moves",
    "logway_quorum",
    "logway_server",
    "openraft",
    ROOT,
];

/// Kafka's names of levels, and ours. Nothing is fatal here.
const LEVELS: &[(&str, LevelFilter)] = &[
    ("DEBUG", LevelFilter::DEBUG),
    ("ERROR", LevelFilter::ERROR),
    ("FATAL", LevelFilter::ERROR),
    ("INFO", LevelFilter::INFO),
    ("TRACE", LevelFilter::TRACE),
    ("WARN", LevelFilter::WARN),
];

/// A change of one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LevelChange {
    /// To the level of a name, not checked yet.
    Set(String),
    /// To what the process was started with.
    Reset,
}

/// Each part with its level, as Kafka writes it; `OFF` for one that writes nothing.
pub(super) fn all(levels: &LogLevels) -> Vec<(&'static str, String)> {
    let now = levels.now();
    let level = |logger| if logger == ROOT { now.root } else { now.of(&part(logger)) };
    LOGGERS.iter().map(|&logger| (logger, level(logger).to_string().to_uppercase())).collect()
}

/// Changes levels, all or none.
///
/// Errors are `INVALID_CONFIG` for names and levels that do not exist, and `INVALID_REQUEST` for a
/// root without a level.
pub(super) fn change(
    levels: &LogLevels,
    changes: &[(String, LevelChange)],
    validate_only: bool,
) -> Result<(), Failure> {
    let mut checked = Vec::with_capacity(changes.len());
    for (name, change) in changes {
        let logger = known_logger(name)?;
        let level = match change {
            LevelChange::Set(level) => Some(known_level(level)?),
            LevelChange::Reset if logger == ROOT => {
                let message = format!("'{ROOT}' always has a level; set another one");
                return Err(Failure::new(ErrorCode::InvalidRequest, message));
            }
            LevelChange::Reset => None,
        };
        checked.push((logger, level));
    }
    if validate_only {
        return Ok(());
    }
    levels.change(|now| {
        checked.iter().for_each(|(logger, level)| set(now, levels.started_with(), logger, *level));
    });
    tracing::warn!(changes = ?checked, "the levels of the log were changed");
    Ok(())
}

/// The part of the program that a logger stands for.
fn part(logger: &str) -> String {
    logger.replace('.', "::")
}

fn set(now: &mut Levels, started_with: &Levels, logger: &str, level: Option<LevelFilter>) {
    let part = part(logger);
    match level.or_else(|| started_with.of_parts.get(&part).copied()) {
        Some(level) if logger == ROOT => now.root = level,
        Some(level) => drop(now.of_parts.insert(part, level)),
        None => drop(now.of_parts.remove(&part)),
    }
}

fn known_logger(name: &str) -> Result<&'static str, Failure> {
    let known = LOGGERS.iter().find(|logger| **logger == name);
    known.copied().ok_or_else(|| {
        let message = format!("there is no logger of this name; there are {}", LOGGERS.join(", "));
        Failure::new(ErrorCode::InvalidConfig, message)
    })
}

fn known_level(level: &str) -> Result<LevelFilter, Failure> {
    let known = LEVELS.iter().find(|(kafkas, _)| *kafkas == level);
    known.map(|(_, ours)| *ours).ok_or_else(|| {
        let levels: Vec<&str> = LEVELS.iter().map(|(kafkas, _)| *kafkas).collect();
        let message = format!("there is no such level; there are {}", levels.join(", "));
        Failure::new(ErrorCode::InvalidConfig, message)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn level_set(name: &str, level: &str) -> (String, LevelChange) {
        (name.to_owned(), LevelChange::Set(level.to_owned()))
    }

    fn level(levels: &LogLevels, name: &str) -> String {
        all(levels).into_iter().find(|(logger, _)| *logger == name).expect("is there").1
    }

    #[test]
    fn a_part_has_the_level_of_the_nearest_that_was_said() {
        let of_parts = BTreeMap::from([("openraft".to_owned(), LevelFilter::ERROR)]);
        let levels = LogLevels::new(Levels { root: LevelFilter::INFO, of_parts }, |_| {});
        assert_eq!((&*level(&levels, ROOT), &*level(&levels, "openraft")), ("INFO", "ERROR"));
        let loud = [level_set("logway_log", "DEBUG"), level_set(ROOT, "WARN")];
        change(&levels, &loud, false).expect("is known");
        assert_eq!(level(&levels, "logway_log.writer"), "DEBUG");
        assert_eq!(level(&levels, "logway_quorum"), "WARN");
        let reset = |name: &str| (name.to_owned(), LevelChange::Reset);
        change(&levels, &[level_set("openraft", "TRACE")], false).expect("is known");
        let back = [reset("logway_log"), reset("openraft"), level_set("logway_quorum", "FATAL")];
        change(&levels, &back, false).expect("is known");
        assert_eq!(level(&levels, "logway_log.writer"), "WARN");
        assert_eq!(level(&levels, "openraft"), "ERROR", "as at the start");
        assert_eq!(level(&levels, "logway_quorum"), "ERROR");
    }

    #[test]
    fn what_does_not_exist_changes_nothing() {
        let levels = LogLevels::default();
        let before = all(&levels);
        let root = (ROOT.to_owned(), LevelChange::Reset);
        for (wrong, code) in [
            (level_set("kafka.server", "DEBUG"), ErrorCode::InvalidConfig),
            (level_set("logway_log", "debug"), ErrorCode::InvalidConfig),
            (level_set("logway_log", "LOUD"), ErrorCode::InvalidConfig),
            (root, ErrorCode::InvalidRequest),
        ] {
            let changes = [level_set("openraft", "TRACE"), wrong];
            let refused = change(&levels, &changes, false).expect_err("is refused");
            assert_eq!((refused.code, all(&levels)), (code, before.clone()));
        }
        change(&levels, &[level_set("openraft", "TRACE")], true).expect("is valid");
        assert_eq!(all(&levels), before);
    }

    #[test]
    fn names_are_sorted_and_given_once() {
        assert!(LOGGERS.is_sorted_by(|a, b| a < b));
    }
}
