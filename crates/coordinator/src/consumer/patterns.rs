//! Subscriptions by regular expression, which the coordinator matches with the names of topics.
//!
//! A pattern is matched in a time that is linear in its length and the names', with memory that is bounded. Its syntax is
//! RE2's, as in Kafka, without classes of Unicode: names of topics are ASCII.

use std::collections::BTreeSet;
use std::sync::Arc;

use logway_model::ErrorCode;
use regex::bytes::{Regex, RegexBuilder};
use tracing::{info, warn};

use crate::ids::{CommittedTopic, excerpt};
use crate::turn::Turn;

use super::draft::Draft;
use super::heartbeat::TopicSight;
use super::record::{ConsumerRecord, ResolvedPattern};
use super::refusal::Refusal;

/// What a compiled pattern may take, and its automaton again.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// How deep groups and repetitions of a pattern may be nested.
const NESTING_MAX: u32 = 100;

/// Patterns of a group are not looked up anew more often than that.
const REFRESH_INTERVAL_MIN_MS: i64 = 10_000;

/// How much of a pattern a message repeats.
const EXCERPT_BYTES: usize = 255;

impl Draft {
    /// A member subscribes by another pattern, or by the same as before. Says whether the topics of the group are to be
    /// looked at.
    pub(super) fn update_patterns(
        &mut self,
        turn: &Turn,
        former: Option<&Arc<str>>,
        present: Option<&Arc<str>>,
        sight: &TopicSight,
    ) -> Result<bool, Refusal> {
        let is_other = former != present;
        if is_other {
            if let Some(former) = former {
                self.forget_pattern(former);
            }
            if let Some(present) = present.filter(|pattern| self.resolved(pattern).is_none()) {
                self.accept_pattern(turn, present, sight)?;
            }
        }
        let has_changed = self.refresh_patterns(turn, sight);
        Ok(is_other || has_changed)
    }

    /// Lets go of a pattern by which nobody subscribes any more.
    pub(super) fn forget_pattern(&mut self, pattern: &Arc<str>) {
        if self.readers_of_pattern(pattern) == 0 && self.resolved(pattern).is_some() {
            self.write(ConsumerRecord::Pattern(Arc::clone(pattern), None));
        }
    }

    fn accept_pattern(
        &mut self,
        turn: &Turn,
        pattern: &Arc<str>,
        sight: &TopicSight,
    ) -> Result<(), Refusal> {
        let limits = &turn.settings.consumer;
        if pattern.len() > limits.pattern_bytes_max {
            let reason = format!("it is longer than {} bytes", limits.pattern_bytes_max);
            return Err(invalid(pattern, &reason));
        }
        if self.subscribed_patterns().len() > limits.patterns_max {
            let reason = format!("the group has {} others already", limits.patterns_max);
            return Err(invalid(pattern, &reason));
        }
        let regex = compile(pattern).map_err(|reason| invalid(pattern, &reason))?;
        self.write_resolved(turn, pattern, &regex, sight);
        Ok(())
    }

    /// Looks all patterns up again where there are new topics or that was long ago.
    fn refresh_patterns(&mut self, turn: &Turn, sight: &TopicSight) -> bool {
        let now_ms = turn.now.wall.0;
        let all = self.resolved_patterns().map(|(_, resolved)| resolved);
        let (mut oldest_ms, mut version) = (i64::MAX, i64::MAX);
        for resolved in all {
            oldest_ms = oldest_ms.min(resolved.resolved_at.0);
            version = version.min(resolved.version);
        }
        if version == i64::MAX {
            return false;
        }
        let age_ms = now_ms.saturating_sub(oldest_ms);
        let interval_ms = i64::from(turn.settings.consumer.pattern_refresh_interval_ms);
        let is_old = version < turn.topics_made_at || age_ms > interval_ms || age_ms < 0;
        if !is_old || (0..=REFRESH_INTERVAL_MIN_MS).contains(&age_ms) {
            return false;
        }
        let mut has_changed = false;
        let patterns: Vec<Arc<str>> = self.subscribed_patterns().cloned().collect();
        for pattern in &patterns {
            match compile(pattern) {
                Ok(regex) => has_changed |= self.write_resolved(turn, pattern, &regex, sight),
                // Another version of this program took it. Its topics stay as they are.
                Err(reason) => {
                    let group = &self.id;
                    warn!(%group, pattern = excerpt(pattern, EXCERPT_BYTES), reason, "cannot be compiled");
                }
            }
        }
        has_changed
    }

