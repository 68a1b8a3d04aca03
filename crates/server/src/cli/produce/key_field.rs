//! A key that is part of a JSON value.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The way to a field: `user.id`, or a JSON pointer (RFC 6901) such as `/user/id` where names have
/// dots in them. In an array, a number counts its elements from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyField {
    text: String,
    names: Vec<String>,
}

impl KeyField {
    /// Reads an argument.
    ///
    /// # Errors
    ///
    /// What is wrong, for the user.
    pub(super) fn parse(text: &str) -> Result<KeyField, String> {
        let names: Vec<String> = match text.strip_prefix('/') {
            Some(pointer) => {
                pointer.split('/').map(|n| n.replace("~1", "/").replace("~0", "~")).collect()
            }
            None => text.split('.').map(str::to_owned).collect(),
        };
        match names.iter().any(String::is_empty) {
            true => Err("expected names of fields with dots between them".to_owned()),
            false => Ok(KeyField { text: text.to_owned(), names }),
        }
    }

    /// The key in a value: the text of a string, numbers and booleans as they are written, nothing
    /// for `null`.
    ///
    /// # Errors
    ///
    /// What is wrong with the value, for the user.
    pub(super) fn key_in<'v>(&self, value: &'v [u8]) -> Result<Option<Cow<'v, [u8]>>, String> {
        let text = std::str::from_utf8(value).map_err(|_| "the value is no JSON".to_owned())?;
        let mut json: &RawValue =
            serde_json::from_str(text).map_err(|error| format!("the value is no JSON: {error}"))?;
        for name in &self.names {
            json = field(json, name).ok_or_else(|| format!("it has no field '{}'", self.text))?;
        }
        match json.get().as_bytes() {
            b"null" => Ok(None),
            [b'"', ..] => match serde_json::from_str::<String>(json.get()) {
                Ok(key) => Ok(Some(Cow::Owned(key.into_bytes()))),
                Err(error) => Err(format!("its field '{}' is no text: {error}", self.text)),
            },
            [b'{' | b'[', ..] => {
                Err(format!("its field '{}' is neither text nor a number", self.text))
            }
            plain => Ok(Some(Cow::Borrowed(plain))),
        }
    }
}

/// A field of an object, the last of several with the same name, as most programs read it; or an element
/// of an array.
fn field<'v>(object: &'v RawValue, name: &str) -> Option<&'v RawValue> {
    let mut deserializer = serde_json::Deserializer::from_str(object.get());
    serde::Deserializer::deserialize_any(&mut deserializer, FieldVisitor { name }).ok()?
}

struct FieldVisitor<'n> {
    name: &'n str,
}

impl<'v> Visitor<'v> for FieldVisitor<'_> {
    type Value = Option<&'v RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_seq<A: SeqAccess<'v>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let index = index(self.name);
        for at in 0.. {
            if Some(at) == index {
                found = elements.next_element()?;
            } else if elements.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'v>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(IsName(self.name))? {
            match is_it {
                true => found = Some(map.next_value()?),
                false => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// The number of an element. RFC 6901 has no leading zeros.
fn index(name: &str) -> Option<usize> {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = name.len() > 1 && name.starts_with('0');
    (is_number && !has_leading_zero).then(|| name.parse().ok())?
}

/// Compares a name without keeping it.
struct IsName<'n>(&'n str);

impl<'v> DeserializeSeed<'v> for IsName<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'v>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(field: &str, value: &str) -> Result<Option<String>, String> {
        let field = KeyField::parse(field).expect("a field");
        let key = field.key_in(value.as_bytes())?;
        Ok(key.map(|key| String::from_utf8(key.into_owned()).expect("text")))
    }

    #[test]
    fn the_key_is_what_the_field_holds() {
        let value = r#"{"id":"a\n\u00fc","n":12345678901234567890.10,"t":true,"none":null,
            "user":{"id":7,"a.b":{"c/d":"deep"}},"list":[7,{"a":"x"},[true]],
            "digits":{"0":"name"},"id":"last"}"#;
        for (field, expected) in [
            ("id", Some("last")),
            ("n", Some("12345678901234567890.10")),
            ("t", Some("true")),
            ("none", None),
            ("user.id", Some("7")),
            ("/user/a.b/c~1d", Some("deep")),
            ("/list/0", Some("7")),
            ("/list/1/a", Some("x")),
            ("list.2.0", Some("true")),
            ("/digits/0", Some("name")),
        ] {
            assert_eq!(key(field, value), Ok(expected.map(str::to_owned)), "{field}");
        }
        assert_eq!(key("id", r#"{"id":"a\n\u00fc"}"#), Ok(Some("a\nü".to_owned())));
    }

    #[test]
    fn what_has_no_key_is_refused() {
        for (value, expected) in [
            ("hello", "is no JSON"),
            ("", "is no JSON"),
            (r#"{"id":1} x"#, "is no JSON"),
            ("{}", "no field 'user.id'"),
            ("7", "no field 'user.id'"),
            (r#"{"user":[7]}"#, "no field 'user.id'"),
            (r#"{"user":{"id":{}}}"#, "neither text nor a number"),
            (r#"{"user":{"id":"\ud800"}}"#, "is no text"),
        ] {
            let error = key("user.id", value).expect_err(value);
            assert!(error.contains(expected), "{value}: {error}");
        }
        assert_eq!(key("/0/a", r#"[{"a":"k"}]"#), Ok(Some("k".to_owned())));
        for field in ["/1", "/01", "/+0", "/-", "/a", "/99999999999999999999"] {
            let error = key(field, "[7]").expect_err(field);
            assert!(error.contains(&format!("no field '{field}'")), "{error}");
        }
        let field = KeyField::parse("a").expect("a field");
        assert!(field.key_in(b"{\"a\":\"\xff\"}").is_err());
        for text in ["", ".", "a.", "/", "/a/"] {
            assert!(KeyField::parse(text).is_err(), "{text}");
        }
    }
}
