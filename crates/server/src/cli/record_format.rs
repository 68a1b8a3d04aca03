//! How records are printed.

use std::io::{self, Write};

use clap::Args;
use logway_model::TopicPartition;
use logway_record::Record;

use super::byte_encoding::ByteEncoding;
use super::error::CliError;
use super::json_record::JsonRecord;
use super::output::Format;
use super::template::Template;

/// How keys and values are printed.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(super) struct Encodings {
    /// How to print keys: as they are, or in hexadecimal digits or base64. JSON has bytes that are
    /// not UTF-8 in base64 anyway
    #[arg(
        id = "key_encoding",
        long = "key-encoding",
        value_enum,
        default_value_t,
        value_name = "ENCODING"
    )]
    pub(super) key: ByteEncoding,
    /// How to print values
    #[arg(
        id = "value_encoding",
        long = "value-encoding",
        value_enum,
        default_value_t,
        value_name = "ENCODING"
    )]
    pub(super) value: ByteEncoding,
}

/// How records are printed: as the user's template says, or one line of JSON each.
#[derive(Debug, Clone)]
pub(super) enum RecordFormat {
    Template(Template),
    Json(Encodings),
}

impl RecordFormat {
    /// Chooses by the options that have to do with it.
    pub(super) fn new(
        format: Format,
        template: Option<Template>,
        encodings: Encodings,
    ) -> Result<RecordFormat, CliError> {
        match (format, template) {
            (Format::Text, template) => {
                let template = template.unwrap_or_default().with(encodings);
                template.map(RecordFormat::Template).map_err(CliError::Usage)
            }
            (Format::Json, None) => Ok(RecordFormat::Json(encodings)),
            (Format::Json, Some(_)) => {
                Err(CliError::Usage("-f has no place beside --format json".to_owned()))
            }
        }
    }

    /// Writes a record.
    pub(super) fn write(
        &self,
        out: &mut impl Write,
        partition: &TopicPartition,
        record: &Record,
    ) -> io::Result<()> {
        match self {
            RecordFormat::Template(template) => template.write(out, partition, record),
            RecordFormat::Json(encodings) => {
                serde_json::to_writer(&mut *out, &JsonRecord::new(partition, record, *encodings))?;
                out.write_all(b"\n")
            }
        }
    }
}
