//! GetItem, Query and Scan.

use std::collections::BTreeSet;
use std::sync::Arc;

use logway_node::access::Operation as Permission;
use md5::{Digest as _, Md5};

use super::attribute::{Item, item_bytes, item_of, item_value};
use super::call::{TableCall, no_table};
use super::definition::{Definition, Index, KeyAttribute, Projection};
use super::error::Refused;
use super::expression::Placeholders;
use super::expression::condition::{Comparison, Condition, Operand, Work};
use super::expression::path::{Path, projected};
use super::state::State;
use crate::error::ApiError;
use crate::value::{Structure, Value};

/// What is read for one page, in bytes.
const PAGE_BYTES: usize = 1 << 20;

/// A page is there as items, as values and as text.
const HELD_FACTOR: usize = 3;

/// Conditions of before there were expressions: nothing that is known uses them to read.
const NOT_READ: [(&str, &str); 3] = [
    ("KeyConditions", "KeyConditionExpression"),
    ("QueryFilter", "FilterExpression"),
    ("ScanFilter", "FilterExpression"),
];

pub(super) async fn get(call: &TableCall) -> Result<Structure, Refused> {
    let name = call.allowed(&[Permission::Read])?;
    let placeholders = Placeholders::of(&call.input)?;
    let paths = paths(&call.input, &placeholders)?;
    placeholders.check_used()?;
    let key = item_of(call.input.get("Key"))?;
    let found = call.find(name).ok_or_else(no_table)?;
    let read = |state: &State| {
        let definition = state.definition.as_ref().ok_or_else(no_table)?;
        let item = state.items.get(&definition.check_key(&key)?);
        Ok::<_, ApiError>(item.map(Arc::clone))
    };
    let item = found.table.read(&call.service.node, read).await??;
    let item = item.map(|item| match &paths {
        Some(paths) => item_value(&projected(&item, paths)),
        None => item_value(&item),
    });
    Ok(Structure::new().with_some("Item", item))
}

/// The attributes that are wanted, in one of two ways; `None` is all.
fn paths(input: &Structure, placeholders: &Placeholders) -> Result<Option<Vec<Path>>, ApiError> {
    let names = input.texts("AttributesToGet");
    match placeholders.paths(input)? {
        Some(paths) => Ok(Some(paths)),
        None if names.is_empty() => Ok(None),
        None => {
            let mut seen = BTreeSet::new();
            if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
                return Err(ApiError::validation(format!(
                    "One or more parameter values were invalid: Duplicate value in attribute name: {name}"
                )));
            }
            Ok(Some(names.into_iter().map(Path::of).collect()))
        }
    }
}

/// What is wanted of a table.
struct Wish {
    /// What is looked up, of a query.
    key: Option<Condition>,
    filter: Option<Condition>,
    paths: Option<Vec<Path>>,
    index: Option<String>,
    /// Behind the item of this key.
    start: Option<Item>,
    limit: usize,
    is_backwards: bool,
    only_counts: bool,
    /// This one of so many parts.
    segment: Option<(u32, u32)>,
}

impl Wish {
    fn of(input: &Structure) -> Result<Wish, ApiError> {
        for (legacy, expression) in NOT_READ {
            if input.get(legacy).is_some() {
                return Err(ApiError::validation(format!(
                    "{legacy} is not served here: use {expression}"
                )));
            }
        }
        let placeholders = Placeholders::of(input)?;
        let key = placeholders.condition(input, "KeyConditionExpression")?;
        let filter = placeholders.condition(input, "FilterExpression")?;
        let paths = paths(input, &placeholders)?;
        placeholders.check_used()?;
        let index = input.text("IndexName").map(str::to_owned);
        if index.is_some() && input.is_true("ConsistentRead") {
            return Err(ApiError::validation(
                "Consistent reads are not supported on global secondary indexes",
            ));
        }
        let start = input.get("ExclusiveStartKey").map(|key| item_of(Some(key))).transpose()?;
        let limit = input.number("Limit").and_then(|limit| usize::try_from(limit).ok());
        Ok(Wish {
            key,
            filter,
            paths,
            index,
            start,
            limit: limit.unwrap_or(usize::MAX),
            is_backwards: matches!(input.get("ScanIndexForward"), Some(Value::Boolean(false))),
            only_counts: input.text("Select") == Some("COUNT"),
            segment: segment(input)?,
        })
    }
}

fn segment(input: &Structure) -> Result<Option<(u32, u32)>, ApiError> {
    let number = |member| input.number(member).and_then(|number| u32::try_from(number).ok());
    match (number("Segment"), number("TotalSegments")) {
        (None, None) => Ok(None),
        (Some(segment), Some(total)) if segment < total => Ok(Some((segment, total))),
        (Some(segment), Some(total)) => Err(ApiError::validation(format!(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: {segment} is \
             not less than TotalSegments: {total}"
        ))),
        (Some(_), None) => Err(ApiError::validation(
            "The TotalSegments parameter is required but was not present in the request when Segment parameter is \
             present",
        )),
        (None, Some(_)) => Err(ApiError::validation(
            "The Segment parameter is required but was not present in the request when parameter TotalSegments is \
             present",
        )),
    }
}

