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
    let schema: Json =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let mut parser = Parser::default();
    let nowhere = parser.namespace("");
    let root = parser.of(&schema, nowhere)?;
    Ok((parser.types, root))
}

/// A namespace, by its number among those of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Namespace(usize);

/// Full names are not made: one long namespace around many types would take far more than the schema does.
#[derive(Default)]
struct Parser<'s> {
    types: Vec<Type>,
    namespaces: HashMap<&'s str, Namespace>,
    /// By namespace and name.
    named: HashMap<(Namespace, &'s str), usize>,
}

impl<'s> Parser<'s> {
    fn add(&mut self, it: Type) -> Result<usize, String> {
        if self.types.len() == TYPES_MAX {
            return Err(format!("a schema has {TYPES_MAX} types at most"));
        }
        self.types.push(it);
        Ok(self.types.len() - 1)
    }

    fn namespace(&mut self, name: &'s str) -> Namespace {
        let next = Namespace(self.namespaces.len());
        *self.namespaces.entry(name).or_insert(next)
    }

    /// The namespace of a name and the rest of it. A name with dots has its own, any other is in that around it.
    fn full_name(&mut self, name: &'s str, around: Namespace) -> (Namespace, &'s str) {
        match name.rsplit_once('.') {
            Some((namespace, name)) => (self.namespace(namespace), name),
            None => (around, name),
        }
    }

    /// A type, within a namespace.
    fn of(&mut self, schema: &'s Json, namespace: Namespace) -> Result<usize, String> {
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

    fn by_name(&mut self, name: &'s str, namespace: Namespace) -> Result<usize, String> {
        if let Some(primitive) = primitive(name) {
            return self.add(primitive);
        }
        let full = self.full_name(name, namespace);
        // What has no dot may also be a name without a namespace.
        let alone = (self.namespace(""), name);
        let known = self.named.get(&full).or_else(|| self.named.get(&alone));
        known.copied().ok_or_else(|| format!("there is no type '{name:.80}'"))
    }

    fn of_object(
        &mut self,
        fields: &'s Map<String, Json>,
        namespace: Namespace,
    ) -> Result<usize, String> {
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
                    known.push((name, self.of(kind, within)?));
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
        fields: &'s Map<String, Json>,
        around: Namespace,
        it: Type,
    ) -> Result<(usize, Namespace), String> {
        let name = fields.get("name").and_then(Json::as_str);
        let name = name.ok_or_else(|| format!("a type has no name: {:.80}", told(fields)))?;
        let namespace = fields.get("namespace").and_then(Json::as_str);
        let namespace = namespace.map_or(around, |namespace| self.namespace(namespace));
        let (namespace, simple) = self.full_name(name, namespace);
        let number = self.add(it)?;
        if self.named.insert((namespace, simple), number).is_some() {
            return Err(format!("there are two types '{name:.80}'"));
        }
        Ok((number, namespace))
    }
}

fn told(fields: &Map<String, Json>) -> String {
    serde_json::to_string(fields).unwrap_or_default()
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
    fn a_name_may_leave_the_namespace_around_it() {
        let text = r#"{"type": "record", "name": "Outer", "namespace": "a.b", "fields": [
            {"name": "one", "type": {"type": "fixed", "name": "Same", "size": 1}},
            {"name": "two", "type": {"type": "fixed", "name": "Same", "namespace": "", "size": 2}},
            {"name": "three", "type": {"type": "record", "name": "c.Inner", "fields": [
                {"name": "four", "type": "Same"}, {"name": "five", "type": "a.b.Same"}]}}]}"#;
        let (types, root) = parse(text).expect("is one");
        let Type::Record(outer) = &types[root] else { panic!("{types:?}") };
        let Type::Record(inner) = &types[outer[2].1] else { panic!("{types:?}") };
        assert_eq!(types[outer[1].1], Type::Fixed(2));
        // There is no c.Same, so it is the one without a namespace.
        assert_eq!((inner[0].1, inner[1].1), (outer[1].1, outer[0].1));
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
