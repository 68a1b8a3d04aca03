//! `logway produce`.

mod input;
mod lines;
mod progress;
mod report;

use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use logway_client::{Acks, NewRecord, ProduceSummary, Producer, ProducerOptions};
use logway_model::{PartitionId, TopicName};
use logway_record::{Compression, Header};

use self::input::Input;
use self::lines::Lines;
use self::progress::Progress;
use super::GlobalArgs;
use super::error::CliError;
use super::escape::unescape;
use super::hint::Subject;
use super::output::{self, Format};
use super::timestamp;

/// Write records to a topic: one per line of a file or stdin
///
/// Lines are bytes and need not be UTF-8. The line end is not part of the record. The topic is
/// created if the broker creates topics on first use.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  echo hello | logway produce greetings
  logway produce logs /var/log/dpkg.log -z zstd
  logway produce users users.tsv -k '\\t' -H source=import")]
pub(super) struct ProduceArgs {
    /// Topic to write to
    topic: TopicName,
    /// File to read; - is stdin
    #[arg(default_value = "-")]
    file: String,
    /// Split each line into key and value at the first SEPARATOR; a line without one has no key.
    /// Escapes are \n \t \r \0 \\ \xHH
    #[arg(short, long, value_name = "SEPARATOR", value_parser = parse_separator)]
    key_separator: Option<Separator>,
    /// Header for each record; repeatable
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE", value_parser = parse_header)]
    headers: Vec<Header>,
    /// Partition to write to [default: by the key's hash; without a key one partition for a whole
    /// batch, then the next]
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Compression of the batches
    #[arg(short = 'z', long, default_value = "none", value_parser = compression_parser())]
    compression: Compression,
    /// Who has to store a record: nobody, the leader, or all in-sync replicas
    #[arg(long, default_value = "all", value_parser = acks_parser())]
    acks: Acks,
    /// Send a record without a value, a tombstone, where the value is empty
    #[arg(long)]
    tombstone: bool,
}

/// At least one byte.
#[derive(Debug, Clone)]
struct Separator(Vec<u8>);

fn parse_separator(text: &str) -> Result<Separator, String> {
    match unescape(text)? {
        bytes if bytes.is_empty() => Err("the separator is empty".to_owned()),
        bytes => Ok(Separator(bytes)),
    }
}

fn parse_header(text: &str) -> Result<Header, String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok(Header::new(key.to_owned(), Some(value.to_owned().into())))
}

fn compression_parser() -> impl TypedValueParser<Value = Compression> {
    PossibleValuesParser::new(Compression::ALL.map(Compression::name))
        .map(|name| name.parse().expect("only names of codecs are accepted"))
}

fn acks_parser() -> impl TypedValueParser<Value = Acks> {
    PossibleValuesParser::new(["0", "1", "all"]).map(|name| match name.as_str() {
        "0" => Acks::None,
        "1" => Acks::Leader,
        _ => Acks::All,
    })
}

impl ProduceArgs {
    /// What a failure would be about.
    pub(super) fn subject(&self) -> Subject {
        Subject { topic: Some(self.topic.to_string()), ..Subject::default() }
    }
}

pub(super) async fn run(args: ProduceArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let input = Input::open(&args.file)?;
    let progress = Progress::start(input.size);
    let started = Instant::now();
    let options = ProducerOptions {
        acks: args.acks,
        compression: args.compression,
        ..ProducerOptions::default()
    };
    let client = global.brokers.client()?;
    let mut producer = Producer::open(client, args.topic.clone(), options).await?;
    let outcome = send_lines(&args, input, &mut producer, &progress).await;
    progress.finish();
    let (outcome, summary) = match outcome {
        // What was read is still sent, also when the rest cannot be read.
        Ok(()) | Err(CliError::Input(_) | CliError::Io { .. }) => {
            let flushed = producer.flush().await.map_err(CliError::from);
            (outcome.and(flushed), producer.summary())
        }
        Err(_) => (outcome, producer.summary()),
    };
    if outcome.is_ok() || summary.records > 0 {
        report(&args, global, &summary, started)?;
    }
    outcome
}

/// Reads lines and hands each over as a record.
async fn send_lines(
    args: &ProduceArgs,
    input: Input,
    producer: &mut Producer,
    progress: &Progress,
) -> Result<(), CliError> {
    let mut lines = Lines::new(input.reader, input.name);
    while let Some(line) = lines.next_line()? {
        progress.advance(line.len() as u64 + 1);
        let (key, value) = split(line, args.key_separator.as_ref());
        let is_tombstone = args.tombstone && value.is_empty();
        let record = NewRecord {
            partition: args.partition.map(PartitionId),
            timestamp: timestamp::now(),
            key,
            value: (!is_tombstone).then_some(value),
            headers: &args.headers,
        };
        producer.send(record).await?;
    }
    Ok(())
}

fn split<'a>(line: &'a [u8], separator: Option<&Separator>) -> (Option<&'a [u8]>, &'a [u8]) {
    let Some(Separator(separator)) = separator else { return (None, line) };
    match line.windows(separator.len()).position(|window| window == separator) {
        Some(at) => (Some(&line[..at]), &line[at + separator.len()..]),
        None => (None, line),
    }
}

fn report(
    args: &ProduceArgs,
    global: &GlobalArgs,
    summary: &ProduceSummary,
    started: Instant,
) -> Result<(), CliError> {
    let elapsed = started.elapsed();
    eprintln!("{}", report::line(&args.topic, args.acks, summary, elapsed));
    match global.format {
        Format::Text => Ok(()),
        Format::Json => output::print_json(&report::json(&args.topic, summary, elapsed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_at_the_first_separator() {
        let separator = parse_separator(r"\t").expect("a tab");
        let split = |line| split(line, Some(&separator));
        assert_eq!(split(b"k\tv\tw"), (Some(&b"k"[..]), &b"v\tw"[..]));
        assert_eq!(split(b"\tv"), (Some(&b""[..]), &b"v"[..]));
        assert_eq!(split(b"k\t"), (Some(&b"k"[..]), &b""[..]));
        assert_eq!(split(b"v"), (None, &b"v"[..]));
        assert_eq!(split(b""), (None, &b""[..]));
        assert!(parse_separator("").is_err());
    }

    #[test]
    fn headers_may_hold_equals_signs() {
        let header = parse_header("a=b=c").expect("a header");
        assert_eq!(header, Header::new("a", Some("b=c".into())));
        assert!(parse_header("a").is_err());
    }
}
