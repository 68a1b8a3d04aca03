//! What values must obey by AWS's model, and AWS's words for what they do not.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::OnceLock;

use regex_lite::Regex;

use crate::shape::{Kind, Shape};
use crate::shapes::OPERATIONS;
use crate::tables::OPERATIONS as TABLE_OPERATIONS;
use crate::value::{Structure, Value};

/// So many violations are named.
const VIOLATIONS_MAX: usize = 10;

/// As much of a value is repeated in a violation.
const SHOWN_CHARS: usize = 1_024;

/// A character takes so many bytes at most.
const CHAR_BYTES_MAX: usize = 4;

/// Where the model has no greatest length, its patterns are those of numbers, which are shorter.
const NUMBER_BYTES_MAX: usize = 1_024;

/// Checks a request; the error is the message of a `ValidationException`.
pub(crate) fn validate(shape: &'static Shape, input: &Structure) -> Result<(), String> {
    let mut violations = Vec::new();
    check_members(shape, Some(input), &Path::Root, &mut violations);
    match violations.len() {
        0 => Ok(()),
        count => {
            let plural = if count == 1 { "" } else { "s" };
            Err(format!("{count} validation error{plural} detected: {}", violations.join("; ")))
        }
    }
}

/// The violation of a member that must be there, which the model does not say.
pub(crate) fn missing(member: &str) -> String {
    format!(
        "1 validation error detected: {}",
        violation("null", &member, "Member must not be null")
    )
}

/// Whether a response is what the model says, but for what AWS itself leaves out: the continuation of a shard that has
/// ended.
pub(crate) fn conforms(shape: &'static Shape, value: &Value) -> bool {
    match (&shape.kind, value) {
        (Kind::Structure(members), Value::Structure(structure)) => {
            let known = |name: &str| members.iter().find(|member| member.name == name);
            let is_whole = members.iter().all(|member| {
                !member.required
                    || structure.get(member.name).is_some()
                    || member.name == "ContinuationSequenceNumber"
            });
            let fits = |(name, value): &(&'static str, Value)| {
                known(name).is_some_and(|member| conforms(member.shape, value))
            };
            is_whole && structure.0.iter().all(fits)
        }
        (Kind::List(of), Value::List(list)) => list.entries.iter().all(|it| conforms(of, it)),
        (Kind::Map(_, of), Value::Map(entries)) => entries.iter().all(|(_, it)| conforms(of, it)),
        (Kind::Word(words), Value::Text(text)) => words.contains(&text.as_str()),
        (Kind::Boolean, Value::Boolean(_))
        | (Kind::Integer | Kind::Long, Value::Number(_))
        | (Kind::Double, Value::Double(_))
        | (Kind::Text, Value::Text(_))
        | (Kind::Blob, Value::Blob(_))
        | (Kind::Timestamp, Value::Timestamp(_)) => true,
        _ => false,
    }
}

/// Where a value is in a request. A request has thousands of values, so its text is only made for those that are wrong.
#[derive(Debug, Clone, Copy)]
enum Path<'a> {
    /// The request.
    Root,
    /// A member of a structure.
    Member(&'a Path<'a>, &'static str),
    /// An entry of a list, from 1 on.
    Entry(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Member(Path::Root, name) => f.write_str(&lower_first(name)),
            Path::Member(of, name) => write!(f, "{of}.{}", lower_first(name)),
            Path::Entry(of, number) => write!(f, "{of}.{number}.member"),
        }
    }
}

fn check_members(
    shape: &'static Shape,
    input: Option<&Structure>,
    path: &Path<'_>,
    violations: &mut Vec<String>,
) {
    let Kind::Structure(members) = shape.kind else { return };
    for member in members {
        let path = Path::Member(path, member.name);
        match input.and_then(|input| input.get(member.name)) {
            Some(value) => check(member.shape, value, &path, violations),
            None if member.required => {
                push(violations, || violation("null", &path, "Member must not be null"));
            }
            None => {}
        }
    }
}

