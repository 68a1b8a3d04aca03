//! What a table is: its key, its indexes, its switches. It is the record of the key `d` in the table's topic.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::attribute::{Attribute, Item};
use super::expression::condition::order;
use crate::error::ApiError;
use crate::value::{Structure, Value};

/// Indexes that a table may have, as at AWS.
pub(crate) const INDEXES_MAX: usize = 20;

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    /// The attribute that is the key, with its type.
    pub(crate) key: KeyAttribute,
    /// The indexes.
    pub(crate) indexes: Vec<Index>,
    /// When it was made, in ms since 1970.
    pub(crate) created_ms: i64,
    /// Whether it is paid by request.
    pub(crate) is_on_demand: bool,
    /// The reads and writes that are paid for, which have no effect.
    pub(crate) throughput: (i64, i64),
    /// Whether it cannot be deleted.
    pub(crate) is_protected: bool,
    /// Whether it says that it is backed up continuously.
    pub(crate) is_backed_up: bool,
}

/// An attribute of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyAttribute {
    /// Its name.
    pub(crate) name: String,
    /// `S`, `N` or `B`.
    pub(crate) kind: String,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    /// Its name.
    pub(crate) name: String,
    /// What is looked up.
    pub(crate) hash: KeyAttribute,
    /// What is sorted by.
    pub(crate) range: Option<KeyAttribute>,
    /// The attributes that are in it.
    pub(crate) projection: Projection,
}

/// The attributes that an index has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Projection {
    /// All.
    All,
    /// Those of the keys, and these.
    Keys(Vec<String>),
}

impl KeyAttribute {
    /// Its value in an item, if it has its type.
    pub(crate) fn of<'a>(&self, item: &'a Item) -> Option<&'a Attribute> {
        item.get(&self.name).filter(|value| value.type_name() == self.kind)
    }

    fn schema(&self, role: &str) -> Value {
        Structure::new().with("AttributeName", self.name.as_str()).with("KeyType", role).into()
    }
}

impl Index {
    /// Whether an item is in it.
    pub(crate) fn has(&self, item: &Item) -> bool {
        self.hash.of(item).is_some()
            && self.range.as_ref().is_none_or(|range| range.of(item).is_some())
    }

    /// The order of two items in it, with the same value of what is looked up.
    pub(crate) fn order(&self, one: &Item, other: &Item) -> Ordering {
        let Some(range) = &self.range else { return Ordering::Equal };
        match (range.of(one), range.of(other)) {
            (Some(one), Some(other)) => order(one, other).unwrap_or(Ordering::Equal),
            (one, other) => one.is_some().cmp(&other.is_some()),
        }
    }

    fn key_schema(&self) -> Value {
        let range = self.range.iter().map(|range| range.schema("RANGE"));
        Value::from([self.hash.schema("HASH")].into_iter().chain(range).collect::<Vec<_>>())
    }

    fn described(&self, arn: &str, (count, bytes): (usize, usize), throughput: Structure) -> Value {
        let projection = match &self.projection {
            Projection::All => Structure::new().with("ProjectionType", "ALL"),
            Projection::Keys(others) if others.is_empty() => {
                Structure::new().with("ProjectionType", "KEYS_ONLY")
            }
            Projection::Keys(others) => Structure::new()
                .with("ProjectionType", "INCLUDE")
                .with("NonKeyAttributes", others.clone()),
        };
        Structure::new()
            .with("IndexName", self.name.as_str())
            .with("KeySchema", self.key_schema())
            .with("Projection", projection)
            .with("IndexStatus", "ACTIVE")
            .with("ProvisionedThroughput", throughput)
            .with("IndexSizeBytes", bytes)
            .with("ItemCount", count)
            .with("IndexArn", format!("{arn}/index/{}", self.name))
            .into()
    }
}

/// What is in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Extent {
    /// So many items.
    pub(crate) items: usize,
    /// Of so many bytes together.
    pub(crate) bytes: usize,
}

impl Definition {
    /// A table with one key, which is a text, and nothing else to say of it.
    #[cfg(test)]
    pub(super) fn of_key(name: &str) -> Definition {
        Definition {
            key: KeyAttribute { name: name.to_owned(), kind: "S".to_owned() },
            indexes: Vec::new(),
            created_ms: 0,
            is_on_demand: true,
            throughput: (0, 0),
            is_protected: false,
            is_backed_up: false,
        }
    }

