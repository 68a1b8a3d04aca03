//! Whether an item is as a condition says.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::sync::Arc;

use memchr::memmem;

use super::super::attribute::{Attribute, Item};
use super::path::Path;
use crate::error::ApiError;

/// What conditions of one request may look at, in bytes. A table answers nobody else meanwhile.
pub(crate) const WORK_BYTES_MAX: usize = 64 << 20;

/// What a look at an operand costs beside its bytes.
const LOOK_BYTES: usize = 16;

/// What conditions of a request may still look at, in bytes.
#[derive(Debug)]
pub(crate) struct Work(Cell<usize>);

impl Default for Work {
    fn default() -> Work {
        Work(Cell::new(WORK_BYTES_MAX))
    }
}

/// Conditions have looked at as much as they may.
#[derive(Debug)]
pub(crate) struct Exhausted;

impl From<Exhausted> for ApiError {
    fn from(Exhausted: Exhausted) -> ApiError {
        ApiError::validation(format!(
            "The conditions of a request look at {WORK_BYTES_MAX} bytes of items at most: use fewer or simpler ones"
        ))
    }
}

impl Work {
    /// What they have looked at, in bytes.
    pub(crate) fn spent(&self) -> usize {
        WORK_BYTES_MAX - self.0.get()
    }

    /// Takes so much of it.
    pub(crate) fn spend(&self, bytes: usize) -> Result<(), Exhausted> {
        self.0.set(self.0.get().checked_sub(bytes).ok_or(Exhausted)?);
        Ok(())
    }
}

/// What an item has to be like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// Each of them holds.
    All(Vec<Condition>),
    /// One of them holds.
    Any(Vec<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
    /// Two values compare so.
    Compare(Operand, Comparison, Operand),
    /// The first lies between the others, or is one of them.
    Between(Operand, Operand, Operand),
    /// The first is one of the others.
    In(Operand, Vec<Operand>),
    /// There is something.
    Exists(Path),
    /// It has this type.
    HasType(Path, Operand),
    /// It begins so.
    BeginsWith(Operand, Operand),
    /// It has this in it.
    Contains(Operand, Operand),
}

/// A value that is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    /// What is there in the item.
    Path(Path),
    /// This one.
    Value(Arc<Attribute>),
    /// The size of what is there in the item.
    Size(Path),
}

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Operand {
    fn of<'a>(
        &'a self,
        item: &'a Item,
        work: &Work,
    ) -> Result<Option<Cow<'a, Attribute>>, Exhausted> {
        let names = match self {
            Operand::Path(path) | Operand::Size(path) => path.name_bytes(),
            Operand::Value(_) => 0,
        };
        work.spend(LOOK_BYTES + names)?;
        Ok(self.found(item))
    }

    fn found<'a>(&'a self, item: &'a Item) -> Option<Cow<'a, Attribute>> {
        match self {
            Operand::Path(path) => path.get(item).map(Cow::Borrowed),
            Operand::Value(value) => Some(Cow::Borrowed(&**value)),
            Operand::Size(path) => {
                let size = match path.get(item)? {
                    Attribute::Text(text) => text.len(),
                    Attribute::Binary(bytes) => bytes.len(),
                    Attribute::Texts(set) => set.len(),
                    Attribute::Numbers(set) => set.len(),
                    Attribute::Binaries(set) => set.len(),
                    Attribute::List(entries) => entries.len(),
                    Attribute::Map(entries) => entries.len(),
                    Attribute::Number(_) | Attribute::Boolean(_) | Attribute::Null => return None,
                };
                let size = super::super::decimal::Decimal::parse(&size.to_string()).ok()?;
                Some(Cow::Owned(Attribute::Number(size)))
            }
        }
    }
}

impl Condition {
    /// An attribute is equal to a value.
    pub(crate) fn equal(attribute: &str, value: Attribute) -> Condition {
        let path = Operand::Path(Path::of(attribute));
        Condition::Compare(path, Comparison::Equal, Operand::Value(Arc::new(value)))
    }

