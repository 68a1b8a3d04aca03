//! Bytes that follow a schema of Avro.

use serde_json::{Map, Value as Json};

use super::schema::Type;
use crate::read::value::bytes::{Bytes, text, zigzag};
use crate::read::value::{Budget, Misfit, double};

/// Reads a value of a type, which takes all bytes.
pub(super) fn value(
    types: &[Type],
    root: usize,
    bytes: &[u8],
    budget: &mut Budget,
) -> Result<Json, Misfit> {
    let mut decoder = Decoder { types, bytes: Bytes(bytes) };
    let value = decoder.value(root, budget)?;
    match decoder.bytes.0.len() {
        0 => Ok(value),
        left => Err(Misfit::Left(left)),
    }
}

struct Decoder<'a> {
    types: &'a [Type],
    bytes: Bytes<'a>,
}

impl<'a> Decoder<'a> {
    fn long(&mut self) -> Result<i64, Misfit> {
        self.bytes.varint().map(zigzag)
    }

    /// Bytes behind their length.
    fn counted(&mut self) -> Result<&'a [u8], Misfit> {
        let length = usize::try_from(self.long()?);
        self.bytes.take(length.map_err(|_| Misfit::Wrong("a length is negative"))?)
    }

    fn text(&mut self) -> Result<&'a str, Misfit> {
        text(self.counted()?)
    }

    fn value(&mut self, number: usize, budget: &mut Budget) -> Result<Json, Misfit> {
        budget.part(0)?;
        budget.deeper(|budget| self.value_within(number, budget))
    }

    fn value_within(&mut self, number: usize, budget: &mut Budget) -> Result<Json, Misfit> {
        let types = self.types;
        Ok(match &types[number] {
            Type::Null => Json::Null,
            Type::Boolean => match self.bytes.array()? {
                [0] => Json::Bool(false),
                [1] => Json::Bool(true),
                _ => return Err(Misfit::Wrong("a boolean is neither 0 nor 1")),
            },
            Type::Long => Json::from(self.long()?),
            Type::Float => double(f32::from_le_bytes(self.bytes.array()?).into()),
            Type::Double => double(f64::from_le_bytes(self.bytes.array()?)),
            Type::Bytes => characters(self.counted()?, budget)?,
            Type::Fixed(size) => characters(self.bytes.take(*size)?, budget)?,
            Type::Text => {
                let text = self.text()?;
                budget.part(text.len())?;
                Json::from(text)
            }
            Type::Enum(symbols) => {
                let symbol = one_of(symbols, self.long()?)?;
                budget.part(symbol.len())?;
                Json::from(symbol.as_str())
            }
            Type::Union(branches) => {
                let branch = *one_of(branches, self.long()?)?;
                self.value(branch, budget)?
            }
            Type::Array(items) => {
                let mut list = Vec::new();
                self.blocks(|decoder| {
                    list.push(decoder.value(*items, budget)?);
                    Ok(())
                })?;
                Json::Array(list)
            }
            Type::Map(values) => {
                let mut object = Map::new();
                self.blocks(|decoder| {
                    let name = decoder.text()?;
                    budget.part(name.len())?;
                    object.insert(name.to_owned(), decoder.value(*values, budget)?);
                    Ok(())
                })?;
                Json::Object(object)
            }
            Type::Record(fields) => {
                let mut object = Map::new();
                for (name, number) in fields {
                    budget.part(name.len())?;
                    object.insert(name.clone(), self.value(*number, budget)?);
                }
                Json::Object(object)
            }
        })
    }

    /// Items in blocks, each of which says how many it has; the last has none.
    fn blocks(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // For those that skip the block: its size.
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                item(self)?;
            }
        }
    }
}

fn one_of<T>(all: &[T], number: i64) -> Result<&T, Misfit> {
    let one = usize::try_from(number).ok().and_then(|number| all.get(number));
    one.ok_or(Misfit::Wrong("there is no such branch or symbol"))
}

