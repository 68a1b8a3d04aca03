//! Expressions over a record: a part of the Common Expression Language that has no loops, so that an evaluation takes no more than
//! its text and its record allow.
//!
//! | there is | |
//! |---|---|
//! | names | `value` (as its schema has it, or as JSON), `key` (a text), `headers` (the last value of each, as a text), `offset`, `timestamp` (ms) |
//! | literals | numbers, texts in `'` or `"`, `true`, `false`, `null`, lists |
//! | operators | `\|\|`, `&&`, `!`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `.`, `[…]`, parentheses |
//! | functions | `has(value.a)`, `size(x)`, `x.startsWith(y)`, `x.endsWith(y)`, `x.contains(y)` |
//!
//! As in that language, `||` and `&&` have a result where one side decides, whatever the other is.
//!
//! | file | idea |
//! |---|---|
//! | `tokens` | words of a text |
//! | `parse` | what they say, bounded in size and depth |
//! | `kinds` | which of them can be true or false of no record |
//! | `evaluate` | what that is for a record, bounded in steps |

mod evaluate;
mod kinds;
mod parse;
mod tokens;

use logway_record::Record;

use serde_json::Value as Json;

pub use evaluate::Evaluated;
use parse::parse;
pub use parse::{ParseError, path};

/// What is compared and looked up.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Literal(Literal),
    Name(Name),
    List(Vec<Node>),
    /// A field of an object, by a name that is written down.
    Field(Box<Node>, String),
    /// An element of a list, or a field by a name that is worked out.
    Index(Box<Node>, Box<Node>),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    Has(Box<Node>),
    Size(Box<Node>),
    Text(TextTest, Box<Node>, Box<Node>),
}

#[derive(Debug, Clone, PartialEq)]
enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Value,
    Key,
    Headers,
    Offset,
    Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextTest {
    StartsWith,
    EndsWith,
    Contains,
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    root: Node,
    uses_value: bool,
    text_bytes: usize,
}

impl Expression {
    /// Reads an expression that is to be true or false.
    ///
    /// # Errors
    ///
    /// It is none, or can have a result for no record.
    pub fn new(text: &str) -> Result<Expression, ParseError> {
        let expression = Expression::of_text(text)?;
        kinds::check(&expression.root).map_err(|reason| ParseError::new(0, reason))?;
        Ok(expression)
    }

    /// Reads an expression that may be anything, for [`Expression::text`].
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn of_text(text: &str) -> Result<Expression, ParseError> {
        let (root, uses_value) = parse(text)?;
        Ok(Expression { root, uses_value, text_bytes: text.len() })
    }

    /// About how many bytes it keeps: its texts, and its parts. There are no more parts than the text has characters.
    pub fn kept_bytes(&self) -> usize {
        self.text_bytes + self.text_bytes.min(parse::NODES_MAX) * size_of::<Node>()
    }

    /// Whether it asks for the value, which has to be read then.
    pub fn uses_value(&self) -> bool {
        self.uses_value
    }

    /// What it is for a record and its value, if that can be read.
    pub fn evaluate(&self, record: &Record, value: Option<&Json>) -> Evaluated {
        evaluate::evaluate(&self.root, record, value)
    }

