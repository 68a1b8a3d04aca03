//! What there is to be configured: a table for each component, from which configurations are checked and
//! the reference is written.

use logway_expression::{Expression, ParseError};

use crate::http_client::Endpoint;

/// What a component is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Where events arise.
    Source,
    /// Where they wait.
    Channel,
    /// Where they go.
    Sink,
    /// What changes them on the way into channels.
    Interceptor,
    /// What chooses channels for them.
    Selector,
    /// What chooses among sinks.
    Processor,
}

impl Role {
    /// As a word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Role::Source => "source",
            Role::Channel => "channel",
            Role::Sink => "sink",
            Role::Interceptor => "interceptor",
            Role::Selector => "selector",
            Role::Processor => "sink processor",
        }
    }
}

/// A kind of component.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// What it is.
    pub(crate) role: Role,
    /// What `type` says, in any case.
    pub(crate) name: &'static str,
    /// What Flume's configurations may say instead: other names, and classes.
    pub(crate) aliases: &'static [&'static str],
    /// What it does.
    pub(crate) doc: &'static str,
    /// What can be set.
    pub(crate) keys: &'static [Key],
    /// More tables of keys that it shares with others.
    pub(crate) shared: &'static [&'static [Key]],
}

/// Something that can be set.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name; one that ends in `*` stands for all that begin so.
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// What holds if it is not set.
    pub(crate) fallback: Fallback,
    /// What it is for.
    pub(crate) doc: &'static str,
}

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Any text but an empty one.
    Text,
    /// Any text, also an empty one.
    MaybeEmpty,
    /// A whole number from the first to the second, of a unit.
    Number(i64, i64, &'static str),
    /// `true` or `false`.
    Flag,
    /// One of these, in any case.
    Choice(&'static [&'static str]),
    /// `http://HOST:PORT/PATH`, or with `https://`.
    Address,
    /// A regular expression.
    Regex,
    /// An expression of any kind, in the log service's language.
    Expression,
    /// One that is true or false.
    Condition,
    /// Names, with blanks between.
    Names,
    /// One of these, because nothing else exists here; the text says why.
    Only(&'static [&'static str], &'static str),
    /// It is Flume's and has no meaning here; the text says why.
    Ignored(&'static str),
}

/// What holds if a key is not set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fallback {
    /// It has to be set.
    Required,
    /// Nothing.
    Nothing,
    /// This.
    Is(&'static str),
}

/// A key without a default.
pub(crate) const fn key(
    name: &'static str,
    kind: Kind,
    fallback: Fallback,
    doc: &'static str,
) -> Key {
    Key { name, kind, fallback, doc }
}

/// A TCP or UDP port.
pub(crate) const PORT: Kind = Kind::Number(0, 65535, "port");

impl Declaration {
    /// All its keys.
    pub(crate) fn all_keys(&self) -> impl Iterator<Item = &'static Key> {
        self.keys.iter().chain(self.shared.iter().flat_map(|keys| keys.iter()))
    }

    /// The key of a name as it is written.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        let exact = self.all_keys().find(|key| key.name == name);
        exact.or_else(|| self.all_keys().find(|key| key.covers(name)))
    }

    /// Whether `type` may call it so.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || self.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    }
}

impl Key {
    fn covers(&self, name: &str) -> bool {
        self.name.strip_suffix('*').is_some_and(|stem| name.starts_with(stem) && name != stem)
    }
}

