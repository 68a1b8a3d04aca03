//! Attributes and items, from and to what travels.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::decimal::Decimal;
use crate::error::ApiError;
use crate::value::{List, Structure, Value};

/// Levels that a document may have.
const DEPTH_MAX: usize = 32;

/// Entries that a list, a set or a map has at most; more of them are not read.
const ENTRIES_MAX: usize = 999;

/// An item's size, as DynamoDB bounds it.
pub(crate) const ITEM_BYTES_MAX: usize = 400 << 10;

/// What an attribute takes beside its content, in bytes: an estimate.
const OVERHEAD_BYTES: usize = 48;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attribute {
    /// `S`.
    Text(String),
    /// `N`.
    Number(Decimal),
    /// `B`.
    Binary(Bytes),
    /// `BOOL`.
    Boolean(bool),
    /// `NULL`.
    Null,
    /// `SS`.
    Texts(BTreeSet<String>),
    /// `NS`.
    Numbers(BTreeSet<Decimal>),
    /// `BS`.
    Binaries(BTreeSet<Bytes>),
    /// `L`.
    List(Vec<Attribute>),
    /// `M`.
    Map(Item),
}

/// Attributes by name.
pub(crate) type Item = BTreeMap<String, Attribute>;

impl Attribute {
    /// Reads a value of the shape `AttributeValue`.
    pub(crate) fn of(value: &Value) -> Result<Attribute, ApiError> {
        attribute_of(value, DEPTH_MAX)
    }

    /// The name of its type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Attribute::Text(_) => "S",
            Attribute::Number(_) => "N",
            Attribute::Binary(_) => "B",
            Attribute::Boolean(_) => "BOOL",
            Attribute::Null => "NULL",
            Attribute::Texts(_) => "SS",
            Attribute::Numbers(_) => "NS",
            Attribute::Binaries(_) => "BS",
            Attribute::List(_) => "L",
            Attribute::Map(_) => "M",
        }
    }

    /// As a value of the shape `AttributeValue`.
    pub(crate) fn to_value(&self) -> Value {
        let texts =
            |texts: &mut dyn Iterator<Item = String>| Value::from(texts.collect::<Vec<_>>());
        let list =
            |values: &mut dyn Iterator<Item = Value>| Value::from(values.collect::<Vec<_>>());
        let value = match self {
            Attribute::Text(text) => text.as_str().into(),
            Attribute::Number(number) => number.to_string().into(),
            Attribute::Binary(bytes) => bytes.clone().into(),
            Attribute::Boolean(value) => (*value).into(),
            Attribute::Null => true.into(),
            Attribute::Texts(set) => texts(&mut set.iter().cloned()),
            Attribute::Numbers(set) => texts(&mut set.iter().map(Decimal::to_string)),
            Attribute::Binaries(set) => list(&mut set.iter().cloned().map(Value::Blob)),
            Attribute::List(entries) => list(&mut entries.iter().map(Attribute::to_value)),
            Attribute::Map(item) => item_value(item),
        };
        Structure::new().with(self.type_name(), value).into()
    }

    /// The size that is charged for it, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        const NUMBER_BYTES: usize = 21;
        OVERHEAD_BYTES
            + match self {
                Attribute::Text(text) => text.len(),
                Attribute::Number(_) => NUMBER_BYTES,
                Attribute::Binary(bytes) => bytes.len(),
                Attribute::Boolean(_) | Attribute::Null => 1,
                Attribute::Texts(set) => set.iter().map(|it| OVERHEAD_BYTES + it.len()).sum(),
                Attribute::Numbers(set) => set.len() * (OVERHEAD_BYTES + NUMBER_BYTES),
                Attribute::Binaries(set) => set.iter().map(|it| OVERHEAD_BYTES + it.len()).sum(),
                Attribute::List(entries) => entries.iter().map(Attribute::size_bytes).sum(),
                Attribute::Map(item) => item_bytes(item),
            }
    }
}

/// The size that is charged for an item, in bytes.
pub(crate) fn item_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| OVERHEAD_BYTES + name.len() + value.size_bytes()).sum()
}

/// An item as a map of values.
pub(crate) fn item_value(item: &Item) -> Value {
    Value::Map(item.iter().map(|(name, value)| (name.clone(), value.to_value())).collect())
}

/// Reads a map of attributes; none where it is missing.
pub(crate) fn item_of(value: Option<&Value>) -> Result<Item, ApiError> {
    map_of(value, DEPTH_MAX)
}

