//! Bytes of a message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};

use super::Schema;
use super::schema::{Count, Field, Kind};
use crate::read::value::bytes::{Bytes, text, zigzag};
use crate::read::value::{Budget, Misfit, double};

/// How a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Counted(&'a [u8]),
    Fixed32([u8; 4]),
}

/// Reads the fields of a message into an object, which has some already where the message comes in pieces.
pub(super) fn message(
    schema: &Schema,
    number: usize,
    bytes: &[u8],
    object: &mut Map<String, Json>,
    budget: &mut Budget,
) -> Result<(), Misfit> {
    let Some(message) = schema.messages.get(number) else {
        return Err(Misfit::Wrong("there is no such message"));
    };
    let mut bytes = Bytes(bytes);
    while !bytes.0.is_empty() {
        budget.part(0)?;
        let (tag, wire) = bytes.field()?;
        // A group that nobody knows has no content here.
        let Some(wire) = wire else { continue };
        if let Some(field) = message.fields.get(&tag) {
            add(schema, field, wire, object, budget)?;
        }
    }
    for field in message.fields.values() {
        budget.part(0)?;
        if object.contains_key(&field.name) {
            continue;
        }
        let default = match field.count {
            Count::Maybe => continue,
            Count::List => Json::Array(Vec::new()),
            Count::Map => Json::Object(Map::new()),
            Count::One => default_of(schema, field.kind),
        };
        budget.part(field.name.len())?;
        object.insert(field.name.clone(), default);
    }
    Ok(())
}

fn add(
    schema: &Schema,
    field: &Field,
    wire: Wire<'_>,
    object: &mut Map<String, Json>,
    budget: &mut Budget,
) -> Result<(), Misfit> {
    budget.part(field.name.len())?;
    match field.count {
        Count::One | Count::Maybe => {
            // The pieces of a message are one message.
            let before = match field.kind {
                Kind::Message(_) => object.remove(&field.name),
                _ => None,
            };
            let value = value(schema, field.kind, wire, before, budget)?;
            object.insert(field.name.clone(), value);
        }
        Count::List => {
            let list = object.entry(field.name.clone()).or_insert_with(|| Json::Array(Vec::new()));
            let Json::Array(list) = list else { return Err(Misfit::Wrong("a list is none")) };
            match wire {
                Wire::Counted(packed) if is_packable(field.kind) => {
                    let mut packed = Bytes(packed);
                    while !packed.0.is_empty() {
                        let wire = packed.unpacked(field.kind)?;
                        list.push(value(schema, field.kind, wire, None, budget)?);
                    }
                }
                wire => list.push(value(schema, field.kind, wire, None, budget)?),
            }
        }
        Count::Map => {
            let entry = value(schema, field.kind, wire, None, budget)?;
            let entries = object.entry(field.name.clone());
            let entries = entries.or_insert_with(|| Json::Object(Map::new()));
            let (Json::Object(entries), Json::Object(mut entry)) = (entries, entry) else {
                return Err(Misfit::Wrong("a map is none"));
            };
            let key = match entry.remove("key") {
                Some(Json::String(key)) => key,
                Some(key) => key.to_string(),
                None => String::new(),
            };
            // Where it is not set it is a message without fields.
            let value = entry.remove("value").unwrap_or_else(|| Json::Object(Map::new()));
            entries.insert(key, value);
        }
    }
    Ok(())
}

fn default_of(schema: &Schema, kind: Kind) -> Json {
    match kind {
        Kind::Double | Kind::Float => double(0.0),
        Kind::Bool => Json::Bool(false),
        Kind::Text | Kind::Bytes => Json::from(""),
        Kind::Enum(number) => enum_value(schema, number, 0),
        Kind::Message(_) => Json::Null,
        _ => Json::from(0),
    }
}

fn enum_value(schema: &Schema, number: usize, value: i32) -> Json {
    let name = schema.enums.get(number).and_then(|names| names.get(&value));
    name.map_or_else(|| Json::from(value), |name| Json::from(name.as_str()))
}