/// As in the JSON of Avro: a character for each byte.
fn characters(bytes: &[u8], budget: &mut Budget) -> Result<Json, Misfit> {
    // One above 127 takes two bytes.
    budget.part(2 * bytes.len())?;
    Ok(Json::from(bytes.iter().map(|byte| char::from(*byte)).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Schema;
    use super::*;

    fn read(schema: &str, bytes: &[u8]) -> Result<Json, Misfit> {
        Schema::new(schema).expect("is a schema").read(bytes, &mut Budget::default())
    }

    #[test]
    fn values_are_those_of_the_specification() {
        let number = |it: i64| it;
        for (schema, bytes, expected) in [
            (r#""null""#, &b""[..], Json::Null),
            (r#""boolean""#, b"\x01", json!(true)),
            (r#""int""#, b"\x7f", json!(number(-64))),
            (r#""long""#, b"\x80\x01", json!(number(64))),
            (r#""long""#, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", json!(i64::MIN)),
            (r#""float""#, b"\0\0\xc0\x3f", json!(1.5)),
            (r#""double""#, b"\0\0\0\0\0\0\xf8\x7f", json!("NaN")),
            (r#""string""#, b"\x06foo", json!("foo")),
            (r#""bytes""#, b"\x04a\xff", json!("a\u{ff}")),
            (r#"{"type": "fixed", "name": "f", "size": 2}"#, b"ab", json!("ab")),
            (r#"{"type": "enum", "name": "e", "symbols": ["A", "B"]}"#, b"\x02", json!("B")),
            // The example of the specification, and the same in a block with its size.
            (r#"{"type": "array", "items": "long"}"#, b"\x04\x06\x36\x00", json!([3, 27])),
            (r#"{"type": "array", "items": "long"}"#, b"\x03\x04\x06\x36\x00", json!([3, 27])),
            (r#"{"type": "map", "values": "int"}"#, b"\x02\x02a\x02\x00", json!({"a": 1})),
            (r#"["null", "string"]"#, b"\x02\x02a", json!("a")),
            (
                r#"{"type": "record", "name": "test", "fields": [{"name": "a", "type": "long"},
                    {"name": "b", "type": {"type": "string", "logicalType": "x"}}]}"#,
                b"\x36\x06foo",
                json!({"a": 27, "b": "foo"}),
            ),
        ] {
            assert_eq!(read(schema, bytes), Ok(expected), "{schema}");
        }
    }

    #[test]
    fn what_does_not_follow_its_schema_is_told() {
        for (schema, bytes, expected) in [
            (r#""long""#, &b""[..], Misfit::Short),
            (r#""long""#, &[0xff; 11], Misfit::Wrong("a number has more than ten bytes")),
            (r#""long""#, b"\x02\x02", Misfit::Left(1)),
            (r#""string""#, b"\x08foo", Misfit::Short),
            (r#""string""#, b"\x01", Misfit::Wrong("a length is negative")),
            (r#""string""#, b"\x02\xff", Misfit::Wrong("a text is no UTF-8")),
            (r#"["null"]"#, b"\x02", Misfit::Wrong("there is no such branch or symbol")),
            (r#""boolean""#, b"\x02", Misfit::Wrong("a boolean is neither 0 nor 1")),
        ] {
            assert_eq!(read(schema, bytes), Err(expected), "{schema}");
        }
    }

    #[test]
    fn few_bytes_become_no_large_value() {
        // Items that take no bytes.
        let many = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00";
        assert_eq!(read(r#"{"type": "array", "items": "null"}"#, many), Err(Misfit::Large));
        // A record that has itself without an end.
        let endless = r#"{"type": "record", "name": "r", "fields": [{"name": "r", "type": "r"}]}"#;
        assert_eq!(read(endless, b""), Err(Misfit::Deep));
        // Records that double at each level.
        let mut doubling = r#""null""#.to_owned();
        for level in 0..40 {
            let name = format!("r{level}");
            doubling = format!(
                r#"{{"type": "record", "name": "{name}", "fields": [{{"name": "a", "type": {doubling}}},
                    {{"name": "b", "type": "{}"}}]}}"#,
                match level {
                    0 => "null".to_owned(),
                    _ => format!("r{}", level - 1),
                }
            );
        }
        assert_eq!(read(&doubling, b""), Err(Misfit::Large));
        // A long name, many times.
        let name = "n".repeat(100_000);
        let long = format!(
            r#"{{"type": "array", "items": {{"type": "record", "name": "r", "fields": [{{"name": "{name}", "type": "null"}}]}}}}"#
        );
        assert_eq!(read(&long, b"\x80\x80\x01\x00"), Err(Misfit::Large));
    }
}
