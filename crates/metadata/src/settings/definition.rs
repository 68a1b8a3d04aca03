//! What the tables of settings are made of.

use super::nearest::nearest;
use super::value::{LOG_LEVELS, Value};
use crate::error::{MetadataError, excerpt};

/// Stands where a value is not shown.
pub(super) const HIDDEN: &str = "[hidden]";

/// One row of a table: all there is to know about a setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Kafka's name where Kafka has the setting, else one that starts with `logway.`.
    pub name: &'static str,
    /// The type and the values that are allowed.
    pub kind: Kind,
    /// The value where nothing else is said; `None` is "not set".
    pub default: Option<&'static str>,
    /// The unit of a number, e.g. `ms` or `bytes`; empty where there is none.
    pub unit: &'static str,
    /// For a topic's setting, the broker's settings that give its default, strongest first.
    pub synonyms: &'static [Synonym],
    /// How it is changed.
    pub update: Update,
    /// Whether it does anything.
    pub effect: Effect,
    /// What it does.
    pub doc: &'static str,
}

impl Setting {
    /// A setting that can be changed at any time, has an effect, and no synonym.
    pub(super) const fn dynamic(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        unit: &'static str,
        doc: &'static str,
    ) -> Setting {
        let (update, effect) = (Update::Dynamic, Effect::Now);
        Setting { name, kind, default: Some(default), unit, synonyms: &[], update, effect, doc }
    }

    /// A setting that is given with a start, has an effect, and no synonym.
    pub(super) const fn at_start(
        name: &'static str,
        kind: Kind,
        default: Option<&'static str>,
        unit: &'static str,
        doc: &'static str,
    ) -> Setting {
        let (update, effect) = (Update::Restart, Effect::Now);
        Setting { name, kind, default, unit, synonyms: &[], update, effect, doc }
    }

    /// The same; any value but the default is refused, for this reason.
    pub(super) const fn default_only(mut self, reason: &'static str) -> Setting {
        self.effect = Effect::DefaultOnly(reason);
        self
    }

    /// The same, kept and shown but without an effect here, for this reason.
    pub(super) const fn without_effect(mut self, reason: &'static str) -> Setting {
        self.effect = Effect::Nothing(reason);
        self
    }
}

/// A broker's setting that is the default of a topic's setting.
#[derive(Debug, Clone, Copy)]
pub struct Synonym {
    /// The broker's setting.
    pub name: &'static str,
    /// How many of the topic setting's unit one of its own is, e.g. 3,600,000 for hours against ms.
    pub factor: i64,
    /// Its own unit.
    pub unit: &'static str,
    /// Its default, if the default is written in it.
    pub default: Option<&'static str>,
}

/// How a setting can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Only in the broker's file or flags, with a restart.
    Restart,
    /// At any time, through AlterConfigs.
    Dynamic,
}

