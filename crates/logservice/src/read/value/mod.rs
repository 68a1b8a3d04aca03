//! Values as expressions and projections see them: what JSON has, whatever a value is encoded in.
//!
//! | file | idea |
//! |---|---|
//! | [`budget`] | the bound on what one value may become |
//! | [`bytes`] | what is left of a value |
//! | [`avro`] | values that an Avro schema describes |
//! | [`protobuf`] | messages of Protocol Buffers |
//!
//! The decoders are our own, since those of the crates make of a few bytes as much as these say. Here all that is made is counted.

mod avro;
mod budget;
mod bytes;
mod protobuf;

use serde_json::{Number, Value as Json};

use crate::grpc::status::{Code, Status};
use crate::messages::log::ValueSchema;
use crate::messages::log::value_schema::Schema;
use budget::{Budget, PART_BYTES};

/// Larger values are not read.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// How deep the parts of a value may be within each other, as in JSON.
const DEPTH_MAX: usize = 128;

/// The longest beginning that is no part of a value.
const SKIP_BYTES_MAX: u32 = 64;

/// Why a value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("the value is no JSON: {0}")]
    NoJson(String),
    #[error("the value does not follow the Avro schema: {0}")]
    NoAvro(Misfit),
    #[error("the value is no such message: {0}")]
    NoMessage(Misfit),
    #[error("the value has {0} bytes, and {VALUE_BYTES_MAX} are the most")]
    TooLong(usize),
    #[error("the value has {0} bytes, and {1} are to be skipped")]
    TooShort(usize, usize),
}

/// Why bytes do not follow their schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misfit {
    #[error("it ends too early")]
    Short,
    #[error("{0} bytes are left behind it")]
    Left(usize),
    #[error("it is more than {DEPTH_MAX} deep")]
    Deep,
    #[error("it has too many parts")]
    Large,
    #[error("{0}")]
    Wrong(&'static str),
}

/// How values are read.
#[derive(Debug, Clone)]
pub(crate) struct ValueReader {
    encoding: Encoding,
    skip_bytes: usize,
}

#[derive(Debug, Clone)]
enum Encoding {
    Json,
    Avro(avro::Schema),
    Protobuf(protobuf::Schema),
}

impl ValueReader {
    /// As a client says it; fails where that is no schema.
    pub(crate) fn new(schema: Option<&ValueSchema>) -> Result<ValueReader, Status> {
        let skip_bytes = schema.map_or(0, |schema| schema.skip_bytes);
        if skip_bytes > SKIP_BYTES_MAX {
            let message = format!("value_schema.skip_bytes is {SKIP_BYTES_MAX} at most");
            return Err(Status::invalid(message).remedy("name the bytes before each value alone"));
        }
        let refused = |what: &str, why: String, remedy: &'static str| {
            let message = format!("value_schema.{what}: {why}");
            Status::new(Code::InvalidArgument, "INVALID_SCHEMA", message).remedy(remedy)
        };
        let encoding = match schema.and_then(|schema| schema.schema.as_ref()) {
            None => Encoding::Json,
            Some(Schema::Avro(text)) => {
                let remedy = "send the schema that the values were written with, as JSON";
                let schema = avro::Schema::new(text);
                Encoding::Avro(schema.map_err(|why| refused("avro", why, remedy))?)
            }
            Some(Schema::Protobuf(described)) => {
                let remedy = "send what protoc --include_imports --descriptor_set_out writes, \
                              and the full name of a message in it";
                let schema = protobuf::Schema::new(described);
                Encoding::Protobuf(schema.map_err(|why| refused("protobuf", why, remedy))?)
            }
        };
        let skip_bytes = usize::try_from(skip_bytes).unwrap_or(usize::MAX);
        Ok(ValueReader { encoding, skip_bytes })
    }

    /// About how many bytes its schema keeps.
    pub(crate) fn kept_bytes(&self) -> usize {
        match &self.encoding {
            Encoding::Json => 0,
            Encoding::Avro(schema) => schema.kept_bytes(),
            Encoding::Protobuf(schema) => schema.kept_bytes(),
        }
    }

    /// The text of a value that is JSON; `None` where values are something else.
    pub(crate) fn json_text<'a>(&self, bytes: &'a [u8]) -> Option<Result<&'a [u8], ValueError>> {
        match self.encoding {
            Encoding::Json => Some(self.within(bytes)),
            Encoding::Avro(_) | Encoding::Protobuf(_) => None,
        }
    }

    fn within<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], ValueError> {
        bytes.get(self.skip_bytes..).ok_or(ValueError::TooShort(bytes.len(), self.skip_bytes))
    }

    /// Reads a value; adds what that took to the bytes that were worked on.
    pub(crate) fn read(&self, bytes: &[u8], worked_bytes: &mut usize) -> Result<Json, ValueError> {
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(ValueError::TooLong(bytes.len()));
        }
        let bytes = self.within(bytes)?;
        let mut budget = Budget::default();
        let read = match &self.encoding {
            Encoding::Json => {
                serde_json::from_slice(bytes).map_err(|error| ValueError::NoJson(error.to_string()))
            }
            Encoding::Avro(schema) => schema.read(bytes, &mut budget).map_err(ValueError::NoAvro),
            Encoding::Protobuf(schema) => {
                schema.read(bytes, &mut budget).map_err(ValueError::NoMessage)
            }
        };
        *worked_bytes += budget.used_bytes();
        read
    }
}

/// What JSON has no number for is a text, as in the JSON of Protocol Buffers.
fn double(number: f64) -> Json {
    match Number::from_f64(number) {
        Some(number) => Json::Number(number),
        None if number.is_nan() => Json::from("NaN"),
        None if number > 0.0 => Json::from("Infinity"),
        None => Json::from("-Infinity"),
    }
}
