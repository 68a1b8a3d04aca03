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
            quoted(rest, first).map_err(|(within, reason)| ParseError::new(at + within, reason))?
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

/// A text in quotes, and how long it is with them. The error has a place within it.
fn quoted(text: &str, quote: char) -> Result<(Token, usize), (usize, String)> {
    let mut content = String::new();
    let mut signs = text.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            _ if sign == quote => return Ok((Token::Text(content), at + 1)),
            '\\' => {
                let escaped = escaped(&mut signs);
                content.push(escaped.ok_or_else(|| {
                    let known = r#"there are \\, \', \", \n, \r, \t, \uXXXX and \UXXXXXXXX"#;
                    (at, format!("this is no escape; {known}"))
                })?);
            }
            other => content.push(other),
        }
    }
    Err((0, "this text has no end".to_owned()))
}

/// What stands behind a backslash.
fn escaped(signs: &mut impl Iterator<Item = (usize, char)>) -> Option<char> {
    let mut next = || signs.next().map(|(_, sign)| sign);
    let digits = match next()? {
        sign @ ('\\' | '\'' | '"') => return Some(sign),
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let mut number = 0u32;
    for _ in 0..digits {
        number = number.checked_mul(16)?.checked_add(next()?.to_digit(16)?)?;
    }
    char::from_u32(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_escapes_and_no_others() {
        for (text, expected) in [
            (r#""a\"b""#, "a\"b"),
            (r"'it\'s \\'", "it's \\"),
            (r"'\n\r\t'", "\n\r\t"),
            (r"'\u00fc\U0001F600'", "ü😀"),
        ] {
            let tokens = tokens(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(tokens, [(0, Token::Text(expected.to_owned()))]);
        }
        for (text, at) in [
            (r#"1 == "ab\x41""#, 8),
            (r"'\u12'", 1),
            (r"'\ud800'", 1),
            (r"'\UFFFFFFFFF'", 1),
            (r"'\", 1),
            (r"'\'", 0),
            ("'a", 0),
        ] {
            let error = tokens(text).expect_err(text);
            assert_eq!(error.at, at, "{text}: {error}");
        }
    }
}
