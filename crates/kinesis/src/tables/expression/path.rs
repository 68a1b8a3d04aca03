//! Where something is in an item.

use std::mem;

use super::super::attribute::{Attribute, Item};

/// A step from a document into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// To an entry of a map.
    Name(String),
    /// To an entry of a list.
    Index(usize),
}

/// An attribute of an item, or a place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// The name of the attribute.
    pub(crate) attribute: String,
    /// From there on.
    pub(crate) steps: Vec<Step>,
}

/// What an update says of a place that is not in the item.
pub(super) const NO_SUCH_PLACE: &str =
    "The document path provided in the update expression is invalid for update";

impl Path {
    /// An attribute itself.
    pub(crate) fn of(attribute: impl Into<String>) -> Path {
        Path { attribute: attribute.into(), steps: Vec::new() }
    }

    /// What is there.
    pub(crate) fn get<'a>(&self, item: &'a Item) -> Option<&'a Attribute> {
        let mut found = item.get(&self.attribute)?;
        for step in &self.steps {
            found = match (step, found) {
                (Step::Name(name), Attribute::Map(map)) => map.get(name)?,
                (Step::Index(index), Attribute::List(list)) => list.get(*index)?,
                _ => return None,
            };
        }
        Some(found)
    }

    /// Puts something there.
    pub(super) fn set(&self, item: &mut Item, value: Attribute) -> Result<(), String> {
        let Some((last, steps)) = self.steps.split_last() else {
            item.insert(self.attribute.clone(), value);
            return Ok(());
        };
        let parent = self.parent(item, steps).ok_or(NO_SUCH_PLACE)?;
        match (last, parent) {
            (Step::Name(name), Attribute::Map(map)) => {
                map.insert(name.clone(), value);
            }
            (Step::Index(index), Attribute::List(list)) => match list.get_mut(*index) {
                Some(entry) => *entry = value,
                // As DynamoDB does it, however far behind the end.
                None => list.push(value),
            },
            _ => return Err(NO_SUCH_PLACE.to_owned()),
        }
        Ok(())
    }

    /// Takes away what is there, if there is something.
    pub(super) fn remove(&self, item: &mut Item) -> Result<(), String> {
        let Some((last, steps)) = self.steps.split_last() else {
            item.remove(&self.attribute);
            return Ok(());
        };
        match (last, self.parent(item, steps).ok_or(NO_SUCH_PLACE)?) {
            (Step::Name(name), Attribute::Map(map)) => {
                map.remove(name);
            }
            (Step::Index(index), Attribute::List(list)) => {
                if *index < list.len() {
                    list.remove(*index);
                }
            }
            _ => return Err(NO_SUCH_PLACE.to_owned()),
        }
        Ok(())
    }

    fn parent<'a>(&self, item: &'a mut Item, steps: &[Step]) -> Option<&'a mut Attribute> {
        let mut found = item.get_mut(&self.attribute)?;
        for step in steps {
            found = match (step, found) {
                (Step::Name(name), Attribute::Map(map)) => map.get_mut(name)?,
                (Step::Index(index), Attribute::List(list)) => list.get_mut(*index)?,
                _ => return None,
            };
        }
        Some(found)
    }

    /// Whether one is in the other, or both are the same.
    pub(super) fn overlaps(&self, other: &Path) -> bool {
        self.attribute == other.attribute
            && self.steps.iter().zip(&other.steps).all(|(one, other)| one == other)
    }
}

/// Of an item, what is at some paths. Entries of lists move together.
pub(crate) fn projected(item: &Item, paths: &[Path]) -> Item {
    let mut projection = Item::new();
    for path in paths {
        let Some(value) = path.get(item) else { continue };
        let nested = path.steps.iter().rev().fold(value.clone(), |value, step| match step {
            Step::Name(name) => Attribute::Map(Item::from([(name.clone(), value)])),
            Step::Index(_) => Attribute::List(vec![value]),
        });
        merge(projection.entry(path.attribute.clone()).or_insert(Attribute::Null), nested);
    }
    projection
}

fn merge(into: &mut Attribute, from: Attribute) {
    match (&mut *into, from) {
        (Attribute::Map(into), Attribute::Map(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Attribute::Null), value);
            }
        }
        (Attribute::List(into), Attribute::List(from)) => into.extend(from),
        (_, from) => _ = mem::replace(into, from),
    }
}
