//! Users' names out of the subjects of certificates: `ssl.principal.mapping.rules` (KIP-371).
//!
//! A rule is `DEFAULT`, which takes the subject as it is, or `RULE:pattern/replacement/`, perhaps with `L` or `U`
//! behind it for small letters or capitals. Patterns are regular expressions that must fit the whole subject;
//! `$1` in a replacement is a group. A slash within a part is written `\/`. The first rule that fits counts.

use regex_lite::{Captures, Regex};
use thiserror::Error;

/// The rules of one listener.
#[derive(Debug, Clone)]
pub struct PrincipalRules(Vec<Rule>);

#[derive(Debug, Clone)]
enum Rule {
    Default,
    Mapped { whole: Regex, pattern: Regex, replacement: String, letters: Letters },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    AsTheyAre,
    Small,
    Capital,
}

/// A text that is no rule.
#[derive(Debug, Error)]
#[error(
    "ssl.principal.mapping.rules has no rule of the form RULE:pattern/replacement/ or DEFAULT at '{at}': {reason}"
)]
pub struct WrongRule {
    /// Where it begins, shortened.
    pub at: String,
    /// Why.
    pub reason: String,
}

impl PrincipalRules {
    /// Reads rules, separated by commas.
    pub fn parse(text: &str) -> Result<PrincipalRules, WrongRule> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (rule, behind) = parse_rule(rest)
                .map_err(|reason| WrongRule { at: rest.chars().take(64).collect(), reason })?;
            rules.extend(rule);
            rest = behind;
        }
        Ok(PrincipalRules(rules))
    }

    /// The name that the first rule makes that fits; `None` if none does.
    pub fn apply(&self, subject: &str) -> Option<String> {
        self.0.iter().find_map(|rule| rule.apply(subject))
    }
}

/// The rule at the front, and what comes behind its comma. An empty rule is none.
fn parse_rule(text: &str) -> Result<(Option<Rule>, &str), String> {
    let (rule, rest) = if let Some(rest) = text.strip_prefix("DEFAULT") {
        (Some(Rule::Default), rest)
    } else if let Some(rest) = text.strip_prefix("RULE:") {
        let (pattern, rest) = until_slash(rest)?;
        let (replacement, rest) = until_slash(rest)?;
        let (letters, rest) = match rest.as_bytes().first() {
            Some(b'L') => (Letters::Small, &rest[1..]),
            Some(b'U') => (Letters::Capital, &rest[1..]),
            _ => (Letters::AsTheyAre, rest),
        };
        let compile = |text: &str| Regex::new(text).map_err(|error| error.to_string());
        let (whole, pattern) = (compile(&format!("^(?:{pattern})$"))?, compile(pattern)?);
        let replacement = replacement.to_owned();
        (Some(Rule::Mapped { whole, pattern, replacement, letters }), rest)
    } else {
        (None, text)
    };
    let rest = rest.trim_start();
    match rest.strip_prefix(',') {
        Some(behind) => Ok((rule, behind.trim_start())),
        None if rest.is_empty() => Ok((rule, rest)),
        None => Err("a comma or the end should come behind a rule".to_owned()),
    }
}

/// What comes before the next slash that has no backslash, and what comes behind it.
fn until_slash(text: &str) -> Result<(&str, &str), String> {
    let mut is_escaped = false;
    for (at, char) in text.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '/' => return Ok((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    Err("a slash is missing".to_owned())
}

impl Rule {
    fn apply(&self, subject: &str) -> Option<String> {
        let Rule::Mapped { whole, pattern, replacement, letters } = self else {
            return Some(subject.to_owned());
        };
        if !whole.is_match(subject) {
            return None;
        }
        let expand = |groups: &Captures<'_>| expanded(replacement, groups);
        let name = pattern.replace_all(subject, expand);
        Some(match letters {
            Letters::AsTheyAre => name.into_owned(),
            Letters::Small => name.to_lowercase(),
            Letters::Capital => name.to_uppercase(),
        })
    }
}

/// A replacement with its groups filled in. A number is as long as there is such a group; one of no group stands for
/// itself.
fn expanded(replacement: &str, groups: &Captures<'_>) -> String {
    let mut text = String::new();
    let mut rest = replacement;
    while let Some(char) = rest.chars().next() {
        rest = &rest[char.len_utf8()..];
        match char {
            '\\' => {
                let literal = rest.chars().next();
                text.extend(literal);
                rest = &rest[literal.map_or(0, char::len_utf8)..];
            }
            '$' => {
                let digits = rest.bytes().take(4).take_while(u8::is_ascii_digit).count();
                let group = (1..=digits).rev().find_map(|length| {
                    let number: usize = rest[..length].parse().ok()?;
                    (number < groups.len()).then_some((number, length))
                });
                match group {
                    Some((number, length)) => {
                        text.push_str(groups.get(number).map_or("", |group| group.as_str()));
                        rest = &rest[length..];
                    }
                    None => text.push('$'),
                }
            }
            char => text.push(char),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SUBJECT: &str = "CN=Duke,OU=ServiceUsers,O=Org,C=US";

    fn name_by(rules: &str, subject: &str) -> Option<String> {
        PrincipalRules::parse(rules).expect("are rules").apply(subject)
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rules = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, \
                     RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/U ,\
                     RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/,DEFAULT";
        for (subject, name) in [
            (SUBJECT, "duke"),
            ("CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "DUKE@SME"),
            ("cn=duke,OU=SME,O=mycp", "duke"),
            ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ] {
            assert_eq!(name_by(rules, subject).as_deref(), Some(name), "{subject}");
        }
    }

    #[test]
    fn without_a_rule_that_fits_there_is_no_name() {
        assert_eq!(name_by("RULE:^CN=x$/$0/", SUBJECT), None);
        assert_eq!(name_by("", SUBJECT), None);
        assert_eq!(
            name_by("RULE:CN=Duke/x/", SUBJECT),
            None,
            "a part of the subject is not enough"
        );
    }

    #[test]
    fn groups_that_there_are_not_stand_for_themselves() {
        assert_eq!(name_by("RULE:^CN=(.*?),.*$/$1$2/", SUBJECT).as_deref(), Some("Duke$2"));
        assert_eq!(name_by("RULE:^CN=(.*?),.*$/$12/", SUBJECT).as_deref(), Some("Duke2"));
        assert_eq!(name_by("RULE:^CN=(.*?),.*$/a\\/\\$1/", SUBJECT).as_deref(), Some("a/$1"));
    }

    #[test]
    fn what_is_no_rule_is_named() {
        for wrong in
            ["RULE:a", "RULE:a/b", "nonsense", "DEFAULT DEFAULT", "RULE:(/x/", "DEFAULT,RULE:a/b/X"]
        {
            assert!(PrincipalRules::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_and_no_subject_is_too_odd(rules in "(RULE:|DEFAULT|[,/$\\\\(.*)1-9LU])*", subject in ".*") {
            if let Ok(rules) = PrincipalRules::parse(&rules) {
                let _ = rules.apply(&subject);
            }
        }
    }
}
