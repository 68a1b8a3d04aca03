//! Making, changing, describing and deleting tables.

use std::sync::Arc;
use std::time::Duration;

use logway_log::random_uuid;
use logway_metadata::controller::{CreateTopics, DeleteTopics, NewTopic, TopicReference};
use logway_model::{ErrorCode, TopicId};
use logway_node::Failure;
use logway_node::access::{Operation as Permission, Resource};
use logway_node::tasks::wall_clock;

use super::call::{FoundTable, TOPIC_PREFIX, TableCall};
use super::definition::{Definition, INDEXES_MAX, Index, KeyAttribute, Projection};
use super::error::Refused;
use super::state::{Draft, State};
use crate::error::ApiError;
use crate::value::{Structure, Value};

/// Tables that there can be.
const TABLES_MAX: usize = 256;

/// Tables of a page, where a client does not say.
const TABLES_PAGE: usize = 100;

/// How long a change of the metadata may take.
const COMMIT_MAX: Duration = Duration::from_secs(30);

/// The settings of a table's topic.
///
/// One append can hold what several requests write. Deletions are told for a day, whatever other topics do: a view that read no
/// further for a while must not miss one.
const TOPIC_CONFIGS: [(&str, &str); 3] = [
    ("cleanup.policy", "compact"),
    ("max.message.bytes", "12582912"),
    ("delete.retention.ms", "86400000"),
];

pub(super) async fn create(call: &TableCall) -> Result<Structure, Refused> {
    let name = call.table_name()?;
    call.check(Permission::Create, &name)?;
    let definition = definition_of(&call.input)?;
    let in_use = || ApiError::in_use(format!("Table already exists: {name}"));
    if count_of_tables(call) >= TABLES_MAX {
        let message = format!("There are {TABLES_MAX} tables, which is the most that there can be");
        return Err(ApiError::limit(message).into());
    }
    make_topic(call, &name).await?;
    let found = call.find(name.clone()).ok_or_else(in_use)?;
    let already = in_use();
    let define = move |draft: &mut Draft<'_>| {
        // The topic is older, or another one makes the same table.
        if draft.definition().is_some() {
            return Err(already.clone().into());
        }
        draft.define(definition.clone());
        Ok(Structure::new())
    };
    found.table.write(&call.service.node, Box::new(define)).await?;
    described(call, &found, "CREATING", "TableDescription").await
}

/// Makes the topic of a table. One that is there already may be left of a try that has failed: then nothing is in it.
async fn make_topic(call: &TableCall, name: &str) -> Result<(), ApiError> {
    let topic = NewTopic {
        name: format!("{TOPIC_PREFIX}{name}"),
        id: TopicId(random_uuid()),
        num_partitions: 1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: TOPIC_CONFIGS
            .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
            .to_vec(),
    };
    let create = CreateTopics { topics: vec![topic], validate_only: false };
    let replies = call.service.node.submit(create, Some(COMMIT_MAX), None).await?;
    for reply in replies {
        match reply {
            Ok(_) => {}
            Err(error) if error.code == ErrorCode::TopicAlreadyExists && is_table(call, name) => {}
            Err(error) => return Err(Failure::new(error.code, error.message).into()),
        }
    }
    Ok(())
}

/// Whether a topic is as those of tables are: others that have its name are not written to.
fn is_table(call: &TableCall, name: &str) -> bool {
    let image = call.service.node.image();
    let topic = image.topic(&format!("{TOPIC_PREFIX}{name}"));
    topic.is_some_and(|topic| {
        let is_compacted =
            topic.overrides.get("cleanup.policy").is_some_and(|policy| policy == "compact");
        is_compacted && topic.partitions.len() == 1
    })
}

fn definition_of(input: &Structure) -> Result<Definition, ApiError> {
    if !input.list("LocalSecondaryIndexes").is_empty() {
        return Err(ApiError::validation("Local secondary indexes are not served here"));
    }
    let attributes = attribute_definitions(input);
    let (key, range) = key_schema(input.list("KeySchema"), &attributes)?;
    if range.is_some() {
        return Err(ApiError::validation("Tables with a sort key are not served here"));
    }
    let indexes = input.list("GlobalSecondaryIndexes").iter().filter_map(structure);
    let indexes =
        indexes.map(|index| index_of(index, &attributes)).collect::<Result<Vec<_>, _>>()?;
    check_indexes(&indexes)?;
    Ok(Definition {
        key,
        indexes,
        created_ms: wall_clock().0,
        is_on_demand: input.text("BillingMode") == Some("PAY_PER_REQUEST"),
        throughput: throughput_of(input).unwrap_or_default(),
        is_protected: input.is_true("DeletionProtectionEnabled"),
        is_backed_up: false,
    })
}

