//! Values of requests and responses, in whatever encoding they travel.

use bytes::Bytes;

/// A value of some shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// True or false.
    Boolean(bool),
    /// A number of 32 or 64 bits.
    Number(i64),
    /// A number with a fraction.
    Double(f64),
    /// A text.
    Text(String),
    /// Bytes, which JSON writes in base64.
    Blob(Bytes),
    /// Milliseconds since 1970.
    Timestamp(i64),
    /// Values of one shape.
    List(List),
    /// Keys with their values, in the order in which they came.
    Map(Vec<(String, Value)>),
    /// Members by name.
    Structure(Structure),
}

/// The entries of a list. Of one that is longer than it may be, the first ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct List {
    /// The entries that are kept.
    pub(crate) entries: Vec<Value>,
    /// How many there were.
    pub(crate) count: usize,
}

/// The members of a structure that are there.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Structure(pub(crate) Vec<(&'static str, Value)>);

/// Around a value, and for a number.
const AROUND_BYTES: usize = 32;

impl Value {
    fn room_bytes(&self, of_blob: &impl Fn(usize) -> usize) -> usize {
        let inner = match self {
            Value::Text(text) => text.len(),
            Value::Blob(blob) => of_blob(blob.len()),
            Value::List(list) => list.entries.iter().map(|entry| entry.room_bytes(of_blob)).sum(),
            Value::Map(entries) => {
                entries.iter().map(|(key, value)| key.len() + value.room_bytes(of_blob)).sum()
            }
            Value::Structure(structure) => structure.room_bytes(of_blob),
            Value::Boolean(_) | Value::Number(_) | Value::Double(_) | Value::Timestamp(_) => 0,
        };
        AROUND_BYTES + inner
    }
}

impl Structure {
    /// The room that it takes as a response, where a blob of so many bytes takes `of_blob`: one of megabytes is not to be moved
    /// as it grows. Characters that need a backslash may take more.
    pub(crate) fn room_bytes(&self, of_blob: &impl Fn(usize) -> usize) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.room_bytes(of_blob)).sum::<usize>()
            + AROUND_BYTES
    }

    /// Without members.
    pub(crate) fn new() -> Structure {
        Structure::default()
    }

    /// With one more member.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Structure {
        self.0.push((name, value.into()));
        self
    }

    /// With one more member, if there is a value for it.
    #[must_use]
    pub(crate) fn with_some(
        self,
        name: &'static str,
        value: Option<impl Into<Value>>,
    ) -> Structure {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// A member.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// A member that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A member that is a number.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// A member that is true or false; false where it is missing.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Boolean(true)))
    }

    /// A member that is a point in time, in ms since 1970.
    pub(crate) fn timestamp(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(Value::Timestamp(ms)) => Some(*ms),
            _ => None,
        }
    }

    /// A member that is bytes.
    pub(crate) fn blob(&self, name: &str) -> Option<&Bytes> {
        match self.get(name) {
            Some(Value::Blob(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// A member that is a structure.
    pub(crate) fn structure(&self, name: &str) -> Option<&Structure> {
        match self.get(name) {
            Some(Value::Structure(structure)) => Some(structure),
            _ => None,
        }
    }

    /// The entries of a member that is a list; none where it is missing.
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        match self.get(name) {
            Some(Value::List(list)) => &list.entries,
            _ => &[],
        }
    }

    /// The texts of a member that is a list of such; none where it is missing.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let texts = self.list(name).iter().filter_map(|value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }

    /// The texts of a member that is a map, by key; none where it is missing.
    pub(crate) fn text_map(&self, name: &str) -> Vec<(String, String)> {
        let Some(Value::Map(entries)) = self.get(name) else { return Vec::new() };
        let texts = entries.iter().filter_map(|(key, value)| match value {
            Value::Text(text) => Some((key.clone(), text.clone())),
            _ => None,
        });
        texts.collect()
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Boolean(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Number(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Value {
        Value::Number(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Number(value.into())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl From<Bytes> for Value {
    fn from(value: Bytes) -> Value {
        Value::Blob(value)
    }
}

impl From<Structure> for Value {
    fn from(value: Structure) -> Value {
        Value::Structure(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(entries: Vec<Value>) -> Value {
        let count = entries.len();
        Value::List(List { entries, count })
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Value {
        texts.into_iter().map(Value::Text).collect::<Vec<_>>().into()
    }
}