pub(super) async fn scan(call: &TableCall) -> Result<Structure, Refused> {
    let name = call.allowed(&[Permission::Read])?;
    read_page(call, name, Wish::of(&call.input)?).await
}

pub(super) async fn query(call: &TableCall) -> Result<Structure, Refused> {
    let name = call.allowed(&[Permission::Read])?;
    let wish = Wish::of(&call.input)?;
    if wish.key.is_none() {
        let message = "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.";
        return Err(ApiError::validation(message).into());
    }
    read_page(call, name, wish).await
}

async fn read_page(call: &TableCall, name: String, wish: Wish) -> Result<Structure, Refused> {
    let found = call.find(name).ok_or_else(no_table)?;
    let node = &call.service.node;
    let _share = node.memory.building.take(PAGE_BYTES * HELD_FACTOR).await;
    let page = found.table.read(node, |state| page(state, &wish)).await??;
    let mut response = Structure::new();
    if !wish.only_counts {
        let items = page.items.iter().map(|item| match &wish.paths {
            Some(paths) => item_value(&projected(item, paths)),
            None => item_value(item),
        });
        response = response.with("Items", items.collect::<Vec<_>>());
    }
    Ok(response
        .with("Count", page.items.len())
        .with("ScannedCount", page.scanned)
        .with_some("LastEvaluatedKey", page.last.as_ref().map(item_value)))
}

#[derive(Default)]
struct Page {
    items: Vec<Arc<Item>>,
    scanned: usize,
    /// The key of the last one that was looked at, if there are more.
    last: Option<Item>,
}

fn page(state: &State, wish: &Wish) -> Result<Page, ApiError> {
    let definition = state.definition.as_ref().ok_or_else(no_table)?;
    let index = match &wish.index {
        Some(name) => Some(definition.index(name).ok_or_else(|| {
            ApiError::validation(format!("The table does not have the specified index: {name}"))
        })?),
        None => None,
    };
    if let Some(condition) = &wish.key {
        let hash = index.map_or(&definition.key, |index| &index.hash);
        check_looks_up(condition, hash)?;
    }
    let mut candidates = candidates(state, wish, index)?;
    if let Some(index) = index {
        // Stable: those that are equal stay in the order of the table's key.
        candidates.sort_by(|(_, one), (_, other)| index.order(one, other));
    }
    if wish.is_backwards {
        candidates.reverse();
    }
    let begin = match &wish.start {
        Some(start) => begin_behind(definition, index, start, &candidates, wish.is_backwards)?,
        None => 0,
    };
    let mut page = Page::default();
    let (mut bytes, total, work) = (0, candidates.len(), Work::default());
    let mut before: Option<&Arc<Item>> = None;
    for (position, (_, item)) in candidates.into_iter().enumerate().skip(begin) {
        let is_wanted = match &wish.filter {
            Some(filter) => filter.holds(item, &work),
            None => Ok(true),
        };
        let is_wanted = match (is_wanted, before) {
            (Ok(is_wanted), _) => is_wanted,
            // The next page looks at this one, with work of its own.
            (Err(_), Some(before)) => {
                page.last = Some(keys_of(definition, index, before, &[]));
                break;
            }
            (Err(exhausted), None) => return Err(exhausted.into()),
        };
        before = Some(item);
        page.scanned += 1;
        bytes += item_bytes(item);
        if is_wanted {
            page.items.push(match index.map(|index| &index.projection) {
                Some(Projection::Keys(others)) => {
                    Arc::new(keys_of(definition, index, item, others))
                }
                _ => Arc::clone(item),
            });
        }
        if page.scanned >= wish.limit || bytes >= PAGE_BYTES {
            let is_last = position + 1 == total;
            page.last = (!is_last).then(|| keys_of(definition, index, item, &[]));
            break;
        }
    }
    Ok(page)
}

/// An item with its key in the log.
type Candidate<'a> = (&'a [u8], &'a Arc<Item>);

/// All that a query or a scan goes through, in the order of the table's key.
fn candidates<'a>(
    state: &'a State,
    wish: &Wish,
    index: Option<&Index>,
) -> Result<Vec<Candidate<'a>>, ApiError> {
    let work = Work::default();
    let mut candidates = Vec::new();
    for (key, item) in &state.items {
        let is_there = index.is_none_or(|index| index.has(item))
            && wish.segment.is_none_or(|(segment, total)| segment_of(key, total) == segment);
        let is_wanted = is_there
            && match &wish.key {
                Some(condition) => condition.holds(item, &work)?,
                None => true,
            };
        if is_wanted {
            candidates.push((key.as_slice(), item));
        }
    }
    Ok(candidates)
}

