//! What an expression says. Its size and its depth are bounded, and so is what its evaluation takes.

use super::tokens::{Token, tokens};
use super::{Comparison, Literal, Name, Node, TextTest};

/// The longest text.
const TEXT_BYTES_MAX: usize = 4_096;

/// Parts that an expression may have.
pub(super) const NODES_MAX: usize = 256;

/// How deep they may be within each other.
const DEPTH_MAX: usize = 32;

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {reason}")]
pub struct ParseError {
    /// Where.
    pub at: usize,
    /// For a person.
    pub reason: String,
}

impl ParseError {
    pub(super) fn new(at: usize, reason: impl Into<String>) -> ParseError {
        ParseError { at, reason: reason.into() }
    }
}

/// Reads an expression; says whether it asks for the value.
pub(super) fn parse(text: &str) -> Result<(Node, bool), ParseError> {
    if text.len() > TEXT_BYTES_MAX {
        let reason = format!("an expression has {TEXT_BYTES_MAX} bytes at most");
        return Err(ParseError::new(TEXT_BYTES_MAX, reason));
    }
    let tokens = tokens(text)?;
    let mut parser =
        Parser { tokens, next: 0, end: text.len(), nodes: 0, depth: 0, uses_value: false };
    let root = parser.either()?;
    match parser.next == parser.tokens.len() {
        true => Ok((root, parser.uses_value)),
        false => Err(parser.error("the expression should end here")),
    }
}

/// Reads the place of a field: names behind each other, as `user.name` or `["a b"].c`.
///
/// # Errors
///
/// It is none.
pub fn path(text: &str) -> Result<Vec<String>, ParseError> {
    if text.len() > TEXT_BYTES_MAX {
        let reason = format!("a field is named by {TEXT_BYTES_MAX} bytes at most");
        return Err(ParseError::new(TEXT_BYTES_MAX, reason));
    }
    let tokens = tokens(text)?;
    let mut parser =
        Parser { tokens, next: 0, end: text.len(), nodes: 0, depth: 0, uses_value: false };
    let mut names = Vec::new();
    while parser.next < parser.tokens.len() || names.is_empty() {
        names.push(parser.path_name(names.is_empty())?);
    }
    Ok(names)
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    /// Of the text.
    end: usize,
    nodes: usize,
    depth: usize,
    uses_value: bool,
}

const COMPARISONS: &[(&str, Comparison)] = &[
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterOrEqual),
];

