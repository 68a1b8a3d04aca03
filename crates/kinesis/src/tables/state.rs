//! What is in a table: as committed, and with what is about to be written.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::attribute::{ITEM_BYTES_MAX, Item, item_bytes, item_of, item_value};
use super::definition::{DEFINITION_KEY, Definition, Extent, ITEM_KEY};
use super::error::Refused;
use super::expression::condition::Work;
use super::shapes::{OPERATIONS, TableOperation};
use crate::error::ApiError;
use crate::json;
use crate::type_error::TypeErrors;
use crate::value::Structure;

/// What a table may take of memory, in bytes.
const TABLE_BYTES_MAX: usize = 32 << 20;

/// What an item takes beside its attributes, in bytes: an estimate.
const ITEM_BYTES: usize = 128;

/// What one request may write, in bytes.
pub(super) const WRITE_BYTES_MAX: usize = 4 << 20;

/// A table as it was committed.
#[derive(Debug, Default)]
pub(super) struct State {
    /// What it is, once that is written.
    pub(super) definition: Option<Arc<Definition>>,
    /// Its items, by their keys in the log.
    pub(super) items: BTreeMap<Vec<u8>, Arc<Item>>,
    bytes: usize,
}

/// A change of a table, as it is in the log.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// The key of the record.
    pub(super) key: Vec<u8>,
    /// The value; none deletes.
    pub(super) value: Option<Bytes>,
    to: Changed,
}

#[derive(Debug, Clone)]
enum Changed {
    Definition(Arc<Definition>),
    Item(Option<Arc<Item>>),
}

impl State {
    /// How much there is.
    pub(super) fn extent(&self) -> Extent {
        Extent { items: self.items.len(), bytes: self.bytes }
    }

    /// Takes over a record of the log. Other programs may write to the topic. With a value that is no item, the key has none:
    /// the one before it is gone on nodes that read the log after it is compacted, and so on all of them.
    pub(super) fn apply_record(&mut self, key: &[u8], value: Option<&[u8]>) {
        if key == DEFINITION_KEY {
            let definition = value.and_then(|value| serde_json::from_slice(value).ok());
            self.definition = definition.map(Arc::new).or(self.definition.take());
        } else if key.starts_with(ITEM_KEY) {
            match value.map(decoded) {
                None => self.set(key, None),
                Some(Some(item)) => self.set(key, Some(Arc::new(item))),
                Some(None) => {
                    let shown = String::from_utf8_lossy(key);
                    tracing::warn!(%shown, "a record of a table's topic is no item: the table has none of this key");
                    self.set(key, None);
                }
            }
        }
    }

    /// Takes over a change that was committed.
    pub(super) fn apply(&mut self, change: Change) {
        match change.to {
            Changed::Definition(definition) => self.definition = Some(definition),
            Changed::Item(item) => self.set(&change.key, item),
        }
    }

    fn set(&mut self, key: &[u8], item: Option<Arc<Item>>) {
        let bytes = |item: &Item| ITEM_BYTES + key.len() + item_bytes(item);
        let added = item.as_deref().map_or(0, bytes);
        let before = match item {
            Some(item) => self.items.insert(key.to_owned(), item),
            None => self.items.remove(key),
        };
        let taken = before.as_deref().map_or(0, bytes);
        self.bytes = (self.bytes + added).saturating_sub(taken);
    }

    /// Whether it takes more memory than a table may.
    pub(super) fn is_too_large(&self) -> bool {
        self.bytes > TABLE_BYTES_MAX
    }
}

fn encoded(item: &Item) -> Bytes {
    json::encode(&Structure::new().with("Item", item_value(item))).into()
}

fn decoded(value: &[u8]) -> Option<Item> {
    // An item is in the log as GetItem gives it.
    let get = OPERATIONS.iter().find(|operation| operation.name == TableOperation::GetItem)?;
    let errors = TypeErrors::default();
    let decoded = json::decode(value, get.output?, &errors)?;
    let item = item_of(Some(decoded.get("Item")?)).ok()?;
    errors.into_first().is_none().then_some(item)
}

/// A table with what is about to be written.
pub(super) struct Draft<'a> {
    state: &'a State,
    changes: Vec<Change>,
    items: HashMap<Vec<u8>, Option<Arc<Item>>>,
    definition: Option<Arc<Definition>>,
    written_bytes: usize,
    /// What the table will take.
    bytes: usize,
    /// What the conditions of this request may look at.
    work: Work,
    /// What those of the requests before have looked at.
    looked_bytes: usize,
}

