//! Descriptors, and messages that follow them.

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, FileDescriptorSet, MessageOptions,
};
use serde_json::{Value as Json, json};

use super::Schema;
use crate::messages::log::ProtobufSchema;
use crate::read::value::{Budget, Misfit};

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
    let known = read(b"\xa0\x06\x01\xa2\x06\x01x\xa3\x06\xab\x06\x08\x01\xac\x06\xa4\x06\x08\x03");
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
fn names_are_those_of_packages_and_of_messages_within_messages() {
    let inner = message("Inner", vec![field("a", 1, Type::Bool, Label::Optional)]);
    let within = |name: &str, nested| DescriptorProto {
        nested_type: vec![nested],
        ..message(
            name,
            vec![of_type(".x.y.Outer.Middle.Inner", field("f", 1, Type::Message, Label::Optional))],
        )
    };
    let outer = within("Outer", within("Middle", inner));
    let file = FileDescriptorProto {
        package: Some("x.y".to_owned()),
        message_type: vec![outer.clone()],
        ..file()
    };
    for name in ["x.y.Outer", ".x.y.Outer.Middle"] {
        let schema = schema_of(file.clone(), name).expect("is there");
        let read = schema.read(b"\x0a\x02\x08\x01", &mut Budget::default());
        assert_eq!(read, Ok(json!({"f": {"a": true}})), "{name}");
    }
    for name in ["", "x", "x.y", "y.Outer", "x.y.Outer.", "x.y.Outer.Inner"] {
        let error = schema_of(file.clone(), name).map(|_| ()).expect_err(name);
        assert!(error.contains("files have no message"), "{error}");
    }
    let twice = FileDescriptorProto { message_type: vec![outer.clone(), outer], ..file };
    let error = schema_of(twice, "x.y.Outer").map(|_| ()).expect_err("is there twice");
    assert!(error.contains("of one name"), "{error}");
}

#[test]
fn few_bytes_become_no_large_schema() {
    // A long name around many others, which was 640 MB by their full names.
    let many = |count: usize| {
        let nested = (0..count).map(|number| message(&format!("m{number}"), Vec::new()));
        let long = DescriptorProto {
            nested_type: nested.collect(),
            ..message(&"n".repeat(120 << 10), Vec::new())
        };
        FileDescriptorProto { message_type: vec![long, message("M", Vec::new())], ..file() }
    };
    let schema = schema_of(many(5_000), "shop.M").expect("is one");
    assert!(schema.kept_bytes() < 1_000);
    let error = schema_of(many(17_000), "shop.M").map(|_| ()).expect_err("are too many");
    assert!(error.contains("16384 packages, messages and enums at most"), "{error}");
    // Deeper than any thread's stack would be.
    let mut nested = Vec::new();
    for _ in 0..17_000 {
        let mut outer = vec![0x1a];
        prost::encoding::encode_varint(nested.len() as u64, &mut outer);
        outer.append(&mut nested);
        nested = outer;
    }
    let encoded = |tag: u8, content: &[u8]| {
        let mut outer = vec![tag];
        prost::encoding::encode_varint(content.len() as u64, &mut outer);
        outer.extend_from_slice(content);
        outer
    };
    let files = encoded(0x0a, &encoded(0x22, &nested)).into();
    let deep = Schema::new(&ProtobufSchema { files, message: "M".to_owned() });
    assert!(deep.is_err_and(|error| error.contains("at most")));
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
        (Err(wrong(|field| field.r#type = Some(77))), "'parent' has no known type"),
    ] {
        let error = error.expect_err("is none");
        assert!(error.contains(word), "{error}");
    }
    let garbage = ProtobufSchema { files: vec![0xff; 9].into(), message: String::new() };
    assert!(Schema::new(&garbage).is_err_and(|error| error.contains("no FileDescriptorSet")));
}