fn check(shape: &'static Shape, value: &Value, path: &Path<'_>, violations: &mut Vec<String>) {
    let mut fail = |constraint: String| {
        push(violations, || violation(&format!("'{}'", shown(shape, value)), path, &constraint));
    };
    match (&shape.kind, value) {
        (Kind::Integer | Kind::Long, Value::Number(number)) => {
            if let Some(min) = shape.min.filter(|min| number < min) {
                fail(format!("Member must have value greater than or equal to {min}"));
            }
            if let Some(max) = shape.max.filter(|max| number > max) {
                fail(format!("Member must have value less than or equal to {max}"));
            }
        }
        (Kind::Word(words), Value::Text(text)) if !words.contains(&text.as_str()) => {
            let words = words.join(", ");
            fail(format!("Member must satisfy enum value set: [{words}]"));
        }
        (Kind::Text, Value::Text(text)) => {
            if let Some(pattern) = broken_pattern(shape, text) {
                fail(format!("Member must satisfy regular expression pattern: {pattern}"));
            }
            check_length(shape, value, &mut fail);
        }
        (Kind::Blob, Value::Blob(_)) => check_length(shape, value, &mut fail),
        (Kind::List(of), Value::List(list)) => {
            check_length(shape, value, &mut fail);
            if matches!(of.kind, Kind::Text) {
                if !list.entries.iter().all(|entry| has_length(of, entry)) {
                    fail(of_each("Member must satisfy constraint", of));
                }
                return;
            }
            for (number, entry) in (1..).zip(&list.entries) {
                let path = Path::Entry(path, number);
                match entry {
                    Value::Structure(entry) => check_members(of, Some(entry), &path, violations),
                    entry => check(of, entry, &path, violations),
                }
            }
        }
        (Kind::Map(key, of), Value::Map(entries)) => {
            check_length(shape, value, &mut fail);
            let is_long_enough = |(text, _): &(String, Value)| length_fits(key, text_length(text));
            if !entries.iter().all(is_long_enough) {
                fail(of_each("Map keys must satisfy constraint", key));
            }
            if !entries.iter().all(|(_, value)| has_length(of, value)) {
                fail(of_each("Map value must satisfy constraint", of));
            }
        }
        (Kind::Structure(_), Value::Structure(inner)) => {
            check_members(shape, Some(inner), path, violations);
        }
        _ => {}
    }
}

fn check_length(shape: &Shape, value: &Value, fail: &mut impl FnMut(String)) {
    let length = length(value);
    if let Some(min) = shape.min.filter(|min| length < *min) {
        fail(format!("Member must have length greater than or equal to {min}"));
    }
    if let Some(max) = shape.max.filter(|max| length > *max) {
        fail(format!("Member must have length less than or equal to {max}"));
    }
}

fn has_length(shape: &Shape, value: &Value) -> bool {
    length_fits(shape, length(value))
}

fn length_fits(shape: &Shape, length: i64) -> bool {
    shape.min.is_none_or(|min| length >= min) && shape.max.is_none_or(|max| length <= max)
}

/// How AWS counts: characters as Java has them, bytes, or entries.
fn length(value: &Value) -> i64 {
    let count = match value {
        Value::Text(text) => return text_length(text),
        Value::Blob(blob) => blob.len(),
        Value::List(list) => list.count,
        Value::Map(entries) => entries.len(),
        _ => 0,
    };
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn text_length(text: &str) -> i64 {
    i64::try_from(text.encode_utf16().count()).unwrap_or(i64::MAX)
}

fn of_each(what: &str, of: &Shape) -> String {
    let max = of.max.map(|max| format!("Member must have length less than or equal to {max}"));
    let min = of.min.map(|min| format!("Member must have length greater than or equal to {min}"));
    let all: Vec<String> = max.into_iter().chain(min).collect();
    format!("{what}: [{}]", all.join(", "))
}

fn push(violations: &mut Vec<String>, violation: impl FnOnce() -> String) {
    if violations.len() < VIOLATIONS_MAX {
        violations.push(violation());
    }
}

fn violation(value: &str, path: &dyn fmt::Display, constraint: &str) -> String {
    format!("Value {value} at '{path}' failed to satisfy constraint: {constraint}")
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect()
}

/// A value as AWS repeats it, which Java has written.
fn shown(shape: &Shape, value: &Value) -> String {
    let mut text = String::new();
    push_shown(shape, value, &mut text);
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn push_shown(shape: &Shape, value: &Value, text: &mut String) {
    if text.len() > 4 * SHOWN_CHARS {
        return;
    }
    match value {
        Value::Boolean(value) => text.push_str(&value.to_string()),
        Value::Number(number) | Value::Timestamp(number) => text.push_str(&number.to_string()),
        Value::Double(number) => text.push_str(&number.to_string()),
        Value::Text(value) => text.extend(value.chars().take(SHOWN_CHARS + 1)),
        Value::Blob(blob) => {
            let length = blob.len();
            text.push_str(&format!("java.nio.HeapByteBuffer[pos=0 lim={length} cap={length}]"));
        }
        Value::List(list) => {
            let of = if let Kind::List(of) = shape.kind { of } else { shape };
            text.push('[');
            for (index, entry) in list.entries.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                push_shown(of, entry, text);
            }
            text.push(']');
        }
        Value::Map(entries) => {
            let of = if let Kind::Map(_, of) = shape.kind { of } else { shape };
            text.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                text.extend(key.chars().take(SHOWN_CHARS + 1));
                text.push('=');
                push_shown(of, value, text);
            }
            text.push('}');
        }
        Value::Structure(_) => {
            text.push_str("com.amazonaws.kinesis.v20131202.");
            text.push_str(shape.name);
        }
    }
}

