//! Writes the shapes of the Kinesis front door from AWS's service model, as botocore has it.
//!
//! The model is pruned first ([`prune`]): to the operations that are served, without its prose. What is left is in the repository, so that
//! the shapes can be made anew without botocore ([`emit`]).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use crate::codegen::Files;

/// A service of AWS, a part of which is served.
#[derive(Debug)]
pub struct Service {
    /// Its name in AWS's models, and in arguments.
    pub name: &'static str,
    /// The pruned model.
    model: &'static str,
    /// Where the shapes are.
    pub shapes: &'static str,
    /// The operations that are served.
    served: Served,
    /// Members that are not read, whatever has them.
    unread: &'static [&'static str],
    /// What the documentation of the shapes calls it.
    title: &'static str,
    /// The type of the names of its operations.
    names: &'static str,
}

/// Which operations of a service are served.
#[derive(Debug)]
enum Served {
    /// Those without one of these in their names.
    Without(&'static [&'static str]),
    /// These.
    Only(&'static [&'static str]),
}

impl Served {
    fn has(&self, name: &str) -> bool {
        match self {
            Served::Without(parts) => !parts.iter().any(|part| name.contains(part)),
            Served::Only(names) => names.contains(&name),
        }
    }
}

/// All of them.
pub const SERVICES: [Service; 3] = [
    Service {
        name: "kinesis",
        model: "crates/kinesis/model/service-2.json",
        shapes: "crates/kinesis/src/shapes",
        // Queues, channels, and how records are spread.
        served: Served::Without(&["Queue", "Channel", "RecordDistributionStrategy"]),
        unread: &[],
        title: "Kinesis",
        names: "OperationName",
    },
    Service {
        name: "dynamodb",
        model: "crates/kinesis/model/dynamodb-service-2.json",
        shapes: "crates/kinesis/src/tables/shapes",
        // What the Kinesis Client Library calls, and what looks after its tables.
        served: Served::Only(&[
            "CreateTable",
            "DeleteItem",
            "DeleteTable",
            "DescribeTable",
            "GetItem",
            "ListTables",
            "PutItem",
            "Query",
            "Scan",
            "UpdateContinuousBackups",
            "UpdateItem",
            "UpdateTable",
        ]),
        unread: &[
            "ArchivalSummary",
            "ConsumedCapacity",
            "GlobalTableSettingsReplicationMode",
            "GlobalTableWitnessUpdates",
            "GlobalTableWitnesses",
            "ItemCollectionMetrics",
            "OnDemandThroughput",
            "Replicas",
            "ReplicaUpdates",
            "ResourcePolicy",
            "RestoreSummary",
            "SSEDescription",
            "SSESpecification",
            "StreamSpecification",
            "TableClassSummary",
            "VectorIndexes",
            "WarmThroughput",
        ],
        title: "DynamoDB",
        names: "TableOperation",
    },
    Service {
        name: "cloudwatch",
        model: "crates/kinesis/model/cloudwatch-service-2.json",
        shapes: "crates/kinesis/src/monitoring/shapes",
        served: Served::Only(&["PutMetricData"]),
        unread: &["EntityMetricData", "StorageResolution", "StrictEntityValidation", "Timestamp"],
        title: "CloudWatch",
        names: "MonitoringOperation",
    },
];

/// What is kept of a shape.
const KEPT: &[&str] = &[
    "type",
    "required",
    "members",
    "member",
    "key",
    "value",
    "min",
    "max",
    "pattern",
    "enum",
    "exception",
    "fault",
    "event",
    "eventstream",
];