fn structure(value: &Value) -> Option<&Structure> {
    match value {
        Value::Structure(structure) => Some(structure),
        _ => None,
    }
}

fn throughput_of(input: &Structure) -> Option<(i64, i64)> {
    let throughput = input.structure("ProvisionedThroughput")?;
    let units = |member| throughput.number(member).unwrap_or(0);
    Some((units("ReadCapacityUnits"), units("WriteCapacityUnits")))
}

fn attribute_definitions(input: &Structure) -> Vec<KeyAttribute> {
    let definitions = input.list("AttributeDefinitions").iter().filter_map(structure);
    let attribute = |definition: &Structure| {
        let name = definition.text("AttributeName")?.to_owned();
        Some(KeyAttribute { name, kind: definition.text("AttributeType")?.to_owned() })
    };
    definitions.filter_map(attribute).collect()
}

/// The attribute that is looked up, and the one that is sorted by.
fn key_schema(
    schema: &[Value],
    attributes: &[KeyAttribute],
) -> Result<(KeyAttribute, Option<KeyAttribute>), ApiError> {
    let invalid = |message: &str| {
        ApiError::validation(format!("One or more parameter values were invalid: {message}"))
    };
    let mut found = Vec::new();
    for (element, role) in schema.iter().filter_map(structure).zip(["HASH", "RANGE"]) {
        if element.text("KeyType") != Some(role) {
            return Err(invalid(
                "Invalid KeySchema: the first element is of type HASH, the second of type RANGE",
            ));
        }
        let name = element.text("AttributeName").unwrap_or_default();
        let attribute = attributes.iter().find(|attribute| attribute.name == name);
        found.push(attribute.cloned().ok_or_else(|| {
            invalid("Some index key attributes are not defined in AttributeDefinitions")
        })?);
    }
    let mut found = found.into_iter();
    let hash = found.next().ok_or_else(|| invalid("Invalid KeySchema: there is no HASH key"))?;
    Ok((hash, found.next()))
}

fn index_of(index: &Structure, attributes: &[KeyAttribute]) -> Result<Index, ApiError> {
    let (hash, range) = key_schema(index.list("KeySchema"), attributes)?;
    let projection = index.structure("Projection");
    let others = projection.map(|projection| projection.texts("NonKeyAttributes"));
    let projection = match projection.and_then(|projection| projection.text("ProjectionType")) {
        Some("KEYS_ONLY") => Projection::Keys(Vec::new()),
        Some("INCLUDE") => Projection::Keys(others.unwrap_or_default()),
        _ => Projection::All,
    };
    let name = index.text("IndexName").unwrap_or_default().to_owned();
    Ok(Index { name, hash, range, projection })
}

fn check_indexes(indexes: &[Index]) -> Result<(), ApiError> {
    if indexes.len() > INDEXES_MAX {
        let message = format!("A table has at most {INDEXES_MAX} indexes");
        return Err(ApiError::limit(message));
    }
    let mut names: Vec<&String> = indexes.iter().map(|index| &index.name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ApiError::validation(format!(
            "One or more parameter values were invalid: Duplicate index name: {}",
            pair[0]
        ))),
        None => Ok(()),
    }
}

