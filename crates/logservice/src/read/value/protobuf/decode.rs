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
enum Wire<'a> {
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
    fn field(&mut self) -> Result<(u32, Option<Wire<'a>>), Misfit> {
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

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_types::field_descriptor_proto::{Label, Type};
    use prost_types::{
        DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
        FileDescriptorProto, FileDescriptorSet, MessageOptions,
    };
    use serde_json::json;

    use super::*;
    use crate::messages::log::ProtobufSchema;

    fn field(name: &str, number: i32, kind: Type, label: Label) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(name.to_owned()),
            number: Some(number),
            r#type: Some(kind.into()),
            label: Some(label.into()),
            ..FieldDescriptorProto::default()
        }
    }

    fn of_type(name: &str, field: FieldDescriptorProto) -> FieldDescriptorProto {
        FieldDescriptorProto { type_name: Some(name.to_owned()), ..field }
    }

    fn message(name: &str, field: Vec<FieldDescriptorProto>) -> DescriptorProto {
        DescriptorProto { name: Some(name.to_owned()), field, ..DescriptorProto::default() }
    }

    /// A file that has a bit of everything.
    fn file() -> FileDescriptorProto {
        let one = Label::Optional;
        let in_oneof = |field| FieldDescriptorProto { oneof_index: Some(0), ..field };
        let kind = EnumDescriptorProto {
            name: Some("Kind".to_owned()),
            value: [("NONE", 0), ("BUY", 1)]
                .map(|(name, number)| EnumValueDescriptorProto {
                    name: Some(name.to_owned()),
                    number: Some(number),
                    ..EnumValueDescriptorProto::default()
                })
                .into(),
            ..EnumDescriptorProto::default()
        };
        let entry = DescriptorProto {
            options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
            ..message(
                "CountsEntry",
                vec![field("key", 1, Type::String, one), field("value", 2, Type::Int32, one)],
            )
        };
        let order = DescriptorProto {
            enum_type: vec![kind],
            nested_type: vec![entry],
            ..message(
                "Order",
                vec![
                    field("id", 1, Type::Int64, one),
                    field("name", 2, Type::String, one),
                    of_type(".shop.Order.Kind", field("kind", 3, Type::Enum, one)),
                    field("numbers", 4, Type::Sint32, Label::Repeated),
                    of_type(".shop.Order", field("parent", 5, Type::Message, one)),
                    of_type(
                        ".shop.Order.CountsEntry",
                        field("counts", 6, Type::Message, Label::Repeated),
                    ),
                    in_oneof(field("maybe", 7, Type::Bool, one)),
                    field("raw", 8, Type::Bytes, one),
                    field("ratio", 9, Type::Double, one),
                    field("mask", 10, Type::Fixed32, one),
                ],
            )
        };
        FileDescriptorProto {
            name: Some("shop.proto".to_owned()),
            package: Some("shop".to_owned()),
            syntax: Some("proto3".to_owned()),
            message_type: vec![order, message("Empty", Vec::new())],
            ..FileDescriptorProto::default()
        }
    }

    fn schema_of(file: FileDescriptorProto, message: &str) -> Result<Schema, String> {
        let files = FileDescriptorSet { file: vec![file] }.encode_to_vec().into();
        Schema::new(&ProtobufSchema { files, message: message.to_owned() })
    }

    fn read(bytes: &[u8]) -> Result<Json, Misfit> {
        let schema = schema_of(file(), "shop.Order").expect("is one");
        schema.read(bytes, &mut Budget::default())
    }

    #[test]
    fn a_message_becomes_an_object() {
        let empty = json!({"id": 0, "name": "", "kind": "NONE", "numbers": [], "counts": {}, "raw": "",
            "ratio": 0.0, "mask": 0});
        assert_eq!(read(b""), Ok(empty.clone()));
        let bytes = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x02ab\x18\x01\x22\x02\x01\x04\x20\x05\
            \x2a\x04\x08\x07\x18\x09\x2a\x03\x12\x01p\x32\x05\x0a\x01a\x10\x02\x32\x03\x0a\x01b\x38\x00\x42\x01\xff\
            \x49\0\0\0\0\0\0\xf8\x3f\x55\x01\0\0\0";
        let mut parent = empty;
        (parent["id"], parent["kind"], parent["name"]) = (json!(7), json!(9), json!("p"));
        let expected = json!({"id": -1, "name": "ab", "kind": "BUY", "numbers": [-1, 2, -3], "parent": parent,
            "counts": {"a": 2, "b": 0}, "maybe": false, "raw": "/w==", "ratio": 1.5, "mask": 1});
        assert_eq!(read(bytes), Ok(expected));
    }

    #[test]
    fn fields_that_nobody_knows_are_read_over() {
        // A number, a text, and a group within a group.
        let known =
            read(b"\xa0\x06\x01\xa2\x06\x01x\xa3\x06\xab\x06\x08\x01\xac\x06\xa4\x06\x08\x03");
        assert_eq!(known.map(|it| it["id"].clone()), Ok(json!(3)));
    }

    #[test]
    fn what_is_no_such_message_is_told() {
        for (bytes, expected) in [
            (&b"\x08"[..], Misfit::Short),
            (b"\x12\x05ab", Misfit::Short),
            (b"\x12\x01\xff", Misfit::Wrong("a text is no UTF-8")),
            (b"\x0a\x01a", Misfit::Wrong("a field is written as another type than its own")),
            (b"\x00\x01", Misfit::Wrong("a field has no possible number")),
            (b"\x0f", Misfit::Wrong("a field is written in no known way")),
            (b"\xa3\x06", Misfit::Short),
            (&[0xff; 11], Misfit::Wrong("a number has more than ten bytes")),
        ] {
            assert_eq!(read(bytes), Err(expected), "{bytes:?}");
        }
    }

    #[test]
    fn few_bytes_become_no_large_value() {
        let mut nested = Vec::new();
        for _ in 0..200 {
            let mut outer = vec![0x2a];
            prost::encoding::encode_varint(nested.len() as u64, &mut outer);
            outer.append(&mut nested);
            nested = outer;
        }
        assert_eq!(read(&nested), Err(Misfit::Deep));
        assert_eq!(read(&b"\x20\x01".repeat(200_000)), Err(Misfit::Large));
        assert_eq!(read(&b"\xa0\x06\x01".repeat(200_000)), Err(Misfit::Large));
    }

    #[test]
    fn what_is_no_schema_is_told() {
        let wrong = |change: fn(&mut FieldDescriptorProto)| {
            let mut file = file();
            change(&mut file.message_type[0].field[4]);
            schema_of(file, "shop.Order").map(|_| ()).expect_err("is none")
        };
        let many = (1..5_000).map(|it| field("f", it, Type::Bool, Label::Optional)).collect();
        let many = FileDescriptorProto { message_type: vec![message("Many", many)], ..file() };
        for (error, word) in [
            (schema_of(file(), "shop.Other").map(|_| ()), "files have no message 'shop.Other'"),
            (schema_of(many, "shop.Many").map(|_| ()), "fields at most"),
            (Err(wrong(|field| field.type_name = Some(".x".to_owned()))), "no message 'x'"),
            (Err(wrong(|field| field.set_type(Type::Enum))), "no enum 'shop.Order'"),
            (Err(wrong(|field| field.number = Some(0))), "the number 0"),
        ] {
            let error = error.expect_err("is none");
            assert!(error.contains(word), "{error}");
        }
        let garbage = ProtobufSchema { files: vec![0xff; 9].into(), message: String::new() };
        assert!(Schema::new(&garbage).is_err_and(|error| error.contains("no FileDescriptorSet")));
    }
}
