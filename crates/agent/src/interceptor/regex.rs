//! Interceptors that look into the body with regular expressions. A body is text for them; bytes that are
//! none count as U+FFFD, as in Java.

use std::borrow::Cow;

use regex_lite::Regex;

use crate::codec::time::parse_pattern;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::StartError;
use crate::event::Event;
use crate::settings::Settings;

pub(crate) const REGEX_FILTER: Declaration = Declaration {
    role: Role::Interceptor,
    name: "regex_filter",
    aliases: &["org.apache.flume.interceptor.RegexFilteringInterceptor$Builder"],
    doc: "Lets only events pass in whose bodies something matches, or only those in which nothing does.",
    keys: &[
        key("regex", Kind::Regex, Fallback::Is(".*"), "What to look for."),
        key(
            "excludeEvents",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether events with a match are taken out.",
        ),
    ],
    shared: &[],
};

pub(crate) const REGEX_EXTRACTOR: Declaration = Declaration {
    role: Role::Interceptor,
    name: "regex_extractor",
    aliases: &["org.apache.flume.interceptor.RegexExtractorInterceptor$Builder"],
    doc: "Sets headers to the groups of the first match in the body.",
    keys: &[
        key(
            "regex",
            Kind::Regex,
            Fallback::Required,
            "What to look for, with a group for each serializer.",
        ),
        key(
            "serializers",
            Kind::Names,
            Fallback::Required,
            "Names for the groups, in their order.",
        ),
        key(
            "serializers.*",
            Kind::Text,
            Fallback::Nothing,
            "Of a serializer: `name`, the header; `type`, `default` or Flume's class for milliseconds; and its \
             `pattern`, in Java's letters for dates.",
        ),
    ],
    shared: &[],
};

pub(crate) const SEARCH_REPLACE: Declaration = Declaration {
    role: Role::Interceptor,
    name: "search_replace",
    aliases: &[
        "search_and_replace",
        "org.apache.flume.interceptor.SearchAndReplaceInterceptor$Builder",
    ],
    doc: "Replaces all that matches in the body.",
    keys: &[
        key("searchPattern", Kind::Regex, Fallback::Required, "What to look for."),
        key(
            "replaceString",
            Kind::MaybeEmpty,
            Fallback::Is(""),
            "What to put in its place; `$1` is the first group.",
        ),
        key(
            "charset",
            Kind::Only(&["UTF-8"], "bodies are taken for UTF-8"),
            Fallback::Is("UTF-8"),
            "The body's letters.",
        ),
    ],
    shared: &[],
};

const MILLIS_CLASS: &str = "org.apache.flume.interceptor.RegexExtractorInterceptorMillisSerializer";
const PLAIN_CLASS: &str =
    "org.apache.flume.interceptor.RegexExtractorInterceptorPassThroughSerializer";

fn pattern(settings: &Settings, key: &str) -> Regex {
    Regex::new(settings.required(key)).expect("it was checked")
}

#[derive(Debug)]
pub(crate) struct Filter {
    regex: Regex,
    excludes: bool,
}

impl Filter {
    pub(super) fn new(settings: &Settings) -> Filter {
        Filter { regex: pattern(settings, "regex"), excludes: settings.flag("excludeEvents") }
    }

    pub(super) fn keeps(&self, event: &Event) -> bool {
        self.regex.is_match(&String::from_utf8_lossy(&event.body)) != self.excludes
    }
}

#[derive(Debug)]
pub(crate) struct Extractor {
    regex: Regex,
    /// The header of each group, and the pattern of the time that it is.
    headers: Vec<(String, Option<String>)>,
}

impl Extractor {
    pub(super) fn new(settings: &Settings) -> Result<Extractor, StartError> {
        let regex = pattern(settings, "regex");
        let mut headers = Vec::new();
        for name in settings.names("serializers") {
            let of = |key: &str| settings.text(&format!("serializers.{name}.{key}")).map(str::trim);
            let header = of("name").ok_or_else(|| format!("serializers.{name}.name is not set"))?;
            let time = match of("type").unwrap_or("default") {
                kind if kind.eq_ignore_ascii_case("default") || kind == PLAIN_CLASS => None,
                kind if kind == MILLIS_CLASS => {
                    let pattern = of("pattern");
                    let pattern =
                        pattern.ok_or_else(|| format!("serializers.{name}.pattern is not set"))?;
                    Some(pattern.to_owned())
                }
                other => {
                    return Err(format!("serializers.{name}.type '{other}' is not known here"));
                }
            };
            headers.push((header.to_owned(), time));
        }
        Ok(Extractor { regex, headers })
    }