    /// What it is for a record and its value, as a text: texts as they are, all else as JSON. `None` where there is no
    /// result, `null`, or the headers.
    pub fn text(&self, record: &Record, value: Option<&Json>) -> Option<String> {
        evaluate::text(&self.root, record, value)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use logway_model::{Offset, TimestampMs};
    use logway_record::Header;

    use super::*;

    fn record(value: &'static str) -> Record {
        let header = |name: &'static str, value: &'static str| {
            Header::new(name, Some(Bytes::from_static(value.as_bytes())))
        };
        Record {
            offset: Offset(41),
            timestamp: TimestampMs(1_700),
            key: Some("user-7".into()),
            value: Some(value.into()),
            headers: vec![header("kind", "a"), header("kind", "buy")],
        }
    }

    fn is_true(expression: &Expression, text: &'static str) -> bool {
        let value = serde_json::from_str(text).ok();
        expression.evaluate(&record(text), value.as_ref()).result == Some(true)
    }

    const VALUE: &str = r#"{"user": {"name": "Ann", "age": 21}, "tags": ["x", "y", 3], "price": 1.5, "none": null, "a b": 7}"#;

    #[test]
    fn results_are_those_of_the_language() {
        for (text, expected) in [
            ("true", true),
            ("value.user.age >= 18 && value.user.name == 'Ann'", true),
            ("value.user.age < 18 || value.price > 1", true),
            ("value.user.age == 21.0 && 21 == value.user.age", true),
            ("value.user.age != 21", false),
            ("!(value.user.age > 100)", true),
            ("value.user.name in [\"Bob\", \"Ann\"]", true),
            ("'y' in value.tags && 3 in value.tags && !('z' in value.tags)", true),
            ("'user' in value", true),
            ("value.tags[0] == 'x' && value['a b'] == 7", true),
            ("value.tags[-1] == 3", false),
            ("size(value.tags) == 3 && size(value.user.name) == 3", true),
            ("has(value.user.age) && !has(value.user.height) && !has(value.x.y)", true),
            ("value.none == null && has(value.none)", true),
            ("value.user.height == null", false),
            ("value.user.height > 1 || true", true),
            ("true || value.user.height > 1", true),
            ("false && value.user.height > 1", false),
            ("!(value.user.height > 1)", false),
            (
                "key == 'user-7' && key.startsWith('user') && key.endsWith('7') && key.contains('r-')",
                true,
            ),
            ("headers.kind == 'buy' && headers['kind'] != 'a' && !has(headers.other)", true),
            ("offset == 41 && timestamp <= 1700", true),
            ("value.user.name < 'Bob'", true),
            ("value.user.name < 3", false),
            ("value.user == 3", false),
            ("value.price == 1.5e0", true),
            ("value.user.age", false),
            ("-1 < 0 && 0.5 < 1", true),
        ] {
            let expression =
                Expression::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(is_true(&expression, VALUE), expected, "{text}");
        }
    }

    #[test]
    fn a_result_may_be_wanted_as_a_text() {
        for (text, expected) in [
            ("value.user.name", Some("Ann")),
            ("value.user.age", Some("21")),
            ("value.price", Some("1.5")),
            ("value.tags", Some(r#"["x","y",3]"#)),
            ("value.user.age > 18", Some("true")),
            ("headers.kind", Some("buy")),
            ("key", Some("user-7")),
            ("'fixed'", Some("fixed")),
            ("value.none", None),
            ("value.other", None),
            ("headers", None),
            ("[1, 2]", None),
        ] {
            let expression = Expression::of_text(text).expect("is one");
            let value = serde_json::from_str(VALUE).ok();
            let found = expression.text(&record(VALUE), value.as_ref());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        assert!(Expression::of_text("value.").is_err());
    }

    #[test]
    fn without_a_value_there_is_no_result() {
        let of_value = Expression::new("value.a == 1 || true").expect("is one");
        assert!(is_true(&of_value, "no JSON"), "the other side decides");
        for text in ["value.a == 1", "has(value.a)", "!has(value.a)", "!has(value.a[0].b)"] {
            let of_value = Expression::new(text).expect("is one");
            assert_eq!(of_value.evaluate(&record("no JSON"), None).result, None, "{text}");
        }
        // A record without a value has no fields.
        let tombstone = Record { value: None, ..record("") };
        let has = Expression::new("!has(value.a) && !has(headers.a)").expect("is one");
        assert_eq!(has.evaluate(&tombstone, None).result, Some(true));
    }

    #[test]
    fn false_is_another_result_than_none_and_steps_are_counted() {
        let evaluated = |text: &str| {
            let expression = Expression::new(text).expect("is one");
            let value = serde_json::from_str(VALUE).ok();
            expression.evaluate(&record(VALUE), value.as_ref())
        };
        assert_eq!(evaluated("value.user.age < 18").result, Some(false));
        for text in ["value.user.height < 18", "value.user.age", "value.user < 3", "!value.price"] {
            assert_eq!(evaluated(text).result, None, "{text}");
        }
        let (one, many) = (evaluated("offset == 1"), evaluated("offset in [1, 2, 3, 4, 5]"));
        assert!(one.steps > 0 && many.steps > one.steps, "{one:?} {many:?}");
    }

    #[test]
    fn what_takes_too_many_steps_has_no_result() {
        let long: &'static str = format!("[{}0]", "1,".repeat(200_000)).leak();
        let found = Expression::new("0 in value").expect("is one");
        assert!(!is_true(&found, long));
        assert!(is_true(&found, "[1,0]"));
    }
}