fn value(
    schema: &Schema,
    kind: Kind,
    wire: Wire<'_>,
    before: Option<Json>,
    budget: &mut Budget,
) -> Result<Json, Misfit> {
    budget.part(0)?;
    Ok(match (kind, wire) {
        (Kind::Int, Wire::Varint(it)) => Json::from(it as i64),
        (Kind::Unsigned, Wire::Varint(it)) => Json::from(it),
        (Kind::ZigZag, Wire::Varint(it)) => Json::from(zigzag(it)),
        (Kind::Bool, Wire::Varint(it)) => Json::Bool(it != 0),
        (Kind::Enum(number), Wire::Varint(it)) => {
            let value = enum_value(schema, number, it as i32);
            budget.part(value.as_str().map_or(0, str::len))?;
            value
        }
        (Kind::Double, Wire::Fixed64(it)) => double(f64::from_le_bytes(it)),
        (Kind::Fixed64, Wire::Fixed64(it)) => Json::from(u64::from_le_bytes(it)),
        (Kind::SignedFixed64, Wire::Fixed64(it)) => Json::from(i64::from_le_bytes(it)),
        (Kind::Float, Wire::Fixed32(it)) => double(f32::from_le_bytes(it).into()),
        (Kind::Fixed32, Wire::Fixed32(it)) => Json::from(u32::from_le_bytes(it)),
        (Kind::SignedFixed32, Wire::Fixed32(it)) => Json::from(i32::from_le_bytes(it)),
        (Kind::Text, Wire::Counted(it)) => {
            let text = text(it)?;
            budget.part(text.len())?;
            Json::from(text)
        }
        (Kind::Bytes, Wire::Counted(it)) => {
            budget.part(2 * it.len())?;
            Json::from(STANDARD.encode(it))
        }
        (Kind::Message(number), Wire::Counted(it)) => {
            let mut object = match before {
                Some(Json::Object(object)) => object,
                _ => Map::new(),
            };
            budget.deeper(|budget| message(schema, number, it, &mut object, budget))?;
            Json::Object(object)
        }
        _ => return Err(Misfit::Wrong("a field is written as another type than its own")),
    })
}

fn is_packable(kind: Kind) -> bool {
    !matches!(kind, Kind::Text | Kind::Bytes | Kind::Message(_))
}

impl<'a> Bytes<'a> {
    fn counted(&mut self) -> Result<&'a [u8], Misfit> {
        let length = usize::try_from(self.varint()?).map_err(|_| Misfit::Short)?;
        self.take(length)
    }

    /// The next field: its tag, and how it is written; nothing of a group's beginning or end, which leaves its fields out.
    pub(super) fn field(&mut self) -> Result<(u32, Option<Wire<'a>>), Misfit> {
        let (tag, kind) = self.tag()?;
        if kind == GROUP_BEGIN {
            self.skip_group()?;
            return Ok((tag, None));
        }
        Ok((tag, Some(self.wire(kind)?)))
    }

    fn tag(&mut self) -> Result<(u32, u64), Misfit> {
        let key = self.varint()?;
        let tag = u32::try_from(key >> 3).ok().filter(|tag| *tag > 0);
        Ok((tag.ok_or(Misfit::Wrong("a field has no possible number"))?, key & 7))
    }

    fn wire(&mut self, kind: u64) -> Result<Wire<'a>, Misfit> {
        Ok(match kind {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.array()?),
            2 => Wire::Counted(self.counted()?),
            5 => Wire::Fixed32(self.array()?),
            _ => return Err(Misfit::Wrong("a field is written in no known way")),
        })
    }

    /// Reads over a group and those within it.
    fn skip_group(&mut self) -> Result<(), Misfit> {
        let mut open = 1usize;
        while open > 0 {
            match self.tag()?.1 {
                GROUP_BEGIN => open += 1,
                GROUP_END => open -= 1,
                kind => drop(self.wire(kind)?),
            }
        }
        Ok(())
    }

    /// The next value of a packed list.
    fn unpacked(&mut self, kind: Kind) -> Result<Wire<'a>, Misfit> {
        Ok(match kind {
            Kind::Double | Kind::Fixed64 | Kind::SignedFixed64 => Wire::Fixed64(self.array()?),
            Kind::Float | Kind::Fixed32 | Kind::SignedFixed32 => Wire::Fixed32(self.array()?),
            _ => Wire::Varint(self.varint()?),
        })
    }
}

const GROUP_BEGIN: u64 = 3;
const GROUP_END: u64 = 4;
