//! What cannot be read or renamed for now, of a source that reads files.
//!
//! It is tried again every few seconds, until somebody has mended it, and others are read meanwhile. It is told at once,
//! and then now and then: a line for each try would hide all others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TRY_AFTER: Duration = Duration::from_secs(2);
const TELL_AFTER: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct Trouble {
    what: String,
    tried_at: Instant,
    told_at: Instant,
}

/// By the path of a file or a directory.
#[derive(Debug)]
pub(super) struct Troubles {
    by_path: BTreeMap<PathBuf, Trouble>,
    pub(super) try_after: Duration,
}

impl Troubles {
    pub(super) fn new() -> Troubles {
        Troubles { by_path: BTreeMap::new(), try_after: TRY_AFTER }
    }

    /// Whether it is too early to try again.
    pub(super) fn rest(&self, path: &Path) -> bool {
        self.by_path.get(path).is_some_and(|it| it.tried_at.elapsed() < self.try_after)
    }

    /// Notes that a try has failed; whether that should be told.
    pub(super) fn add(&mut self, path: &Path, what: &str) -> bool {
        let now = Instant::now();
        let before = self.by_path.get(path).filter(|before| {
            before.what == what && now.duration_since(before.told_at) < TELL_AFTER
        });
        let told_at = before.map_or(now, |before| before.told_at);
        let is_told = before.is_none();
        let trouble = Trouble { what: what.to_owned(), tried_at: now, told_at };
        self.by_path.insert(path.to_owned(), trouble);
        is_told
    }

    /// Notes that a try was good; whether there was trouble before.
    pub(super) fn end(&mut self, path: &Path) -> bool {
        self.by_path.remove(path).is_some()
    }

    /// Forgets what is not there any more.
    pub(super) fn keep(&mut self, is_there: impl Fn(&Path) -> bool) {
        self.by_path.retain(|path, _| is_there(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_once_and_again_when_it_is_another_or_long_ago() {
        let mut troubles = Troubles::new();
        let path = Path::new("/a");
        assert!(!troubles.rest(path));
        assert!(troubles.add(path, "no room"));
        assert!(troubles.rest(path));
        assert!(!troubles.add(path, "no room"));
        assert!(troubles.add(path, "no permission"));
        let trouble = troubles.by_path.get_mut(path).expect("is there");
        trouble.told_at = trouble.told_at.checked_sub(TELL_AFTER).expect("is a time");
        assert!(troubles.add(path, "no permission"));
        assert!(troubles.end(path) && !troubles.end(path));
    }
}