    /// The index of a name.
    pub(crate) fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// The attributes of all keys, each once.
    fn attributes(&self) -> Vec<&KeyAttribute> {
        let of_indexes =
            self.indexes.iter().flat_map(|index| [&index.hash].into_iter().chain(&index.range));
        let mut attributes: Vec<&KeyAttribute> =
            [&self.key].into_iter().chain(of_indexes).collect();
        attributes.sort_by(|one, other| one.name.cmp(&other.name));
        attributes.dedup_by(|one, other| one.name == other.name);
        attributes
    }

    /// As DescribeTable has it.
    pub(crate) fn described(
        &self,
        name: &str,
        arn: &str,
        id: &str,
        status: &str,
        extent: Extent,
    ) -> Structure {
        let attributes = self.attributes().into_iter().map(|attribute| {
            let KeyAttribute { name, kind } = attribute;
            Structure::new()
                .with("AttributeName", name.as_str())
                .with("AttributeType", kind.as_str())
                .into()
        });
        let attributes: Vec<Value> = attributes.collect();
        let throughput = || {
            Structure::new()
                .with("NumberOfDecreasesToday", 0_i64)
                .with("ReadCapacityUnits", self.throughput.0)
                .with("WriteCapacityUnits", self.throughput.1)
        };
        let mut described = Structure::new()
            .with("AttributeDefinitions", attributes)
            .with("TableName", name)
            .with("KeySchema", vec![self.key.schema("HASH")])
            .with("TableStatus", status)
            .with("CreationDateTime", Value::Timestamp(self.created_ms))
            .with("ProvisionedThroughput", throughput())
            .with("TableSizeBytes", extent.bytes)
            .with("ItemCount", extent.items)
            .with("TableArn", arn)
            .with("TableId", id)
            .with("DeletionProtectionEnabled", self.is_protected);
        if self.is_on_demand {
            let summary = Structure::new()
                .with("BillingMode", "PAY_PER_REQUEST")
                .with("LastUpdateToPayPerRequestDateTime", Value::Timestamp(self.created_ms));
            described = described.with("BillingModeSummary", summary);
        }
        if !self.indexes.is_empty() {
            let size = (extent.items, extent.bytes);
            let indexes = self.indexes.iter().map(|index| index.described(arn, size, throughput()));
            described = described.with("GlobalSecondaryIndexes", indexes.collect::<Vec<_>>());
        }
        described
    }

    /// The key of an item, as it is in the log. Errors: it has none, or one of another type.
    pub(crate) fn key_of(&self, item: &Item) -> Result<Vec<u8>, ApiError> {
        let KeyAttribute { name, kind } = &self.key;
        let invalid = |message: String| {
            ApiError::validation(format!("One or more parameter values were invalid: {message}"))
        };
        let value =
            item.get(name).ok_or_else(|| invalid(format!("Missing the key {name} in the item")))?;
        if value.type_name() != kind {
            let actual = value.type_name();
            return Err(invalid(format!(
                "Type mismatch for key {name} expected: {kind} actual: {actual}"
            )));
        }
        let (number, bytes);
        let content: &[u8] = match value {
            Attribute::Text(text) => text.as_bytes(),
            Attribute::Number(decimal) => {
                number = decimal.to_string();
                number.as_bytes()
            }
            Attribute::Binary(binary) => {
                bytes = binary.clone();
                &bytes
            }
            _ => &[],
        };
        const KEY_BYTES_MAX: usize = 2_048;
        if content.is_empty() {
            return Err(invalid(format!(
                "The AttributeValue for a key attribute cannot contain an empty string value. Key: {name}"
            )));
        }
        if content.len() > KEY_BYTES_MAX {
            return Err(invalid(format!(
                "Size of hashkey has exceeded the maximum size limit of{KEY_BYTES_MAX} bytes"
            )));
        }
        Ok([ITEM_KEY, content].concat())
    }

    /// The key that a request names, as an item. Errors: there is more or less in it.
    pub(crate) fn check_key(&self, key: &Item) -> Result<Vec<u8>, ApiError> {
        let is_one = key.len() == 1 && self.key.of(key).is_some();
        match is_one {
            true => self.key_of(key),
            false => {
                Err(ApiError::validation("The provided key element does not match the schema"))
            }
        }
    }
}

/// Begins the key of an item in the log.
pub(crate) const ITEM_KEY: &[u8] = b"i";

/// The key of the definition in the log.
pub(crate) const DEFINITION_KEY: &[u8] = b"d";
