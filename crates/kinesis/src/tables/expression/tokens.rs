//! From text to tokens.

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a word of the language.
    Word(String),
    /// `#name`.
    Name(String),
    /// `:value`.
    Value(String),
    /// A whole number, as in `[3]`.
    Number(usize),
    /// A sign.
    Sign(&'static str),
}

impl Token {
    /// As it was written.
    pub(super) fn text(&self) -> String {
        match self {
            Token::Word(text) | Token::Name(text) | Token::Value(text) => text.clone(),
            Token::Number(number) => number.to_string(),
            Token::Sign(sign) => (*sign).to_owned(),
        }
    }
}

/// Longer ones first.
const SIGNS: [&str; 14] = ["<>", "<=", ">=", "=", "<", ">", "(", ")", "[", "]", ",", ".", "+", "-"];

/// Takes an expression apart.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
        let (token, length) = match (first, sign) {
            (_, Some(sign)) => (Token::Sign(sign), sign.len()),
            ('#' | ':', None) => {
                let length = 1 + length_of(&rest[1..], is_letter);
                let word = rest[..length].to_owned();
                let token = if first == '#' { Token::Name(word) } else { Token::Value(word) };
                (token, length)
            }
            ('0'..='9', None) => {
                let length = length_of(rest, |letter| letter.is_ascii_digit());
                let number =
                    rest[..length].parse().map_err(|_| syntax_error(&rest[..length], rest))?;
                (Token::Number(number), length)
            }
            (letter, None) if is_letter(letter) => {
                let length = length_of(rest, is_letter);
                (Token::Word(rest[..length].to_owned()), length)
            }
            (other, None) => return Err(syntax_error(&other.to_string(), rest)),
        };
        if length == 1 && matches!(token, Token::Name(_) | Token::Value(_)) {
            return Err(syntax_error(&rest[..1], rest));
        }
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn length_of(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !is_part(letter)).unwrap_or(text.len())
}

/// What is said of something that cannot be there.
pub(super) fn syntax_error(token: &str, near: &str) -> String {
    let near: String = near.chars().take(40).collect();
    format!("Syntax error; token: \"{token}\", near: \"{near}\"")
}
