//! Avro's binary encoding (specification 1.12), by the schema that a value was written with.
//!
//! | file | idea |
//! |---|---|
//! | [`schema`] | a schema, with its names resolved |
//! | [`decode`] | bytes that follow it |

mod decode;
mod schema;

use serde_json::Value as Json;

use super::{Budget, Misfit};
use schema::Type;

/// A schema.
#[derive(Debug, Clone)]
pub(super) struct Schema {
    /// Others point into this by number: a record may have itself as a part.
    types: Vec<Type>,
    root: usize,
}

impl Schema {
    /// Reads a schema; fails with what is wrong with it.
    pub(super) fn new(text: &str) -> Result<Schema, String> {
        let (types, root) = schema::parse(text)?;
        Ok(Schema { types, root })
    }

    /// Reads a value.
    pub(super) fn read(&self, bytes: &[u8], budget: &mut Budget) -> Result<Json, Misfit> {
        decode::value(&self.types, self.root, bytes, budget)
    }
}
