//! What the broker's own log tells, and how that changes while the broker runs.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Mutex, PoisonError};

use tracing::level_filters::LevelFilter;

/// The least important lines that are written, by the part of the program that they are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// Of every part that is not named below.
    pub root: LevelFilter,
    /// Of a part and those below it. A part is the beginning of a `tracing` target, as
    /// `logway_log` or `logway_kafka::connection`; the longest that fits a line counts.
    pub of_parts: BTreeMap<String, LevelFilter>,
}

impl Default for Levels {
    fn default() -> Levels {
        Levels { root: LevelFilter::INFO, of_parts: BTreeMap::new() }
    }
}

impl Levels {
    /// The level of a part: that of the longest name which its own begins with.
    pub fn of(&self, part: &str) -> LevelFilter {
        let names = self.of_parts.iter().filter(|(name, _)| part.starts_with(name.as_str()));
        names.max_by_key(|(name, _)| name.len()).map_or(self.root, |(_, level)| *level)
    }
}

/// Puts levels in force.
type Apply = Box<dyn Fn(&Levels) + Send + Sync>;

/// The levels in force. Whoever sets up the log of the process says how others come into force.
///
/// [`LogLevels::default`] is for a process whose log is not ours to change: the levels are kept and
/// shown, and nothing else happens.
pub struct LogLevels {
    started_with: Levels,
    in_force: Mutex<Levels>,
    apply: Apply,
}

impl LogLevels {
    /// `apply` is called with each change, never twice at a time. It must not log.
    pub fn new(in_force: Levels, apply: impl Fn(&Levels) + Send + Sync + 'static) -> LogLevels {
        LogLevels {
            started_with: in_force.clone(),
            in_force: Mutex::new(in_force),
            apply: Box::new(apply),
        }
    }

    /// The levels that the process was started with.
    pub fn started_with(&self) -> &Levels {
        &self.started_with
    }

    /// The levels as they are now.
    pub fn now(&self) -> Levels {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the levels; when this returns, the change is in force. It lasts until the process ends.
    ///
    /// The caller bounds how many parts there can be.
    pub fn change(&self, change: impl FnOnce(&mut Levels)) {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut in_force);
        (self.apply)(&in_force);
    }
}

impl Default for LogLevels {
    fn default() -> LogLevels {
        LogLevels::new(Levels::default(), |_| {})
    }
}

impl Debug for LogLevels {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLevels").field("in_force", &self.now()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_change_is_put_in_force_whole() {
        let applied: Arc<Mutex<Vec<Levels>>> = Arc::default();
        let seen = Arc::clone(&applied);
        let levels = LogLevels::new(Levels::default(), move |levels| {
            seen.lock().expect("nobody panicked").push(levels.clone());
        });
        levels.change(|levels| {
            levels.root = LevelFilter::WARN;
            levels.of_parts.insert("logway_log".to_owned(), LevelFilter::DEBUG);
        });
        assert_eq!(*applied.lock().expect("nobody panicked"), [levels.now()]);
        let now = levels.now();
        assert_eq!(now.root, LevelFilter::WARN);
        assert_eq!(now.of("logway_log::writer"), LevelFilter::DEBUG);
        assert_eq!(now.of("logway_quorum"), LevelFilter::WARN);
        assert_eq!(levels.started_with().of("logway_log"), LevelFilter::INFO);
    }
}
