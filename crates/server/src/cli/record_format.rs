//! How records are printed.

use std::io::{self, Write};

use logway_model::TopicPartition;
use logway_record::Record;

use super::error::CliError;
use super::json_record::JsonRecord;
use super::output::Format;
use super::template::Template;

/// How records are printed: as the user's template says, or one line of JSON each.
#[derive(Debug, Clone)]
pub(super) enum RecordFormat {
    Template(Template),
    Json,
}

impl RecordFormat {
    /// Chooses by the two options that have to do with it.
    pub(super) fn new(
        format: Format,
        template: Option<Template>,
    ) -> Result<RecordFormat, CliError> {
        match (format, template) {
            (Format::Text, template) => Ok(RecordFormat::Template(template.unwrap_or_default())),
            (Format::Json, None) => Ok(RecordFormat::Json),
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
            RecordFormat::Json => {
                serde_json::to_writer(&mut *out, &JsonRecord::new(partition, record))?;
                out.write_all(b"\n")
            }
        }
    }
}
