//! MessagePack, token by token. No length allocates, and a value is only read when all of it has come.
//!
//! Source: the specification of MessagePack.

use serde_json::{Map, Number, Value};

use super::budget::Share;
use super::{Malformed, Unread};

/// Values may be in values so deep.
const DEPTH_MAX: usize = 64;

/// What a value takes in memory beside its text, about.
const VALUE_BYTES: usize = 64;

/// What comes next. Behind the head of an array or a map its values follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(&'a [u8]),
    Binary(&'a [u8]),
    Array(u32),
    /// So many pairs.
    Map(u32),
    Extension(i8, &'a [u8]),
}

/// Reads tokens.
#[derive(Debug, Clone)]
pub(crate) struct Tokens<'a>(pub(crate) &'a [u8]);

impl<'a> Tokens<'a> {
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A length in so many bytes.
    fn length(&mut self, bytes: u8) -> Result<u32, Malformed> {
        Ok(match bytes {
            1 => u32::from(self.fixed::<1>()?[0]),
            2 => u32::from(u16::from_be_bytes(self.fixed()?)),
            _ => u32::from_be_bytes(self.fixed()?),
        })
    }

    fn extension(&mut self, length: usize) -> Result<Token<'a>, Malformed> {
        let kind = i8::from_be_bytes(self.fixed()?);
        Ok(Token::Extension(kind, self.bytes(length)?))
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Result<Token<'a>, Malformed> {
        let [first] = self.fixed()?;
        Ok(match first {
            0x00..=0x7f => Token::Uint(first.into()),
            0x80..=0x8f => Token::Map(u32::from(first & 0x0f)),
            0x90..=0x9f => Token::Array(u32::from(first & 0x0f)),
            0xa0..=0xbf => Token::Text(self.bytes(usize::from(first & 0x1f))?),
            0xc0 => Token::Nil,
            0xc1 => return Err(Malformed::new("the byte c1 begins no value")),
            0xc2 | 0xc3 => Token::Bool(first == 0xc3),
            0xc4..=0xc6 => {
                let length = self.length(1 << (first - 0xc4))?;
                Token::Binary(self.bytes(length as usize)?)
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (first - 0xc7))?;
                self.extension(length as usize)?
            }
            0xca => Token::Float(f32::from_be_bytes(self.fixed()?).into()),
            0xcb => Token::Float(f64::from_be_bytes(self.fixed()?)),
            0xcc => Token::Uint(u8::from_be_bytes(self.fixed()?).into()),
            0xcd => Token::Uint(u16::from_be_bytes(self.fixed()?).into()),
            0xce => Token::Uint(u32::from_be_bytes(self.fixed()?).into()),
            0xcf => Token::Uint(u64::from_be_bytes(self.fixed()?)),
            0xd0 => Token::Int(i8::from_be_bytes(self.fixed()?).into()),
            0xd1 => Token::Int(i16::from_be_bytes(self.fixed()?).into()),
            0xd2 => Token::Int(i32::from_be_bytes(self.fixed()?).into()),
            0xd3 => Token::Int(i64::from_be_bytes(self.fixed()?)),
            0xd4..=0xd8 => self.extension(1 << (first - 0xd4))?,
            0xd9..=0xdb => {
                let length = self.length(1 << (first - 0xd9))?;
                Token::Text(self.bytes(length as usize)?)
            }
            0xdc | 0xdd => Token::Array(self.length(2 << (first - 0xdc))?),
            0xde | 0xdf => Token::Map(self.length(2 << (first - 0xde))?),
            0xe0..=0xff => Token::Int(i64::from(first as i8)),
        })
    }

    /// Passes a value by, with all that is in it.
    pub(crate) fn skip(&mut self) -> Result<(), Malformed> {
        let mut left: u64 = 1;
        while left > 0 {
            left = left - 1 + values_in(&self.next()?);
        }
        Ok(())
    }

    /// A value in JSON; what it takes is charged. Names that are no texts are written as such, and bytes that are no UTF-8
    /// are replaced.
    pub(crate) fn json(&mut self, share: &mut Share) -> Result<Value, Unread> {
        self.json_at(0, share)
    }

    fn json_at(&mut self, depth: usize, share: &mut Share) -> Result<Value, Unread> {
        if depth > DEPTH_MAX {
            let text = format!("a value has more than {DEPTH_MAX} values around it");
            return Err(Malformed(text).into());
        }
        let token = self.next()?;
        share.grow(VALUE_BYTES)?;
        Ok(match token {
            Token::Nil => Value::Null,
            Token::Bool(flag) => Value::Bool(flag),
            Token::Int(number) => Value::from(number),
            Token::Uint(number) => Value::from(number),
            Token::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
            Token::Text(bytes) | Token::Binary(bytes) | Token::Extension(_, bytes) => {
                share.grow(bytes.len())?;
                Value::String(String::from_utf8_lossy(bytes).into_owned())
            }
            Token::Array(count) => {
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(self.json_at(depth + 1, share)?);
                }
                Value::Array(values)
            }
            Token::Map(count) => {
                let mut map = Map::new();
                for _ in 0..count {
                    let name = match self.json_at(depth + 1, share)? {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    map.insert(name, self.json_at(depth + 1, share)?);
                }
                Value::Object(map)
            }
        })
    }
}

