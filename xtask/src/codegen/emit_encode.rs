//! Code that writes structs.

use super::schema::{Field, Struct};
use super::types::{Default, Type};
use super::versions::Guard;

/// The body of a function `(&self, to: &mut Encoder, version: i16) -> Result<(), EncodeError>`.
pub fn emit_encode_body(of: &Struct) -> String {
    let mut body = String::new();
    for field in of.fields.iter().filter(|field| field.tag.is_none()) {
        body += &write_guarded(of, field);
    }
    let known = of.tagged_fields();
    for field in known.iter().filter(|field| !field.ignorable) {
        body += &refuse_tagged(of, field);
    }
    let arguments = format!(
        "(\"{}\", version, {}, &self.unknown_tagged_fields)",
        of.name,
        of.flexible_expression()
    );
    if known.is_empty() {
        return body + &format!("to.unknown_tagged_fields{arguments}\n");
    }
    body += &format!("let mut tagged = to.tagged_fields{arguments}?;\n");
    for field in known {
        body += &write_tagged(of, field);
    }
    body + "tagged.finish()\n"
}

/// Statements that write a field at versions that have it, and at the others refuse it if it may not be dropped.
fn write_guarded(of: &Struct, field: &Field) -> String {
    let write = write_field(of, field);
    let guard = field.versions.guard(of.versions);
    match guard {
        Guard::Always => write,
        _ if field.ignorable => format!("if {} {{\n{write}}}\n", guard.condition()),
        _ => {
            let (condition, is_set, refuse) = (guard.condition(), is_set(field), refuse(of, field));
            format!("if {condition} {{\n{write}}} else if {is_set} {{\n{refuse}}}\n")
        }
    }
}

/// Statements that refuse a tagged field which is set, at versions that lack it.
fn refuse_tagged(of: &Struct, field: &Field) -> String {
    match field.versions.guard(of.versions) {
        Guard::Always => String::new(),
        guard => {
            format!("if {} && {} {{\n{}}}\n", guard.negation(), is_set(field), refuse(of, field))
        }
    }
}

fn refuse(of: &Struct, field: &Field) -> String {
    format!("return Err(unsupported({}, version));\n", label(of, field))
}

/// Statements that write a tagged field unless it has its default.
fn write_tagged(of: &Struct, field: &Field) -> String {
    let tag = field.tag.expect("only tagged fields come here");
    let write = write_field(of, field);
    let closure = match write.strip_suffix("?;\n") {
        Some(expression) => format!("|to| {expression}"),
        None => format!("|to| {{\n{write}Ok(())\n}}"),
    };
    let condition = field.versions.guard(of.versions).and() + &is_set(field);
    format!("if {condition} {{\ntagged.field({tag}, {closure})?;\n}}\n")
}

/// Statements that write the field, at versions that have it.
fn write_field(of: &Struct, field: &Field) -> String {
    let place = format!("self.{}", field.name);
    if !field.is_nullable() {
        return write_value(of, field, &place);
    }
    let guard = field.nullable.guard(field.versions);
    if guard == Guard::Always {
        return write_nullable(of, field);
    }
    let required =
        format!("let value = required({place}.as_ref(), {}, version)?;\n", label(of, field));
    guard.choose(&write_nullable(of, field), &(required + &write_value(of, field, "value"))) + "\n"
}

/// A statement that writes the value at `place`.
fn write_value(of: &Struct, field: &Field, place: &str) -> String {
    let (label, flexible) = (label(of, field), field.flexible_expression(of));
    // The variable `value` is a reference already.
    let value = if place == "value" { place.to_owned() } else { format!("&{place}") };
    match &field.ty {
        Type::Primitive(primitive) => format!("to.{}({place});\n", primitive.method()),
        Type::String => format!("to.string({label}, {flexible}, {value})?;\n"),
        Type::Bytes => format!("to.bytes({label}, {flexible}, {value})?;\n"),
        Type::Records => format!("to.records({label}, {flexible}, {value})?;\n"),
        Type::Struct(_) => format!("{place}.encode(to, version)?;\n"),
        Type::Array(element) => write_array(element, &label, flexible, "", &value),
    }
}

/// A statement that writes the field or null.
fn write_nullable(of: &Struct, field: &Field) -> String {
    let (label, flexible) = (label(of, field), field.flexible_expression(of));
    let value = format!("self.{}.as_ref()", field.name);
    match &field.ty {
        Type::Primitive(_) => unreachable!("resolving refuses nullable primitives"),
        Type::String => format!("to.nullable_string({label}, {flexible}, {value})?;\n"),
        Type::Bytes => format!("to.nullable_bytes({label}, {flexible}, {value})?;\n"),
        Type::Records => format!("to.nullable_records({label}, {flexible}, {value})?;\n"),
        Type::Struct(_) => format!("to.nullable_struct(version, {value})?;\n"),
        Type::Array(element) => {
            let value = format!("self.{}.as_deref()", field.name);
            write_array(element, &label, flexible, "nullable_", &value)
        }
    }
}

fn write_array(element: &Type, label: &str, flexible: &str, prefix: &str, value: &str) -> String {
    match element {
        Type::Primitive(primitive) => {
            let method = primitive.method();
            format!("to.{prefix}primitives({label}, {flexible}, {value}, Encoder::{method})?;\n")
        }
        Type::Struct(_) => format!("to.{prefix}structs({label}, {flexible}, version, {value})?;\n"),
        _ => format!("to.{prefix}strings({label}, {flexible}, {value})?;\n"),
    }
}

/// A condition that holds unless the field has its default.
fn is_set(field: &Field) -> String {
    let place = format!("self.{}", field.name);
    match (&field.default, &field.ty) {
        (Default::Null, _) => format!("{place}.is_some()"),
        (Default::Value(value), _) if value == "false" => place,
        (Default::Value(value), _) if value == "true" => format!("!{place}"),
        (Default::Value(value), _) => format!("{place} != {value}"),
        (Default::Empty, Type::Struct(name)) if field.is_nullable() => {
            format!("{place} != Some({name}::default())")
        }
        (Default::Empty, Type::Struct(name)) => format!("{place} != {name}::default()"),
        (Default::Empty, _) if field.is_nullable() => {
            format!("{place}.as_ref().is_none_or(|value| !value.is_empty())")
        }
        (Default::Empty, _) => format!("!{place}.is_empty()"),
    }
}

fn label(of: &Struct, field: &Field) -> String {
    format!("\"{}.{}\"", of.name, field.name)
}
