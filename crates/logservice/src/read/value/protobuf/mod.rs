//! Messages of Protocol Buffers, by the descriptors of their files.
//!
//! | file | idea |
//! |---|---|
//! | [`names`] | what files describe, by name |
//! | [`schema`] | a message and all that it can have within it |
//! | [`decode`] | bytes of it |

mod decode;
mod names;
mod schema;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value as Json};

use super::{Budget, Misfit, PART_BYTES};
use crate::messages::log::ProtobufSchema;
use schema::{EnumNames, Message};

/// A message, and what it can have within it.
#[derive(Debug, Clone)]
pub(super) struct Schema {
    /// The first is the message of values. Others point into this by number.
    messages: Vec<Message>,
    enums: Vec<EnumNames>,
}

impl Schema {
    /// Reads descriptors; fails with what is wrong with them.
    pub(super) fn new(described: &ProtobufSchema) -> Result<Schema, String> {
        schema::compile(&described.files, &described.message)
    }

    /// About how many bytes it keeps.
    pub(super) fn kept_bytes(&self) -> usize {
        let of_fields = self.messages.iter().flat_map(|message| message.fields.values());
        let of_enums = self.enums.iter().flat_map(|names| names.values());
        let names = of_fields.map(|field| &field.name).chain(of_enums);
        names.map(|name| PART_BYTES + name.len()).sum::<usize>() + PART_BYTES * self.messages.len()
    }

    /// Reads a message.
    pub(super) fn read(&self, bytes: &[u8], budget: &mut Budget) -> Result<Json, Misfit> {
        let mut fields = Map::new();
        decode::message(self, 0, bytes, &mut fields, budget)?;
        Ok(Json::Object(fields))
    }
}