    /// Writes down what a pattern stands for, as far as the member may know of the topics. Says whether that is new.
    fn write_resolved(
        &mut self,
        turn: &Turn,
        pattern: &Arc<str>,
        regex: &Regex,
        sight: &TopicSight,
    ) -> bool {
        let mut topics = BTreeSet::new();
        turn.view.visit_topic_names(&mut |name| {
            if regex.is_match(name.as_bytes()) && sight.sees(name) {
                topics.insert(CommittedTopic::from(name));
            }
        });
        let is_new = self.resolved(pattern).is_none_or(|former| former.topics != topics);
        if is_new {
            info!(group = %self.id, pattern = excerpt(pattern, EXCERPT_BYTES), topics = topics.len(),
                "a pattern has other topics");
        }
        let (version, resolved_at) = (turn.view.version(), turn.now.wall);
        let resolved = ResolvedPattern { topics, version, resolved_at };
        self.write(ConsumerRecord::Pattern(Arc::clone(pattern), Some(Arc::new(resolved))));
        is_new
    }
}

fn invalid(pattern: &str, reason: &str) -> Refusal {
    let shown = excerpt(pattern, EXCERPT_BYTES);
    Refusal::new(
        ErrorCode::InvalidRegularExpression,
        format!("SubscribedTopicRegex `{shown}` is not a valid regular expression: {reason}."),
    )
}

/// Compiles a pattern that has to match the whole of a name. The error is a reason for people.
fn compile(pattern: &str) -> Result<Regex, String> {
    let whole = format!(r"\A(?:{})\z", unquoted(pattern));
    // Alone first: a pattern shall not end the group around it.
    build(&unquoted(pattern))?;
    build(&whole)
}

fn build(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .nest_limit(NESTING_MAX)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large when it is compiled".to_owned(),
        error => {
            // The last line of several has the reason; those before show where.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default();
            reason.trim_start_matches("error: ").to_owned()
        }
    })
}

/// The pattern with what stands between `\Q` and `\E` escaped: RE2 has that, and the library does not.
fn unquoted(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(place) = find_quote(rest) {
        out += &rest[..place];
        let quoted = &rest[place + 2..];
        let (quoted, behind) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
        out += &regex::escape(quoted);
        rest = behind;
    }
    out + rest
}

/// Where the next `\Q` is whose backslash is not escaped itself.
fn find_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut place = 0;
    while place + 1 < bytes.len() {
        match (bytes[place], bytes[place + 1]) {
            (b'\\', b'Q') => return Some(place),
            (b'\\', _) => place += 2,
            _ => place += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        compile(pattern).expect("it is valid").is_match(name.as_bytes())
    }

    #[test]
    fn a_pattern_matches_whole_names() {
        assert!(
            matches("ord.*", "orders") && !matches("rd.*", "orders") && !matches("ord", "orders")
        );
        assert!(matches("a|orders", "orders") && !matches("a|order", "orders"));
        assert!(matches(r"\d+", "17") && matches("", "") && !matches("", "a"));
    }

    #[test]
    fn what_is_quoted_stands_for_itself() {
        assert!(matches(r"\Qa.b\E.*", "a.bc") && !matches(r"\Qa.b\E.*", "axbc"));
        assert!(matches(r"\Qa.b", "a.b") && !matches(r"\\Qa", "Qa"));
        assert!(matches(r"\\Qa", r"\Qa"));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_a_reason() {
        for (pattern, reason) in [
            ("(", "unclosed group"),
            (")(", "unopened group"),
            ("a)|(b", "unopened group"),
            ("[", "unclosed character class"),
            ("*", "repetition operator missing expression"),
            ("((a{1000}){1000}){1000}", "it is too large when it is compiled"),
            (r"(a)\1", "backreferences are not supported"),
        ] {
            assert_eq!(compile(pattern).expect_err(pattern), reason, "{pattern}");
        }
    }
}
