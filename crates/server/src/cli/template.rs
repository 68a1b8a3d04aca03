//! How a record is printed.

use std::io::{self, Write};
use std::iter::Peekable;
use std::str::Chars;

use bytes::Bytes;
use logway_model::{TimestampMs, TopicPartition};
use logway_record::Record;

use crate::cli::byte_encoding::ByteEncoding;
use crate::cli::escape::after_backslash;
use crate::cli::record_format::Encodings;
use crate::cli::timestamp;

/// A format like kcat's: text with `%` fields and `\` escapes. What is in braces behind a field says
/// how to write it, as in rpk's.
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
    Timestamp(TimeForm),
    /// Without an encoding, that of the command's options.
    Key(Option<ByteEncoding>),
    KeySize,
    Value(Option<ByteEncoding>),
    ValueSize,
    Headers(ByteEncoding),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeForm {
    Milliseconds,
    Rfc3339,
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
                    parts.push(Part::Field(field(&mut chars)?));
                }
                _ => literal.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Template { parts })
    }

    /// The same with encodings for the keys and values that name none themselves.
    ///
    /// # Errors
    ///
    /// An encoding of something that the template does not have, for the user.
    pub(super) fn with(mut self, encodings: Encodings) -> Result<Template, String> {
        let has = |field| self.parts.contains(&Part::Field(field));
        for (option, encoding, is_taken, name) in [
            ("--key-encoding", encodings.key, has(Field::Key(None)), "%k"),
            ("--value-encoding", encodings.value, has(Field::Value(None)), "%v"),
        ] {
            if encoding != ByteEncoding::Raw && !is_taken {
                return Err(format!(
                    "{option} has no effect: the template has no {name} without braces"
                ));
            }
        }
        for part in &mut self.parts {
            match part {
                Part::Field(Field::Key(encoding)) => {
                    encoding.get_or_insert(encodings.key);
                }
                Part::Field(Field::Value(encoding)) => {
                    encoding.get_or_insert(encodings.value);
                }
                Part::Field(_) | Part::Literal(_) => {}
            }
        }
        Ok(self)
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
        Template { parts: vec![Part::Field(Field::Value(None)), line_end] }
    }
}

/// Reads what follows a percent sign.
fn field(chars: &mut Peekable<Chars<'_>>) -> Result<Field, String> {
    let name = chars.next().ok_or("a '%' at the end names no field")?;
    let form = braced(chars, name)?;
    match (name, form.as_deref()) {
        ('k', form) => Ok(Field::Key(form.map(encoding).transpose()?)),
        ('v', form) => Ok(Field::Value(form.map(encoding).transpose()?)),
        ('h', form) => Ok(Field::Headers(form.map_or(Ok(ByteEncoding::Raw), encoding)?)),
        ('T', None) => Ok(Field::Timestamp(TimeForm::Milliseconds)),
        ('T', Some("rfc3339")) => Ok(Field::Timestamp(TimeForm::Rfc3339)),
        ('t', None) => Ok(Field::Topic),
        ('p', None) => Ok(Field::Partition),
        ('o', None) => Ok(Field::Offset),
        ('K', None) => Ok(Field::KeySize),
        ('V', None) => Ok(Field::ValueSize),
        ('T' | 't' | 'p' | 'o' | 'K' | 'V', Some(form)) => Err(format!(
            "'%{name}' cannot be written as {{{form}}}: only %k %v %h take {{hex}} or {{base64}}, \
             and %T {{rfc3339}}; a brace itself is \\x7b"
        )),
        (other, _) => Err(format!("'%{other}' is no field: use %t %p %o %T %k %K %v %V %h or %%")),
    }
}

/// What is in braces behind a field.
fn braced(chars: &mut Peekable<Chars<'_>>, name: char) -> Result<Option<String>, String> {
    if chars.next_if_eq(&'{').is_none() {
        return Ok(None);
    }
    let mut text = String::new();
    loop {
        match chars.next() {
            Some('}') => return Ok(Some(text)),
            Some(char) => text.push(char),
            None => {
                return Err(format!(
                    "'%{name}{{' lacks its '}}'; a brace that is only a brace is \\x7b"
                ));
            }
        }
    }
}