fn cut_off() -> Malformed {
    Malformed::new("the message ends within a value")
}

/// How many values follow a token.
fn values_in(token: &Token<'_>) -> u64 {
    match token {
        Token::Array(count) => u64::from(*count),
        Token::Map(count) => 2 * u64::from(*count),
        _ => 0,
    }
}

/// Finds the end of a value that comes in pieces, and looks at each byte's token once, or twice.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    /// So far all tokens are whole.
    scanned: usize,
    /// Values that are to come, beside the one that began.
    left: u64,
}

impl Scanner {
    /// How long the first value of a buffer is, once it is whole. The buffer is the same as before, or longer.
    pub(crate) fn scan(&mut self, buffer: &[u8]) -> Result<Option<usize>, Malformed> {
        while self.scanned < buffer.len() {
            let mut tokens = Tokens(&buffer[self.scanned..]);
            if tokens.0[0] == 0xc1 {
                return Err(Malformed::new("the byte c1 begins no value"));
            }
            // Any other error is that it is not whole yet.
            let Ok(token) = tokens.next() else { return Ok(None) };
            self.scanned = buffer.len() - tokens.0.len();
            self.left = self.left.saturating_add(values_in(&token));
            if self.left == 0 {
                return Ok(Some(std::mem::take(self).scanned));
            }
            self.left -= 1;
        }
        Ok(None)
    }
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    match text.len() {
        length @ ..32 => out.push(0xa0 | length as u8),
        length => {
            out.push(0xdb);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(0xc6);
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The head of an array of up to 15 values.
pub(crate) fn put_array(out: &mut Vec<u8>, count: u8) {
    out.push(0x90 | count);
}

/// The head of a map of up to 15 pairs.
pub(crate) fn put_map(out: &mut Vec<u8>, count: u8) {
    out.push(0x80 | count);
}

pub(crate) fn put_bool(out: &mut Vec<u8>, flag: bool) {
    out.push(0xc2 | u8::from(flag));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::budget::Budget;

    /// `{"a":[1,-1,1.5,null,true,"x"],"b":{"c":65536}}`.
    const EXAMPLE: &[u8] =
        b"\x82\xa1a\x96\x01\xff\xcb\x3f\xf8\0\0\0\0\0\0\xc0\xc3\xd9\x01x\xc4\x01b\x81\xa1c\xce\0\x01\0\0";

    #[test]
    fn values_are_read_and_no_cut_panics() {
        let budget = Budget::new(1 << 20);
        let mut share = budget.share();
        let value = Tokens(EXAMPLE).json(&mut share).expect("is one");
        let text = r#"{"a":[1,-1,1.5,null,true,"x"],"b":{"c":65536}}"#;
        assert_eq!(value.to_string(), text);
        let mut tokens = Tokens(EXAMPLE);
        tokens.skip().expect("is one");
        assert!(tokens.0.is_empty());
        let mut scanner = Scanner::default();
        for cut in 0..EXAMPLE.len() {
            assert_eq!(scanner.scan(&EXAMPLE[..cut]).expect("is none yet"), None);
            assert!(Tokens(&EXAMPLE[..cut]).json(&mut share).is_err());
            assert!(Tokens(&EXAMPLE[..cut]).skip().is_err());
        }
        let longer = [EXAMPLE, b"\x01"].concat();
        assert_eq!(scanner.scan(&longer).expect("is one"), Some(EXAMPLE.len()));
        assert_eq!(scanner.scan(b"\x01").expect("is one"), Some(1));
        assert!(scanner.scan(b"\xc1").is_err());
    }

    #[test]
    fn what_is_said_of_lengths_takes_nothing() {
        let budget = Budget::new(1 << 20);
        for hostile in [
            &b"\xdd\xff\xff\xff\xff"[..],
            b"\xdf\xff\xff\xff\xff\xa1a",
            b"\xc6\xff\xff\xff\xff",
            &[0x91; 1000],
        ] {
            assert!(Tokens(hostile).json(&mut budget.share()).is_err());
        }
        let nils = [&b"\xdd\0\x01\0\0"[..], &[0xc0; 65_536]].concat();
        let refused = Tokens(&nils).json(&mut budget.share()).expect_err("is too much");
        assert!(matches!(refused, Unread::Exhausted(_)));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        put_array(&mut out, 4);
        put_text(&mut out, "short");
        put_text(&mut out, &"long".repeat(10));
        put_binary(&mut out, b"b");
        put_map(&mut out, 1);
        put_text(&mut out, "k");
        put_bool(&mut out, true);
        let budget = Budget::new(1 << 20);
        let value = Tokens(&out).json(&mut budget.share()).expect("is one");
        assert_eq!(value, serde_json::json!(["short", "long".repeat(10), "b", { "k": true }]));
    }
}
