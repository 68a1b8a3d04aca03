//! JSON 1.1: requests into values by their shape, values into responses.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

use base64_simd::STANDARD;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::shape::{Kind, Shape};
use crate::type_error::{Found, TypeErrors, blob_of_text, number_of_kind};
use crate::value::{List, Structure, Value};

/// Reads a request. `None` where it is no object in JSON; what is wrong with its types is noted.
pub(crate) fn decode(body: &[u8], shape: &'static Shape, errors: &TypeErrors) -> Option<Structure> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Seed { shape, errors }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    match value {
        Some(Value::Structure(structure)) => Some(structure),
        _ => None,
    }
}

/// Reads a value of a shape; `None` for null, and for what is of another type.
#[derive(Clone, Copy)]
struct Seed<'a> {
    shape: &'static Shape,
    errors: &'a TypeErrors,
}

/// How many entries of a list are kept: one more than it may have shows that it is too long.
pub(crate) fn entries_max(shape: &Shape) -> usize {
    const UNBOUNDED_MAX: usize = 1_000;
    shape.max.and_then(|max| usize::try_from(max).ok()).map_or(UNBOUNDED_MAX, |max| max + 1)
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Seed<'a> {
    fn of(self, shape: &'static Shape) -> Seed<'a> {
        Seed { shape, ..self }
    }

    fn refuse(self, found: Found<'_>) -> Option<Value> {
        self.errors.note_mismatch(&self.shape.kind, found);
        None
    }

    fn number(self, whole: i64, seconds: f64) -> Option<Value> {
        match &self.shape.kind {
            kind @ (Kind::Integer | Kind::Long) => Some(Value::Number(number_of_kind(kind, whole))),
            Kind::Timestamp => Some(Value::Timestamp((seconds * 1_000.0).round() as i64)),
            Kind::Double => Some(Value::Double(seconds)),
            _ => self.refuse(Found::Number),
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Option<Value>, E> {
        Ok(match self.shape.kind {
            Kind::Boolean => Some(Value::Boolean(value)),
            _ => self.refuse(Found::Boolean),
        })
    }

    fn visit_i64<E>(self, number: i64) -> Result<Option<Value>, E> {
        Ok(self.number(number, number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<Value>, E> {
        Ok(self.number(i64::try_from(number).unwrap_or(i64::MAX), number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Option<Value>, E> {
        Ok(self.number(number.floor() as i64, number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<Value>, E> {
        Ok(match self.shape.kind {
            Kind::Text | Kind::Word(_) => Some(Value::Text(text.to_owned())),
            Kind::Blob => blob_of_text(text, self.errors).map(Value::Blob),
            _ => self.refuse(Found::Text(text)),
        })
    }

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Value>, A::Error> {
        let Kind::List(of) = self.shape.kind else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(self.refuse(Found::List));
        };
        let max = entries_max(self.shape);
        let mut list = List::default();
        loop {
            if list.entries.len() < max {
                match seq.next_element_seed(self.of(of))? {
                    Some(Some(entry)) => list.entries.push(entry),
                    Some(None) => self.errors.note_absent_entry(),
                    None => break,
                }
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
            list.count += 1;
        }
        Ok(Some(Value::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Value>, A::Error> {
        match self.shape.kind {
            Kind::Structure(members) => {
                let mut structure = Structure::new();
                while let Some(key) = map.next_key::<Cow<'_, str>>()? {
                    let Some(member) = members.iter().find(|member| member.name == key) else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    let value = map.next_value_seed(self.of(member.shape))?;
                    // Of one that comes twice, the last.
                    structure.0.retain(|(name, _)| *name != member.name);
                    structure.0.extend(value.map(|value| (member.name, value)));
                }
                Ok(Some(Value::Structure(structure)))
            }
            Kind::Map(_, of) => {
                let max = entries_max(self.shape);
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    match map.next_value_seed(self.of(of))? {
                        Some(value) if entries.len() < max => entries.push((key, value)),
                        // Of one with a bound, the model's check says that there are too many.
                        Some(_) if self.shape.max.is_none() => {
                            self.errors.note(format!("A map has at most {max} entries"));
                        }
                        _ => {}
                    }
                }
                Ok(Some(Value::Map(entries)))
            }
            _ => {
                while map.next_key::<IgnoredAny>()?.is_some() {
                    map.next_value::<IgnoredAny>()?;
                }
                Ok(self.refuse(Found::Map))
            }
        }
    }

    fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Option<Value>, E> {
        Err(E::custom("JSON has no bytes"))
    }

    fn visit_none<E>(self) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, _: D) -> Result<Option<Value>, D::Error> {
        Err(D::Error::custom("JSON has no wrapped values"))
    }
}

/// Writes a response.
pub(crate) fn encode(structure: &Structure) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(structure.room_bytes(&|blob| STANDARD.encoded_length(blob)));
    push_structure(&mut bytes, structure);
    bytes
}

fn push_structure(bytes: &mut Vec<u8>, structure: &Structure) {
    push_members(bytes, &structure.0, |bytes, name| {
        // Names of the model are letters.
        bytes.push(b'"');
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'"');
    });
}

fn push_members<K>(
    bytes: &mut Vec<u8>,
    members: &[(K, Value)],
    push_key: impl Fn(&mut Vec<u8>, &K),
) {
    bytes.push(b'{');
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        push_key(bytes, key);
        bytes.push(b':');
        push_value(bytes, value);
    }
    bytes.push(b'}');
}

fn push_value(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Boolean(value) => push_shown(bytes, format_args!("{value}")),
        Value::Number(number) => push_shown(bytes, format_args!("{number}")),
        // Of numbers that JSON does not have, nothing.
        Value::Double(number) => serde_json::to_writer(bytes, number).expect("memory takes it"),
        Value::Text(text) => push_text(bytes, text),
        Value::Blob(blob) => {
            // It makes room for no more than itself, each time by moving all.
            bytes.reserve(STANDARD.encoded_length(blob.len()) + 2);
            bytes.push(b'"');
            STANDARD.encode_append(blob, bytes);
            bytes.push(b'"');
        }
        // Seconds with three decimals: clients read no exponents.
        Value::Timestamp(ms) => {
            let (seconds, rest) = (ms.div_euclid(1_000), ms.rem_euclid(1_000));
            push_shown(bytes, format_args!("{seconds}.{rest:03}"));
        }
        Value::List(list) => {
            bytes.push(b'[');
            for (index, entry) in list.entries.iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                push_value(bytes, entry);
            }
            bytes.push(b']');
        }
        Value::Map(entries) => {
            push_members(bytes, entries, |bytes, key| push_text(bytes, key));
        }
        Value::Structure(structure) => push_structure(bytes, structure),
    }
}

fn push_shown(bytes: &mut Vec<u8>, shown: fmt::Arguments<'_>) {
    bytes.write_fmt(shown).expect("memory takes it");
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(bytes, text).expect("a text can be written to memory");
}
