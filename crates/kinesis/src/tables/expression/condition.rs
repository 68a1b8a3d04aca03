//! Whether an item is as a condition says.

use std::cmp::Ordering;

use super::super::attribute::{Attribute, Item};
use super::path::Path;

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
    Value(Attribute),
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
    fn of(&self, item: &Item) -> Option<Attribute> {
        match self {
            Operand::Path(path) => path.get(item).cloned(),
            Operand::Value(value) => Some(value.clone()),
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
                super::super::decimal::Decimal::parse(&size.to_string()).ok().map(Attribute::Number)
            }
        }
    }
}

impl Condition {
    /// An attribute is equal to a value.
    pub(crate) fn equal(attribute: &str, value: Attribute) -> Condition {
        let path = Operand::Path(Path::of(attribute));
        Condition::Compare(path, Comparison::Equal, Operand::Value(value))
    }

    /// Whether it holds for an item; one that is not there is empty.
    pub(crate) fn holds(&self, item: &Item) -> bool {
        match self {
            Condition::All(all) => all.iter().all(|it| it.holds(item)),
            Condition::Any(any) => any.iter().any(|it| it.holds(item)),
            Condition::Not(not) => !not.holds(item),
            Condition::Compare(one, comparison, other) => {
                comparison.holds(one.of(item).as_ref(), other.of(item).as_ref())
            }
            Condition::Between(value, low, high) => {
                let (value, low, high) = (value.of(item), low.of(item), high.of(item));
                Comparison::GreaterOrEqual.holds(value.as_ref(), low.as_ref())
                    && Comparison::LessOrEqual.holds(value.as_ref(), high.as_ref())
            }
            Condition::In(value, values) => {
                let value = value.of(item);
                value.is_some() && values.iter().any(|other| other.of(item) == value)
            }
            Condition::Exists(path) => path.get(item).is_some(),
            Condition::HasType(path, name) => match (path.get(item), name.of(item)) {
                (Some(value), Some(Attribute::Text(name))) => value.type_name() == name,
                _ => false,
            },
            Condition::BeginsWith(value, prefix) => match (value.of(item), prefix.of(item)) {
                (Some(Attribute::Text(text)), Some(Attribute::Text(prefix))) => {
                    text.starts_with(&prefix)
                }
                (Some(Attribute::Binary(bytes)), Some(Attribute::Binary(prefix))) => {
                    bytes.starts_with(&prefix)
                }
                _ => false,
            },
            Condition::Contains(value, part) => match (value.of(item), part.of(item)) {
                (Some(value), Some(part)) => contains(&value, &part),
                _ => false,
            },
        }
    }
}

fn contains(value: &Attribute, part: &Attribute) -> bool {
    match (value, part) {
        (Attribute::Text(text), Attribute::Text(part)) => text.contains(part.as_str()),
        (Attribute::Binary(bytes), Attribute::Binary(part)) => {
            part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
        }
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
