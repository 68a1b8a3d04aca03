//! What commands print with `--format json`, described from the types that they print.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::json_record::JsonRecord;
use super::{acl, agent, cluster, config, group, kinesis, log, produce, token, topic, txn, user};

/// What a command prints as JSON.
#[derive(Debug)]
pub struct Shape {
    /// The command, without the program's name.
    pub command: &'static str,
    /// Whether it prints a document on each line, and not a single one.
    pub is_lines: bool,
    /// The JSON Schema (2020-12) of a document, without references.
    pub schema: Schema,
}

impl Shape {
    /// One document.
    pub(super) fn document<T: JsonSchema>(command: &'static str) -> Shape {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let settings = settings.with(|settings| settings.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<T>();
        Shape { command, is_lines: false, schema }
    }

    /// A document a line.
    pub(super) fn lines<T: JsonSchema>(command: &'static str) -> Shape {
        Shape { is_lines: true, ..Shape::document::<T>(command) }
    }
}

/// What each command prints, in the order of the program's help. `bench` describes its own.
pub fn shapes() -> Vec<Shape> {
    let mut shapes = topic::shapes();
    shapes.push(Shape::document::<produce::Report<'static>>("produce"));
    shapes.push(Shape::lines::<JsonRecord<'static>>("consume"));
    shapes.extend(group::shapes());
    shapes.extend(txn::shapes());
    shapes.extend(config::shapes());
    shapes.extend(user::shapes());
    shapes.extend(acl::shapes());
    shapes.extend(token::shapes());
    shapes.extend(cluster::shapes());
    shapes.extend(agent::shapes());
    shapes.extend(kinesis::shapes());
    shapes.extend(log::shapes());
    shapes
}
