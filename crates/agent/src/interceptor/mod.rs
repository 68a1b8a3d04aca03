//! What changes events, or takes them out, between a source and its channels.

mod expression;
pub(crate) mod host;
mod regex;

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use logway_log::random_uuid;

pub(crate) use self::expression::EXPRESSION;
use self::expression::Expressions;
pub(crate) use self::host::HOST;
use self::host::HostHeader;
use self::regex::{Extractor, Filter, Replacement};
pub(crate) use self::regex::{REGEX_EXTRACTOR, REGEX_FILTER, SEARCH_REPLACE};
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::StartError;
use crate::event::Event;
use crate::settings::Settings;

pub(crate) const TIMESTAMP: Declaration = Declaration {
    role: Role::Interceptor,
    name: "timestamp",
    aliases: &["org.apache.flume.interceptor.TimestampInterceptor$Builder"],
    doc: "Sets a header to the time, in milliseconds since 1970.",
    keys: &[
        key("headerName", Kind::Text, Fallback::Is("timestamp"), "The header."),
        key(
            "preserveExisting",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether a header that is there stays.",
        ),
    ],
    shared: &[],
};

pub(crate) const STATIC: Declaration = Declaration {
    role: Role::Interceptor,
    name: "static",
    aliases: &["org.apache.flume.interceptor.StaticInterceptor$Builder"],
    doc: "Sets a header to a text.",
    keys: &[
        key("key", Kind::Text, Fallback::Is("key"), "The header."),
        key("value", Kind::Text, Fallback::Is("value"), "The text."),
        key(
            "preserveExisting",
            Kind::Flag,
            Fallback::Is("true"),
            "Whether a header that is there stays.",
        ),
    ],
    shared: &[],
};

pub(crate) const REMOVE_HEADER: Declaration = Declaration {
    role: Role::Interceptor,
    name: "remove_header",
    aliases: &["org.apache.flume.interceptor.RemoveHeaderInterceptor$Builder"],
    doc: "Takes headers away: one, some of a list, and those that a regular expression matches.",
    keys: &[
        key("withName", Kind::Text, Fallback::Nothing, "One header."),
        key("fromList", Kind::Text, Fallback::Nothing, "Several, with a separator between."),
        key(
            "fromListSeparator",
            Kind::Regex,
            Fallback::Is(r"\s*,\s*"),
            "The separator, a regular expression.",
        ),
        key("matching", Kind::Regex, Fallback::Nothing, "All whose whole name it matches."),
    ],
    shared: &[],
};

pub(crate) const UUID: Declaration = Declaration {
    role: Role::Interceptor,
    name: "uuid",
    aliases: &["org.apache.flume.sink.solr.morphline.UUIDInterceptor$Builder"],
    doc: "Sets a header to a random UUID.",
    keys: &[
        key("headerName", Kind::Text, Fallback::Is("id"), "The header."),
        key(
            "preserveExisting",
            Kind::Flag,
            Fallback::Is("true"),
            "Whether a header that is there stays.",
        ),
        key("prefix", Kind::MaybeEmpty, Fallback::Is(""), "What comes before the UUID."),
    ],
    shared: &[],
};

/// An interceptor that is set up.
#[derive(Debug)]
pub(crate) enum Interceptor {
    Timestamp { header: String, preserves: bool },
    Host(HostHeader),
    Static { header: String, value: String, preserves: bool },
    Filter(Filter),
    Extractor(Extractor),
    RemoveHeader { names: Vec<String>, pattern: Option<regex_lite::Regex> },
    Uuid { header: String, prefix: String, preserves: bool },
    Replacement(Replacement),
    Expressions(Expressions),
}

impl Interceptor {
    pub(crate) fn new(settings: &Settings) -> Result<Interceptor, StartError> {
        let text = |key| settings.required(key).to_owned();
        Ok(match settings.declaration.name {
            "timestamp" => Interceptor::Timestamp {
                header: text("headerName"),
                preserves: settings.flag("preserveExisting"),
            },
            "host" => Interceptor::Host(HostHeader::new(settings)?),
            "static" => Interceptor::Static {
                header: text("key"),
                value: text("value"),
                preserves: settings.flag("preserveExisting"),
            },
            "regex_filter" => Interceptor::Filter(Filter::new(settings)),
            "regex_extractor" => Interceptor::Extractor(Extractor::new(settings)?),
            "remove_header" => remove_header(settings),
            "uuid" => Interceptor::Uuid {
                header: text("headerName"),
                prefix: text("prefix"),
                preserves: settings.flag("preserveExisting"),
            },
            "search_replace" => Interceptor::Replacement(Replacement::new(settings)),
            "expression" => Interceptor::Expressions(Expressions::new(settings)?),
            other => return Err(format!("there is no interceptor '{other}'")),
        })
    }

    /// Whether there may be fewer events behind it than before it.
    pub(crate) fn takes_out(&self) -> bool {
        matches!(self, Interceptor::Filter(_) | Interceptor::Expressions(_))
    }

    /// What becomes of some events.
    pub(crate) fn intercept(&self, mut events: Vec<Event>) -> Vec<Event> {
        match self {
            Interceptor::Filter(filter) => events.retain(|event| filter.keeps(event)),
            Interceptor::Expressions(expressions) => {
                events.retain_mut(|event| expressions.apply(event));
            }
            _ => events.iter_mut().for_each(|event| self.change(event)),
        }
        events
    }

    fn change(&self, event: &mut Event) {
        let mut set = |header: &str, preserves: bool, value: &dyn Fn() -> String| {
            if !preserves || event.headers.get(header).is_none() {
                event.headers.set(header, value());
            }
        };
        match self {
            Interceptor::Timestamp { header, preserves } => {
                set(header, *preserves, &|| now_ms().to_string())
            }
            Interceptor::Host(host) => set(&host.header, host.preserves, &|| host.value.clone()),
            Interceptor::Static { header, value, preserves } => {
                set(header, *preserves, &|| value.clone())
            }
            Interceptor::Uuid { header, prefix, preserves } => {
                set(header, *preserves, &|| format!("{prefix}{}", random_uuid().hyphenated()));
            }
            Interceptor::Extractor(extractor) => extractor.extract(event),
            Interceptor::RemoveHeader { names, pattern } => event.headers.retain(|name, _| {
                !names.iter().any(|removed| removed == name)
                    && !pattern.as_ref().is_some_and(|pattern| pattern.is_match(name))
            }),
            Interceptor::Replacement(replacement) => {
                if let Some(body) = replacement.replaced(&event.body) {
                    event.body = Bytes::from(body);
                }
            }
            Interceptor::Filter(_) | Interceptor::Expressions(_) => {}
        }
    }
}

fn remove_header(settings: &Settings) -> Interceptor {
    let mut names: Vec<String> =
        settings.text("withName").map(|n| n.trim().to_owned()).into_iter().collect();
    if let Some(list) = settings.text("fromList") {
        let separator = settings.required("fromListSeparator");
        let separator = regex_lite::Regex::new(separator).expect("it was checked");
        names.extend(separator.split(list).map(str::to_owned));
    }
    let pattern = settings.whole_pattern("matching");
    Interceptor::RemoveHeader { names, pattern }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