fn map_of(value: Option<&Value>, depth: usize) -> Result<Item, ApiError> {
    let Some(Value::Map(entries)) = value else { return Ok(Item::new()) };
    if entries.len() > ENTRIES_MAX {
        return Err(too_many());
    }
    let attribute = |(name, value): &(String, Value)| {
        if name.is_empty() || name.len() > u16::MAX.into() {
            let message =
                "One or more parameter values were invalid: Attribute names have 1 to 65535 bytes";
            return Err(ApiError::validation(message));
        }
        Ok((name.clone(), attribute_of(value, depth)?))
    };
    entries.iter().map(attribute).collect()
}

fn attribute_of(value: &Value, depth: usize) -> Result<Attribute, ApiError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(ApiError::validation("Nesting Levels have exceeded supported limits"));
    };
    let members = match value {
        Value::Structure(Structure(members)) => members.as_slice(),
        _ => &[],
    };
    let (name, value) = match members {
        [one] => one,
        [] => {
            return Err(ApiError::validation(
                "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ));
        }
        _ => {
            return Err(ApiError::validation(
                "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported \
                 datatypes",
            ));
        }
    };
    Ok(match (*name, value) {
        ("S", Value::Text(text)) => Attribute::Text(text.clone()),
        ("N", Value::Text(text)) => Attribute::Number(number_of(text)?),
        ("B", Value::Blob(bytes)) => Attribute::Binary(Bytes::copy_from_slice(bytes)),
        ("BOOL", Value::Boolean(value)) => Attribute::Boolean(*value),
        ("NULL", Value::Boolean(true)) => Attribute::Null,
        ("NULL", _) => {
            return Err(ApiError::validation(
                "One or more parameter values were invalid: Null attribute value types must have the value of true",
            ));
        }
        ("SS", Value::List(list)) => {
            Attribute::Texts(set_of(list, "string", |value| match value {
                Value::Text(text) => Ok(text.clone()),
                _ => Err(unexpected()),
            })?)
        }
        ("NS", Value::List(list)) => {
            Attribute::Numbers(set_of(list, "number", |value| match value {
                Value::Text(text) => number_of(text),
                _ => Err(unexpected()),
            })?)
        }
        ("BS", Value::List(list)) => {
            Attribute::Binaries(set_of(list, "binary", |value| match value {
                Value::Blob(bytes) => Ok(Bytes::copy_from_slice(bytes)),
                _ => Err(unexpected()),
            })?)
        }
        ("L", Value::List(list)) => {
            check_whole(list)?;
            let entries = list.entries.iter().map(|value| attribute_of(value, depth));
            Attribute::List(entries.collect::<Result<_, _>>()?)
        }
        ("M", map) => Attribute::Map(map_of(Some(map), depth)?),
        _ => return Err(unexpected()),
    })
}

fn unexpected() -> ApiError {
    ApiError::validation("Supplied AttributeValue has a datatype that is not supported")
}

fn number_of(text: &str) -> Result<Decimal, ApiError> {
    Decimal::parse(text).map_err(|reason| ApiError::validation(reason.message(text)))
}

fn set_of<T: Ord>(
    list: &List,
    kind: &str,
    entry: impl Fn(&Value) -> Result<T, ApiError>,
) -> Result<BTreeSet<T>, ApiError> {
    check_whole(list)?;
    if list.entries.is_empty() {
        return Err(ApiError::validation(format!(
            "One or more parameter values were invalid: An {kind} set  may not be empty"
        )));
    }
    let set = list.entries.iter().map(entry).collect::<Result<BTreeSet<_>, _>>()?;
    match set.len() == list.entries.len() {
        true => Ok(set),
        false => Err(ApiError::validation(
            "One or more parameter values were invalid: Input collection contains duplicates.",
        )),
    }
}

/// Refuses a list that was not read whole.
fn check_whole(list: &List) -> Result<(), ApiError> {
    match list.count > ENTRIES_MAX {
        true => Err(too_many()),
        false => Ok(()),
    }
}

fn too_many() -> ApiError {
    ApiError::validation(format!(
        "One or more parameter values were invalid: items, lists, sets and maps have at most {ENTRIES_MAX} entries here"
    ))
}

/// Refuses an item that could not be read from the log again.
pub(crate) fn check_readable(item: &Item) -> Result<(), ApiError> {
    item_of(Some(&item_value(item))).map(|_| ())
}
