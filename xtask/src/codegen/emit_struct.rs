//! The structs of a message and their defaults.

use super::schema::{Field, Message, Struct};
use super::types::{Default, Type};
use super::versions::Versions;

/// The struct, with its `Default`.
pub fn emit_struct(message: &Message, of: &Struct) -> String {
    let name = &of.name;
    let fields: String = of.fields.iter().map(emit_field).collect();
    let derives_default = of.fields.iter().all(is_rust_default);
    let derive = if derives_default {
        "Debug, Clone, PartialEq, Default"
    } else {
        "Debug, Clone, PartialEq"
    };
    let default = if derives_default { String::new() } else { emit_default(of) };
    format!(
        "/// {}\n#[derive({derive})]\npub struct {name} {{\n{fields}\
         /// Tagged fields that the definition does not know, by rising tag; flexible versions only.\n\
         pub unknown_tagged_fields: Vec<RawTaggedField>,\n}}\n\n{default}",
        struct_doc(message, of),
    )
}

fn struct_doc(message: &Message, of: &Struct) -> String {
    let versions = versions_words(of.versions);
    if of.name == message.name {
        return format!("{versions}.");
    }
    let uses =
        message.uses_of(&of.name).map(|(of, field)| format!("[`{}::{}`]", of.name, field.name));
    format!("In {}; {}.", uses.collect::<Vec<_>>().join(", "), versions.to_lowercase())
}

fn versions_words(versions: Versions) -> String {
    let word = if versions.min == versions.max { "Version" } else { "Versions" };
    format!("{word} {versions}")
}

/// The type of the field, with its `Option`.
pub fn field_type(field: &Field) -> String {
    let rust_type = field.ty.rust_type();
    if field.is_nullable() { format!("Option<{rust_type}>") } else { rust_type }
}

/// The default of the field as an expression.
pub fn default_expression(field: &Field) -> String {
    let empty = || match &field.ty {
        Type::String => "WireString::new()".to_owned(),
        Type::Bytes => "Bytes::new()".to_owned(),
        Type::Array(_) => "Vec::new()".to_owned(),
        other => format!("{}::default()", other.rust_type()),
    };
    match &field.default {
        Default::Null => "None".to_owned(),
        Default::Empty if field.is_nullable() => format!("Some({})", empty()),
        Default::Empty => empty(),
        Default::Value(value) => value.clone(),
    }
}

/// What a reader of the code needs to know of the field beyond its name and type.
fn emit_field(field: &Field) -> String {
    let mut facts = versions_words(field.versions);
    if let Some(tag) = field.tag {
        facts += &format!(", tag {tag}");
    }
    if field.is_nullable() && field.nullable != field.versions {
        facts += &format!("; null in {}", versions_words(field.nullable).to_lowercase());
    }
    if !is_rust_default(field) {
        facts += &format!("; default `{}`", default_expression(field));
    }
    if field.ignorable {
        facts += "; ignorable";
    }
    format!("/// {facts}.\npub {}: {},\n", field.name, field_type(field))
}

/// Whether the default is that of the type in Rust.
fn is_rust_default(field: &Field) -> bool {
    match &field.default {
        Default::Null => true,
        Default::Empty => !field.is_nullable(),
        Default::Value(value) => matches!(value.as_str(), "0" | "0.0" | "false" | "Uuid::ZERO"),
    }
}

fn emit_default(of: &Struct) -> String {
    let name = &of.name;
    let fields: String = of
        .fields
        .iter()
        .map(|field| format!("{}: {},\n", field.name, default_expression(field)))
        .collect();
    format!(
        "impl Default for {name} {{\nfn default() -> {name} {{\n{name} {{\n{fields}\
         unknown_tagged_fields: Vec::new(),\n}}\n}}\n}}\n\n"
    )
}
