//! What a component was told, checked against its declaration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use regex_lite::Regex;

use crate::declaration::{Declaration, Fallback};

/// The settings of one component. Every value was judged by its kind, so that getters do not fail.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Which component, as `source r1`.
    pub(crate) component: String,
    /// Its name alone.
    pub(crate) name: String,
    pub(crate) declaration: &'static Declaration,
    pub(crate) values: BTreeMap<String, String>,
    /// Where it begins in its file.
    pub(crate) line: usize,
    /// Where each value is in its file.
    pub(crate) lines: BTreeMap<String, usize>,
}

/// Equal if the same was said of a component of the same name, wherever in a file.
impl PartialEq for Settings {
    fn eq(&self, other: &Settings) -> bool {
        self.component == other.component
            && self.declaration.name == other.declaration.name
            && self.values == other.values
    }
}

impl Settings {
    /// A text, if it is set or has a default.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        let declared = self.declaration.key(key);
        let declared = declared.unwrap_or_else(|| panic!("{} has a key {key}", self.component));
        match (self.values.get(key), declared.fallback) {
            (Some(value), _) => Some(value),
            (None, Fallback::Is(value)) => Some(value),
            (None, Fallback::Required | Fallback::Nothing) => None,
        }
    }

    /// The pattern of a key, which has to match a whole text, as Java's `matches`. Blanks at its ends belong to it.
    pub(crate) fn whole_pattern(&self, key: &str) -> Option<Regex> {
        let pattern = self.text(key)?;
        Some(Regex::new(&format!("^(?:{pattern})$")).expect("it was checked"))
    }

    /// The text of a key, if a flag says that it is wanted.
    pub(crate) fn text_if(&self, flag: &str, key: &str) -> Option<&str> {
        self.flag(flag).then(|| self.required(key))
    }

    /// A text that has to be set, or has a default.
    pub(crate) fn required(&self, key: &str) -> &str {
        self.text(key).unwrap_or_else(|| panic!("{}: {key} was checked", self.component))
    }

    /// Whether it is set, and not only by default.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    pub(crate) fn number(&self, key: &str) -> u64 {
        let number = self.required(key).trim().parse::<i64>().expect("it was checked");
        u64::try_from(number).expect("keys that may be negative are asked for in another way")
    }

    /// A number that means "none" if it is negative or not set.
    pub(crate) fn limit(&self, key: &str) -> Option<u64> {
        let number = self.text(key)?.trim().parse::<i64>().expect("it was checked");
        u64::try_from(number).ok()
    }

    pub(crate) fn size(&self, key: &str) -> usize {
        usize::try_from(self.number(key)).expect("64 bits")
    }

    pub(crate) fn port(&self, key: &str) -> u16 {
        u16::try_from(self.number(key)).expect("it was checked")
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.required(key).trim().eq_ignore_ascii_case("true")
    }

    pub(crate) fn millis(&self, key: &str) -> Duration {
        Duration::from_millis(self.number(key))
    }

    pub(crate) fn seconds(&self, key: &str) -> Duration {
        Duration::from_secs(self.number(key))
    }

    /// A path; `~` at its beginning is the user's home.
    pub(crate) fn path(&self, key: &str) -> PathBuf {
        home_expanded(self.required(key).trim())
    }

    /// Names with blanks between.
    pub(crate) fn names(&self, key: &str) -> Vec<String> {
        self.text(key).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// Whether a choice was this.
    pub(crate) fn is(&self, key: &str, choice: &str) -> bool {
        self.text(key).is_some_and(|value| value.trim().eq_ignore_ascii_case(choice))
    }

    /// All that begin so, without the beginning.
    pub(crate) fn below(&self, stem: &str) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(move |(key, value)| Some((key.strip_prefix(stem)?, &**value)))
    }
}

pub(crate) fn home_expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}
