//! Where something is in an item.

use std::fmt;
use std::mem;
use std::sync::Arc;

use super::super::attribute::{Attribute, Item};

/// A step from a document into it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// To an entry of a map.
    Name(Arc<str>),
    /// To an entry of a list.
    Index(usize),
}

/// An attribute of an item, or a place in it. Names are shared: one of a request may be in many paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    /// The name of the attribute.
    pub(crate) attribute: Arc<str>,
    /// From there on.
    pub(crate) steps: Vec<Step>,
}

/// What an update says of a place that is not in the item.
pub(super) const NO_SUCH_PLACE: &str =
    "The document path provided in the update expression is invalid for update";

impl Path {
    /// An attribute itself.
    pub(crate) fn of(attribute: impl Into<Arc<str>>) -> Path {
        Path { attribute: attribute.into(), steps: Vec::new() }
    }

    /// What is there.
    pub(crate) fn get<'a>(&self, item: &'a Item) -> Option<&'a Attribute> {
        let mut found = item.get(&*self.attribute)?;
        for step in &self.steps {
            found = match (step, found) {
                (Step::Name(name), Attribute::Map(map)) => map.get(&**name)?,
                (Step::Index(index), Attribute::List(list)) => list.get(*index)?,
                _ => return None,
            };
        }
        Some(found)
    }

    /// Puts something there.
    pub(super) fn set(&self, item: &mut Item, value: Attribute) -> Result<(), String> {
        let Some((last, steps)) = self.steps.split_last() else {
            item.insert(self.attribute.to_string(), value);
            return Ok(());
        };
        let parent = self.parent(item, steps).ok_or(NO_SUCH_PLACE)?;
        match (last, parent) {
            (Step::Name(name), Attribute::Map(map)) => {
                map.insert(name.to_string(), value);
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
            item.remove(&*self.attribute);
            return Ok(());
        };
        match (last, self.parent(item, steps).ok_or(NO_SUCH_PLACE)?) {
            (Step::Name(name), Attribute::Map(map)) => {
                map.remove(&**name);
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
        let mut found = item.get_mut(&*self.attribute)?;
        for step in steps {
            found = match (step, found) {
                (Step::Name(name), Attribute::Map(map)) => map.get_mut(&**name)?,
                (Step::Index(index), Attribute::List(list)) => list.get_mut(*index)?,
                _ => return None,
            };
        }
        Some(found)
    }

    /// The bytes of its names.
    pub(super) fn name_bytes(&self) -> usize {
        let steps = self.steps.iter().map(|step| match step {
            Step::Name(name) => name.len(),
            Step::Index(_) => 0,
        });
        self.attribute.len() + steps.sum::<usize>()
    }

    /// The bytes of the name that [`Path::set`] puts into an item.
    pub(super) fn last_name_bytes(&self) -> usize {
        match self.steps.last() {
            Some(Step::Name(name)) => name.len(),
            Some(Step::Index(_)) => 0,
            None => self.attribute.len(),
        }
    }

    /// Whether the other one is in this one, or is the same.
    fn has(&self, other: &Path) -> bool {
        self.attribute == other.attribute && other.steps.starts_with(&self.steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.attribute)?;
        for step in &self.steps {
            match step {
                Step::Name(name) => write!(f, ", {name}")?,
                Step::Index(index) => write!(f, ", [{index}]")?,
            }
        }
        f.write_str("]")
    }
}

/// Refuses paths if one leads into another one, or two are the same.
pub(super) fn check_apart(paths: &[&Path]) -> Result<(), String> {
    let mut sorted: Vec<(usize, &Path)> = paths.iter().copied().enumerate().collect();
    // All that is in a path comes right behind it.
    sorted.sort_by_key(|(_, path)| *path);
    let overlap = sorted.windows(2).find(|pair| pair[0].1.has(pair[1].1));
    let Some([one, other]) = overlap else { return Ok(()) };
    let (first, second) = if one.0 < other.0 { (one.1, other.1) } else { (other.1, one.1) };
    Err(format!(
        "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: {first}, \
         path two: {second}"
    ))
}

/// Of an item, what is at some paths. Entries of lists move together.
pub(crate) fn projected(item: &Item, paths: &[Path]) -> Item {
    let mut projection = Item::new();
    for path in paths {
        let Some(value) = path.get(item) else { continue };
        let nested = path.steps.iter().rev().fold(value.clone(), |value, step| match step {
            Step::Name(name) => Attribute::Map(Item::from([(name.to_string(), value)])),
            Step::Index(_) => Attribute::List(vec![value]),
        });
        merge(projection.entry(path.attribute.to_string()).or_insert(Attribute::Null), nested);
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
