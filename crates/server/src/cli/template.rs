//! How a record is printed.

use std::io::{self, Write};

use bytes::Bytes;
use logway_model::TopicPartition;
use logway_record::Record;

use crate::cli::escape::after_backslash;

/// A format like kcat's: text with `%` fields and `\` escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Field(Field),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    KeySize,
    Value,
    ValueSize,
    Headers,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// What is wrong, for the user.
    pub(super) fn parse(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '\\' => literal.push(after_backslash(&mut chars)?),
                '%' if chars.next_if_eq(&'%').is_some() => literal.push(b'%'),
                '%' => {
                    if !literal.is_empty() {
                        parts.push(Part::Literal(std::mem::take(&mut literal)));
                    }
                    parts.push(Part::Field(field(chars.next())?));
                }
                _ => literal.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Template { parts })
    }

    /// Writes a record.
    pub(super) fn write(
        &self,
        out: &mut impl Write,
        partition: &TopicPartition,
        record: &Record,
    ) -> io::Result<()> {
        for part in &self.parts {
            match part {
                Part::Literal(bytes) => out.write_all(bytes)?,
                Part::Field(field) => write_field(out, *field, partition, record)?,
            }
        }
        Ok(())
    }
}

impl Default for Template {
    /// The value and a line end.
    fn default() -> Template {
        let line_end = Part::Literal(b"\n".to_vec());
        Template { parts: vec![Part::Field(Field::Value), line_end] }
    }
}

fn field(name: Option<char>) -> Result<Field, String> {
    match name {
        Some('t') => Ok(Field::Topic),
        Some('p') => Ok(Field::Partition),
        Some('o') => Ok(Field::Offset),
        Some('T') => Ok(Field::Timestamp),
        Some('k') => Ok(Field::Key),
        Some('K') => Ok(Field::KeySize),
        Some('v') => Ok(Field::Value),
        Some('V') => Ok(Field::ValueSize),
        Some('h') => Ok(Field::Headers),
        Some(other) => Err(format!("'%{other}' is no field: use %t %p %o %T %k %K %v %V %h or %%")),
        None => Err("a '%' at the end names no field".to_owned()),
    }
}

fn write_field(
    out: &mut impl Write,
    field: Field,
    partition: &TopicPartition,
    record: &Record,
) -> io::Result<()> {
    match field {
        Field::Topic => write!(out, "{}", partition.topic),
        Field::Partition => write!(out, "{}", partition.partition),
        Field::Offset => write!(out, "{}", record.offset),
        Field::Timestamp => write!(out, "{}", record.timestamp),
        Field::Key => out.write_all(content(&record.key)),
        Field::KeySize => write_size(out, record.key.as_ref()),
        Field::Value => out.write_all(content(&record.value)),
        Field::ValueSize => write_size(out, record.value.as_ref()),
        Field::Headers => write_headers(out, record),
    }
}

fn content(bytes: &Option<Bytes>) -> &[u8] {
    bytes.as_deref().unwrap_or_default()
}

/// Nothing at all has size -1, as in kcat.
fn write_size(out: &mut impl Write, bytes: Option<&Bytes>) -> io::Result<()> {
    match bytes {
        Some(bytes) => write!(out, "{}", bytes.len()),
        None => out.write_all(b"-1"),
    }
}

fn write_headers(out: &mut impl Write, record: &Record) -> io::Result<()> {
    for (index, header) in record.headers.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        out.write_all(&header.key)?;
        out.write_all(b"=")?;
        out.write_all(content(&header.value))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use logway_model::{Offset, PartitionId, TimestampMs, TopicName};
    use logway_record::Header;

    use super::*;

    fn render(template: &str) -> Vec<u8> {
        let topic = TopicName::new("t").expect("a name");
        let record = Record {
            offset: Offset(42),
            timestamp: TimestampMs(1000),
            key: None,
            value: Some(Bytes::from_static(b"\xffvalue")),
            headers: vec![Header::new("a", Some(Bytes::from_static(b"1"))), Header::new("a", None)],
        };
        let template = Template::parse(template).expect("a template");
        let mut out = Vec::new();
        let partition = TopicPartition::new(topic, PartitionId(3));
        template.write(&mut out, &partition, &record).expect("memory takes it");
        out
    }

    #[test]
    fn fields_and_escapes_are_filled_in() {
        assert_eq!(render(r"%v\n"), b"\xffvalue\n");
        assert_eq!(render(r"%t/%p/%o@%T [%k|%K|%V] %h%%\x00"), b"t/3/42@1000 [|-1|6] a=1,a=%\0");
        assert_eq!(Template::parse(r"%v\n"), Ok(Template::default()));
        assert_eq!(render(""), b"");
        assert_eq!(render("ü%%v"), "ü%v".as_bytes());
    }

    #[test]
    fn mistakes_are_named() {
        for (template, expected) in [("%x", "'%x'"), ("%", "at the end"), (r"\q", r"'\q'")] {
            let error = Template::parse(template).expect_err(template);
            assert!(error.contains(expected), "{template}: {error}");
        }
    }
}
