//! Avro's binary encoding (specification 1.12), by the schema that a value was written with.
//!
//! | file | idea |
//! |---|---|
//! | [`schema`] | a schema, with its names resolved |
//! | [`decode`] | bytes that follow it |

mod decode;
mod schema;

use serde_json::Value as Json;

use super::{Budget, Misfit, PART_BYTES};
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

    /// About how many bytes it keeps.
    pub(super) fn kept_bytes(&self) -> usize {
        let of_type = |it: &Type| match it {
            Type::Enum(symbols) => symbols.iter().map(|symbol| PART_BYTES + symbol.len()).sum(),
            Type::Record(fields) => fields.iter().map(|(name, _)| PART_BYTES + name.len()).sum(),
            Type::Union(branches) => branches.len() * size_of::<usize>(),
            _ => 0,
        };
        self.types.iter().map(|it| PART_BYTES + of_type(it)).sum()
    }

    /// Reads a value.
    pub(super) fn read(&self, bytes: &[u8], budget: &mut Budget) -> Result<Json, Misfit> {
        decode::value(&self.types, self.root, bytes, budget)
    }
}