fn segment_of(key: &[u8], total: u32) -> u32 {
    let digest = Md5::digest(key);
    let first = digest.iter().take(4).fold(0_u32, |hash, byte| hash << 8 | u32::from(*byte));
    first % total
}

/// Where those begin that are behind a key.
fn begin_behind(
    definition: &Definition,
    index: Option<&Index>,
    start: &Item,
    candidates: &[Candidate<'_>],
    is_backwards: bool,
) -> Result<usize, ApiError> {
    let invalid = || ApiError::validation("The provided starting key is invalid");
    let mut names = vec![&definition.key];
    names.extend(index.iter().flat_map(|index| [&index.hash].into_iter().chain(&index.range)));
    if names.iter().any(|key| key.of(start).is_none()) {
        return Err(invalid());
    }
    let start_key = definition.key_of(start).map_err(|_| invalid())?;
    let is_before = |(key, item): &Candidate<'_>| {
        let in_index = index.map_or(std::cmp::Ordering::Equal, |index| index.order(item, start));
        let order = in_index.then_with(|| (*key).cmp(start_key.as_slice()));
        if is_backwards { order.is_ge() } else { order.is_le() }
    };
    Ok(candidates.partition_point(is_before))
}

/// The keys of an item, and these attributes of it.
fn keys_of(definition: &Definition, index: Option<&Index>, item: &Item, others: &[String]) -> Item {
    let of_index = index.iter().flat_map(|index| [&index.hash].into_iter().chain(&index.range));
    let names = [&definition.key].into_iter().chain(of_index).map(|key| &key.name).chain(others);
    names.filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect()
}

/// Refuses a query that does not say which value of the key it wants.
fn check_looks_up(condition: &Condition, hash: &KeyAttribute) -> Result<(), ApiError> {
    let all = match condition {
        Condition::All(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let looks_up = |condition: &Condition| match condition {
        Condition::Compare(Operand::Path(path), Comparison::Equal, Operand::Value(_))
        | Condition::Compare(Operand::Value(_), Comparison::Equal, Operand::Path(path)) => {
            *path == Path::of(hash.name.as_str())
        }
        _ => false,
    };
    match all.iter().any(looks_up) {
        true => Ok(()),
        false => Err(ApiError::validation(format!(
            "Query condition missed key schema element: {}",
            hash.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::attribute::Attribute;
    use super::super::state::Draft;
    use super::*;
    use crate::json;
    use crate::tables::OPERATIONS;
    use crate::type_error::TypeErrors;

    fn input(operation: &str, body: &str) -> Structure {
        let operation = OPERATIONS.iter().find(|it| it.text == operation).expect("is served");
        json::decode(body.as_bytes(), operation.input, &TypeErrors::default()).expect("is JSON")
    }

    #[test]
    fn an_attribute_is_wanted_once() {
        let input = input("GetItem", r#"{"AttributesToGet":["a","b","a"]}"#);
        let placeholders = Placeholders::of(&input).expect("are right");
        let error = paths(&input, &placeholders).expect_err("has a twice");
        let message = error.message.unwrap_or_default();
        assert!(message.ends_with("Duplicate value in attribute name: a"), "{message}");
    }

    fn state(count: u32) -> State {
        let mut state = State::default();
        let mut draft = Draft::of(&state);
        draft.define(Definition::of_key("k"));
        for number in 0..count {
            let key = format!("{number:04}");
            let text = Attribute::Text("x".repeat(100 << 10));
            let item = Item::from([
                ("k".to_owned(), Attribute::Text(key.clone())),
                ("a".to_owned(), text),
            ]);
            draft.set(format!("i{key}").into_bytes(), Some(item)).expect("has room");
        }
        draft.into_changes().into_iter().for_each(|change| state.apply(change));
        state
    }

    /// A scan with so many searches in the filter, behind an item.
    fn wish(searches: usize, start: Option<Item>) -> Wish {
        let filter = vec!["contains(a,:v)"; searches].join(" OR ");
        let body = format!(
            r#"{{"FilterExpression":"{filter}","ExpressionAttributeValues":{{":v":{{"S":"y"}}}}}}"#
        );
        Wish { start, ..Wish::of(&input("Scan", &body)).expect("is right") }
    }

    #[test]
    fn a_page_ends_where_its_filter_has_looked_at_enough() {
        // Each item costs 20 MiB: a page has three, and the whole table would be one by its bytes.
        let state = state(8);
        let (mut start, mut scanned) = (None, Vec::new());
        loop {
            let page = page(&state, &wish(200, start)).expect("is read");
            scanned.push(page.scanned);
            match page.last {
                Some(last) => start = Some(last),
                None => break,
            }
        }
        assert_eq!(scanned, [3, 3, 2]);
    }

    #[test]
    fn a_key_condition_that_takes_too_much_is_refused() {
        let filter = wish(200, None);
        let wish = Wish { key: filter.filter, ..wish(1, None) };
        let refused = candidates(&state(8), &wish, None).expect_err("takes too much");
        assert_eq!(refused.name, "ValidationException");
    }
}
