//! Of each value the fields that a reader names.

use std::collections::BTreeMap;
use std::fmt;

use logway_expression::path;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::value::ValueError;
use crate::grpc::status::Status;

/// Fields that a reader may name.
const FIELDS_MAX: usize = 64;

/// How deep they may be.
const DEPTH_MAX: usize = 16;

/// The fields that are kept, with what is kept of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Projection(BTreeMap<String, Kept>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    Whole,
    Fields(Projection),
}

impl Projection {
    /// As a client wants it; `None` where it names no field.
    pub(super) fn new(fields: &[String]) -> Result<Option<Projection>, Status> {
        let wrong = |message: String| {
            Status::invalid(message).remedy("name each field as in an expression behind 'value.'")
        };
        if fields.len() > FIELDS_MAX {
            return Err(wrong(format!("projection has {FIELDS_MAX} fields at most")));
        }
        let mut projection = Projection::default();
        for field in fields {
            let names = path(field);
            let names =
                names.map_err(|error| wrong(format!("projection '{field:.80}', {error}")))?;
            if names.len() > DEPTH_MAX {
                let message = format!("projection '{field:.80}' is more than {DEPTH_MAX} deep");
                return Err(wrong(message));
            }
            projection.add(names);
        }
        Ok(Some(projection).filter(|projection| !projection.0.is_empty()))
    }

    fn add(&mut self, names: Vec<String>) {
        let mut fields = self;
        let last = names.len().saturating_sub(1);
        for (at, name) in names.into_iter().enumerate() {
            if at == last {
                fields.0.insert(name, Kept::Whole);
                return;
            }
            let kept = fields.0.entry(name);
            match kept.or_insert_with(|| Kept::Fields(Projection::default())) {
                // What is kept as a whole has them.
                Kept::Whole => return,
                Kept::Fields(within) => fields = within,
            }
        }
    }

    /// About how many bytes it keeps.
    pub(super) fn kept_bytes(&self) -> usize {
        const PART_BYTES: usize = 80;
        let of_field = |(name, kept): (&String, &Kept)| {
            let within = match kept {
                Kept::Whole => 0,
                Kept::Fields(within) => within.kept_bytes(),
            };
            PART_BYTES + name.len() + within
        };
        self.0.iter().map(of_field).sum()
    }

    /// The fields of a value that was read.
    pub(super) fn of(&self, value: Json) -> String {
        Json::Object(self.of_value(value)).to_string()
    }

    fn of_value(&self, value: Json) -> Map<String, Json> {
        let Json::Object(mut object) = value else { return Map::new() };
        let kept = self.0.iter().filter_map(|(name, kept)| {
            let value = object.remove(name)?;
            let value = match (kept, value) {
                (Kept::Whole, value) => value,
                (Kept::Fields(within), value @ Json::Object(_)) => {
                    Json::Object(within.of_value(value))
                }
                (Kept::Fields(_), _) => return None,
            };
            Some((name.clone(), value))
        });
        kept.collect()
    }

    /// The fields of a text of JSON, each as it stands there: numbers keep all their digits.
    pub(super) fn of_json(&self, text: &[u8]) -> Result<String, ValueError> {
        let no_json = |error: &dyn fmt::Display| ValueError::NoJson(error.to_string());
        let text = std::str::from_utf8(text).map_err(|error| no_json(&error))?;
        let whole: &RawValue = serde_json::from_str(text).map_err(|error| no_json(&error))?;
        let mut projected = String::new();
        self.write(whole, &mut projected).map_err(|error| no_json(&error))?;
        Ok(projected)
    }

    fn write(&self, value: &RawValue, projected: &mut String) -> Result<(), serde_json::Error> {
        projected.push('{');
        if value.get().starts_with('{') {
            let mut reader = serde_json::Deserializer::from_str(value.get());
            let found = Found(self).deserialize(&mut reader)?;
            let mut is_first = true;
            for ((name, kept), value) in self.0.iter().zip(found) {
                let Some(value) = value else { continue };
                let is_object = value.get().starts_with('{');
                if matches!(kept, Kept::Fields(_)) && !is_object {
                    continue;
                }
                if !std::mem::take(&mut is_first) {
                    projected.push(',');
                }
                projected.push_str(&serde_json::to_string(name)?);
                projected.push(':');
                match kept {
                    Kept::Whole => projected.push_str(value.get()),
                    Kept::Fields(within) => within.write(value, projected)?,
                }
            }
        }
        projected.push('}');
        Ok(())
    }
}