impl Parser {
    fn error(&self, reason: impl Into<String>) -> ParseError {
        let at = self.tokens.get(self.next).map_or(self.end, |(at, _)| *at);
        ParseError::new(at, reason)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.tokens.get(self.next), Some((_, Token::Sign(it))) if *it == sign);
        self.next += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &str) -> Result<(), ParseError> {
        match self.take_sign(sign) {
            true => Ok(()),
            false => Err(self.error(format!("'{sign}' should be here"))),
        }
    }

    /// The next name of a place, which stands behind a point but for the first.
    fn path_name(&mut self, is_first: bool) -> Result<String, ParseError> {
        let is_quoted = self.take_sign("[");
        if !is_quoted && !is_first {
            self.expect(".")?;
        }
        let name = match self.tokens.get(self.next) {
            Some((_, Token::Text(name))) if is_quoted => name.clone(),
            Some((_, Token::Name(name))) if !is_quoted => name.clone(),
            _ if is_quoted => return Err(self.error("a name in quotes should be here")),
            _ => return Err(self.error("a name should be here")),
        };
        self.next += 1;
        if is_quoted {
            self.expect("]")?;
        }
        Ok(name)
    }

    /// Counts a part.
    fn node(&mut self, node: Node) -> Result<Node, ParseError> {
        self.nodes += 1;
        match self.nodes <= NODES_MAX {
            true => Ok(node),
            false => Err(self.error(format!("an expression has {NODES_MAX} parts at most"))),
        }
    }

    /// What stands within something, and so is deeper.
    fn deeper(
        &mut self,
        parse: impl FnOnce(&mut Parser) -> Result<Node, ParseError>,
    ) -> Result<Node, ParseError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(format!("an expression is {DEPTH_MAX} deep at most")));
        }
        let node = parse(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn either(&mut self) -> Result<Node, ParseError> {
        self.deeper(|parser| {
            let mut left = parser.both()?;
            while parser.take_sign("||") {
                let right = parser.both()?;
                left = parser.node(Node::Or(Box::new(left), Box::new(right)))?;
            }
            Ok(left)
        })
    }

    fn both(&mut self) -> Result<Node, ParseError> {
        let mut left = self.comparison()?;
        while self.take_sign("&&") {
            let right = self.comparison()?;
            left = self.node(Node::And(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Node, ParseError> {
        let left = self.unary()?;
        let of_sign = COMPARISONS.iter().find(|(sign, _)| self.take_sign(sign));
        let comparison = match of_sign {
            Some((_, comparison)) => *comparison,
            None if self.take_name("in") => Comparison::In,
            None => return Ok(left),
        };
        let right = self.unary()?;
        self.node(Node::Compare(comparison, Box::new(left), Box::new(right)))
    }

    fn take_name(&mut self, name: &str) -> bool {
        let is_it = matches!(self.tokens.get(self.next), Some((_, Token::Name(it))) if it == name);
        self.next += usize::from(is_it);
        is_it
    }

    fn unary(&mut self) -> Result<Node, ParseError> {
        if self.take_sign("!") {
            let inner = self.deeper(Parser::unary)?;
            return self.node(Node::Not(Box::new(inner)));
        }
        if self.take_sign("-") {
            let number = match self.tokens.get(self.next) {
                Some((_, Token::Int(number))) => Literal::Int(-*number),
                Some((_, Token::Double(number))) => Literal::Double(-*number),
                _ => return Err(self.error("a number should be here")),
            };
            self.next += 1;
            return self.node(Node::Literal(number));
        }
        self.member()
    }

    fn member(&mut self) -> Result<Node, ParseError> {
        let mut node = self.primary()?;
        let mut links = 0;
        loop {
            if self.take_sign(".") {
                let Some((_, Token::Name(name))) = self.tokens.get(self.next).cloned() else {
                    return Err(self.error("a name should be here"));
                };
                self.next += 1;
                node = match self.take_sign("(") {
                    true => self.method(&name, node)?,
                    false => self.node(Node::Field(Box::new(node), name))?,
                };
            } else if self.take_sign("[") {
                let index = self.either()?;
                self.expect("]")?;
                node = self.node(Node::Index(Box::new(node), Box::new(index)))?;
            } else {
                return Ok(node);
            }
            links += 1;
            if links > DEPTH_MAX {
                return Err(self.error(format!("an expression is {DEPTH_MAX} deep at most")));
            }
        }
    }

    fn method(&mut self, name: &str, of: Node) -> Result<Node, ParseError> {
        let test = match name {
            "startsWith" => TextTest::StartsWith,
            "endsWith" => TextTest::EndsWith,
            "contains" => TextTest::Contains,
            _ => return Err(self.error(format!("there is no function '{name}' of a text"))),
        };
        let text = self.either()?;
        self.expect(")")?;
        self.node(Node::Text(test, Box::new(of), Box::new(text)))
    }

    fn primary(&mut self) -> Result<Node, ParseError> {
        let Some((_, token)) = self.tokens.get(self.next).cloned() else {
            return Err(self.error("a value should be here"));
        };
        self.next += 1;
        let literal = match token {
            Token::Int(number) => Literal::Int(number),
            Token::Double(number) => Literal::Double(number),
            Token::Text(text) => Literal::Text(text),
            Token::Sign("(") => {
                let inner = self.either()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Sign("[") => return self.list(),
            Token::Sign(_) => {
                self.next -= 1;
                return Err(self.error("a value should be here"));
            }
            Token::Name(name) => return self.named(&name),
        };
        self.node(Node::Literal(literal))
    }

    fn list(&mut self) -> Result<Node, ParseError> {
        let mut items = Vec::new();
        while !self.take_sign("]") {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(self.either()?);
        }
        self.node(Node::List(items))
    }

    fn named(&mut self, name: &str) -> Result<Node, ParseError> {
        let node = match name {
            "true" => Node::Literal(Literal::Bool(true)),
            "false" => Node::Literal(Literal::Bool(false)),
            "null" => Node::Literal(Literal::Null),
            "value" => {
                self.uses_value = true;
                Node::Name(Name::Value)
            }
            "key" => Node::Name(Name::Key),
            "headers" => Node::Name(Name::Headers),
            "offset" => Node::Name(Name::Offset),
            "timestamp" => Node::Name(Name::Timestamp),
            "has" | "size" => {
                self.expect("(")?;
                let of = Box::new(self.either()?);
                self.expect(")")?;
                match name {
                    "size" => Node::Size(of),
                    _ if matches!(*of, Node::Field(..) | Node::Index(..)) => Node::Has(of),
                    _ => return Err(self.error("has() takes a field, as in has(value.a)")),
                }
            }
            _ => {
                self.next -= 1;
                let names = "value, key, headers, offset, timestamp";
                return Err(self.error(format!("'{name}' is not known; there are {names}")));
            }
        };
        self.node(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_expression_is_told_where() {
        for (text, at, word) in [
            ("", 0, "a value should be here"),
            ("value.a ==", 10, "a value should be here"),
            ("value.a = 1", 8, "not known"),
            ("valu.a == 1", 0, "'valu' is not known"),
            ("(value.a", 8, "')' should be here"),
            ("value.a 1", 8, "should end here"),
            ("'x", 0, "no end"),
            ("99999999999999999999 == 1", 0, "no number"),
            ("value.a.matches('x')", 16, "no function 'matches'"),
            ("has(value)", 10, "takes a field"),
            ("value.", 6, "a name"),
            ("ü", 0, "not known"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.at == at && error.reason.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn size_and_depth_are_bounded() {
        let deep = |count: usize| format!("{}true{}", "(".repeat(count), ")".repeat(count));
        assert!(parse(&deep(20)).is_ok());
        for text in [
            deep(DEPTH_MAX + 1),
            format!("{}true", "!".repeat(DEPTH_MAX + 1)),
            format!("value{}", ".a".repeat(DEPTH_MAX + 1)),
            format!("value{}", "[0]".repeat(DEPTH_MAX + 1)),
            vec!["true"; NODES_MAX].join("||"),
            format!("0 in [{}]", vec!["1"; NODES_MAX].join(",")),
            " ".repeat(TEXT_BYTES_MAX + 1),
        ] {
            assert!(parse(&text).is_err(), "{text:.60}");
        }
    }
}
