//! Printing what was read.

use std::io::{self, BufWriter, StdoutLock, Write};

use logway_client::FetchedRecords;
use logway_model::{Offset, TopicPartition};
use logway_record::Record;

use crate::cli::error::CliError;
use crate::cli::output::OUTPUT_BUFFER_BYTES;
use crate::cli::record_format::RecordFormat;

/// Whether more records are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    More,
    Nothing,
}

/// How far printing has got in a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Printed {
    /// What comes next there.
    pub(super) next: Offset,
    pub(super) wanted: Wanted,
}

/// Writes records until as many as were asked for are written.
#[derive(Debug)]
pub(super) struct Printer<W> {
    out: W,
    format: RecordFormat,
    /// How many more are wanted, if there is a limit.
    remaining: Option<u64>,
}

impl Printer<BufWriter<StdoutLock<'static>>> {
    /// Prints to stdout.
    pub(super) fn new(format: RecordFormat, count: Option<u64>) -> Self {
        let out = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, io::stdout().lock());
        Printer { out, format, remaining: count }
    }
}

impl<W: Write> Printer<W> {
    /// Prints the records in some batches, as many as are wanted.
    pub(super) fn print_batches(&mut self, records: &FetchedRecords) -> Result<Printed, CliError> {
        for record in records.records() {
            let record = record?;
            if self.print(records.partition(), &record)? == Wanted::Nothing {
                return Ok(Printed { next: record.offset.next(), wanted: Wanted::Nothing });
            }
        }
        Ok(Printed { next: records.next_offset(), wanted: Wanted::More })
    }

    /// Prints a record.
    pub(super) fn print(
        &mut self,
        partition: &TopicPartition,
        record: &Record,
    ) -> Result<Wanted, CliError> {
        let written = self.format.write(&mut self.out, partition, record);
        written.map_err(CliError::Output)?;
        let Some(remaining) = &mut self.remaining else { return Ok(Wanted::More) };
        *remaining -= 1;
        match *remaining {
            0 => Ok(Wanted::Nothing),
            _ => Ok(Wanted::More),
        }
    }

    /// Lets the reader see what there is.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::Output)
    }
}

/// Tells of records that are gone although they were asked for.
pub(super) fn warn(partition: &TopicPartition, from: Offset, to: Offset) {
    let last = to + -1;
    eprintln!("warning: {partition}: offsets {from} to {last} exist no more; going on at {to}");
}

/// Says that records are of another topic from now on.
pub(super) fn warn_of_other_topic(partition: &TopicPartition, to: Offset) {
    eprintln!(
        "warning: {partition}: the topic was deleted and made again; going on at {to} of the new one"
    );
}