/// Looks for fields in an object: what each one has, if it is there. Of several with a name the last one counts.
struct Found<'p>(&'p Projection);

impl<'de> DeserializeSeed<'de> for Found<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Found<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut found = vec![None; self.0.0.len()];
        while let Some(place) = object.next_key_seed(Wanted(self.0))? {
            match place.and_then(|place| found.get_mut(place)) {
                Some(found) => *found = Some(object.next_value()?),
                None => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// The place of a name among the fields that are kept.
struct Wanted<'p>(&'p Projection);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Wanted<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.0.keys().position(|kept| kept == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn projection(fields: &[&str]) -> Projection {
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        Projection::new(&fields).expect("are fields").expect("are some")
    }

    #[test]
    fn only_the_fields_that_are_named_are_kept() {
        let value = r#" {"b": 1.10, "a": {"x": 12345678901234567890123, "y": [1, {"z": 2}], "w": {}}, "a b": "é\u00e9", "b": 2} "#;
        for (fields, expected) in [
            (&["b"][..], r#"{"b":2}"#),
            (&["a.x"], r#"{"a":{"x":12345678901234567890123}}"#),
            (&["a.y", "b"], r#"{"a":{"y":[1, {"z": 2}]},"b":2}"#),
            (&["a.y.z", "a.w.v"], r#"{"a":{"w":{}}}"#),
            (&["a.w", "a.w.v"], r#"{"a":{"w":{}}}"#),
            (&["a.w.v", "a.w"], r#"{"a":{"w":{}}}"#),
            (&["[\"a b\"]"], r#"{"a b":"é\u00e9"}"#),
            (&["c", "b.x"], "{}"),
        ] {
            let projected = projection(fields).of_json(value.as_bytes());
            assert_eq!(projected.as_deref(), Ok(expected), "{fields:?}");
        }
        for no_object in ["3", "[{\"b\": 1}]", "null", "\"{\""] {
            assert_eq!(projection(&["b"]).of_json(no_object.as_bytes()).as_deref(), Ok("{}"));
        }
    }

    #[test]
    fn what_was_read_is_projected_alike() {
        let value = serde_json::json!({"b": 2, "a": {"x": 1, "y": [1]}, "c": 3});
        for (fields, expected) in [
            (&["b", "a.x"][..], r#"{"a":{"x":1},"b":2}"#),
            (&["a", "c.d"], r#"{"a":{"x":1,"y":[1]}}"#),
        ] {
            assert_eq!(projection(fields).of(value.clone()), expected, "{fields:?}");
            let text = value.to_string();
            assert_eq!(projection(fields).of_json(text.as_bytes()).as_deref(), Ok(expected));
        }
        assert_eq!(projection(&["a"]).of(Json::from(3)), "{}");
    }

    #[test]
    fn what_is_no_json_is_told() {
        let deep = "[".repeat(200_000);
        for text in [&b"no JSON"[..], b"", b"{\"a\": 1", b"{} {}", b"\xff", deep.as_bytes()] {
            let error = projection(&["a"]).of_json(text).expect_err("is none");
            assert!(error.to_string().starts_with("the value is no JSON: "), "{error}");
        }
    }

    #[test]
    fn what_names_no_field_is_told() {
        let long = vec!["a"; DEPTH_MAX + 1].join(".");
        for field in ["", "a.", "a b", "a[0]", "3", ".a", "[\"a\"", &long] {
            let error = Projection::new(&[field.to_owned()]).expect_err(field);
            assert!(error.details.iter().any(|(name, _)| *name == "remedy"), "{error:?}");
        }
        assert!(Projection::new(&vec!["a".to_owned(); FIELDS_MAX + 1]).is_err());
        assert_eq!(Projection::new(&[]), Ok(None));
    }
}