    pub(super) fn extract(&self, event: &mut Event) {
        let body = event.body.clone();
        let body = String::from_utf8_lossy(&body);
        let Some(found) = self.regex.captures(&body) else { return };
        for (index, (header, time)) in self.headers.iter().enumerate() {
            let Some(group) = found.get(index + 1) else { continue };
            match time {
                None => event.headers.set(header.as_str(), group.as_str()),
                // Flume lets the whole event fail; a header less is less harm.
                Some(pattern) => match parse_pattern(pattern, group.as_str()) {
                    Some(ms) => event.headers.set(header.as_str(), ms.to_string()),
                    None => {
                        tracing::debug!(header, text = group.as_str(), "is no time of its pattern")
                    }
                },
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Replacement {
    regex: Regex,
    by: String,
}

impl Replacement {
    pub(super) fn new(settings: &Settings) -> Replacement {
        let by = settings.required("replaceString");
        Replacement { regex: pattern(settings, "searchPattern"), by: from_java(by) }
    }

    /// The new body, if it differs.
    pub(super) fn replaced(&self, body: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(body);
        match self.regex.replace_all(&text, self.by.as_str()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(new) => Some(new),
        }
    }
}

/// Java's `$1x` is group 1 and an `x`, and its `\$` a sign; here `${1}x` and `$$` say so.
fn from_java(replacement: &str) -> String {
    let mut ours = String::new();
    let mut letters = replacement.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('$') => ours.push_str("$$"),
                Some(other) => ours.push(other),
                None => {}
            },
            '$' if letters.peek().is_some_and(char::is_ascii_digit) => {
                let digit = letters.next().expect("it was seen");
                ours.push_str(&format!("${{{digit}}}"));
            }
            other => ours.push(other),
        }
    }
    ours
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AgentConfig;
    use crate::tests::{flume, toml};

    /// Blanks at the ends of a pattern count in our form, and not in Flume's, as Flume has it.
    #[test]
    fn patterns_have_their_blanks() {
        let replaced = |config: AgentConfig| {
            let replacement = Replacement::new(&config.sources[0].interceptors[0]);
            replacement.replaced(b"a b  c")
        };
        for (pattern, expected) in
            [(" ", "a_b__c"), (" +", "a_b_c"), ("[ ] ", "a b_c"), ("a ", "_b  c"), (" c", "a b _")]
        {
            let text = format!(
                "[sources.r]\ntype = 'seq'\nchannels = ['c']\n[[sources.r.interceptors]]\ntype = 'search_replace'\n\
                 searchPattern = '{pattern}'\nreplaceString = '_'\n[channels.c]\ntype = 'memory'\n"
            );
            let config = toml(&text).expect("makes sense");
            assert_eq!(replaced(config).as_deref(), Some(expected), "'{pattern}'");
        }
        for pattern in ["b  ", r"\u0020b\u0020", "${env:NOT_IN_ANY_ENVIRONMENT:- b }"] {
            let config = flume(&format!(
                "a.sources = r\na.channels = c\na.sources.r.type = seq\na.sources.r.channels = c\na.channels.c.type = memory\n\
             a.sources.r.interceptors = i\na.sources.r.interceptors.i.type = search_replace\n\
             a.sources.r.interceptors.i.searchPattern = {pattern}\na.sources.r.interceptors.i.replaceString = _\n"
            ));
            assert_eq!(replaced(config.expect("makes sense")).as_deref(), Some("a _  c"));
        }
    }

    #[test]
    fn replacements_are_javas() {
        assert_eq!(from_java(r"$1x \$5 ${name}"), "${1}x $$5 ${name}");
        let replacement = Replacement {
            regex: Regex::new("([a-z])(\\d)").expect("is one"),
            by: from_java("$2$1!"),
        };
        assert_eq!(replacement.replaced(b"a1 b2 c"), Some("1a! 2b! c".to_owned()));
        assert_eq!(replacement.replaced(b"none"), None);
    }
}
