//! Subscriptions by regular expression, which the coordinator matches with the names of topics.
//!
//! Patterns are matched where the requests of a shard are answered, so all that one can cost is bounded: what it takes when it is
//! compiled, and how much of its automaton is made on the way. Kafka matches elsewhere, in a thread of its own. A pattern
//! that takes more is refused; of those that people write, with up to 1,024 bytes, none does. Its syntax is RE2's, as in
//! Kafka, without classes of Unicode: names of topics are ASCII.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;

use logway_model::ErrorCode;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use tracing::{info, warn};

use crate::ids::{CommittedTopic, excerpt};
use crate::turn::Turn;

use super::draft::Draft;
use super::heartbeat::TopicSight;
use super::record::{ConsumerRecord, ResolvedPattern};
use super::refusal::Refusal;

/// What a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 128 << 10;

/// What is kept of its automaton at a time, and how often that may be made anew while the names of all topics are matched.
const AUTOMATON_BYTES_MAX: usize = 512 << 10;
const AUTOMATA_MAX: usize = 4;

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
        sight: Option<&TopicSight>,
    ) -> Result<bool, Refusal> {
        let is_other = former != present;
        if is_other && let Some(former) = former {
            self.forget_pattern(former);
        }
        let Some(sight) = sight else { return Ok(is_other) };
        if let Some(present) = present.filter(|_| is_other)
            && self.resolved(present).is_none()
        {
            self.accept_pattern(turn, present, sight)?;
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
        let topics = matched(turn, pattern, sight).map_err(|reason| invalid(pattern, &reason))?;
        self.write_resolved(turn, pattern, topics);
        Ok(())
    }

    /// Looks all patterns up again where there are new topics, that was long ago, or one was not looked up yet.
    fn refresh_patterns(&mut self, turn: &Turn, sight: &TopicSight) -> bool {
        let patterns: Vec<Arc<str>> = self.subscribed_patterns().cloned().collect();
        if !self.is_lookup_due(turn, &patterns) {
            return false;
        }
        let unread: Vec<Arc<str>> = self.resolved_patterns().map(|(it, _)| it.clone()).collect();
        unread.iter().for_each(|pattern| self.forget_pattern(pattern));
        let mut has_changed = false;
        for pattern in &patterns {
            match matched(turn, pattern, sight) {
                Ok(topics) => has_changed |= self.write_resolved(turn, pattern, topics),
                // Another version of this program took it, or Kafka; or it has become too much to match. Its topics stay
                // as they are, until it is looked up again.
                Err(reason) => {
                    let group = &self.id;
                    warn!(%group, pattern = excerpt(pattern, EXCERPT_BYTES), reason, "cannot be matched");
                    let former = self.resolved(pattern).map(|former| former.topics.clone());
                    self.write_resolved(turn, pattern, former.unwrap_or_default());
                }
            }
        }
        has_changed
    }

    fn is_lookup_due(&self, turn: &Turn, patterns: &[Arc<str>]) -> bool {
        let now_ms = turn.now.wall.0;
        let (mut oldest_ms, mut version) = (i64::MAX, i64::MAX);
        let mut is_one_missing = false;
        for pattern in patterns {
            let Some(resolved) = self.resolved(pattern) else {
                is_one_missing = true;
                continue;
            };
            oldest_ms = oldest_ms.min(resolved.resolved_at.0);
            version = version.min(resolved.version);
        }
        if version == i64::MAX {
            return is_one_missing;
        }
        let age_ms = now_ms.saturating_sub(oldest_ms);
        let interval_ms = i64::from(turn.settings.consumer.pattern_refresh_interval_ms);
        let is_old = version < turn.topics_made_at || age_ms > interval_ms || age_ms < 0;
        (is_old || is_one_missing) && !(0..=REFRESH_INTERVAL_MIN_MS).contains(&age_ms)
    }

    /// Writes down what a pattern stands for. Says whether that is new.
    fn write_resolved(
        &mut self,
        turn: &Turn,
        pattern: &Arc<str>,
        topics: BTreeSet<CommittedTopic>,
    ) -> bool {
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

/// The topics that a pattern matches, of those that somebody may know of. The error is a reason for people.
fn matched(
    turn: &Turn,
    pattern: &str,
    sight: &TopicSight,
) -> Result<BTreeSet<CommittedTopic>, String> {
    let mut matcher = Matcher::new(pattern)?;
    let (mut topics, mut failure) = (BTreeSet::new(), None);
    turn.view.visit_topic_names(&mut |name| match failure {
        Some(_) => {}
        None => match matcher.matches(name) {
            Ok(true) if sight.sees(name) => _ = topics.insert(CommittedTopic::from(name)),
            Ok(_) => {}
            Err(reason) => failure = Some(reason),
        },
    });
    failure.map_or(Ok(topics), Err)
}

/// A compiled pattern, with as much of its automaton as was needed so far.
struct Matcher {
    dfa: DFA,
    cache: Cache,
}

impl Matcher {
    /// Of a pattern that has to match the whole of a name.
    fn new(pattern: &str) -> Result<Matcher, String> {
        let whole = format!(r"\A(?:{})\z", unquoted(pattern));
        // Alone first: a pattern shall not end the group around it.
        build(&unquoted(pattern))?;
        let dfa = build(&whole)?;
        let cache = dfa.create_cache();
        Ok(Matcher { dfa, cache })
    }

    fn matches(&mut self, name: &str) -> Result<bool, String> {
        let input = Input::new(name.as_bytes()).anchored(Anchored::Yes).earliest(true);
        let found = self.dfa.try_search_fwd(&mut self.cache, &input);
        found.map(|end| end.is_some()).map_err(|_gave_up| {
            "it takes too much to match it with the names of all topics".to_owned()
        })
    }
}

fn build(pattern: &str) -> Result<DFA, String> {
    let syntax = syntax::Config::new().unicode(false).utf8(false).nest_limit(NESTING_MAX);
    let nfa = thompson::Config::new().utf8(false).nfa_size_limit(Some(COMPILED_BYTES_MAX));
    let dfa = DFA::config()
        .cache_capacity(AUTOMATON_BYTES_MAX)
        .minimum_cache_clear_count(Some(AUTOMATA_MAX))
        .minimum_bytes_per_state(None);
    let built = DFA::builder().syntax(syntax).thompson(nfa).configure(dfa).build(pattern);
    built.map_err(|error| {
        // What is below says more, and the last line of several has the reason; those before show where.
        let mut error: &dyn Error = &error;
        while let Some(below) = error.source() {
            error = below;
        }
        let text = error.to_string();
        if text.contains("exceeded limit") {
            return "it is too large when it is compiled".to_owned();
        }
        let reason = text.lines().last().unwrap_or_default();
        reason.trim_start_matches("error: ").to_owned()
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
        out += &regex_syntax::escape(quoted);
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
        let mut matcher = Matcher::new(pattern).expect("it is valid");
        matcher.matches(name).expect("it takes little")
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
            let refused = Matcher::new(pattern).err();
            assert_eq!(refused.as_deref(), Some(reason), "{pattern}");
        }
    }

    #[test]
    fn the_names_of_many_topics_are_not_too_much() {
        // With a `^` in front less of it is shared, and some bytes fewer fit.
        let names: Vec<String> = (0..95)
            .map(|number| format!("billing-eu-west-1.invoices-of-customer-{number:03}"))
            .collect();
        let pattern = names.join("|");
        assert!((4_000..=4_096).contains(&pattern.len()), "{}", pattern.len());
        let mut matcher = Matcher::new(&pattern).expect("it is as long as patterns may be");
        assert!(names.iter().all(|name| matcher.matches(name) == Ok(true)));
        assert_eq!(matcher.matches("billing-eu-west-1.invoices-of-customer-1234"), Ok(false));
    }

    #[test]
    fn what_takes_too_much_to_match_is_given_up() {
        // The automaton has a state for each set of places where one of the letters may have been.
        let mut matcher = Matcher::new("(.*a.{15}b|.*b.{14}c|.*c.{13}d).*").expect("it is short");
        let mut number = 1_u64;
        let mut name = || {
            let letter = |_| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'a' + (number >> 33) as u8 % 5)
            };
            (0..200).map(letter).collect::<String>()
        };
        let tried = (0..100_000).map(|_| matcher.matches(&name()));
        assert!(tried.into_iter().any(|matched| matched.is_err()));
        let names: Vec<_> =
            (0..40).map(|number| format!("team-{number}.orders.v{number}")).collect();
        let mut of_people = Matcher::new(&names.join("|")).expect("it is short");
        for number in 0..100_000 {
            let name = format!("team-{number}.orders.v{number}");
            assert_eq!(of_people.matches(&name), Ok(number < 40));
        }
    }
}
