//! `logway log dump`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use logway_log::fs::RealFs;
use logway_log::inspect::{self, Damage, PlacedBatch, SegmentFile, Walked};
use logway_model::TopicPartition;
use logway_record::{Batch, DecodeLimit};

use super::batch_row::BatchRow;
use super::{count_of_problems, group_record, partition_dirs};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{Format, OUTPUT_BUFFER_BYTES};
use crate::cli::record_format::{Encodings, RecordFormat};
use crate::cli::template::Template;

/// Print what the segments of partitions hold: a line per batch, or per record
///
/// Nothing is changed, and a broker may be running. Without -f, records of __consumer_offsets are put
/// into words.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway log dump logway-data/events-0
  logway log dump logway-data --records -f '%t-%p %o %k=%v\\n'
  logway log dump logway-data/events-0 --format json")]
pub(in crate::cli) struct DumpArgs {
    /// Data directories, or directories of partitions
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Print the records, those that transactions leave for the brokers' own use aside
    #[arg(long)]
    records: bool,
    /// How to print a record; see 'logway consume --help' [default: %v\n]
    #[arg(
        short = 'f',
        long,
        value_name = "TEMPLATE",
        requires = "records",
        value_parser = Template::parse
    )]
    template: Option<Template>,
}

pub(super) fn run(args: &DumpArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let what = match args.records {
        true => What::Records {
            format: RecordFormat::new(global.format, args.template.clone(), Encodings::default())?,
            explains_groups: global.format == Format::Text && args.template.is_none(),
        },
        false => What::Batches(global.format),
    };
    let out = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, io::stdout().lock());
    let mut dump = Dump { out, what, problems: 0 };
    for dir in partition_dirs(&args.dirs)? {
        dump.partition(&dir)?;
    }
    dump.out.flush().map_err(CliError::Output)?;
    match dump.problems {
        0 => Ok(()),
        problems => Err(CliError::Damaged {
            problems: count_of_problems(problems),
            dirs: args.dirs.clone(),
        }),
    }
}

/// What to print.
enum What {
    Batches(Format),
    Records {
        format: RecordFormat,
        /// Whether those about groups, which are no text, are put into words.
        explains_groups: bool,
    },
}

/// Prints batches or records. What cannot be read is reported and passed over.
struct Dump<W> {
    out: W,
    what: What,
    problems: u64,
}

impl<W: Write> Dump<W> {
    fn partition(&mut self, dir: &Path) -> Result<(), CliError> {
        let name = dir.file_name().and_then(|name| name.to_str());
        let Some(partition) = name.and_then(TopicPartition::from_dir_name) else {
            self.problem(format_args!("{} is not named as a partition is", dir.display()));
            return Ok(());
        };
        for segment in inspect::segments(&RealFs, dir)? {
            self.segment(&partition, &segment)?;
        }
        Ok(())
    }

    fn segment(
        &mut self,
        partition: &TopicPartition,
        segment: &SegmentFile,
    ) -> Result<(), CliError> {
        if let What::Batches(Format::Text) = self.what {
            writeln!(self.out, "{}", segment.path.display()).map_err(CliError::Output)?;
        }
        for walked in segment.batches(&RealFs)? {
            match walked? {
                Walked::Batch(placed) => self.batch(partition, segment, &placed)?,
                Walked::Damage(Damage { position, reason, lost, .. }) => {
                    let path = segment.path.display();
                    self.problem(format_args!("{path} at byte {position}: {reason}; {lost} lost"));
                }
            }
        }
        Ok(())
    }

    fn batch(
        &mut self,
        partition: &TopicPartition,
        segment: &SegmentFile,
        placed: &PlacedBatch,
    ) -> Result<(), CliError> {
        let row = || BatchRow::new(partition, segment, placed);
        match &self.what {
            What::Records { .. } => return self.records(partition, segment, placed),
            What::Batches(Format::Text) => writeln!(self.out, "  {}", row().line()),
            What::Batches(Format::Json) => serde_json::to_writer(&mut self.out, &row())
                .map_err(io::Error::from)
                .and_then(|()| self.out.write_all(b"\n")),
        }
        .map_err(CliError::Output)
    }

    fn records(
        &mut self,
        partition: &TopicPartition,
        segment: &SegmentFile,
        placed: &PlacedBatch,
    ) -> Result<(), CliError> {
        let What::Records { format, explains_groups } = &self.what else { return Ok(()) };
        if is_control(&placed.batch) {
            return Ok(());
        }
        let explains = *explains_groups && group_record::is_kept_in(&partition.topic);
        let mut records = match placed.batch.records(DecodeLimit::DEFAULT) {
            Ok(records) => records,
            Err(error) => {
                self.problem(format_args!("{}: {error}", segment.path.display()));
                return Ok(());
            }
        };
        let unreadable = loop {
            match records.next() {
                Some(Ok(record)) => {
                    let written = match explains.then(|| group_record::line(&record)).flatten() {
                        Some(line) => writeln!(self.out, "{line}"),
                        None => format.write(&mut self.out, partition, &record),
                    };
                    written.map_err(CliError::Output)?;
                }
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        if let Some(error) = unreadable {
            self.problem(format_args!("{}: {error}", segment.path.display()));
        }
        Ok(())
    }

    fn problem(&mut self, problem: std::fmt::Arguments<'_>) {
        self.problems += 1;
        eprintln!("problem: {problem}");
    }
}

fn is_control(batch: &Batch) -> bool {
    batch.header().attributes.is_control()
}
