//! What a piece of the input stands for.

use std::borrow::Cow;

use logway_model::{PartitionId, TimestampMs};
use logway_record::Header;

use super::json_input;
use super::key_field::KeyField;
use crate::cli::byte_encoding::ByteEncoding;

/// A record as the input has it; the command line says the rest.
#[derive(Debug, Default)]
pub(super) struct InputRecord<'a> {
    pub(super) partition: Option<PartitionId>,
    pub(super) timestamp: Option<TimestampMs>,
    pub(super) key: Option<Cow<'a, [u8]>>,
    pub(super) value: Option<Cow<'a, [u8]>>,
    pub(super) headers: Vec<Header>,
}

/// How pieces of the input become records.
#[derive(Debug)]
pub(super) enum InputForm {
    /// A value, perhaps with a key before it.
    Plain(PlainForm),
    /// What `logway consume --format json` prints.
    Json,
}

/// How to read keys and values that are not in JSON records.
#[derive(Debug)]
pub(super) struct PlainForm {
    /// What is between the key and the value; `None` if pieces are values.
    pub(super) key_separator: Option<Vec<u8>>,
    pub(super) key_encoding: ByteEncoding,
    pub(super) value_encoding: ByteEncoding,
    /// Whether an empty value is none.
    pub(super) empty_is_tombstone: bool,
}

/// Where keys come from that are not beside the value.
#[derive(Debug)]
pub(super) enum KeySource {
    /// What the form of the input says.
    Input,
    /// The same for all records.
    Fixed(Vec<u8>),
    /// A field of the value.
    Field(KeyField),
}

impl InputForm {
    /// Reads a piece; nothing if it stands for none.
    ///
    /// # Errors
    ///
    /// What is wrong, for the user.
    pub(super) fn read<'a>(&self, piece: &'a [u8]) -> Result<Option<InputRecord<'a>>, String> {
        match self {
            InputForm::Plain(form) => form.read(piece).map(Some),
            // Files often end in an empty line.
            InputForm::Json if piece.trim_ascii().is_empty() => Ok(None),
            InputForm::Json => json_input::parse(piece).map(Some),
        }
    }
}

impl PlainForm {
    fn read<'a>(&self, piece: &'a [u8]) -> Result<InputRecord<'a>, String> {
        let (key, value) = split(piece, self.key_separator.as_deref());
        let named = |name: &'static str| move |error| format!("the {name}: {error}");
        let key = key.map(|key| self.key_encoding.decode(key).map_err(named("key")));
        let value = self.value_encoding.decode(value).map_err(named("value"))?;
        let is_tombstone = self.empty_is_tombstone && value.is_empty();
        Ok(InputRecord {
            key: key.transpose()?,
            value: (!is_tombstone).then_some(value),
            ..InputRecord::default()
        })
    }
}

impl KeySource {
    /// Gives a record its key.
    ///
    /// # Errors
    ///
    /// Why its value has none, for the user.
    pub(super) fn apply<'a>(&'a self, record: &mut InputRecord<'a>) -> Result<(), String> {
        match (self, &record.value) {
            (KeySource::Input, _) => {}
            (KeySource::Fixed(key), _) => record.key = Some(Cow::Borrowed(key)),
            (KeySource::Field(_), None) => return Err("it has no value to take a key from".into()),
            (KeySource::Field(field), Some(value)) => {
                let key = field.key_in(value)?;
                record.key = key.map(|key| Cow::Owned(key.into_owned()));
            }
        }
        Ok(())
    }
}

fn split<'a>(piece: &'a [u8], separator: Option<&[u8]>) -> (Option<&'a [u8]>, &'a [u8]) {
    let Some(separator) = separator else { return (None, piece) };
    match piece.windows(separator.len()).position(|window| window == separator) {
        Some(at) => (Some(&piece[..at]), &piece[at + separator.len()..]),
        None => (None, piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(key_separator: &str) -> PlainForm {
        PlainForm {
            key_separator: Some(key_separator.as_bytes().to_vec()),
            key_encoding: ByteEncoding::Raw,
            value_encoding: ByteEncoding::Raw,
            empty_is_tombstone: false,
        }
    }

    #[test]
    fn lines_are_split_at_the_first_separator() {
        let split = |line| split(line, Some(b"\t"));
        assert_eq!(split(b"k\tv\tw"), (Some(&b"k"[..]), &b"v\tw"[..]));
        assert_eq!(split(b"\tv"), (Some(&b""[..]), &b"v"[..]));
        assert_eq!(split(b"k\t"), (Some(&b"k"[..]), &b""[..]));
        assert_eq!(split(b"v"), (None, &b"v"[..]));
        assert_eq!(split(b""), (None, &b""[..]));
    }

    #[test]
    fn keys_and_values_are_decoded() {
        let form = PlainForm {
            key_encoding: ByteEncoding::Hex,
            value_encoding: ByteEncoding::Base64,
            ..plain(":")
        };
        let record = form.read(b"ff00:/wA=").expect("a record");
        assert_eq!(record.key.as_deref(), Some(&b"\xff\0"[..]));
        assert_eq!(record.value.as_deref(), Some(&b"\xff\0"[..]));
        let error = form.read(b"f:").expect_err("half a byte");
        assert!(error.starts_with("the key: "), "{error}");
        assert!(form.read(b"ff:!").is_err_and(|error| error.starts_with("the value: ")));
    }

    #[test]
    fn empty_values_are_tombstones_if_that_is_asked_for() {
        let value = |empty_is_tombstone, piece| {
            let form = PlainForm { empty_is_tombstone, ..plain(":") };
            form.read(piece).map(|record| record.value.map(|value| value.into_owned()))
        };
        assert_eq!(value(true, b"k:"), Ok(None));
        assert_eq!(value(false, b"k:"), Ok(Some(Vec::new())));
        assert_eq!(value(true, b"k:v"), Ok(Some(b"v".to_vec())));
    }

    #[test]
    fn a_key_can_come_from_elsewhere() {
        let field = KeySource::Field(KeyField::parse("id").expect("a field"));
        let fixed = KeySource::Fixed(b"k".to_vec());
        let key = |source: &KeySource, piece| {
            let mut record = plain(":").read(piece).expect("a record");
            source.apply(&mut record).map(|()| record.key.map(|key| key.into_owned()))
        };
        assert_eq!(key(&KeySource::Input, b"a:b"), Ok(Some(b"a".to_vec())));
        assert_eq!(key(&fixed, b"v"), Ok(Some(b"k".to_vec())));
        assert_eq!(key(&field, b"x:{\"id\":7}"), Ok(Some(b"7".to_vec())));
        let mut tombstone = InputRecord::default();
        assert!(field.apply(&mut tombstone).is_err());
    }
}
