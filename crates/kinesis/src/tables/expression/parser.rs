//! From tokens to trees.

use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use super::super::attribute::Attribute;
use super::Placeholders;
use super::condition::{Comparison, Condition, Operand};
use super::path::{Path, Step, check_apart};
use super::tokens::{Token, syntax_error, tokens};
use super::update::{Action, Sum, Term};

/// Parentheses, negations and functions may be so deep in each other.
const DEPTH_MAX: usize = 64;

/// Reads an expression. Errors are what is said of it.
pub(super) struct Parser<'a> {
    tokens: Peekable<IntoIter<Token>>,
    placeholders: &'a Placeholders,
    depth: usize,
}

const COMPARISONS: [(&str, Comparison); 6] = [
    ("=", Comparison::Equal),
    ("<>", Comparison::NotEqual),
    ("<", Comparison::Less),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterOrEqual),
];

impl<'a> Parser<'a> {
    pub(super) fn new(text: &str, placeholders: &'a Placeholders) -> Result<Parser<'a>, String> {
        let tokens = tokens(text)?.into_iter().peekable();
        Ok(Parser { tokens, placeholders, depth: 0 })
    }

    /// Refuses what is left.
    pub(super) fn end(&mut self) -> Result<(), String> {
        match self.tokens.next() {
            None => Ok(()),
            Some(token) => Err(unexpected(Some(&token))),
        }
    }

    pub(super) fn condition(&mut self) -> Result<Condition, String> {
        let mut any = vec![self.conjunction()?];
        while self.takes_word("OR") {
            any.push(self.conjunction()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Condition::Any(any) })
    }

    fn conjunction(&mut self) -> Result<Condition, String> {
        let mut all = vec![self.negation()?];
        while self.takes_word("AND") {
            all.push(self.negation()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::All(all) })
    }

    fn negation(&mut self) -> Result<Condition, String> {
        self.deeper(|parser| match parser.takes_word("NOT") {
            true => Ok(Condition::Not(Box::new(parser.negation()?))),
            false => parser.primary(),
        })
    }

    fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth == DEPTH_MAX {
            return Err("The expression is nested too deeply".to_owned());
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn primary(&mut self) -> Result<Condition, String> {
        if self.takes("(") {
            let inner = self.condition()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let word = match self.tokens.peek() {
            Some(Token::Word(word)) => word.clone(),
            _ => return self.comparison(None),
        };
        // A function is a word before a parenthesis; else it is the name of an attribute.
        self.tokens.next();
        if !self.next_is("(") {
            let path = self.path_from(word.into())?;
            return self.comparison(Some(Operand::Path(path)));
        }
        self.expect("(")?;
        let condition = match word.as_str() {
            "attribute_exists" => Condition::Exists(self.path()?),
            "attribute_not_exists" => Condition::Not(Box::new(Condition::Exists(self.path()?))),
            "attribute_type" => {
                let path = self.path()?;
                self.expect(",")?;
                Condition::HasType(path, self.operand()?)
            }
            "begins_with" | "contains" => {
                let value = self.operand()?;
                self.expect(",")?;
                let other = self.operand()?;
                match word.as_str() {
                    "contains" => Condition::Contains(value, other),
                    _ => Condition::BeginsWith(value, other),
                }
            }
            "size" => {
                let path = self.path()?;
                self.expect(")")?;
                return self.comparison(Some(Operand::Size(path)));
            }
            other => return Err(format!("Invalid function name; function: {other}")),
        };
        self.expect(")")?;
        Ok(condition)
    }

    fn comparison(&mut self, first: Option<Operand>) -> Result<Condition, String> {
        let first = match first {
            Some(first) => first,
            None => self.operand()?,
        };
        if self.takes_word("BETWEEN") {
            let low = self.operand()?;
            if !self.takes_word("AND") {
                return Err(unexpected(self.tokens.peek()));
            }
            return Ok(Condition::Between(first, low, self.operand()?));
        }
        if self.takes_word("IN") {
            self.expect("(")?;
            let mut values = vec![self.operand()?];
            while self.takes(",") {
                values.push(self.operand()?);
            }
            self.expect(")")?;
            return Ok(Condition::In(first, values));
        }
        let sign = match self.tokens.next() {
            Some(Token::Sign(sign)) => sign,
            other => return Err(unexpected(other.as_ref())),
        };
        match COMPARISONS.iter().find(|(text, _)| *text == sign) {
            Some((_, comparison)) => Ok(Condition::Compare(first, *comparison, self.operand()?)),
            None => Err(unexpected(Some(&Token::Sign(sign)))),
        }
    }

    fn operand(&mut self) -> Result<Operand, String> {
        if let Some(value) = self.takes_value()? {
            return Ok(Operand::Value(value));
        }
        if let Some(Token::Word(word)) = self.tokens.peek()
            && word == "size"
        {
            self.tokens.next();
            if !self.takes("(") {
                return Ok(Operand::Path(self.path_from("size".into())?));
            }
            let path = self.path()?;
            self.expect(")")?;
            return Ok(Operand::Size(path));
        }
        Ok(Operand::Path(self.path()?))
    }

    pub(super) fn actions(&mut self) -> Result<Vec<Action>, String> {
        const CLAUSES: [&str; 4] = ["SET", "REMOVE", "ADD", "DELETE"];
        let mut seen = Vec::new();
        let mut actions: Vec<Action> = Vec::new();
        while self.tokens.peek().is_some() {
            let clause = CLAUSES.iter().find(|clause| self.takes_word(clause));
            let Some(clause) = clause else { return Err(unexpected(self.tokens.peek())) };
            if seen.contains(clause) {
                return Err(format!(
                    "The \"{clause}\" section can only be used once in an update expression;"
                ));
            }
            seen.push(clause);
            loop {
                actions.push(self.action(clause)?);
                if !self.takes(",") {
                    break;
                }
            }
        }
        check_apart(&actions.iter().map(Action::path).collect::<Vec<_>>())?;
        Ok(actions)
    }

    fn action(&mut self, clause: &str) -> Result<Action, String> {
        let path = self.path()?;
        let value = |parser: &mut Self| {
            let next = parser.tokens.peek().cloned();
            parser.takes_value()?.ok_or_else(|| unexpected(next.as_ref()))
        };
        Ok(match clause {
            "SET" => {
                self.expect("=")?;
                let one = self.term()?;
                let sum = if self.takes("+") {
                    Sum::Plus(one, self.term()?)
                } else if self.takes("-") {
                    Sum::Minus(one, self.term()?)
                } else {
                    Sum::One(one)
                };
                Action::Set(path, sum)
            }
            "REMOVE" => Action::Remove(path),
            "ADD" => Action::Add(path, value(self)?),
            _ => Action::Subtract(path, value(self)?),
        })
    }

    fn term(&mut self) -> Result<Term, String> {
        self.deeper(|parser| {
            if let Some(value) = parser.takes_value()? {
                return Ok(Term::Value(value));
            }
            let word = match parser.tokens.peek() {
                Some(Token::Word(word)) => word.clone(),
                _ => return Ok(Term::Path(parser.path()?)),
            };
            parser.tokens.next();
            if !parser.takes("(") {
                return Ok(Term::Path(parser.path_from(word.into())?));
            }
            let term = match word.as_str() {
                "if_not_exists" => {
                    let path = parser.path()?;
                    parser.expect(",")?;
                    Term::IfNotExists(path, Box::new(parser.term()?))
                }
                "list_append" => {
                    let one = parser.term()?;
                    parser.expect(",")?;
                    Term::ListAppend(Box::new(one), Box::new(parser.term()?))
                }
                other => return Err(format!("Invalid function name; function: {other}")),
            };
            parser.expect(")")?;
            Ok(term)
        })
    }

    pub(super) fn paths(&mut self) -> Result<Vec<Path>, String> {
        let mut paths = vec![self.path()?];
        while self.takes(",") {
            paths.push(self.path()?);
        }
        check_apart(&paths.iter().collect::<Vec<_>>())?;
        Ok(paths)
    }

    fn path(&mut self) -> Result<Path, String> {
        let name = self.name()?;
        self.path_from(name)
    }

    fn name(&mut self) -> Result<Arc<str>, String> {
        match self.tokens.next() {
            Some(Token::Word(word)) => Ok(word.into()),
            Some(Token::Name(placeholder)) => self.placeholders.name(&placeholder),
            other => Err(unexpected(other.as_ref())),
        }
    }

    fn path_from(&mut self, attribute: Arc<str>) -> Result<Path, String> {
        let mut path = Path::of(attribute);
        loop {
            if self.takes(".") {
                path.steps.push(Step::Name(self.name()?));
            } else if self.takes("[") {
                match self.tokens.next() {
                    Some(Token::Number(index)) => path.steps.push(Step::Index(index)),
                    other => return Err(unexpected(other.as_ref())),
                }
                self.expect("]")?;
            } else {
                return Ok(path);
            }
        }
    }

    fn takes_value(&mut self) -> Result<Option<Arc<Attribute>>, String> {
        match self.tokens.next_if(|token| matches!(token, Token::Value(_))) {
            Some(Token::Value(placeholder)) => self.placeholders.value(&placeholder).map(Some),
            _ => Ok(None),
        }
    }

    fn next_is(&mut self, sign: &str) -> bool {
        matches!(self.tokens.peek(), Some(Token::Sign(next)) if *next == sign)
    }

    fn takes(&mut self, sign: &str) -> bool {
        self.next_is(sign) && self.tokens.next().is_some()
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_word =
            |token: &Token| matches!(token, Token::Word(next) if next.eq_ignore_ascii_case(word));
        self.tokens.next_if(is_word).is_some()
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(unexpected(self.tokens.peek())),
        }
    }
}

fn unexpected(token: Option<&Token>) -> String {
    let text = token.map_or_else(|| "<EOF>".to_owned(), Token::text);
    syntax_error(&text, &text)
}
