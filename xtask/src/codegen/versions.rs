//! Version ranges as the definitions write them.

use std::fmt;

use serde::Deserialize;

/// The versions `min..=max`; empty when `min > max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Versions {
    pub min: i16,
    pub max: i16,
}

impl Versions {
    /// No version.
    pub const NONE: Versions = Versions { min: 0, max: -1 };

    /// Whether there is no version.
    pub fn is_empty(self) -> bool {
        self.min > self.max
    }

    /// The versions in both.
    pub fn intersect(self, other: Versions) -> Versions {
        let both = Versions { min: self.min.max(other.min), max: self.max.min(other.max) };
        if both.is_empty() { Versions::NONE } else { both }
    }

    /// Whether `version` is one of these.
    pub fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// When a version out of `domain` is one of these.
    pub fn guard(self, domain: Versions) -> Guard {
        let both = self.intersect(domain);
        match (both.min > domain.min, both.max < domain.max) {
            _ if both.is_empty() => Guard::Never,
            (false, false) => Guard::Always,
            (true, false) => Guard::From(both.min),
            (false, true) => Guard::UpTo(both.max),
            (true, true) => Guard::Between(both.min, both.max),
        }
    }
}

impl TryFrom<String> for Versions {
    type Error = String;

    fn try_from(text: String) -> Result<Versions, String> {
        let parse =
            |number: &str| number.parse().map_err(|_| format!("'{text}' is not a version range"));
        if text == "none" {
            Ok(Versions::NONE)
        } else if let Some(min) = text.strip_suffix('+') {
            Ok(Versions { min: parse(min)?, max: i16::MAX })
        } else if let Some((min, max)) = text.split_once('-') {
            Ok(Versions { min: parse(min)?, max: parse(max)? })
        } else {
            Ok(Versions { min: parse(&text)?, max: parse(&text)? })
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            versions if versions.is_empty() => f.write_str("none"),
            Versions { min, max: i16::MAX } => write!(f, "{min}+"),
            Versions { min, max } if min == max => write!(f, "{min}"),
            Versions { min, max } => write!(f, "{min}-{max}"),
        }
    }
}

/// A condition on the variable `version` in generated code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    Always,
    Never,
    From(i16),
    UpTo(i16),
    Between(i16, i16),
}

impl Guard {
    /// The condition as a Rust expression.
    pub fn condition(self) -> String {
        match self {
            Guard::Always => "true".to_owned(),
            Guard::Never => "false".to_owned(),
            Guard::From(min) => format!("version >= {min}"),
            Guard::UpTo(max) => format!("version <= {max}"),
            Guard::Between(min, max) => format!("({min}..={max}).contains(&version)"),
        }
    }

    /// The opposite condition as a Rust expression.
    pub fn negation(self) -> String {
        match self {
            Guard::Always => "false".to_owned(),
            Guard::Never => "true".to_owned(),
            Guard::From(min) => format!("version < {min}"),
            Guard::UpTo(max) => format!("version > {max}"),
            Guard::Between(..) => format!("!{}", self.condition()),
        }
    }

    /// The condition, ready to be followed by another: empty if it always holds.
    pub fn and(self) -> String {
        match self {
            Guard::Always => String::new(),
            guard => guard.condition() + " && ",
        }
    }

    /// An expression that is `yes` when the condition holds and `no` otherwise.
    pub fn choose(self, yes: &str, no: &str) -> String {
        match self {
            Guard::Always => yes.to_owned(),
            Guard::Never => no.to_owned(),
            guard => format!("if {} {{ {yes} }} else {{ {no} }}", guard.condition()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Guard, Versions};

    fn versions(text: &str) -> Versions {
        Versions::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn parses_every_form() {
        assert_eq!(versions("none"), Versions::NONE);
        assert_eq!(versions("3"), Versions { min: 3, max: 3 });
        assert_eq!(versions("4-18"), Versions { min: 4, max: 18 });
        assert_eq!(versions("12+"), Versions { min: 12, max: i16::MAX });
        assert!(Versions::try_from("x+".to_owned()).is_err());
    }

    #[test]
    fn guards_only_what_the_domain_leaves_open() {
        let domain = versions("4-18");
        assert_eq!(versions("0+").guard(domain), Guard::Always);
        assert_eq!(versions("0-3").guard(domain), Guard::Never);
        assert_eq!(versions("12+").guard(domain).condition(), "version >= 12");
        assert_eq!(versions("12+").guard(domain).negation(), "version < 12");
        assert_eq!(versions("0-12").guard(domain).condition(), "version <= 12");
        assert_eq!(versions("0-12").guard(domain).negation(), "version > 12");
        assert_eq!(versions("7-12").guard(domain).condition(), "(7..=12).contains(&version)");
    }
}
