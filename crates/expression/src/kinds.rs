//! Which expressions have no result, whatever the record is: those that ask a number whether it is true, and the like. They are refused
//! when they come. What a value has within it is known only when it is there.

use super::{Comparison, Literal, Name, Node};

/// What a part of an expression is, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Headers,
    /// Something of the value.
    Unknown,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool => "true or false",
            Kind::Number => "a number",
            Kind::Text => "a text",
            Kind::List => "a list",
            Kind::Headers => "the headers",
            Kind::Unknown => "anything",
        }
    }

    fn can_be(self, other: Kind) -> bool {
        self == other || self == Kind::Unknown || other == Kind::Unknown
    }
}

/// Checks an expression, which is to be true or false; fails with what it is instead.
pub(super) fn check(root: &Node) -> Result<(), String> {
    expect(root, &[Kind::Bool], "the expression")
}

fn expect(node: &Node, kinds: &[Kind], what: &str) -> Result<(), String> {
    check_kind(kind_of(node)?, kinds, what)
}

fn check_kind(kind: Kind, kinds: &[Kind], what: &str) -> Result<(), String> {
    if kinds.iter().any(|it| kind.can_be(*it)) {
        return Ok(());
    }
    let wanted: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    Err(format!("{what} is {}, and should be {}", kind.name(), wanted.join(" or ")))
}

fn kind_of(node: &Node) -> Result<Kind, String> {
    Ok(match node {
        Node::Literal(Literal::Null) => Kind::Null,
        Node::Literal(Literal::Bool(_)) => Kind::Bool,
        Node::Literal(Literal::Int(_) | Literal::Double(_)) => Kind::Number,
        Node::Literal(Literal::Text(_)) => Kind::Text,
        Node::Name(Name::Value) => Kind::Unknown,
        Node::Name(Name::Key) => Kind::Text,
        Node::Name(Name::Headers) => Kind::Headers,
        Node::Name(Name::Offset | Name::Timestamp) => Kind::Number,
        Node::List(items) => {
            for item in items {
                kind_of(item)?;
            }
            Kind::List
        }
        Node::Field(of, _) => match kind_of(of)? {
            Kind::Headers => Kind::Text,
            Kind::Unknown => Kind::Unknown,
            other => return Err(format!("{} has no fields", other.name())),
        },
        Node::Index(of, index) => {
            let kind = match kind_of(of)? {
                Kind::Headers => Kind::Text,
                Kind::Unknown => Kind::Unknown,
                other => return Err(format!("{} has no elements", other.name())),
            };
            let indexes =
                if kind == Kind::Text { &[Kind::Text][..] } else { &[Kind::Text, Kind::Number] };
            expect(index, indexes, "what is in brackets")?;
            kind
        }
        Node::Not(inner) => {
            expect(inner, &[Kind::Bool], "what stands behind '!'")?;
            Kind::Bool
        }
        Node::And(left, right) | Node::Or(left, right) => {
            expect(left, &[Kind::Bool], "a side of '&&' or '||'")?;
            expect(right, &[Kind::Bool], "a side of '&&' or '||'")?;
            Kind::Bool
        }
        Node::Compare(comparison, left, right) => {
            compared(*comparison, left, right)?;
            Kind::Bool
        }
        Node::Has(field) => {
            kind_of(field)?;
            Kind::Bool
        }
        Node::Size(of) => {
            expect(of, &[Kind::Text, Kind::List], "what size() is asked for")?;
            Kind::Number
        }
        Node::Text(_, of, with) => {
            expect(of, &[Kind::Text], "what a function of texts is asked for")?;
            expect(with, &[Kind::Text], "what a function of texts looks for")?;
            Kind::Bool
        }
    })
}

fn compared(comparison: Comparison, left: &Node, right: &Node) -> Result<(), String> {
    // Once for each side: twice at each level would be a million times twenty levels below.
    let (left, right) = (kind_of(left)?, kind_of(right)?);
    match comparison {
        Comparison::Equal | Comparison::NotEqual => Ok(()),
        Comparison::In => {
            check_kind(right, &[Kind::List, Kind::Headers], "what stands behind 'in'")?;
            match right {
                Kind::Headers => check_kind(left, &[Kind::Text], "the name of a header"),
                _ => Ok(()),
            }
        }
        _ => {
            let ordered = [Kind::Number, Kind::Text];
            check_kind(left, &ordered, "a side of '<' or '>'")?;
            check_kind(right, &ordered, "a side of '<' or '>'")?;
            match left.can_be(right) {
                true => Ok(()),
                false => Err("a number and a text have no order".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Expression;

    #[test]
    fn what_has_a_result_for_no_record_is_refused() {
        for (text, word) in [
            ("key", "the expression is a text, and should be true or false"),
            ("offset", "the expression is a number"),
            ("headers", "the expression is the headers"),
            ("size(value)", "the expression is a number"),
            ("[true]", "is a list"),
            ("null", "is null"),
            ("!offset", "what stands behind '!' is a number"),
            ("true && 'x'", "a side of '&&' or '||' is a text"),
            ("value.a > 1 || headers.a", "a side of '&&' or '||' is a text"),
            ("offset < 'x'", "have no order"),
            ("null < 1", "a side of '<' or '>' is null"),
            ("offset.startsWith('x')", "is a number, and should be a text"),
            ("key.contains(3)", "looks for is a number"),
            ("size(offset) == 1", "asked for is a number"),
            ("key.a == 1", "a text has no fields"),
            ("offset[0] == 1", "a number has no elements"),
            ("headers[0] == 'x'", "in brackets is a number"),
            ("value[true] == 1", "in brackets is true or false"),
            ("1 in 'x'", "behind 'in' is a text"),
            ("1 in headers", "the name of a header is a number"),
        ] {
            let error = Expression::new(text).expect_err(text);
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
        for text in [
            "value",
            "value.a",
            "!value.a && value.b",
            "value.a < value.b",
            "value.a[value.b]",
            "value.a in value.b",
            "'x' in headers",
            "headers[key] == 'x'",
            "key == 3",
            "has(headers.a)",
            "size([1, 2]) == 2",
            "value.a.startsWith(value.b)",
        ] {
            assert!(Expression::new(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn each_part_is_looked_at_once_however_deep_it_is() {
        let nested = |levels| "1 in [".repeat(levels) + "1" + &"]".repeat(levels);
        let deepest = (1..).take_while(|levels| Expression::new(&nested(*levels)).is_ok()).last();
        assert!(deepest > Some(8), "{deepest:?}");
    }
}
