//! What commands print with `--format json`, as Markdown.

use logway_server::{JsonShape, json_shapes};
use serde_json::Value;

const TOP: &str = "<!-- Written by `cargo xtask reference`; edit the types that the commands print \
                   instead. -->
# JSON of the command line

With `--format json` a command prints this on stdout, and what it has to say beside it on stderr. What
holds for all commands:

- A command that is about several things prints an array, also of one, and `[]` of none. One that prints
  records, or the same again and again, prints a document a line.
- Every field is always there, with `null` for what is not known or does not exist, unless it is said to
  be left out.
- A thing has the same name everywhere: `topic`, `partition` (a number), `group`, brokers by their
  numbers. What ends in `_count` is the length of what elsewhere is an array.
- `start_offset` is the first offset there and `end_offset` the one after the last. Timestamps are
  milliseconds since 1970, sizes are bytes (`_bytes`), and durations seconds (`_seconds`).
- A command that fails in part prints what it did, and exits with 1.

Paths are written as `jq` takes them. `tests/cli` holds everything that it has commands print against these
tables.
";

/// Every command with its fields.
pub(crate) fn render() -> String {
    let mut page = TOP.to_owned();
    for shape in json_shapes() {
        page.push_str(&section(&shape));
    }
    page
}

fn section(shape: &JsonShape) -> String {
    let JsonShape { command, is_lines, schema } = shape;
    let schema = schema.as_value();
    let form = if *is_lines { "A document a line" } else { "One document" };
    let array = if schema.get("items").is_some() { ", an array." } else { "." };
    let mut text = format!("\n## `logway {command}`\n\n{form}{array}");
    let of_items = schema.get("items").unwrap_or(schema);
    for paragraph in description(of_items).split("\n\n").filter(|text| !text.is_empty()) {
        let end = if paragraph.ends_with('.') { "" } else { "." };
        text.push_str(&format!(" {}{end}", paragraph.replace('\n', " ")));
    }
    text.push_str("\n\n| path | type | what |\n|---|---|---|\n");
    rows(&mut text, "", schema, true, "");
    text
}

/// A value, and what it holds.
fn rows(text: &mut String, path: &str, schema: &Value, is_required: bool, what: &str) {
    let shown = if path.is_empty() { "." } else { path };
    let left_out = if is_required { "" } else { "; left out if there is none" };
    text.push_str(&format!("| `{shown}` | {}{left_out} | {what} |\n", type_of(schema)));
    if let Some(items) = schema.get("items").filter(|items| items.get("properties").is_some()) {
        return fields(text, &format!("{path}[]"), items);
    }
    fields(text, path, object_in(schema));
}

fn fields(text: &mut String, path: &str, object: &Value) {
    let path = if path.starts_with('.') { path.to_owned() } else { format!(".{path}") };
    let required = object.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let properties = object.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let dot = if path.ends_with('.') { "" } else { "." };
        let what = description(property).replace('\n', " ");
        rows(text, &format!("{path}{dot}{name}"), property, is_required(name), &what);
    }
}

/// The object that a value is if it is not `null`.
fn object_in(schema: &Value) -> &Value {
    let choices = schema.get("anyOf").and_then(Value::as_array);
    let mut choices = choices.into_iter().flatten();
    choices.find(|choice| choice.get("properties").is_some()).unwrap_or(schema)
}

/// The type in words: `array of integer`, `string or null`.
fn type_of(schema: &Value) -> String {
    let name = |value: &Value| value.as_str().unwrap_or("anything").to_owned();
    let of = |choices: &Vec<Value>, each: &dyn Fn(&Value) -> String| {
        choices.iter().map(each).collect::<Vec<_>>().join(" or ")
    };
    let words = schema.get("enum").or(schema.get("const")).map(|words| match words {
        Value::Array(words) => of(words, &|word| match word {
            Value::Null => "null".to_owned(),
            word => format!("`{}`", name(word)),
        }),
        word => format!("`{}`", name(word)),
    });
    match (words, schema.get("anyOf").or(schema.get("oneOf")), schema.get("type")) {
        (Some(words), ..) => words,
        (None, Some(Value::Array(choices)), _) => of(choices, &type_of),
        (None, _, Some(Value::Array(types))) => of(types, &name),
        (None, _, Some(Value::String(kind))) if kind == "array" => {
            format!("array of {}", schema.get("items").map(type_of).unwrap_or_default())
        }
        (None, _, Some(kind)) => name(kind),
        (None, ..) => "anything".to_owned(),
    }
}

fn description(schema: &Value) -> &str {
    let own = schema.get("description").and_then(Value::as_str);
    own.unwrap_or_default()
}