fn tables(call: &TableCall) -> Vec<String> {
    let image = call.service.node.image();
    let names = image.topics().filter_map(|topic| topic.name.as_str().strip_prefix(TOPIC_PREFIX));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

fn count_of_tables(call: &TableCall) -> usize {
    tables(call).len()
}

/// The table that the request names; of one that is not there, its name is told.
fn named(call: &TableCall, permission: Permission) -> Result<FoundTable, ApiError> {
    let name = call.table_name()?;
    call.check(permission, &name)?;
    call.find(name.clone()).ok_or_else(|| absent(&name))
}

fn absent(name: &str) -> ApiError {
    ApiError::not_found(format!("Requested resource not found: Table: {name} not found"))
}

/// A response that describes a table.
async fn described(
    call: &TableCall,
    found: &FoundTable,
    status: &str,
    member: &'static str,
) -> Result<Structure, Refused> {
    let describe = |state: &State| Some((Arc::clone(state.definition.as_ref()?), state.extent()));
    let of_table = found.table.read(&call.service.node, describe).await?;
    let (definition, extent) = of_table.ok_or_else(|| absent(&found.name))?;
    let (arn, id) = (call.arn(&found.name), found.id.0.hyphenated());
    let description = definition.described(&found.name, &arn, &id, status, extent);
    Ok(Structure::new().with(member, description))
}

pub(super) async fn describe(call: &TableCall) -> Result<Structure, Refused> {
    let found = named(call, Permission::Describe)?;
    described(call, &found, "ACTIVE", "Table").await
}

pub(super) async fn delete(call: &TableCall) -> Result<Structure, Refused> {
    let found = named(call, Permission::Delete)?;
    let response = described(call, &found, "DELETING", "TableDescription").await?;
    let description = response.structure("TableDescription");
    if description.is_some_and(|table| table.is_true("DeletionProtectionEnabled")) {
        let arn = call.arn(&found.name);
        return Err(ApiError::validation(format!(
            "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection \
             first. ResourceArn: {arn}"
        ))
        .into());
    }
    let command = DeleteTopics { topics: vec![TopicReference::Id(found.id)] };
    for reply in
        call.service.node.submit(command, Some(COMMIT_MAX), None).await.map_err(ApiError::from)?
    {
        reply.map_err(|error| ApiError::from(Failure::new(error.code, error.message)))?;
    }
    Ok(response)
}

pub(super) fn list(call: &TableCall) -> Result<Structure, Refused> {
    let input = &call.input;
    let start = input.text("ExclusiveStartTableName");
    let limit = input.number("Limit").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(TABLES_PAGE);
    let is_seen = |name: &String| {
        start.is_none_or(|start| name.as_str() > start)
            && call.may(Permission::Describe, Resource::Topic(&format!("{TOPIC_PREFIX}{name}")))
    };
    let mut names: Vec<String> = tables(call).into_iter().filter(is_seen).collect();
    let has_more = names.len() > limit;
    names.truncate(limit);
    let last = names.last().filter(|_| has_more).cloned();
    Ok(Structure::new().with("TableNames", names).with_some("LastEvaluatedTableName", last))
}

pub(super) async fn update(call: &TableCall) -> Result<Structure, Refused> {
    let found = named(call, Permission::Alter)?;
    let input = call.input.clone();
    let name = found.name.clone();
    let change = move |draft: &mut Draft<'_>| {
        let mut definition = Definition::clone(draft.definition().ok_or_else(|| absent(&name))?);
        change(&mut definition, &input)?;
        draft.define(definition);
        Ok(Structure::new())
    };
    found.table.write(&call.service.node, Box::new(change)).await?;
    described(call, &found, "UPDATING", "TableDescription").await
}

fn change(definition: &mut Definition, input: &Structure) -> Result<(), ApiError> {
    if let Some(mode) = input.text("BillingMode") {
        definition.is_on_demand = mode == "PAY_PER_REQUEST";
    }
    if let Some(throughput) = throughput_of(input) {
        definition.throughput = throughput;
    }
    if let Some(Value::Boolean(is_protected)) = input.get("DeletionProtectionEnabled") {
        definition.is_protected = *is_protected;
    }
    let attributes = attribute_definitions(input);
    for update in input.list("GlobalSecondaryIndexUpdates").iter().filter_map(structure) {
        if let Some(create) = update.structure("Create") {
            let index = index_of(create, &attributes)?;
            if definition.index(&index.name).is_some() {
                return Err(ApiError::validation(
                    "Attempting to create an index which already exists",
                ));
            }
            definition.indexes.push(index);
        }
        if let Some(delete) = update.structure("Delete") {
            let name = delete.text("IndexName").unwrap_or_default();
            if definition.index(name).is_none() {
                return Err(ApiError::not_found("Requested resource not found"));
            }
            definition.indexes.retain(|index| index.name != name);
        }
    }
    check_indexes(&definition.indexes)
}

pub(super) async fn update_backups(call: &TableCall) -> Result<Structure, Refused> {
    let found = named(call, Permission::Alter)?;
    let wanted = call.input.structure("PointInTimeRecoverySpecification");
    let is_on = wanted.is_some_and(|wanted| wanted.is_true("PointInTimeRecoveryEnabled"));
    let name = found.name.clone();
    let change = move |draft: &mut Draft<'_>| {
        let mut definition = Definition::clone(draft.definition().ok_or_else(|| absent(&name))?);
        definition.is_backed_up = is_on;
        draft.define(definition);
        let status = if is_on { "ENABLED" } else { "DISABLED" };
        let recovery = Structure::new().with("PointInTimeRecoveryStatus", status);
        let description = Structure::new()
            .with("ContinuousBackupsStatus", "ENABLED")
            .with("PointInTimeRecoveryDescription", recovery);
        Ok(Structure::new().with("ContinuousBackupsDescription", description))
    };
    found.table.write(&call.service.node, Box::new(change)).await
}

#[cfg(test)]
mod tests {
    use super::super::store::IDLE_MAX;
    use super::*;

    #[test]
    fn deletions_are_told_for_longer_than_views_are_kept() {
        let retention = TOPIC_CONFIGS.iter().find(|(name, _)| *name == "delete.retention.ms");
        let retention = retention.expect("is set").1.parse().expect("is a number");
        assert!(Duration::from_millis(retention) >= IDLE_MAX.max(Duration::from_secs(24 * 3_600)));
    }
}
