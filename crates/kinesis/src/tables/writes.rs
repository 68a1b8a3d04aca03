//! PutItem, UpdateItem and DeleteItem.

use std::sync::Arc;

use logway_node::access::Operation as Permission;

use super::attribute::{Item, check_readable, item_of, item_value};
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
    let returned = Returned::of(input);
    let has_condition =
        ["Expected", "ConditionExpression"].iter().any(|member| input.get(member).is_some());
    // A condition and what is returned tell what is in the table.
    let permissions = match has_condition || returned != Returned::None {
        true => &[Permission::Write, Permission::Read][..],
        false => &[Permission::Write],
    };
    // Before expressions, which take work to read.
    let name = call.allowed(permissions)?;
    let placeholders = Placeholders::of(input)?;
    let change = change(&placeholders)?;
    let condition = match expected(input)? {
        Some(condition) => Some(condition),
        None => placeholders.condition(input, "ConditionExpression")?,
    };
    placeholders.check_used()?;
    let is_returned = matches!(change, Change::Update(_))
        || matches!(returned, Returned::None | Returned::AllOld);
    if !is_returned {
        return Err(ApiError::validation("ReturnValues can only be ALL_OLD or NONE").into());
    }
    let tells_item = input.text("ReturnValuesOnConditionCheckFailure") == Some("ALL_OLD");
    let found = call.find(name).ok_or_else(no_table)?;
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
        let holds = match &self.condition {
            Some(condition) => condition.holds(present, draft.work()).map_err(ApiError::from)?,
            None => true,
        };
        if !holds {
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
                // What this node applies, others must be able to read.
                check_readable(&after)?;
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
    match actions.iter().any(|action| *action.path().attribute == **key) {
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

#[cfg(test)]
mod tests {
    use super::super::attribute::Attribute;
    use super::super::state::State;
    use super::*;
    use crate::json;
    use crate::tables::OPERATIONS;
    use crate::type_error::TypeErrors;

    fn input(body: &str) -> Structure {
        let update = OPERATIONS.iter().find(|it| it.text == "UpdateItem").expect("is served");
        json::decode(body.as_bytes(), update.input, &TypeErrors::default()).expect("is JSON")
    }

    fn nested(levels: usize) -> String {
        format!("{}{{\"S\":\"x\"}}{}", r#"{"M":{"a":"#.repeat(levels), "}}".repeat(levels))
    }

    #[test]
    fn an_update_that_others_could_not_read_is_refused() {
        let texts = |from: u32, to: u32| {
            (from..to).map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(",")
        };
        let put = |name: &str, value: &str| {
            format!(r#"{{"AttributeUpdates":{{"{name}":{{"Value":{value}}}}}}}"#)
        };
        let add = |from, to| {
            let set = texts(from, to);
            format!(r#"{{"AttributeUpdates":{{"s":{{"Action":"ADD","Value":{{"SS":[{set}]}}}}}}}}"#)
        };
        // Each level of maps holds the ones below it: 32 are read, and a place in the last one is a level more.
        let deeper = format!(
            r#"{{"UpdateExpression":"SET m{}.b = :v","ExpressionAttributeValues":{{":v":{{"M":{{"c":{{"S":"x"}}}}}}}}}}"#,
            ".a".repeat(30)
        );
        for (first, second, is_right) in [
            (put("x", r#"{"S":"y"}"#), add(0, 10), true),
            (put("x", r#"{"S":"y"}"#), put("", r#"{"S":"y"}"#), false),
            (add(0, 600), add(600, 999), true),
            (add(0, 600), add(600, 1_000), false),
            (put("m", &nested(31)), put("x", r#"{"S":"y"}"#), true),
            (put("m", &nested(31)), deeper, false),
        ] {
            let mut state = State::default();
            let mut draft = Draft::of(&state);
            draft.define(Definition::of_key("k"));
            draft.into_changes().into_iter().for_each(|change| state.apply(change));
            let mut copy = State::default();
            let mut is_refused = false;
            for body in [&first, &second] {
                let input = input(body);
                let actions = match attribute_updates(&input).expect("are right") {
                    Some(actions) => actions,
                    None => {
                        let placeholders = Placeholders::of(&input).expect("are right");
                        placeholders.actions(&input).expect("is right").expect("is there")
                    }
                };
                let write = ItemWrite {
                    item: Item::from([("k".to_owned(), Attribute::Text("1".to_owned()))]),
                    change: Change::Update(actions),
                    condition: None,
                    returned: Returned::None,
                    tells_item: false,
                };
                let mut draft = Draft::of(&state);
                is_refused = match draft.attempt(|draft| write.write(draft)) {
                    Ok(_) => false,
                    Err(refused) => {
                        assert_eq!(refused.error.name, "ValidationException");
                        true
                    }
                };
                for change in draft.into_changes() {
                    copy.apply_record(&change.key, change.value.as_deref());
                    state.apply(change);
                }
            }
            assert_eq!(is_refused, !is_right, "{first} {second}");
            assert_eq!(copy.items, state.items, "nodes have the same");
        }
    }
}
