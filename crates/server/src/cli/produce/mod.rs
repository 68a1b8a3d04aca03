//! `logway produce`.

mod args;
mod blocks;
mod delimiter;
mod input;
mod input_record;
mod json_input;
mod key_field;
mod pieces;
mod progress;
mod report;
mod text;
mod transaction;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use logway_client::{ClientError, NewRecord, Producer, ProducerOptions};
use logway_model::PartitionId;
use logway_record::Header;
use tokio::sync::mpsc;

pub(super) use self::args::ProduceArgs;
use self::args::{InputFormat, PartitionChoice};
use self::blocks::Block;
use self::delimiter::Delimiter;
use self::input_record::{InputForm, InputRecord, KeySource};
use self::progress::Progress;
use self::report::Counted;
pub(super) use self::report::Report;
use super::GlobalArgs;
use super::ends::{Ends, Second};
use super::error::CliError;
use super::output::{self, Format};
use super::timestamp;

/// How long what was read may take to be acknowledged when the user has had enough, and how long what
/// was sent may take to be answered after a failure.
const LAST_FLUSH: Duration = Duration::from_secs(3);

pub(super) async fn run(args: ProduceArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let mut ends = Ends::listen(Second::Told)?;
    let source = Source::new(&args)?;
    let size = input::look_at(&args.files, source.expects_text)?;
    let options = ProducerOptions {
        acks: args.acks,
        transaction: args.transaction()?,
        compression: args.compression,
        ..ProducerOptions::default()
    };
    let client = global.client()?;
    let started = Instant::now();
    let mut producer = tokio::select! {
        opened = Producer::open(client, args.topic.clone(), options) => opened?,
        end = ends.any() => return Err(CliError::Ended(end)),
    };
    let blocks = blocks::read(args.files.clone(), source.delimiter.clone(), source.expects_text)?;
    if args.files.iter().any(|file| file == "-") && io::stdin().is_terminal() {
        eprintln!("reading from the terminal until Ctrl-D");
    }
    let progress = Progress::start(size);
    let sent = tokio::select! {
        sent = source.send(blocks, &mut producer, &progress, args.transaction_records) => sent,
        end = ends.any() => Err(CliError::Ended(end)),
    };
    progress.finish();
    let outcome = match args.transactional_id {
        Some(_) => transaction::finish(sent, &mut producer, &mut ends).await,
        None => finish(sent, &mut producer, &mut ends).await,
    };
    if matches!(&outcome, Err(error) if error.is_of_cluster()) {
        tokio::select! {
            () = producer.settle() => {}
            () = tokio::time::sleep(LAST_FLUSH) => {}
            _ = ends.any() => {}
        }
    }
    let summary = producer.summary();
    let unacknowledged = producer.unacknowledged();
    let has_news = summary.records > 0 || unacknowledged.records() > 0;
    if has_news || matches!(outcome, Ok(()) | Err(CliError::Ended(_))) {
        let elapsed = started.elapsed();
        eprintln!("{}", report::line(&args.topic, args.acks, &summary, elapsed));
        let committed = producer.committed();
        committed.iter().for_each(|committed| eprintln!("{}", report::committed_line(committed)));
        for line in report::unacknowledged_lines(&unacknowledged) {
            eprintln!("{line}");
        }
        if global.format == Format::Json {
            let counted = Counted { summary, unacknowledged, committed };
            output::print_json(&report::json(&args.topic, &counted, elapsed))?;
        }
    }
    outcome
}