fn encoding(name: &str) -> Result<ByteEncoding, String> {
    match name {
        "hex" => Ok(ByteEncoding::Hex),
        "base64" => Ok(ByteEncoding::Base64),
        _ => {
            Err(format!("'{{{name}}}' is neither {{hex}} nor {{base64}}; a brace itself is \\x7b"))
        }
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
        Field::Timestamp(form) => write_time(out, record.timestamp, form),
        Field::Key(encoding) => write_content(out, &record.key, encoding.unwrap_or_default()),
        Field::KeySize => write_size(out, record.key.as_ref()),
        Field::Value(encoding) => write_content(out, &record.value, encoding.unwrap_or_default()),
        Field::ValueSize => write_size(out, record.value.as_ref()),
        Field::Headers(encoding) => write_headers(out, record, encoding),
    }
}

fn write_time(out: &mut impl Write, timestamp: TimestampMs, form: TimeForm) -> io::Result<()> {
    match form {
        TimeForm::Milliseconds => write!(out, "{timestamp}"),
        // As without braces: no date stands for none, and an empty word would move the ones behind it.
        TimeForm::Rfc3339 if timestamp == TimestampMs::NONE => out.write_all(b"-1"),
        TimeForm::Rfc3339 => out.write_all(timestamp::format(timestamp).as_bytes()),
    }
}

fn write_content(
    out: &mut impl Write,
    bytes: &Option<Bytes>,
    encoding: ByteEncoding,
) -> io::Result<()> {
    out.write_all(&encoding.encode(bytes.as_deref().unwrap_or_default()))
}

/// Nothing at all has size -1, as in kcat.
fn write_size(out: &mut impl Write, bytes: Option<&Bytes>) -> io::Result<()> {
    match bytes {
        Some(bytes) => write!(out, "{}", bytes.len()),
        None => out.write_all(b"-1"),
    }
}

fn write_headers(out: &mut impl Write, record: &Record, encoding: ByteEncoding) -> io::Result<()> {
    for (index, header) in record.headers.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        out.write_all(&header.key)?;
        out.write_all(b"=")?;
        write_content(out, &header.value, encoding)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use logway_model::{Offset, PartitionId, TimestampMs, TopicName};
    use logway_record::Header;

    use super::*;

    fn record() -> Record {
        Record {
            offset: Offset(42),
            timestamp: TimestampMs(1000),
            key: None,
            value: Some(Bytes::from_static(b"\xffvalue")),
            headers: vec![Header::new("a", Some(Bytes::from_static(b"1"))), Header::new("a", None)],
        }
    }

    fn render(template: &str) -> Vec<u8> {
        render_record(template, &record())
    }

    fn render_record(template: &str, record: &Record) -> Vec<u8> {
        let topic = TopicName::new("t").expect("a name");
        let template = Template::parse(template).expect("a template");
        let mut out = Vec::new();
        let partition = TopicPartition::new(topic, PartitionId(3));
        template.write(&mut out, &partition, record).expect("memory takes it");
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
    fn braces_say_how_a_field_is_written() {
        assert_eq!(render("%v{hex} %v{base64} %k{hex}"), b"ff76616c7565 /3ZhbHVl ");
        assert_eq!(render("%h{hex} %T{rfc3339}"), b"a=31,a= 1970-01-01T00:00:01.000Z");
        assert_eq!(render(r"{%o}%p\x7b"), b"{42}3{");
    }

    #[test]
    fn a_record_without_a_timestamp_is_not_of_1969() {
        for (timestamp, expected) in [(-1, "-1 -1"), (0, "0 1970-01-01T00:00:00.000Z")] {
            let record = Record { timestamp: TimestampMs(timestamp), ..record() };
            assert_eq!(render_record("%T %T{rfc3339}", &record), expected.as_bytes());
        }
    }

    #[test]
    fn options_say_how_the_other_fields_are_written() {
        let encodings = Encodings { key: ByteEncoding::Raw, value: ByteEncoding::Hex };
        let with = |template| Template::parse(template).expect("a template").with(encodings);
        assert!(with("%k").is_err_and(|error| error.contains("--value-encoding has no effect")));
        let template = with("%v %v{base64} %k").expect("it has a value");
        assert_eq!(template.parts[0], Part::Field(Field::Value(Some(ByteEncoding::Hex))));
        assert_eq!(template.parts[2], Part::Field(Field::Value(Some(ByteEncoding::Base64))));
    }

    #[test]
    fn mistakes_are_named() {
        for (template, expected) in [
            ("%x", "'%x'"),
            ("%", "at the end"),
            (r"\q", r"'\q'"),
            ("%v{Hex}", "'{Hex}'"),
            ("%v{hex", "lacks its '}'"),
            ("%o{hex}", "'%o'"),
        ] {
            let error = Template::parse(template).expect_err(template);
            assert!(error.contains(expected), "{template}: {error}");
        }
    }
}
