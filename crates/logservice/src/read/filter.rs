//! Which records a reader gets.

use std::collections::HashSet;

use bytes::Bytes;
use logway_expression::Expression;
use logway_record::{Header, Record};

use crate::grpc::status::Status;
use crate::messages::log;
use crate::messages::log::header_condition::Value as HeaderValue;

/// Headers that a filter may ask for.
const HEADERS_MAX: usize = 16;

/// What a condition takes beside its bytes.
const PART_BYTES: usize = 80;

/// Conditions that a record must meet, all of them.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    keys: HashSet<Bytes>,
    key_prefix: Option<Bytes>,
    headers: Vec<log::HeaderCondition>,
    time_from_ms: i64,
    time_before_ms: i64,
    expression: Option<Expression>,
}

impl Filter {
    /// As a client wants it.
    pub(crate) fn new(filter: &log::Filter) -> Result<Filter, Status> {
        let log::Filter { keys, key_prefix, headers, time_from_ms, time_before_ms, expression } =
            filter;
        if headers.len() > HEADERS_MAX {
            let message = format!("a filter asks for {HEADERS_MAX} headers at most");
            return Err(Status::invalid(message).remedy("ask for the others in the expression"));
        }
        Ok(Filter {
            // Of their own: otherwise the whole request would be kept.
            keys: keys.iter().map(|key| Bytes::copy_from_slice(key)).collect(),
            key_prefix: key_prefix.as_ref().map(|prefix| Bytes::copy_from_slice(prefix)),
            headers: headers.iter().map(of_its_own).collect(),
            time_from_ms: time_from_ms.unwrap_or(i64::MIN),
            time_before_ms: time_before_ms.unwrap_or(i64::MAX),
            expression: match expression.as_str() {
                "" => None,
                text => Some(Expression::new(text).map_err(|error| {
                    Status::invalid(format!("filter.expression, {error}"))
                        .remedy("docs/LOGSERVICE.md has what expressions may say")
                })?),
            },
        })
    }

    /// Whether there is no condition.
    pub(crate) fn passes_all(&self) -> bool {
        self.keys.is_empty()
            && self.key_prefix.is_none()
            && self.headers.is_empty()
            && self.time_from_ms == i64::MIN
            && self.time_before_ms == i64::MAX
            && self.expression.is_none()
    }

    /// About how many bytes it keeps.
    pub(super) fn kept_bytes(&self) -> usize {
        let of_keys = self.keys.iter().chain(&self.key_prefix).map(|key| PART_BYTES + key.len());
        let of_headers = self.headers.iter().map(|condition| {
            let value = match &condition.value {
                Some(HeaderValue::Equals(value) | HeaderValue::Prefix(value)) => value.len(),
                None => 0,
            };
            PART_BYTES + condition.name.len() + value
        });
        let of_expression = self.expression.as_ref().map_or(0, Expression::kept_bytes);
        of_keys.chain(of_headers).sum::<usize>() + of_expression
    }

    /// How many headers it asks each record for.
    pub(super) fn header_conditions(&self) -> usize {
        self.headers.len()
    }

    /// What comes last, since it takes longest.
    pub(super) fn expression(&self) -> Option<&Expression> {
        self.expression.as_ref()
    }

    /// Whether a record meets all conditions but for the expression.
    pub(super) fn passes(&self, record: &Record) -> bool {
        let key = record.key.as_deref();
        let times = self.time_from_ms..self.time_before_ms;
        times.contains(&record.timestamp.0)
            && (self.keys.is_empty() || key.is_some_and(|key| self.keys.contains(key)))
            && self
                .key_prefix
                .as_deref()
                .is_none_or(|prefix| key.is_some_and(|key| key.starts_with(prefix)))
            && self
                .headers
                .iter()
                .all(|condition| record.headers.iter().any(|header| meets(condition, header)))
    }
}