/// Has what was read acknowledged, also when the rest cannot be read or the user does not want it.
async fn finish(
    sent: Result<(), CliError>,
    producer: &mut Producer,
    ends: &mut Ends,
) -> Result<(), CliError> {
    let is_ended = matches!(sent, Err(CliError::Ended(_)));
    if let Err(error) = &sent
        && error.is_of_cluster()
    {
        return sent;
    }
    let patience = async {
        match is_ended {
            true => tokio::time::sleep(LAST_FLUSH).await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        flushed = producer.flush() => sent.and(flushed.map_err(CliError::from)),
        end = ends.any() => sent.and(Err(CliError::Ended(end))),
        () = patience => sent,
    }
}

/// Where records come from, and how.
#[derive(Debug)]
struct Source {
    delimiter: Delimiter,
    /// Whether the input is to be text, because nobody has said how else to cut it.
    expects_text: bool,
    form: InputForm,
    keys: KeySource,
    partition: Option<PartitionChoice>,
    headers: Vec<Header>,
}

impl Source {
    fn new(args: &ProduceArgs) -> Result<Source, CliError> {
        Ok(Source {
            expects_text: args.delimiter.is_none() && args.input_format == InputFormat::Text,
            delimiter: args.delimiter.clone().unwrap_or_default(),
            form: args.form()?,
            keys: args.key_source()?,
            partition: args.partition,
            headers: args.headers.clone(),
        })
    }

    /// Hands each record to the producer.
    async fn send(
        &self,
        mut blocks: mpsc::Receiver<Result<Block, CliError>>,
        producer: &mut Producer,
        progress: &Progress,
        transaction_records: Option<u64>,
    ) -> Result<(), CliError> {
        let mut sent_records: u64 = 0;
        while let Some(block) = blocks.recv().await {
            let block = block?;
            for remark in &block.remarks {
                progress.say(&format!("warning: {remark}"));
            }
            for (number, piece) in block.pieces() {
                progress.advance((piece.len() + self.delimiter.bytes().len()) as u64);
                let record = self.record(piece).map_err(|problem| {
                    let (noun, name) = (self.delimiter.noun(), &block.name);
                    CliError::Input(format!("{noun} {number} of {name}: {problem}"))
                });
                if let Some(record) = record.map_err(|error| self.with_advice(error))? {
                    let sent = producer.send(self.new_record(&record)).await;
                    sent.map_err(|error| self.with_advice_on_partition(error))?;
                    sent_records += 1;
                    if transaction_records.is_some_and(|count| sent_records.is_multiple_of(count)) {
                        producer.commit().await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// What a piece stands for, with all that the command line adds.
    fn record<'a>(&'a self, piece: &'a [u8]) -> Result<Option<InputRecord<'a>>, String> {
        let Some(mut record) = self.form.read(piece)? else { return Ok(None) };
        self.keys.apply(&mut record)?;
        match self.partition {
            None => {}
            Some(PartitionChoice::Auto) => record.partition = None,
            Some(PartitionChoice::Number(number)) => record.partition = Some(PartitionId(number)),
        }
        if !record.headers.is_empty() {
            record.headers.extend(self.headers.iter().cloned());
        }
        Ok(Some(record))
    }

    fn new_record<'r>(&'r self, record: &'r InputRecord<'r>) -> NewRecord<'r> {
        let is_without = record.headers.is_empty();
        NewRecord {
            partition: record.partition,
            timestamp: record.timestamp.unwrap_or_else(timestamp::now),
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: if is_without { &self.headers } else { &record.headers },
        }
    }

    fn with_advice(&self, error: CliError) -> CliError {
        match self.form {
            InputForm::Json => error.with_hint(
                "each line is one record as 'logway consume --format json' prints it; 'jq -c .' puts \
                 JSON on one line",
            ),
            InputForm::Plain(_) => error,
        }
    }

    /// Partitions that the input names may be those of another topic.
    fn with_advice_on_partition(&self, error: ClientError) -> CliError {
        let is_of_input = matches!(self.form, InputForm::Json) && self.partition.is_none();
        match error {
            ClientError::NoSuchPartition { .. } if is_of_input => CliError::from(error).with_hint(
                "the input names the partition; '-p auto' leaves it to the key's hash instead",
            ),
            error => error.into(),
        }
    }
}
