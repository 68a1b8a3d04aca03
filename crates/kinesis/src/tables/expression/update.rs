//! An item with changes.

use std::borrow::Cow;
use std::sync::Arc;

use super::super::attribute::{Attribute, ITEM_BYTES_MAX, Item};
use super::path::Path;

/// A change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// `SET`.
    Set(Path, Sum),
    /// `REMOVE`.
    Remove(Path),
    /// `ADD`: to a number, or to a set.
    Add(Path, Arc<Attribute>),
    /// `DELETE`: from a set.
    Subtract(Path, Arc<Attribute>),
}

/// What is set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Sum {
    /// A value.
    One(Term),
    /// The sum of two.
    Plus(Term, Term),
    /// The difference of two.
    Minus(Term, Term),
}

/// A value that is set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    /// This one.
    Value(Arc<Attribute>),
    /// What is there in the item.
    Path(Path),
    /// What is there in the item, or else another value.
    IfNotExists(Path, Box<Term>),
    /// Two lists, one after the other.
    ListAppend(Box<Term>, Box<Term>),
}

const WRONG_TYPE: &str = "An operand in the update expression has an incorrect data type";

impl Action {
    /// What it changes.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Action::Set(path, _)
            | Action::Remove(path)
            | Action::Add(path, _)
            | Action::Subtract(path, _) => path,
        }
    }
}

const TOO_LARGE: &str = "Item size to update has exceeded the maximum allowed size";

/// An item after changes. Each change sees it as it was before. Errors: it would be too large, which is seen before much is copied.
pub(crate) fn updated(before: &Item, actions: &[Action]) -> Result<Item, String> {
    let mut item = before.clone();
    // Behind all others, and later entries of a list first: so that none moves what another one means.
    let mut removals: Vec<&Path> = Vec::new();
    // Paths are apart from each other: all that is put is in the item in the end.
    let mut put_bytes = 0;
    let mut put = |item: &mut Item, path: &Path, value: Attribute| {
        put_bytes += path.last_name_bytes() + value.size_bytes();
        match put_bytes > ITEM_BYTES_MAX {
            true => Err(TOO_LARGE.to_owned()),
            false => path.set(item, value),
        }
    };
    for action in actions {
        match action {
            Action::Set(path, sum) => put(&mut item, path, sum.of(before)?)?,
            Action::Remove(path) => removals.push(path),
            Action::Add(path, value) => {
                let sum = match path.get(before) {
                    Some(present) => added(present, value)?,
                    None => match &**value {
                        Attribute::Number(_)
                        | Attribute::Texts(_)
                        | Attribute::Numbers(_)
                        | Attribute::Binaries(_) => Attribute::clone(value),
                        _ => return Err(WRONG_TYPE.to_owned()),
                    },
                };
                put(&mut item, path, sum)?;
            }
            Action::Subtract(path, value) => {
                let Some(present) = path.get(before) else { continue };
                match subtracted(present, value)? {
                    Some(rest) => put(&mut item, path, rest)?,
                    None => removals.push(path),
                }
            }
        }
    }
    removals.sort_by_key(|path| match path.steps.last() {
        Some(super::path::Step::Index(index)) => usize::MAX - index,
        _ => 0,
    });
    for path in removals {
        path.remove(&mut item)?;
    }
    Ok(item)
}

impl Sum {
    fn of(&self, item: &Item) -> Result<Attribute, String> {
        let number = |term: &Term| match *term.of(item)? {
            Attribute::Number(number) => Ok(number),
            _ => Err(WRONG_TYPE.to_owned()),
        };
        let (one, other) = match self {
            Sum::One(term) => return term.of(item).and_then(owned),
            Sum::Plus(one, other) => (number(one)?, number(other)?),
            Sum::Minus(one, other) => (number(one)?, number(other)?.negated()),
        };
        let sum = one.plus(other).map_err(|reason| reason.message(""))?;
        Ok(Attribute::Number(sum))
    }
}

impl Term {
    fn of<'a>(&'a self, item: &'a Item) -> Result<Cow<'a, Attribute>, String> {
        match self {
            Term::Value(value) => Ok(Cow::Borrowed(&**value)),
            Term::Path(path) => path.get(item).map(Cow::Borrowed).ok_or_else(|| {
                "The provided expression refers to an attribute that does not exist in the item"
                    .to_owned()
            }),
            Term::IfNotExists(path, other) => match path.get(item) {
                Some(value) => Ok(Cow::Borrowed(value)),
                None => other.of(item),
            },
            Term::ListAppend(one, other) => {
                let (one, other) = (one.of(item)?, other.of(item)?);
                if one.size_bytes() + other.size_bytes() > ITEM_BYTES_MAX {
                    return Err(TOO_LARGE.to_owned());
                }
                match (one.into_owned(), other.into_owned()) {
                    (Attribute::List(mut one), Attribute::List(other)) => {
                        one.extend(other);
                        Ok(Cow::Owned(Attribute::List(one)))
                    }
                    _ => Err(WRONG_TYPE.to_owned()),
                }
            }
        }
    }
}

/// A copy of a value, if an item has room for it.
fn owned(value: Cow<'_, Attribute>) -> Result<Attribute, String> {
    match value.size_bytes() > ITEM_BYTES_MAX {
        true => Err(TOO_LARGE.to_owned()),
        false => Ok(value.into_owned()),
    }
}

fn added(present: &Attribute, value: &Attribute) -> Result<Attribute, String> {
    Ok(match (present, value) {
        (Attribute::Number(one), Attribute::Number(other)) => {
            Attribute::Number(one.plus(*other).map_err(|reason| reason.message(""))?)
        }
        (Attribute::Texts(one), Attribute::Texts(other)) => {
            Attribute::Texts(one.union(other).cloned().collect())
        }
        (Attribute::Numbers(one), Attribute::Numbers(other)) => {
            Attribute::Numbers(one.union(other).copied().collect())
        }
        (Attribute::Binaries(one), Attribute::Binaries(other)) => {
            Attribute::Binaries(one.union(other).cloned().collect())
        }
        _ => return Err(WRONG_TYPE.to_owned()),
    })
}

/// What is left of a set; nothing of one that is empty then.
fn subtracted(present: &Attribute, value: &Attribute) -> Result<Option<Attribute>, String> {
    let (rest, is_empty) = match (present, value) {
        (Attribute::Texts(one), Attribute::Texts(other)) => {
            (Attribute::Texts(one - other), one.is_subset(other))
        }
        (Attribute::Numbers(one), Attribute::Numbers(other)) => {
            (Attribute::Numbers(one - other), one.is_subset(other))
        }
        (Attribute::Binaries(one), Attribute::Binaries(other)) => {
            (Attribute::Binaries(one - other), one.is_subset(other))
        }
        _ => return Err(WRONG_TYPE.to_owned()),
    };
    Ok(Some(rest).filter(|_| !is_empty))
}
