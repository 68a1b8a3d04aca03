//! A schema of Avro, with its names resolved.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

/// Types that a schema may have.
const TYPES_MAX: usize = 4_096;

/// A type; others are told by their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    /// `int` and `long` are encoded alike.
    Long,
    Float,
    Double,
    Bytes,
    Text,
    /// Of so many bytes.
    Fixed(usize),
    Enum(Vec<String>),
    Array(usize),
    Map(usize),
    Union(Vec<usize>),
    Record(Vec<(String, usize)>),
}

/// Reads a schema: its types, and which of them is the whole.
pub(super) fn parse(text: &str) -> Result<(Vec<Type>, usize), String> {
    // Its depth is bounded by the reader of JSON.
    let schema = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let mut parser = Parser::default();
    let root = parser.of(&schema, "")?;
    Ok((parser.types, root))
}

#[derive(Default)]
struct Parser {
    types: Vec<Type>,
    /// By full name.
    named: HashMap<String, usize>,
}

impl Parser {
    fn add(&mut self, it: Type) -> Result<usize, String> {
        if self.types.len() == TYPES_MAX {
            return Err(format!("a schema has {TYPES_MAX} types at most"));
        }
        self.types.push(it);
        Ok(self.types.len() - 1)
    }

    /// A type, within a namespace.
    fn of(&mut self, schema: &Json, namespace: &str) -> Result<usize, String> {
        match schema {
            Json::String(name) => self.by_name(name, namespace),
            Json::Array(branches) => {
                let branches = branches.iter().map(|branch| self.of(branch, namespace));
                let branches = branches.collect::<Result<_, _>>()?;
                self.add(Type::Union(branches))
            }
            Json::Object(fields) => self.of_object(fields, namespace),
            _ => Err(format!("{schema:.80} is no type")),
        }
    }

    fn by_name(&mut self, name: &str, namespace: &str) -> Result<usize, String> {
        if let Some(primitive) = primitive(name) {
            return self.add(primitive);
        }
        let known = self.named.get(&full_name(name, namespace));
        // What has no dot may also be a name without a namespace.
        let known = known.or_else(|| self.named.get(name));
        known.copied().ok_or_else(|| format!("there is no type '{name:.80}'"))
    }

    fn of_object(&mut self, fields: &Map<String, Json>, namespace: &str) -> Result<usize, String> {
        let part = |name: &str| {
            fields
                .get(name)
                .ok_or_else(|| format!("a type lacks its '{name}': {:.80}", told(fields)))
        };
        let kind = match part("type")? {
            Json::String(kind) => kind.as_str(),
            // A type in brackets of its own.
            inner => return self.of(inner, namespace),
        };
        match kind {
            "array" => {
                let items = self.of(part("items")?, namespace)?;
                self.add(Type::Array(items))
            }
            "map" => {
                let values = self.of(part("values")?, namespace)?;
                self.add(Type::Map(values))
            }
            "fixed" => {
                let size = part("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or("the size of a fixed type is no number")?;
                self.define(fields, namespace, Type::Fixed(size)).map(|(number, _)| number)
            }
            "enum" => {
                let symbols = part("symbols")?.as_array().ok_or("symbols are no list")?;
                let symbols = symbols.iter().map(|symbol| symbol.as_str().map(str::to_owned));
                let symbols = symbols.collect::<Option<_>>().ok_or("a symbol is no text")?;
                self.define(fields, namespace, Type::Enum(symbols)).map(|(number, _)| number)
            }
            "record" | "error" => {
                // It is known before its fields are: they may have it as a type.
                let unfinished = Type::Record(Vec::new());
                let (number, within) = self.define(fields, namespace, unfinished)?;
                let described = part("fields")?.as_array().ok_or("fields are no list")?;
                let mut known = Vec::with_capacity(described.len());
                for field in described {
                    let name = field.get("name").and_then(Json::as_str);
                    let name = name.ok_or("a field has no name")?.to_owned();
                    let kind = field.get("type").ok_or("a field has no type")?;
                    known.push((name, self.of(kind, &within)?));
                }
                self.types[number] = Type::Record(known);
                Ok(number)
            }
            name => self.by_name(name, namespace),
        }
    }

    /// Adds a type that has a name, and tells the namespace of what is within it.
    fn define(
        &mut self,
        fields: &Map<String, Json>,
        namespace: &str,
        it: Type,
    ) -> Result<(usize, String), String> {
        let name = fields.get("name").and_then(Json::as_str);
        let name = name.ok_or_else(|| format!("a type has no name: {:.80}", told(fields)))?;
        let namespace = fields.get("namespace").and_then(Json::as_str).unwrap_or(namespace);
        let full = full_name(name, namespace);
        let number = self.add(it)?;
        if self.named.insert(full.clone(), number).is_some() {
            return Err(format!("there are two types '{full:.80}'"));
        }
        let within = full.rsplit_once('.').map_or("", |(namespace, _)| namespace);
        Ok((number, within.to_owned()))
    }
}

fn told(fields: &Map<String, Json>) -> String {
    serde_json::to_string(fields).unwrap_or_default()
}

fn full_name(name: &str, namespace: &str) -> String {
    match name.contains('.') || namespace.is_empty() {
        true => name.to_owned(),
        false => format!("{namespace}.{name}"),
    }
}

fn primitive(name: &str) -> Option<Type> {
    Some(match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "int" | "long" => Type::Long,
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "string" => Type::Text,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_their_namespace() {
        let text = r#"{"type": "record", "name": "a.Outer", "fields": [
            {"name": "one", "type": {"type": "enum", "name": "Kind", "symbols": ["X"]}},
            {"name": "two", "type": "Kind"},
            {"name": "three", "type": "a.Kind"},
            {"name": "next", "type": ["null", "Outer"]}]}"#;
        let (types, root) = parse(text).expect("is one");
        let Type::Record(fields) = &types[root] else { panic!("{types:?}") };
        assert_eq!(fields[0].1, fields[1].1);
        assert_eq!(fields[0].1, fields[2].1);
        assert!(matches!(&types[fields[3].1], Type::Union(branches) if branches[1] == root));
    }

    #[test]
    fn what_is_no_schema_is_told() {
        let many = format!("[{}\"int\"]", "\"int\",".repeat(TYPES_MAX));
        let deep = "[".repeat(10_000);
        for (text, word) in [
            ("{", "no JSON"),
            ("3", "no type"),
            ("\"nothing\"", "no type 'nothing'"),
            (r#"{"type": "array"}"#, "lacks its 'items'"),
            (r#"{"type": "enum", "symbols": []}"#, "has no name"),
            (r#"{"type": "fixed", "name": "f", "size": -1}"#, "no number"),
            (
                r#"[{"type": "fixed", "name": "f", "size": 1}, {"type": "fixed", "name": "f", "size": 1}]"#,
                "two types",
            ),
            (&many, "types at most"),
            (&deep, "no JSON"),
        ] {
            let error = parse(text).expect_err("is none");
            assert!(error.contains(word), "{text:.80}: {error}");
        }
    }
}