/// The pattern that a text breaks. Matching takes long with long texts. So it is left out where the length says enough.
fn broken_pattern(shape: &Shape, text: &str) -> Option<&'static str> {
    let pattern = shape.pattern?;
    let max_bytes =
        shape.max.and_then(|max| usize::try_from(max).ok()).map(|max| max * CHAR_BYTES_MAX);
    match max_bytes {
        // It is told its length.
        Some(max_bytes) if text.len() > max_bytes => None,
        None if text.len() > NUMBER_BYTES_MAX => Some(pattern),
        _ => (!matches(pattern, text)).then_some(pattern),
    }
}

/// Whether the whole of a text matches a pattern of the model.
fn matches(pattern: &'static str, text: &str) -> bool {
    patterns().get(pattern).is_none_or(|regex| regex.is_match(text))
}

/// Every pattern of the model, compiled once.
fn patterns() -> &'static HashMap<&'static str, Regex> {
    static PATTERNS: OnceLock<HashMap<&'static str, Regex>> = OnceLock::new();
    PATTERNS.get_or_init(|| {
        let mut patterns = HashMap::new();
        let mut seen = HashSet::new();
        let of_streams = OPERATIONS.iter().map(|operation| operation.input);
        let of_tables = TABLE_OPERATIONS.iter().map(|operation| operation.input);
        of_streams.chain(of_tables).for_each(|shape| collect(shape, &mut patterns, &mut seen));
        patterns
    })
}