/// Whether a setting does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It does what its documentation says.
    Now,
    /// It is checked, kept and shown, but changes nothing here, for the reason given.
    Nothing(&'static str),
    /// Any value but the default is refused, for the reason given.
    DefaultOnly(&'static str),
}

/// The type of a setting with its bounds, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `true` or `false`, in any case of letters.
    Boolean,
    /// A 32-bit number; `special` is allowed beside the range.
    Int {
        /// The least value.
        min: i32,
        /// The greatest value.
        max: i32,
        /// A value outside the range with a meaning of its own.
        special: Option<i32>,
    },
    /// A 64-bit number.
    Long {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// A floating-point number.
    Double {
        /// The least value.
        min: f64,
        /// The greatest value.
        max: f64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any number of these words, separated by commas.
    Words(&'static [&'static str]),
    /// Any text.
    Text,
    /// Any text that is never shown again.
    Password,
    /// Any texts, separated by commas.
    Texts,
    /// `name=pattern`, separated by commas: whom a subscription to metrics selects.
    ClientMatches,
    /// A level of a log, and other levels of named parts as `part=level`, separated by commas.
    LogLevels,
    /// `*` or a list of `partition:broker`.
    ThrottledReplicas,
    /// One or more paths of the file system, separated by commas, each once.
    Paths,
    /// How many of what there may be for each address, as `address:number`, separated by commas.
    AddressLimits,
    /// `host:port`, also as `PLAINTEXT://host:port`.
    Address,
    /// One or more of `NAME://host:port`, separated by commas.
    Listeners,
    /// The same, of addresses that clients can be told.
    Reachable,
    /// `NAME:PROTOCOL`, separated by commas.
    Protocols,
    /// One or more addresses, separated by commas.
    Addresses,
}

impl Kind {
    /// Every number from `min` up.
    pub const fn int(min: i32) -> Kind {
        Kind::Int { min, max: i32::MAX, special: None }
    }

    /// Every number from `min` up.
    pub const fn long(min: i64) -> Kind {
        Kind::Long { min, max: i64::MAX }
    }

    /// Whether values are lists, which APPEND and SUBTRACT work on.
    pub fn is_list(&self) -> bool {
        self.type_name() == "list"
    }

    /// The type's name in Kafka's documentation.
    pub fn type_name(&self) -> &'static str {
        match self {
            Kind::Boolean => "boolean",
            Kind::Int { .. } => "int",
            Kind::Long { .. } => "long",
            Kind::Double { .. } => "double",
            Kind::Password => "password",
            Kind::Word(_) | Kind::Text | Kind::Address | Kind::AddressLimits | Kind::Protocols => {
                "string"
            }
            Kind::Words(_)
            | Kind::Texts
            | Kind::ClientMatches
            | Kind::LogLevels
            | Kind::ThrottledReplicas
            | Kind::Paths
            | Kind::Listeners
            | Kind::Reachable
            | Kind::Addresses => "list",
        }
    }

    /// The type's number in DescribeConfigs responses (KIP-569).
    pub fn type_code(&self) -> i8 {
        match self.type_name() {
            "boolean" => 1,
            "string" => 2,
            "int" => 3,
            "long" => 5,
            "double" => 6,
            "password" => 9,
            _ => 7,
        }
    }

    /// What is allowed, for people.
    pub fn allowed(&self) -> String {
        match *self {
            Kind::Boolean => "true, false".to_owned(),
            Kind::Int { min, max, special } => {
                let special = special.map(|value| format!(", or {value}")).unwrap_or_default();
                let max = (max < i32::MAX).then_some(max);
                format!("{}{special}", range(min, max))
            }
            Kind::Long { min, max } => range(min, (max < i64::MAX).then_some(max)),
            Kind::Double { min: f64::MIN, max: f64::MAX } => "any number".to_owned(),
            Kind::Double { min, max } => range(min, (max < f64::MAX).then_some(max)),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Words(words) => format!("any of {}", words.join(", ")),
            Kind::Text | Kind::Password => "a text".to_owned(),
            Kind::Texts => "a list of texts".to_owned(),
            Kind::ClientMatches => "a list of name=pattern".to_owned(),
            Kind::LogLevels => format!(
                "a level, one of {}, and part=level, separated by commas",
                LOG_LEVELS.join(", ")
            ),
            Kind::ThrottledReplicas => "* or a list of partition:broker".to_owned(),
            Kind::Paths => "one or more paths, each once".to_owned(),
            Kind::AddressLimits => "a list of address:number".to_owned(),
            Kind::Address => "host:port".to_owned(),
            Kind::Listeners => "one or more of host:port or NAME://host:port".to_owned(),
            Kind::Protocols => "a list of name:protocol".to_owned(),
            Kind::Reachable => "one or more of host:port or NAME://host:port, each name once, with a host of up to 255 bytes other than 0.0.0.0 and \
                                a port other than 0"
                .to_owned(),
            Kind::Addresses => "one or more of host:port".to_owned(),
        }
    }
}

fn range<T: std::fmt::Display>(min: T, max: Option<T>) -> String {
    match max {
        Some(max) => format!("{min} to {max}"),
        None => format!("{min} or more"),
    }
}

impl Setting {
    /// Reads and checks a value.
    ///
    /// Fails with [`MetadataError::InvalidSetting`] if it is not of the setting's kind, out of
    /// bounds, or one that this version refuses.
    pub fn parse(&self, text: &str) -> Result<Value, MetadataError> {
        let value = Value::parse(&self.kind, text).map_err(|reason| self.invalid(text, reason))?;
        match self.effect {
            Effect::DefaultOnly(reason) if self.default_value().as_ref() != Some(&value) => {
                Err(self.invalid(text, reason.to_owned()))
            }
            _ => Ok(value),
        }
    }

    /// The default as a value, or `None` where the default is "not set".
    pub fn default_value(&self) -> Option<Value> {
        let parse = |text| Value::parse(&self.kind, text).expect("the table's defaults are valid");
        self.default.map(parse)
    }

    /// Whether its value must not be shown.
    pub fn is_secret(&self) -> bool {
        self.kind == Kind::Password
    }

    /// The error that says why a value is not allowed.
    pub(crate) fn invalid(&self, value: &str, reason: String) -> MetadataError {
        let value = if self.is_secret() { HIDDEN.to_owned() } else { excerpt(value) };
        MetadataError::InvalidSetting { name: self.name, value, reason }
    }
}

/// Finds a setting, or says which one was perhaps meant.
pub(super) fn look_up<'a>(
    table: &'a [Setting],
    scope: &'static str,
    name: &str,
) -> Result<&'a Setting, MetadataError> {
    table.iter().find(|setting| setting.name == name).ok_or_else(|| {
        let nearest = nearest(name, table.iter().map(|setting| setting.name));
        MetadataError::UnknownSetting { scope, name: excerpt(name), nearest }
    })
}