/// Writes the pruned model of a service.
pub fn prune(service: &Service, from: &Path, root: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(from).with_context(|| format!("reading {}", from.display()))?;
    let model: Value = serde_json::from_str(&text).context("the model is JSON")?;
    let operations = model["operations"].as_object().context("the model has operations")?;
    let mut model: Value = model.clone();
    leave_out(&mut model, service.unread);
    let mut wanted = BTreeSet::new();
    let mut kept = Map::new();
    for (name, operation) in operations.iter().filter(|(name, _)| service.served.has(name)) {
        let mut one = Map::new();
        for part in ["input", "output"] {
            if let Some(shape) = operation[part]["shape"].as_str() {
                reach(&model, shape, &mut wanted)?;
                one.insert(part.to_owned(), json!({ "shape": shape }));
            }
        }
        let errors = operation["errors"].as_array().into_iter().flatten();
        let errors: Vec<Value> = errors.map(|error| json!({ "shape": error["shape"] })).collect();
        for error in &errors {
            reach(&model, text_of(&error["shape"])?, &mut wanted)?;
        }
        one.insert("errors".to_owned(), errors.into());
        kept.insert(name.clone(), one.into());
    }
    let shapes = wanted.iter().map(|name| (name.clone(), bare(&model["shapes"][name])));
    let shapes: Map<String, Value> = shapes.collect();
    let metadata = json!({
        "apiVersion": model["metadata"]["apiVersion"],
        "targetPrefix": model["metadata"]["targetPrefix"],
    });
    let pruned = json!({ "metadata": metadata, "operations": kept, "shapes": shapes });
    let path = root.join(service.model);
    fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&pruned)?))
        .with_context(|| format!("writing {}", path.display()))
}

/// Takes members out of all structures.
fn leave_out(model: &mut Value, unread: &[&str]) {
    let shapes = model["shapes"].as_object_mut().into_iter().flat_map(|it| it.values_mut());
    for members in shapes.filter_map(|shape| shape["members"].as_object_mut()) {
        members.retain(|name, _| !unread.contains(&name.as_str()));
    }
}

/// Adds a shape and all that it is made of.
fn reach(model: &Value, name: &str, wanted: &mut BTreeSet<String>) -> anyhow::Result<()> {
    if !wanted.insert(name.to_owned()) {
        return Ok(());
    }
    for part in parts_of(&model["shapes"][name]) {
        reach(model, text_of(&part["shape"])?, wanted)?;
    }
    Ok(())
}

/// The references of a shape to others.
fn parts_of(shape: &Value) -> Vec<&Value> {
    let members = shape["members"].as_object().into_iter().flat_map(|members| members.values());
    let others = ["member", "key", "value"].into_iter().map(|part| &shape[part]);
    members.chain(others.filter(|part| !part.is_null())).collect()
}

/// A shape without prose.
fn bare(shape: &Value) -> Value {
    let mut bare = Map::new();
    for key in KEPT.iter().filter(|key| !shape[**key].is_null()) {
        let value = match *key {
            "members" => {
                let members = shape["members"].as_object().into_iter().flatten();
                let bare =
                    members.map(|(name, it)| (name.clone(), json!({ "shape": it["shape"] })));
                Value::Object(bare.collect())
            }
            "member" | "key" | "value" => json!({ "shape": shape[*key]["shape"] }),
            key => shape[key].clone(),
        };
        bare.insert((*key).to_owned(), value);
    }
    bare.into()
}

/// The shapes as Rust, of the pruned model.
pub fn emit(service: &Service, root: &Path) -> anyhow::Result<Files> {
    let path = root.join(service.model);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let model: Value = serde_json::from_str(&text).context("the model is JSON")?;
    let mut code = head(service);
    emit_operations(service, &model, &mut code)?;
    let shapes = model["shapes"].as_object().context("the model has shapes")?;
    for name in requests_and_responses(&model)? {
        let shape = &shapes[&name];
        if shape["eventstream"].is_null() {
            emit_shape(&name, shape, shapes, &mut code)?;
        }
    }
    let mut files = Files::default();
    files.add("mod.rs", code);
    Ok(files)
}

/// The shapes that requests and responses are made of. Errors have texts alone.
fn requests_and_responses(model: &Value) -> anyhow::Result<BTreeSet<String>> {
    let mut model = model.clone();
    let shapes = model["shapes"].as_object_mut().context("the model has shapes")?;
    for shape in shapes.values_mut().filter(|shape| shape["exception"].as_bool() == Some(true)) {
        shape["members"] = json!({});
    }
    let mut reached = BTreeSet::new();
    let operations = model["operations"].as_object().context("the model has operations")?;
    for operation in operations.values() {
        for shape in ["input", "output"].iter().filter_map(|it| operation[it]["shape"].as_str()) {
            reach(&model, shape, &mut reached)?;
        }
    }
    reached.retain(|name| model["shapes"][name]["exception"].as_bool() != Some(true));
    Ok(reached)
}

fn head(service: &Service) -> String {
    let Service { model, title, .. } = service;
    format!(
        "// Generated by `cargo xtask codegen` from {model}. Do not edit.

//! The operations of {title} and the shapes of their requests and responses.

use crate::shape::{{Kind, Member, Operation, Shape}};

"
    )
}