/// The same condition, without the request that it came in.
fn of_its_own(condition: &log::HeaderCondition) -> log::HeaderCondition {
    let own = |value: &Bytes| Bytes::copy_from_slice(value);
    let value = condition.value.as_ref().map(|value| match value {
        HeaderValue::Equals(value) => HeaderValue::Equals(own(value)),
        HeaderValue::Prefix(value) => HeaderValue::Prefix(own(value)),
    });
    log::HeaderCondition { name: condition.name.clone(), value }
}

fn meets(condition: &log::HeaderCondition, header: &Header) -> bool {
    let value = header.value.as_deref();
    header.key == condition.name.as_bytes()
        && match &condition.value {
            None => true,
            Some(HeaderValue::Equals(wanted)) => value == Some(&wanted[..]),
            Some(HeaderValue::Prefix(prefix)) => {
                value.is_some_and(|value| value.starts_with(prefix))
            }
        }
}

#[cfg(test)]
mod tests {
    use logway_model::{Offset, TimestampMs};

    use super::*;

    fn record() -> Record {
        let header = |name: &'static str, value: Option<&'static str>| {
            Header::new(name, value.map(Bytes::from))
        };
        Record {
            offset: Offset(1),
            timestamp: TimestampMs(100),
            key: Some("user-7".into()),
            value: Some("[1]".into()),
            headers: vec![
                header("kind", Some("a")),
                header("kind", Some("buy")),
                header("x", None),
            ],
        }
    }

    fn condition(name: &str, value: Option<HeaderValue>) -> log::HeaderCondition {
        log::HeaderCondition { name: name.to_owned(), value }
    }

    #[test]
    fn all_conditions_must_be_met() {
        let none = log::Filter::default;
        let equals = |value: &'static str| Some(HeaderValue::Equals(value.into()));
        let prefix = |value: &'static str| Some(HeaderValue::Prefix(value.into()));
        let headers = |conditions: &[log::HeaderCondition]| log::Filter {
            headers: conditions.to_vec(),
            ..none()
        };
        let keys = |keys: &[&'static str]| log::Filter {
            keys: keys.iter().map(|key| Bytes::from(*key)).collect(),
            ..none()
        };
        for (filter, passes) in [
            (none(), true),
            (keys(&["user-7", "x"]), true),
            (keys(&["user-8"]), false),
            (log::Filter { key_prefix: Some("user-".into()), ..none() }, true),
            (log::Filter { key_prefix: Some("users".into()), ..none() }, false),
            (headers(&[condition("kind", equals("buy"))]), true),
            (headers(&[condition("kind", equals("bu"))]), false),
            (headers(&[condition("kind", prefix("bu"))]), true),
            (headers(&[condition("x", None)]), true),
            (headers(&[condition("x", prefix(""))]), false),
            (headers(&[condition("kind", equals("a")), condition("y", None)]), false),
            (log::Filter { time_from_ms: Some(100), time_before_ms: Some(101), ..none() }, true),
            (log::Filter { time_before_ms: Some(100), ..none() }, false),
            (
                log::Filter { key_prefix: Some("user".into()), time_from_ms: Some(101), ..none() },
                false,
            ),
        ] {
            let compiled = Filter::new(&filter).expect("is one");
            assert_eq!(compiled.passes(&record()), passes, "{filter:?}");
            assert_eq!(compiled.passes_all(), filter == none());
        }
        let keyless = Record { key: None, ..record() };
        let any_key = Filter::new(&log::Filter { key_prefix: Some("".into()), ..none() });
        assert!(!any_key.expect("is one").passes(&keyless), "no key is no empty key");
        let many = headers(&vec![condition("x", None); HEADERS_MAX + 1]);
        assert!(Filter::new(&many).is_err());
        let wrong = log::Filter { expression: "valu".to_owned(), ..none() };
        let error = Filter::new(&wrong).expect_err("is none");
        assert!(error.message.contains("at byte 0: 'valu' is not known"), "{error:?}");
    }
}