    /// Whether it holds for an item; one that is not there is empty.
    pub(crate) fn holds(&self, item: &Item, work: &Work) -> Result<bool, Exhausted> {
        match self {
            Condition::All(all) => {
                for one in all {
                    if !one.holds(item, work)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Any(any) => {
                for one in any {
                    if one.holds(item, work)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Condition::Not(not) => Ok(!not.holds(item, work)?),
            Condition::Compare(one, comparison, other) => {
                let (one, other) = (one.of(item, work)?, other.of(item, work)?);
                compare(one.as_deref(), *comparison, other.as_deref(), work)
            }
            Condition::Between(value, low, high) => {
                let (low, high) = (low.of(item, work)?, high.of(item, work)?);
                let value = value.of(item, work)?;
                let value = value.as_deref();
                Ok(compare(value, Comparison::GreaterOrEqual, low.as_deref(), work)?
                    && compare(value, Comparison::LessOrEqual, high.as_deref(), work)?)
            }
            Condition::In(value, values) => {
                let Some(value) = value.of(item, work)? else { return Ok(false) };
                for other in values {
                    let other = other.of(item, work)?;
                    if compare(Some(&*value), Comparison::Equal, other.as_deref(), work)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Condition::Exists(path) => {
                work.spend(LOOK_BYTES + path.name_bytes())?;
                Ok(path.get(item).is_some())
            }
            Condition::HasType(path, name) => {
                work.spend(LOOK_BYTES + path.name_bytes())?;
                let name = name.of(item, work)?;
                Ok(match (path.get(item), name.as_deref()) {
                    (Some(value), Some(Attribute::Text(name))) => value.type_name() == name,
                    _ => false,
                })
            }
            Condition::BeginsWith(value, prefix) => {
                let (value, prefix) = (value.of(item, work)?, prefix.of(item, work)?);
                let (Some(value), Some(prefix)) = (value, prefix) else { return Ok(false) };
                work.spend(value.size_bytes().min(prefix.size_bytes()))?;
                Ok(match (&*value, &*prefix) {
                    (Attribute::Text(text), Attribute::Text(prefix)) => {
                        text.starts_with(prefix.as_str())
                    }
                    (Attribute::Binary(bytes), Attribute::Binary(prefix)) => {
                        bytes.starts_with(prefix)
                    }
                    _ => false,
                })
            }
            Condition::Contains(value, part) => {
                let (value, part) = (value.of(item, work)?, part.of(item, work)?);
                let (Some(value), Some(part)) = (value, part) else { return Ok(false) };
                // A search prepares itself by the whole part.
                work.spend(value.size_bytes() + part.size_bytes())?;
                Ok(contains(&value, &part))
            }
        }
    }
}

fn compare(
    one: Option<&Attribute>,
    comparison: Comparison,
    other: Option<&Attribute>,
    work: &Work,
) -> Result<bool, Exhausted> {
    if let (Some(one), Some(other)) = (one, other) {
        work.spend(one.size_bytes().min(other.size_bytes()))?;
    }
    Ok(comparison.holds(one, other))
}

fn contains(value: &Attribute, part: &Attribute) -> bool {
    match (value, part) {
        (Attribute::Text(text), Attribute::Text(part)) => {
            memmem::find(text.as_bytes(), part.as_bytes()).is_some()
        }
        (Attribute::Binary(bytes), Attribute::Binary(part)) => memmem::find(bytes, part).is_some(),
        (Attribute::Texts(set), Attribute::Text(part)) => set.contains(part),
        (Attribute::Numbers(set), Attribute::Number(part)) => set.contains(part),
        (Attribute::Binaries(set), Attribute::Binary(part)) => set.contains(part),
        (Attribute::List(entries), part) => entries.contains(part),
        _ => false,
    }
}

impl Comparison {
    /// What is not there is unequal to all, and has no order. So have values of two types.
    pub(crate) fn holds(self, one: Option<&Attribute>, other: Option<&Attribute>) -> bool {
        let (Some(one), Some(other)) = (one, other) else { return self == Comparison::NotEqual };
        let order = order(one, other);
        match self {
            Comparison::Equal => one == other,
            Comparison::NotEqual => one != other,
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

/// The order of two keys; none of what has no order.
pub(crate) fn order(one: &Attribute, other: &Attribute) -> Option<Ordering> {
    match (one, other) {
        (Attribute::Text(one), Attribute::Text(other)) => Some(one.cmp(other)),
        (Attribute::Number(one), Attribute::Number(other)) => Some(one.cmp(other)),
        (Attribute::Binary(one), Attribute::Binary(other)) => Some(one.cmp(other)),
        _ => None,
    }
}