fn emit_operations(service: &Service, model: &Value, code: &mut String) -> anyhow::Result<()> {
    let operations = model["operations"].as_object().context("the model has operations")?;
    code.push_str(
        "/// An operation that is served.\n#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]\n",
    );
    let names = service.names;
    writeln!(code, "pub(crate) enum {names} {{")?;
    for name in operations.keys() {
        writeln!(code, "    {name},")?;
    }
    code.push_str("}\n\n/// Every operation that is served, by name.\n");
    writeln!(code, "pub(crate) static OPERATIONS: [Operation<{names}>; {}] = [", operations.len())?;
    for (name, operation) in operations {
        let input = constant(text_of(&operation["input"]["shape"])?);
        let output = match operation["output"]["shape"].as_str() {
            Some(output) => format!("Some(&{})", constant(output)),
            None => "None".to_owned(),
        };
        writeln!(
            code,
            "Operation {{ name: {names}::{name}, text: {name:?}, input: &{input}, output: {output} }},"
        )?;
    }
    code.push_str("];\n\n");
    Ok(())
}

fn emit_shape(
    name: &str,
    shape: &Value,
    shapes: &Map<String, Value>,
    code: &mut String,
) -> anyhow::Result<()> {
    let kind = match text_of(&shape["type"])? {
        "boolean" => "Kind::Boolean".to_owned(),
        "integer" => "Kind::Integer".to_owned(),
        "long" => "Kind::Long".to_owned(),
        "double" => "Kind::Double".to_owned(),
        "blob" => "Kind::Blob".to_owned(),
        "timestamp" => "Kind::Timestamp".to_owned(),
        "string" => match shape["enum"].as_array() {
            Some(values) => {
                let values: Result<Vec<_>, _> = values.iter().map(text_of).collect();
                format!("Kind::Word(&{:?})", values?)
            }
            None => "Kind::Text".to_owned(),
        },
        "list" => format!("Kind::List(&{})", constant(text_of(&shape["member"]["shape"])?)),
        "map" => {
            let of = |part: &str| text_of(&shape[part]["shape"]).map(constant);
            format!("Kind::Map(&{}, &{})", of("key")?, of("value")?)
        }
        "structure" => format!("Kind::Structure(&[{}])", emit_members(shape, shapes)?),
        other => bail!("{name} is a {other}, which this generator does not know"),
    };
    let number = |key: &str| match shape[key].as_i64() {
        Some(number) => format!("Some({number})"),
        None => "None".to_owned(),
    };
    let pattern = match shape["pattern"].as_str() {
        Some(pattern) => format!("Some({pattern:?})"),
        None => "None".to_owned(),
    };
    // Events are in no other shape that is generated.
    if shape["event"].as_bool() == Some(true) {
        code.push_str("/// An event of a stream.\npub(crate) ");
    }
    writeln!(
        code,
        "static {}: Shape = Shape {{ name: {name:?}, kind: {kind}, min: {}, max: {}, pattern: {pattern} }};\n",
        constant(name),
        number("min"),
        number("max"),
    )?;
    Ok(())
}

/// The members, without errors and what is an event stream: those have encodings of their own.
fn emit_members(shape: &Value, shapes: &Map<String, Value>) -> anyhow::Result<String> {
    let required: Vec<&str> =
        shape["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut code = String::new();
    for (member, of) in shape["members"].as_object().into_iter().flatten() {
        let of = text_of(&of["shape"])?;
        let is_apart =
            shapes[of]["exception"].as_bool() == Some(true) || !shapes[of]["eventstream"].is_null();
        if is_apart {
            continue;
        }
        let required = required.contains(&member.as_str());
        let shape = constant(of);
        writeln!(code, "Member {{ name: {member:?}, shape: &{shape}, required: {required} }},")?;
    }
    Ok(code)
}

/// `StreamName` as `STREAM_NAME`.
fn constant(name: &str) -> String {
    let mut constant = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (index, letter) in letters.iter().enumerate() {
        let is_begin = letter.is_uppercase()
            && index > 0
            && (letters[index - 1].is_lowercase()
                || letters.get(index + 1).is_some_and(|next| next.is_lowercase()));
        if is_begin {
            constant.push('_');
        }
        constant.push(letter.to_ascii_uppercase());
    }
    constant
}

fn text_of(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("the model has a text there")
}
