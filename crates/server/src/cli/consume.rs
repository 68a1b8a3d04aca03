//! `logway consume`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};

use clap::Args;
use logway_client::{
    Client, ClientError, Consumer, ConsumerOptions, FetchEvent, FetchedRecords, MissingTopic,
    StartAt,
};
use logway_model::{PartitionId, TopicName, TopicPartition};

use super::GlobalArgs;
use super::error::CliError;
use super::offset_spec::OffsetSpec;
use super::output::OUTPUT_BUFFER_BYTES;
use super::record_format::RecordFormat;
use super::template::Template;

/// Read records of topics
///
/// Without -n or -e it follows the topics for ever.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway consume events                         everything, and then what comes
  logway consume events -e                      everything there is, then stop
  logway consume events -o end                  only what comes
  logway consume events -o -10 -e -p 0          the last 10 of partition 0
  logway consume events -o @2026-01-31T00:00:00Z --format json
  logway consume events -f '%p:%o %k=%v\\n'

Template:
  %t topic   %p partition   %o offset   %T timestamp, ms
  %k key     %K its size    %v value    %V its size (-1 if there is none)
  %h headers, as KEY=VALUE,...   %% a percent sign
  \\n \\t \\r \\0 \\\\ \\xHH   bytes")]
pub(super) struct ConsumeArgs {
    /// Topics to read
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<TopicName>,
    /// Where to begin: start, end, an offset, -COUNT (before the end) or @TIME (milliseconds or
    /// RFC 3339)
    #[arg(short, long, default_value = "start", allow_hyphen_values = true)]
    offset: OffsetSpec,
    /// Stop after COUNT records
    #[arg(short = 'n', long = "count", value_name = "COUNT")]
    count: Option<u64>,
    /// Partition to read; repeatable [default: all]
    #[arg(
        short,
        long = "partition",
        value_name = "PARTITION",
        value_delimiter = ',',
        value_parser = clap::value_parser!(i32).range(0..)
    )]
    partitions: Vec<i32>,
    /// Stop at what is the end when the command starts
    #[arg(short, long)]
    exit_at_end: bool,
    /// How to print a record [default: %v\n]
    #[arg(short = 'f', long, value_name = "TEMPLATE", value_parser = Template::parse)]
    template: Option<Template>,
}

pub(super) async fn run(args: ConsumeArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let format = RecordFormat::new(global.format, args.template.clone())?;
    let client = global.brokers.client()?;
    if args.count == Some(0) {
        return Ok(());
    }
    let assignment = assignment(&client, &args).await?;
    let options = ConsumerOptions { stops_at_end: args.exit_at_end, ..ConsumerOptions::default() };
    let consumer = Consumer::open(&client, &assignment, options).await?;
    let stdout = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, io::stdout().lock());
    let mut printer = Printer { out: stdout, format, remaining: args.count };
    let outcome = print_all(consumer, &mut printer).await;
    // What came before an error has been read as well.
    outcome.and(printer.out.flush().map_err(CliError::Output))
}

/// The chosen partitions of each topic, or all of them.
async fn assignment(
    client: &Client,
    args: &ConsumeArgs,
) -> Result<BTreeMap<TopicPartition, StartAt>, CliError> {
    let topics: BTreeSet<TopicName> = args.topics.iter().cloned().collect();
    let metadata = client.await_topics(&topics, MissingTopic::Refuse).await?;
    let mut assignment = BTreeMap::new();
    for topic in topics {
        let existing = metadata.topics.get(&topic).map(|topic| topic.partitions.as_slice());
        let existing = existing.unwrap_or_default();
        let chosen: Vec<PartitionId> = match args.partitions.is_empty() {
            true => existing.iter().map(|partition| partition.id).collect(),
            false => args.partitions.iter().copied().map(PartitionId).collect(),
        };
        for partition in chosen {
            if !existing.iter().any(|known| known.id == partition) {
                let partitions = existing.len();
                return Err(ClientError::NoSuchPartition { topic, partition, partitions }.into());
            }
            assignment.insert(TopicPartition::new(topic.clone(), partition), args.offset.0);
        }
    }
    Ok(assignment)
}

async fn print_all(
    mut consumer: Consumer,
    printer: &mut Printer<impl Write>,
) -> Result<(), CliError> {
    loop {
        if !consumer.is_ready() {
            // Nothing to do but wait: let the reader see what there is.
            printer.out.flush().map_err(CliError::Output)?;
        }
        let Some(events) = consumer.next().await? else { return Ok(()) };
        for event in events {
            match event {
                FetchEvent::Skipped { partition, from, to } => eprintln!(
                    "warning: {partition}: offsets {from} to {} exist no more; going on at {to}",
                    to + -1
                ),
                FetchEvent::Records(records) => {
                    if printer.print_batches(&records)? == Wanted::Nothing {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Whether more records are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    More,
    Nothing,
}

/// Writes records until as many as were asked for are written.
struct Printer<W> {
    out: W,
    format: RecordFormat,
    /// How many more are wanted, if there is a limit.
    remaining: Option<u64>,
}

impl<W: Write> Printer<W> {
    fn print_batches(&mut self, records: &FetchedRecords) -> Result<Wanted, CliError> {
        for record in records.records() {
            let written = self.format.write(&mut self.out, records.partition(), &record?);
            written.map_err(CliError::Output)?;
            if let Some(remaining) = &mut self.remaining {
                *remaining -= 1;
                if *remaining == 0 {
                    return Ok(Wanted::Nothing);
                }
            }
        }
        Ok(Wanted::More)
    }
}