impl Kind {
    /// What is wrong with a value.
    pub(crate) fn check(self, value: &str) -> Result<(), String> {
        let value = match self {
            Kind::MaybeEmpty | Kind::Ignored(_) => return Ok(()),
            // A blank matches a blank.
            Kind::Regex => value,
            _ => value.trim(),
        };
        if value.is_empty() {
            return Err("is empty".to_owned());
        }
        let is_among = |choices: &[&str]| choices.iter().any(|c| c.eq_ignore_ascii_case(value));
        match self {
            Kind::Text | Kind::Names | Kind::MaybeEmpty | Kind::Ignored(_) => Ok(()),
            Kind::Number(min, max, unit) => match value.parse::<i64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                _ => Err(format!("is '{value}', and not a number ({unit}) from {min} to {max}")),
            },
            Kind::Flag if is_among(&["true", "false"]) => Ok(()),
            Kind::Flag => Err(format!("is '{value}', and neither true nor false")),
            Kind::Choice(choices) if is_among(choices) => Ok(()),
            Kind::Choice(choices) => {
                Err(format!("is '{value}', and not one of {}", choices.join(", ")))
            }
            Kind::Address => {
                Endpoint::parse(value).map(drop).map_err(|error| format!("is not taken: {error}"))
            }
            Kind::Regex => regex_lite::Regex::new(value)
                .map(|_| ())
                .map_err(|error| format!("is no regular expression that is known here: {error}")),
            Kind::Expression => Expression::of_text(value).map(drop).map_err(no_expression),
            Kind::Condition => Expression::new(value).map(drop).map_err(no_expression),
            Kind::Only(choices, _) if is_among(choices) => Ok(()),
            Kind::Only(choices, why) => {
                Err(format!("is '{value}', and only {} is served: {why}", choices.join(" or ")))
            }
        }
    }

    /// As the reference says it.
    pub(crate) fn text(self) -> String {
        match self {
            Kind::Text => "text".to_owned(),
            Kind::MaybeEmpty => "text, perhaps empty".to_owned(),
            Kind::Number(min, i64::MAX, unit) => format!("{unit}, from {min}"),
            Kind::Number(min, max, unit) => format!("{unit}, {min} to {max}"),
            Kind::Flag => "`true` or `false`".to_owned(),
            Kind::Choice(choices) | Kind::Only(choices, _) => {
                choices.iter().map(|c| format!("`{c}`")).collect::<Vec<_>>().join(", ")
            }
            Kind::Address => "address".to_owned(),
            Kind::Regex => "regular expression".to_owned(),
            Kind::Expression => "expression".to_owned(),
            Kind::Condition => "expression that is true or false".to_owned(),
            Kind::Names => "names, with blanks between".to_owned(),
            Kind::Ignored(_) => "anything".to_owned(),
        }
    }
}

fn no_expression(error: ParseError) -> String {
    format!("is no expression: {error}")
}

/// Of some names the one that is most like a text, if any is much like it. Of names with dots, the last part counts
/// alone, too: people leave the rest away, and classes change their packages.
pub(crate) fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_lowercase();
    let last = |text: &str| text.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |name: &str| {
        let name = name.to_lowercase();
        // What was not written to its end is near, too.
        let is_beginning = text.len() >= 3 && name.starts_with(&text);
        let beginning = if is_beginning { 2 } else { usize::MAX };
        edits(&text, &name).min(1 + edits(&last(&text), &last(&name))).min(beginning)
    };
    let ranked = names.map(|name| (distance(name), name));
    let (edits, name) = ranked.min_by_key(|(edits, _)| *edits)?;
    (edits <= 2 + last(&text).len() / 4).then_some(name)
}

/// How many letters have to be set, dropped or changed (Levenshtein). Long texts are cut.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(100).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_if_it_is_near() {
        let names = ["batchSize", "batchTimeout", "command"];
        assert_eq!(nearest("batch-size", names.into_iter()), Some("batchSize"));
        assert_eq!(nearest("comand", names.into_iter()), Some("command"));
        assert_eq!(nearest("topic", ["kafka.topic", "top"].into_iter()), Some("kafka.topic"));
        assert_eq!(nearest("zookeeper", names.into_iter()), None);
    }

    #[test]
    fn values_are_judged_by_their_kind() {
        assert!(PORT.check("65536").is_err_and(|e| e.contains("0 to 65535")));
        assert!(PORT.check(" 80 ").is_ok());
        assert!(Kind::Flag.check("yes").is_err());
        assert!(Kind::Text.check("  ").is_err());
        assert!(Kind::Choice(&["a", "b"]).check("B").is_ok());
        assert!(Kind::Regex.check("(").is_err());
        assert_eq!(Kind::Expression.check("value.a"), Ok(()));
        assert_eq!(Kind::Condition.check("value.a == 1"), Ok(()));
        assert!(Kind::Condition.check("'text'").is_err_and(|e| e.contains("expression")));
        assert!(Kind::Expression.check("value.").is_err_and(|e| e.contains("at byte")));
    }
}
