//! Ranges of message versions.

use std::fmt;

/// The versions `min..=max` of a message; empty when `min > max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest version.
    pub min: i16,
    /// The newest version.
    pub max: i16,
}

impl VersionRange {
    /// No version at all.
    pub const NONE: VersionRange = VersionRange { min: 0, max: -1 };

    /// The versions from `min` to `max`, both included.
    pub const fn new(min: i16, max: i16) -> VersionRange {
        VersionRange { min, max }
    }

    /// Whether `version` is one of these.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// Whether there is no version in the range.
    pub const fn is_empty(self) -> bool {
        self.min > self.max
    }

    /// The versions, oldest first.
    pub fn iter(self) -> impl Iterator<Item = i16> {
        self.min..=self.max
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_empty() {
            true => f.write_str("none"),
            false => write!(f, "{}-{}", self.min, self.max),
        }
    }
}
