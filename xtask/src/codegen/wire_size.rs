//! The least that structs take on the wire, by which counts are checked.

use super::schema::{Field, Message, Struct};
use super::types::Type;

/// The body of a function `(version: i16) -> usize`.
pub fn emit_wire_bytes_min_body(message: &Message, of: &Struct) -> String {
    let sizes = sizes_by_version(message, of);
    let (last, others) = sizes.split_last().expect("a struct has a version");
    if others.is_empty() {
        return format!("{}\n", last.bytes);
    }
    let arms: String = others.iter().map(Run::arm).collect();
    format!("match version {{\n{arms}_ => {},\n}}\n", last.bytes)
}

/// Versions in a row with the same least size.
struct Run {
    min: i16,
    max: i16,
    bytes: usize,
}

impl Run {
    fn arm(&self) -> String {
        match self.min == self.max {
            true => format!("{} => {},\n", self.min, self.bytes),
            false => format!("{}..={} => {},\n", self.min, self.max, self.bytes),
        }
    }
}

fn sizes_by_version(message: &Message, of: &Struct) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for version in of.versions.min..=of.versions.max {
        let bytes = struct_bytes_min(message, of, version);
        match runs.last_mut().filter(|run| run.bytes == bytes) {
            Some(run) => run.max = version,
            None => runs.push(Run { min: version, max: version, bytes }),
        }
    }
    runs
}

fn struct_bytes_min(message: &Message, of: &Struct, version: i16) -> usize {
    let flexible = of.flexible.contains(version);
    let is_present = |field: &&Field| field.tag.is_none() && field.versions.contains(version);
    let fields = of.fields.iter().filter(is_present);
    let bytes: usize = fields.map(|field| field_bytes_min(message, field, flexible, version)).sum();
    // A flexible struct ends with the count of its tagged fields.
    let bytes = bytes + usize::from(flexible);
    assert!(
        bytes > 0,
        "{}.{} takes no bytes, so its count cannot be checked",
        message.name,
        of.name
    );
    bytes
}

fn field_bytes_min(message: &Message, field: &Field, flexible: bool, version: i16) -> usize {
    let flexible = flexible && !field.fixed_lengths;
    match &field.ty {
        Type::Primitive(primitive) => primitive.bytes(),
        Type::String if !flexible => 2,
        Type::Bytes | Type::Records | Type::Array(_) if !flexible => 4,
        Type::String | Type::Bytes | Type::Records | Type::Array(_) => 1,
        Type::Struct(_) if field.nullable.contains(version) => 1,
        Type::Struct(name) => struct_bytes_min(message, message.find_struct(name), version),
    }
}
