//! Words of an expression.

use super::parse::ParseError;

/// A word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Int(i64),
    Double(f64),
    Text(String),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// Longer ones first, where one is the beginning of another.
const SIGNS: &[&str] =
    &["||", "&&", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", ",", ".", "-"];

/// The words of a text, each with its place.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ParseError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, length) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first.is_ascii_digit() {
            number(rest).ok_or_else(|| ParseError::new(at, "this is no number"))?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
            let length = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
            (Token::Name(rest[..length].to_owned()), length)
        } else if matches!(first, '"' | '\'') {
            quoted(rest, first).ok_or_else(|| ParseError::new(at, "this text has no end"))?
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| ParseError::new(at, "this sign is not known"))?;
            (Token::Sign(sign), sign.len())
        };
        tokens.push((at, token));
        at += length;
    }
    Ok(tokens)
}

fn number(text: &str) -> Option<(Token, usize)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|it| it.is_ascii_digit()).count();
    let mut length = digits(0);
    let mut is_double = false;
    if bytes.get(length) == Some(&b'.') && digits(length + 1) > 0 {
        (length, is_double) = (length + 1 + digits(length + 1), true);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = length + 1 + sign;
        if exponent <= bytes.len() && digits(exponent) > 0 {
            (length, is_double) = (exponent + digits(exponent), true);
        }
    }
    let token = match is_double {
        true => Token::Double(text[..length].parse().ok()?),
        false => Token::Int(text[..length].parse().ok()?),
    };
    Some((token, length))
}

/// A backslash takes the next sign as it is; `\n` and `\t` are a line feed and a tab.
fn quoted(text: &str, quote: char) -> Option<(Token, usize)> {
    let mut content = String::new();
    let mut signs = text.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            _ if sign == quote => return Some((Token::Text(content), at + 1)),
            '\\' => content.push(match signs.next()?.1 {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => content.push(other),
        }
    }
    None
}