/// A shape can have itself in it, so each is looked at once.
fn collect(
    shape: &'static Shape,
    patterns: &mut HashMap<&'static str, Regex>,
    seen: &mut HashSet<*const Shape>,
) {
    if !seen.insert(shape) {
        return;
    }
    if let Some(pattern) = shape.pattern {
        patterns.entry(pattern).or_insert_with(|| {
            Regex::new(&format!("^(?:{pattern})$")).expect("the model's patterns are simple")
        });
    }
    match shape.kind {
        Kind::List(of) => collect(of, patterns, seen),
        Kind::Map(key, of) => {
            collect(key, patterns, seen);
            collect(of, patterns, seen);
        }
        Kind::Structure(members) => {
            members.iter().for_each(|member| collect(member.shape, patterns, seen));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::type_error::TypeErrors;

    /// What is said of a request in JSON.
    fn said(operation: &str, body: &str) -> Result<(), String> {
        let operation = OPERATIONS.iter().find(|it| it.text == operation).expect("is served");
        let errors = TypeErrors::default();
        let input = json::decode(body.as_bytes(), operation.input, &errors).expect("is JSON");
        match errors.into_first() {
            Some(error) => Err(error),
            None => validate(operation.input, &input),
        }
    }

    #[test]
    fn every_pattern_of_the_model_is_understood() {
        assert!(patterns().len() > 5);
    }

    #[test]
    fn violations_are_in_the_words_of_aws() {
        let cases = [
            ("GetRecords", r#"{"ShardIterator":"x","Limit":5}"#, ""),
            (
                "GetRecords",
                r#"{}"#,
                "1 validation error detected: Value null at 'shardIterator' failed to satisfy constraint: Member must \
                 not be null",
            ),
            (
                "GetRecords",
                r#"{"ShardIterator":"","Limit":0}"#,
                "2 validation errors detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value \
                 greater than or equal to 1; Value '' at 'shardIterator' failed to satisfy constraint: Member must have \
                 length greater than or equal to 1",
            ),
            (
                "GetShardIterator",
                r#"{"StreamName":"a","ShardId":"a","ShardIteratorType":"NOW","StartingSequenceNumber":"01"}"#,
                "2 validation errors detected: Value 'NOW' at 'shardIteratorType' failed to satisfy constraint: Member \
                 must satisfy enum value set: [AT_SEQUENCE_NUMBER, AFTER_SEQUENCE_NUMBER, TRIM_HORIZON, LATEST, \
                 AT_TIMESTAMP]; Value '01' at 'startingSequenceNumber' failed to satisfy constraint: Member must satisfy \
                 regular expression pattern: ^(0|([1-9]\\d{0,128}))$",
            ),
            (
                "PutRecords",
                r#"{"StreamName":"a","Records":[{"Data":"","PartitionKey":"k"},{"PartitionKey":""}]}"#,
                "2 validation errors detected: Value null at 'records.2.member.data' failed to satisfy constraint: \
                 Member must not be null; Value '' at 'records.2.member.partitionKey' failed to satisfy constraint: \
                 Member must have length greater than or equal to 1",
            ),
            (
                "RemoveTagsFromStream",
                r#"{"StreamName":"a","TagKeys":["a",""]}"#,
                "1 validation error detected: Value '[a, ]' at 'tagKeys' failed to satisfy constraint: Member must \
                 satisfy constraint: [Member must have length less than or equal to 128, Member must have length greater \
                 than or equal to 1]",
            ),
            (
                "AddTagsToStream",
                r#"{"StreamName":"a","Tags":{"":"b"}}"#,
                "1 validation error detected: Value '{=b}' at 'tags' failed to satisfy constraint: Map keys must \
                 satisfy constraint: [Member must have length less than or equal to 128, Member must have length greater \
                 than or equal to 1]",
            ),
        ];
        for (operation, body, expected) in cases {
            let said = said(operation, body).err().unwrap_or_default();
            assert_eq!(said, expected, "{operation} {body}");
        }
    }

    #[test]
    fn wrong_types_are_told_in_the_words_of_aws() {
        let cases = [
            (
                "ListStreams",
                r#"{"Limit":"5"}"#,
                "class java.lang.String can not be converted to an Integer",
            ),
            (
                "ListStreams",
                r#"{"Limit":true}"#,
                "class java.lang.Boolean can not be converted to an Integer",
            ),
            ("ListStreams", r#"{"Limit":[]}"#, "Start of list found where not expected"),
            (
                "ListStreams",
                r#"{"Limit":{}}"#,
                "Start of structure or map found where not expected.",
            ),
            (
                "DescribeStream",
                r#"{"StreamName":5}"#,
                "class com.amazon.coral.value.json.numbers.TruncatingBigNumber can not be converted to an String",
            ),
            ("PutRecords", r#"{"Records":"x"}"#, "Expected list or null"),
            ("PutRecords", r#"{"Records":["x"]}"#, "Expected null"),
            ("AddTagsToStream", r#"{"Tags":7}"#, "Expected map or null"),
            (
                "PutRecord",
                r#"{"Data":"abc"}"#,
                "'abc' can not be converted to a Blob: Base64 encoded length is expected a multiple of 4 bytes but \
                 found: 3",
            ),
            (
                "PutRecord",
                r#"{"Data":"ab~="}"#,
                "'ab~=' can not be converted to a Blob: Invalid Base64 character: '~'",
            ),
            (
                "DeleteStream",
                r#"{"EnforceConsumerDeletion":"no"}"#,
                "'NO' can not be converted to an Boolean",
            ),
        ];
        for (operation, body, expected) in cases {
            assert_eq!(said(operation, body), Err(expected.to_owned()), "{operation} {body}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_told_so_before_any_pattern() {
        for (length, told) in [(128, 0), (129, 1), (16 << 20, 1)] {
            let name = "a".repeat(length);
            let body = format!(r#"{{"StreamName":"{name}"}}"#);
            let said = said("DescribeStream", &body).err().unwrap_or_default();
            assert_eq!(said.matches("length less than or equal to 128").count(), told, "{length}");
        }
        let body = format!(r#"{{"StreamName":"{}"}}"#, "!".repeat(600));
        let length_only = said("DescribeStream", &body).expect_err("is too long");
        assert!(!length_only.contains("pattern"), "{length_only}");
        let key = format!("1{}", "0".repeat(2_000));
        let body = format!(r#"{{"Data":"","PartitionKey":"k","ExplicitHashKey":"{key}"}}"#);
        let said = said("PutRecord", &body).expect_err("is no number of the model");
        assert!(said.contains("regular expression pattern: ^(0|([1-9]\\d{0,38}))$"), "{said}");
    }

    #[test]
    fn a_long_list_is_counted_and_not_kept() {
        let body = format!(r#"{{"StreamName":"a","TagKeys":[{}"k"]}}"#, r#""k","#.repeat(100_000));
        let said = said("RemoveTagsFromStream", &body).expect_err("is too long");
        assert!(said.contains("Member must have length less than or equal to"), "{said}");
        assert!(said.len() < 10_000, "{}", said.len());
    }
}