impl Draft<'_> {
    /// Nothing is to be written yet.
    pub(super) fn of(state: &State) -> Draft<'_> {
        Draft {
            state,
            changes: Vec::new(),
            items: HashMap::new(),
            definition: state.definition.clone(),
            written_bytes: 0,
            bytes: state.bytes,
            work: Work::default(),
            looked_bytes: 0,
        }
    }

    /// Lets a request write. Where it is refused, nothing of it is written.
    pub(super) fn attempt<T>(
        &mut self,
        write: impl FnOnce(&mut Draft<'_>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let mut attempt = Draft {
            state: self.state,
            changes: Vec::new(),
            items: self.items.clone(),
            definition: self.definition.clone(),
            written_bytes: 0,
            bytes: self.bytes,
            work: Work::default(),
            looked_bytes: 0,
        };
        let answer = write(&mut attempt);
        // Also of a request that is refused.
        self.looked_bytes += attempt.work.spent();
        let answer = answer?;
        if attempt.written_bytes > WRITE_BYTES_MAX {
            let message = format!("A request writes at most {WRITE_BYTES_MAX} bytes");
            return Err(ApiError::validation(message).into());
        }
        self.changes.extend(attempt.changes);
        self.items = attempt.items;
        self.definition = attempt.definition;
        self.written_bytes += attempt.written_bytes;
        self.bytes = attempt.bytes;
        Ok(answer)
    }

    /// What is to be written, in bytes.
    pub(super) fn written_bytes(&self) -> usize {
        self.written_bytes
    }

    /// What conditions may look at.
    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    /// What the conditions of all requests have looked at, in bytes.
    pub(super) fn looked_bytes(&self) -> usize {
        self.looked_bytes
    }

    /// What is to be written.
    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// What the table is.
    pub(super) fn definition(&self) -> Option<&Arc<Definition>> {
        self.definition.as_ref()
    }

    /// Makes the table this.
    pub(super) fn define(&mut self, definition: Definition) {
        let definition = Arc::new(definition);
        let value =
            serde_json::to_vec(&*definition).expect("a definition can be written to memory");
        self.written_bytes += value.len();
        self.definition = Some(Arc::clone(&definition));
        let key = DEFINITION_KEY.to_vec();
        let to = Changed::Definition(definition);
        self.changes.push(Change { key, value: Some(value.into()), to });
    }

    /// An item.
    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<Item>> {
        match self.items.get(key) {
            Some(changed) => changed.clone(),
            None => self.state.items.get(key).cloned(),
        }
    }

    /// Puts an item, or takes it away.
    pub(super) fn set(&mut self, key: Vec<u8>, item: Option<Item>) -> Result<(), Refused> {
        let before =
            self.get(&key).map_or(0, |before| item_bytes(&before) + ITEM_BYTES + key.len());
        let bytes = item.as_ref().map_or(0, item_bytes);
        if bytes > ITEM_BYTES_MAX {
            return Err(
                ApiError::validation("Item size has exceeded the maximum allowed size").into()
            );
        }
        let after = item.as_ref().map_or(0, |_| bytes + ITEM_BYTES + key.len());
        self.bytes = (self.bytes + after).saturating_sub(before);
        if after > before && self.bytes > TABLE_BYTES_MAX {
            let message = format!("A table takes at most {TABLE_BYTES_MAX} bytes of memory here");
            return Err(ApiError::limit(message).into());
        }
        let value = item.as_ref().map(encoded);
        self.written_bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
        let item = item.map(Arc::new);
        self.items.insert(key.clone(), item.clone());
        self.changes.push(Change { key, value, to: Changed::Item(item) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::attribute::Attribute;
    use super::*;

    fn item(text: &str) -> Item {
        Item::from([("k".to_owned(), Attribute::Text(text.to_owned()))])
    }

    fn written(
        state: &State,
        write: impl FnOnce(&mut Draft<'_>) -> Result<(), Refused>,
    ) -> Vec<Change> {
        let mut draft = Draft::of(state);
        draft.attempt(write).expect("may be written");
        draft.into_changes()
    }

    #[test]
    fn what_was_written_is_read_back() {
        let mut state = State::default();
        let changes = written(&state, |draft| {
            draft.set(b"ia".to_vec(), Some(item("a")))?;
            draft.set(b"ib".to_vec(), Some(item("b")))?;
            assert_eq!(
                draft.get(b"ia").as_deref(),
                Some(&item("a")),
                "a request sees what it has written"
            );
            draft.set(b"ia".to_vec(), None)
        });
        let mut copy = State::default();
        for change in changes {
            copy.apply_record(&change.key, change.value.as_deref());
            state.apply(change);
        }
        copy.apply_record(b"ic", Some(br#"{"Item":{"k":{"S":"c"}}}"#));
        assert!(copy.items.contains_key(b"ic".as_slice()));
        copy.apply_record(b"ic", Some(b"nonsense"));
        let other_type = br#"{"Item":{"k":{"S":"c"},"n":{"N":5}}}"#;
        copy.apply_record(b"ic", Some(other_type));
        copy.apply_record(b"other", Some(b"{}"));
        assert_eq!(copy.items, state.items);
        assert_eq!((copy.extent(), copy.items.len()), (state.extent(), 1));
        for change in written(&state, |draft| draft.set(b"ib".to_vec(), None)) {
            state.apply(change);
        }
        assert_eq!(state.extent(), Extent::default());
    }

    #[test]
    fn of_a_request_that_is_refused_nothing_is_written() {
        let state = State::default();
        let mut draft = Draft::of(&state);
        let refused: Result<(), Refused> = draft.attempt(|draft| {
            draft.set(b"ia".to_vec(), Some(item("a")))?;
            Err(ApiError::validation("no").into())
        });
        assert!(refused.is_err());
        assert_eq!(draft.get(b"ia"), None);
        let too_large = "x".repeat(ITEM_BYTES_MAX);
        let refused = draft.attempt(|draft| draft.set(b"ia".to_vec(), Some(item(&too_large))));
        assert!(refused.is_err());
        assert!(draft.into_changes().is_empty());
    }

    #[test]
    fn a_table_takes_no_more_memory_than_it_may() {
        let mut state = State::default();
        let large = item(&"x".repeat(ITEM_BYTES_MAX - 1_000));
        let mut count = 0_u32;
        while let Ok(changes) = {
            let mut draft = Draft::of(&state);
            let key = [b"i".as_slice(), &count.to_be_bytes()].concat();
            draft
                .attempt(|draft| draft.set(key, Some(large.clone())))
                .map(|()| draft.into_changes())
        } {
            changes.into_iter().for_each(|change| state.apply(change));
            count += 1;
        }
        assert!(!state.is_too_large());
        assert!(count > 70, "{count}");
    }
}
