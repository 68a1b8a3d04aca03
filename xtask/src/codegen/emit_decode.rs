//! Code that reads structs.

use super::emit_struct::default_expression;
use super::schema::{Field, Struct};
use super::types::Type;
use super::versions::Guard;

/// The body of a function `(from: &mut Decoder, version: i16) -> Result<Self, DecodeError>`.
pub fn emit_decode_body(of: &Struct) -> String {
    let mut fields = String::new();
    for field in &of.fields {
        let value = match field.tag {
            Some(_) => default_expression(field),
            None => {
                let guard = field.versions.guard(of.versions);
                guard.choose(&read_field(of, field), &default_expression(field))
            }
        };
        fields += &format!("{}: {value},\n", field.name);
    }
    let (name, flexible) = (&of.name, of.flexible_expression());
    let known = of.tagged_fields();
    if known.is_empty() {
        return format!(
            "Ok(Self {{\n{fields}\
             unknown_tagged_fields: from.unknown_tagged_fields(\"{name}\", {flexible})?,\n}})\n"
        );
    }
    let arms: String = known.iter().map(|field| read_tagged_field(of, field)).collect();
    format!(
        "let mut message = Self {{\n{fields}unknown_tagged_fields: Vec::new(),\n}};\n\
         message.unknown_tagged_fields = from.tagged_fields(\"{name}\", {flexible}, |tag, from| {{\n\
         match tag {{\n{arms}_ => return Ok(false),\n}}\nOk(true)\n}})?;\nOk(message)\n"
    )
}

/// A match arm that reads a tagged field; at versions that lack it, the tag is an unknown one.
fn read_tagged_field(of: &Struct, field: &Field) -> String {
    let tag = field.tag.expect("only tagged fields come here");
    let condition = match field.versions.guard(of.flexible) {
        Guard::Always => String::new(),
        guard => format!(" if {}", guard.condition()),
    };
    format!("{tag}{condition} => message.{} = {},\n", field.name, read_field(of, field))
}

/// An expression that reads the field, at versions that have it.
fn read_field(of: &Struct, field: &Field) -> String {
    let read = |prefix| read_value(of, field, prefix);
    if !field.is_nullable() {
        return read("");
    }
    let required = format!("Some({})", read(""));
    field.nullable.guard(field.versions).choose(&read("nullable_"), &required)
}

/// An expression that reads the value; `prefix` chooses the methods that allow null.
fn read_value(of: &Struct, field: &Field, prefix: &str) -> String {
    let label = format!("\"{}.{}\"", of.name, field.name);
    let flexible = field.flexible_expression(of);
    match &field.ty {
        Type::Primitive(primitive) => format!("from.{}({label})?", primitive.method()),
        Type::String => format!("from.{prefix}string({label}, {flexible})?"),
        Type::Bytes => format!("from.{prefix}bytes({label}, {flexible})?"),
        Type::Records => format!("from.{prefix}records({label}, {flexible})?"),
        Type::Struct(name) if prefix.is_empty() => format!("{name}::decode(from, version)?"),
        Type::Struct(_) => format!("from.{prefix}struct({label}, version)?"),
        Type::Array(element) => match &**element {
            Type::Primitive(primitive) => {
                format!(
                    "from.{prefix}primitives({label}, {flexible}, Decoder::{})?",
                    primitive.method()
                )
            }
            Type::Struct(_) => format!("from.{prefix}structs({label}, {flexible}, version)?"),
            _ => format!("from.{prefix}strings({label}, {flexible})?"),
        },
    }
}
