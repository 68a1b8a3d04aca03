//! PutItem, UpdateItem and DeleteItem.

use std::sync::Arc;

use logway_node::access::Operation as Permission;

use super::attribute::{Item, check_depth, item_of, item_value};
use super::call::{TableCall, no_table};
use super::definition::Definition;
use super::error::Refused;
use super::expression::Placeholders;
use super::expression::condition::Condition;
use super::expression::path::{Path, projected};
use super::expression::update::{Action, updated};
use super::legacy::{attribute_updates, expected};
use super::state::Draft;
use crate::error::ApiError;
use crate::value::Structure;

/// What is to be done with an item.
struct ItemWrite {
    /// The key, or the whole item.
    item: Item,
    change: Change,
    condition: Option<Condition>,
    returned: Returned,
    /// Whether the item is told that is not as the condition says.
    tells_item: bool,
}

enum Change {
    Put,
    Update(Vec<Action>),
    Delete,
}

/// Which attributes are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Returned {
    None,
    AllOld,
    AllNew,
    UpdatedOld,
    UpdatedNew,
}

impl Returned {
    fn of(input: &Structure) -> Returned {
        match input.text("ReturnValues") {
            Some("ALL_OLD") => Returned::AllOld,
            Some("ALL_NEW") => Returned::AllNew,
            Some("UPDATED_OLD") => Returned::UpdatedOld,
            Some("UPDATED_NEW") => Returned::UpdatedNew,
            _ => Returned::None,
        }
    }
}

pub(super) async fn put(call: &TableCall) -> Result<Structure, Refused> {
    let item = item_of(call.input.get("Item"))?;
    check_depth(&item)?;
    write(call, item, |_| Ok(Change::Put)).await
}

pub(super) async fn delete(call: &TableCall) -> Result<Structure, Refused> {
    write(call, item_of(call.input.get("Key"))?, |_| Ok(Change::Delete)).await
}

pub(super) async fn update(call: &TableCall) -> Result<Structure, Refused> {
    let change = |placeholders: &Placeholders| {
        let actions = match attribute_updates(&call.input)? {
            Some(actions) => Some(actions),
            None => placeholders.actions(&call.input)?,
        };
        Ok(Change::Update(actions.unwrap_or_default()))
    };
    write(call, item_of(call.input.get("Key"))?, change).await
}

async fn write(
    call: &TableCall,
    item: Item,
    change: impl FnOnce(&Placeholders) -> Result<Change, ApiError>,
) -> Result<Structure, Refused> {
    let input = &call.input;
    let placeholders = Placeholders::of(input)?;
    let change = change(&placeholders)?;
    let condition = match expected(input)? {
        Some(condition) => Some(condition),
        None => placeholders.condition(input, "ConditionExpression")?,
    };
    placeholders.check_used()?;
    let returned = Returned::of(input);
    let is_returned = matches!(change, Change::Update(_))
        || matches!(returned, Returned::None | Returned::AllOld);
    if !is_returned {
        return Err(ApiError::validation("ReturnValues can only be ALL_OLD or NONE").into());
    }
    let tells_item = input.text("ReturnValuesOnConditionCheckFailure") == Some("ALL_OLD");
    // A condition and what is returned tell what is in the table.
    let permissions = match condition.is_some() || returned != Returned::None {
        true => &[Permission::Write, Permission::Read][..],
        false => &[Permission::Write],
    };
    let found = call.table(permissions)?;
    let write = ItemWrite { item, change, condition, returned, tells_item };
    let write = Box::new(move |draft: &mut Draft<'_>| write.write(draft));
    found.table.write(&call.service.node, write).await
}

impl ItemWrite {
    fn write(&self, draft: &mut Draft<'_>) -> Result<Structure, Refused> {
        let definition = Arc::clone(draft.definition().ok_or_else(no_table)?);
        let key = match self.change {
            Change::Put => definition.key_of(&self.item)?,
            Change::Update(_) | Change::Delete => definition.check_key(&self.item)?,
        };
        let before = draft.get(&key);
        let nothing = Item::new();
        let present = before.as_deref().unwrap_or(&nothing);
        if self.condition.as_ref().is_some_and(|condition| !condition.holds(present)) {
            let told = before.as_deref().filter(|_| self.tells_item);
            return Err(Refused::condition(told.map(item_value)));
        }
        let after = match &self.change {
            Change::Put => Some(self.item.clone()),
            Change::Delete => None,
            Change::Update(actions) => {
                check_keeps_key(&definition, actions)?;
                let base = before.as_deref().unwrap_or(&self.item);
                let after = updated(base, actions).map_err(ApiError::validation)?;
                check_depth(&after)?;
                Some(after)
            }
        };
        if let Some(after) = &after {
            check_indexes(&definition, after)?;
        }
        let response = self.response(before.as_deref(), after.as_ref());
        if after.is_some() || before.is_some() {
            draft.set(key, after)?;
        }
        Ok(response)
    }

    fn response(&self, before: Option<&Item>, after: Option<&Item>) -> Structure {
        let told = match self.returned {
            Returned::None => None,
            Returned::AllOld => before.cloned(),
            Returned::AllNew => after.cloned(),
            Returned::UpdatedOld => before.map(|item| self.touched(item)),
            Returned::UpdatedNew => after.map(|item| self.touched(item)),
        };
        let told = told.filter(|item| !item.is_empty());
        Structure::new().with_some("Attributes", told.as_ref().map(item_value))
    }

    fn touched(&self, item: &Item) -> Item {
        let Change::Update(actions) = &self.change else { return Item::new() };
        let paths: Vec<Path> = actions.iter().map(|action| action.path().clone()).collect();
        projected(item, &paths)
    }
}

fn check_keeps_key(definition: &Definition, actions: &[Action]) -> Result<(), ApiError> {
    let key = &definition.key.name;
    match actions.iter().any(|action| action.path().attribute == *key) {
        true => Err(ApiError::validation(format!(
            "One or more parameter values were invalid: Cannot update attribute {key}. This attribute is part of the key"
        ))),
        false => Ok(()),
    }
}

/// Refuses an item with a key of an index that has another type.
fn check_indexes(definition: &Definition, item: &Item) -> Result<(), ApiError> {
    for index in &definition.indexes {
        for key in [&index.hash].into_iter().chain(&index.range) {
            if let Some(value) = item.get(&key.name)
                && value.type_name() != key.kind
            {
                return Err(ApiError::validation(format!(
                    "One or more parameter values were invalid: Type mismatch for Index Key {} Expected: {} Actual: {} \
                     IndexName: {}",
                    key.name,
                    key.kind,
                    value.type_name(),
                    index.name
                )));
            }
        }
    }
    Ok(())
}
