//! Expressions: what a write demands of an item, what it changes, and which items and attributes are wanted.
//!
//! | file | idea |
//! |---|---|
//! | [`tokens`] | from text to tokens |
//! | [`parser`] | from tokens to trees |
//! | [`condition`] | whether an item is as a condition says |
//! | [`update`] | an item with changes |
//! | [`path`] | where something is in an item |

pub(crate) mod condition;
mod parser;
pub(crate) mod path;
mod tokens;
pub(crate) mod update;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::condition::Condition;
use self::parser::Parser;
use self::path::Path;
use self::update::Action;
use super::attribute::{Attribute, item_of};
use crate::error::ApiError;
use crate::value::Structure;

/// Bytes that an expression has at most.
const EXPRESSION_BYTES_MAX: usize = 4_096;

/// What expressions of a request stand their names and values for. They are shared: one may be used many times.
pub(crate) struct Placeholders {
    names: BTreeMap<String, Arc<str>>,
    values: BTreeMap<String, Arc<Attribute>>,
    used: RefCell<BTreeSet<String>>,
    has_expression: RefCell<bool>,
}

impl Placeholders {
    /// Those of a request.
    pub(crate) fn of(input: &Structure) -> Result<Placeholders, ApiError> {
        let mut names = BTreeMap::new();
        for (placeholder, name) in input.text_map("ExpressionAttributeNames") {
            if name.is_empty() || name.len() > u16::MAX.into() {
                return Err(ApiError::validation(format!(
                    "ExpressionAttributeNames contains invalid value: attribute names have 1 to 65535 bytes; key: \
                     {placeholder}"
                )));
            }
            names.insert(placeholder, Arc::from(name));
        }
        let values = item_of(input.get("ExpressionAttributeValues"))?;
        let values = values.into_iter().map(|(name, value)| (name, Arc::new(value))).collect();
        let (used, has_expression) = (RefCell::default(), RefCell::new(false));
        Ok(Placeholders { names, values, used, has_expression })
    }

    /// The condition that a member of the request is, if it is there.
    pub(crate) fn condition(
        &self,
        input: &Structure,
        member: &'static str,
    ) -> Result<Option<Condition>, ApiError> {
        self.parsed(input, member, |parser| parser.condition())
    }

    /// The changes that `UpdateExpression` is, if it is there.
    pub(crate) fn actions(&self, input: &Structure) -> Result<Option<Vec<Action>>, ApiError> {
        self.parsed(input, "UpdateExpression", |parser| parser.actions())
    }

    /// The paths that `ProjectionExpression` is, if it is there.
    pub(crate) fn paths(&self, input: &Structure) -> Result<Option<Vec<Path>>, ApiError> {
        self.parsed(input, "ProjectionExpression", |parser| parser.paths())
    }

    fn parsed<T>(
        &self,
        input: &Structure,
        member: &'static str,
        parse: impl FnOnce(&mut Parser<'_>) -> Result<T, String>,
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = input.text(member) else { return Ok(None) };
        self.has_expression.replace(true);
        let invalid = |message| ApiError::validation(format!("Invalid {member}: {message}"));
        if text.is_empty() {
            return Err(invalid("The expression can not be empty;".to_owned()));
        }
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(invalid(format!(
                "Expression size has exceeded the maximum allowed size; expression size: {}",
                text.len()
            )));
        }
        let mut parser = Parser::new(text, self).map_err(invalid)?;
        let parsed = parse(&mut parser).and_then(|parsed| parser.end().map(|()| parsed));
        parsed.map(Some).map_err(invalid)
    }

    fn name(&self, placeholder: &str) -> Result<Arc<str>, String> {
        self.used.borrow_mut().insert(placeholder.to_owned());
        self.names.get(placeholder).cloned().ok_or_else(|| {
            format!(
                "An expression attribute name used in the document path is not defined; attribute name: {placeholder}"
            )
        })
    }

    fn value(&self, placeholder: &str) -> Result<Arc<Attribute>, String> {
        self.used.borrow_mut().insert(placeholder.to_owned());
        self.values.get(placeholder).cloned().ok_or_else(|| {
            format!(
                "An expression attribute value used in expression is not defined; attribute value: {placeholder}"
            )
        })
    }

    /// Refuses placeholders that no expression has.
    pub(crate) fn check_used(&self) -> Result<(), ApiError> {
        let kinds: [(&str, Vec<&String>); 2] = [
            ("ExpressionAttributeNames", self.names.keys().collect()),
            ("ExpressionAttributeValues", self.values.keys().collect()),
        ];
        let used = self.used.borrow();
        for (kind, keys) in kinds {
            if keys.is_empty() {
                continue;
            }
            if !*self.has_expression.borrow() {
                return Err(ApiError::validation(format!(
                    "{kind} can only be specified when using expressions"
                )));
            }
            let unused: Vec<&str> =
                keys.iter().filter(|key| !used.contains(**key)).map(|key| key.as_str()).collect();
            if !unused.is_empty() {
                return Err(ApiError::validation(format!(
                    "Value provided in {kind} unused in expressions: keys: {{{}}}",
                    unused.join(", ")
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
