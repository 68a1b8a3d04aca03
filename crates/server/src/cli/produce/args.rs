//! What `logway produce` is told.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use logway_client::{Acks, TransactionOptions};
use logway_model::TopicName;
use logway_record::{Compression, Header};

use super::delimiter::Delimiter;
use super::input_record::{InputForm, KeySource, PlainForm};
use super::key_field::KeyField;
use crate::cli::byte_encoding::ByteEncoding;
use crate::cli::error::CliError;
use crate::cli::escape::unescape;
use crate::cli::hint::Subject;
use crate::cli::timestamp;

/// Write records to a topic: one per line of files or stdin, or cut otherwise
///
/// The line end is not part of the record. Input that does not begin as text is refused, since an
/// image or an Avro file cut at line ends is of no use; -d says how to cut it. The topic is created
/// if the broker creates topics on first use. Ctrl-C ends it with what was read before, and says what
/// was acknowledged.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  echo hello | logway produce greetings
  logway produce logs /var/log/dpkg.log -z zstd
  logway produce users users.tsv -k '\\t' -H source=import
  logway produce images cat.png --key cat -d ''           the whole file is one record
  find . -print0 | logway produce paths -d '\\0'           records end in NUL
  logway produce users users.jsonl --key-field user.id    keys are part of the values
  echo 00ff:cafe | logway produce t -k : --key-encoding hex --value-encoding hex
  logway produce orders orders.txt --transactional-id loader --transaction-records 1000
  logway consume events -e --format json | logway produce copy --input-format json")]
pub(in crate::cli) struct ProduceArgs {
    /// Topic to write to
    pub(super) topic: TopicName,
    /// Files to read, one after the other; - is stdin
    #[arg(value_name = "FILE", default_value = "-")]
    pub(super) files: Vec<String>,
    /// What ends a record; nothing at all, '', makes each file one record. Escapes are \n \t \r \0
    /// \\ \xHH [default: \n]
    #[arg(short, long, value_parser = Delimiter::parse, allow_hyphen_values = true)]
    pub(super) delimiter: Option<Delimiter>,
    /// What the input is: text, or JSON as 'logway consume --format json' prints it, a record a line,
    /// of which keys, values, headers, timestamps and partitions are kept
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) input_format: InputFormat,
    /// Split each record into key and value at the first SEPARATOR; one without it has no key.
    /// Escapes as for -d
    #[arg(
        short,
        long,
        value_name = "SEPARATOR",
        value_parser = parse_separator,
        allow_hyphen_values = true
    )]
    key_separator: Option<Separator>,
    /// Key of all records
    #[arg(long, conflicts_with = "key_separator", allow_hyphen_values = true)]
    key: Option<String>,
    /// Field of the value, which is JSON, that is the key: names with dots between them, or a JSON
    /// pointer such as /user/id; a number counts the elements of an array, as in /ids/0. The field must be
    /// there; null makes no key
    #[arg(
        long,
        value_name = "FIELD",
        value_parser = KeyField::parse,
        conflicts_with_all = ["key_separator", "key", "key_encoding"]
    )]
    key_field: Option<KeyField>,
    /// How keys are written
    #[arg(long, value_enum, value_name = "ENCODING", default_value_t)]
    key_encoding: ByteEncoding,
    /// How values are written
    #[arg(long, value_enum, value_name = "ENCODING", default_value_t)]
    value_encoding: ByteEncoding,
    /// Header for each record; repeatable
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE", value_parser = parse_header)]
    pub(super) headers: Vec<Header>,
    /// Partition to write to, or 'auto': by the key's hash, without a key one partition for a whole
    /// batch, then the next [default: what JSON input says, else auto]
    #[arg(short, long)]
    pub(super) partition: Option<PartitionChoice>,
    /// Compression of the batches
    #[arg(short = 'z', long, default_value = "none", value_parser = compression_parser())]
    pub(super) compression: Compression,
    /// Who has to store a record: nobody, the leader, or all in-sync replicas
    #[arg(long, default_value = "all", value_parser = acks_parser())]
    pub(super) acks: Acks,
    /// Write by transactions of this transactional id: who reads committed records sees all records of a
    /// transaction, or none. Another producer that takes the id ends this one. Ctrl-C and errors abort the
    /// transaction that is open
    #[arg(long, value_name = "ID")]
    pub(super) transactional_id: Option<String>,
    /// Commit after every COUNT records, and at the end [default: at the end of the input]
    #[arg(
        long,
        value_name = "COUNT",
        requires = "transactional_id",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(super) transaction_records: Option<u64>,
    /// How long a transaction may take before the broker aborts it, as 90s or 5m
    #[arg(
        long,
        value_name = "PERIOD",
        requires = "transactional_id",
        default_value = "1m",
        value_parser = timestamp::parse_period_ms
    )]
    transaction_timeout: i64,
    /// Send a record without a value, a tombstone, where the value is empty
    #[arg(long)]
    tombstone: bool,
}

/// What the input is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum InputFormat {
    #[default]
    Text,
    Json,
}

/// Where records go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartitionChoice {
    /// Where the partitioner sends them.
    Auto,
    Number(i32),
}

impl FromStr for PartitionChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<PartitionChoice, String> {
        if text == "auto" {
            return Ok(PartitionChoice::Auto);
        }
        let number = text.parse().ok().filter(|&number| number >= 0);
        number
            .map(PartitionChoice::Number)
            .ok_or_else(|| "expected a partition's number or 'auto'".to_owned())
    }
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
    pub(in crate::cli) fn subject(&self) -> Subject {
        Subject { topic: Some(self.topic.to_string()), ..Subject::default() }
    }

    /// By which transactions records are written, if by any.
    pub(super) fn transaction(&self) -> Result<Option<TransactionOptions>, CliError> {
        let Some(id) = self.transactional_id.clone() else { return Ok(None) };
        if self.acks != Acks::All {
            return Err(CliError::Usage("--transactional-id takes --acks all".to_owned()));
        }
        let timeout = Duration::from_millis(self.transaction_timeout.unsigned_abs());
        Ok(Some(TransactionOptions { id, timeout }))
    }

    /// How pieces of the input become records.
    pub(super) fn form(&self) -> Result<InputForm, CliError> {
        match self.input_format {
            InputFormat::Text => Ok(InputForm::Plain(PlainForm {
                key_separator: self.key_separator.clone().map(|Separator(bytes)| bytes),
                key_encoding: self.key_encoding,
                value_encoding: self.value_encoding,
                empty_is_tombstone: self.tombstone,
            })),
            InputFormat::Json => match self.without_effect_on_json() {
                Some(option) => Err(CliError::Usage(format!(
                    "{option} has no place beside --input-format json: each record says itself what \
                     its key and its value are"
                ))),
                None => Ok(InputForm::Json),
            },
        }
    }

    /// An option that JSON records leave nothing to do for.
    fn without_effect_on_json(&self) -> Option<&'static str> {
        let is_raw = |encoding| encoding == ByteEncoding::Raw;
        [
            (self.key_separator.is_some(), "-k"),
            (!is_raw(self.key_encoding) && self.key.is_none(), "--key-encoding"),
            (!is_raw(self.value_encoding), "--value-encoding"),
            (self.tombstone, "--tombstone"),
        ]
        .into_iter()
        .find_map(|(is_given, name)| is_given.then_some(name))
    }

    /// Where keys come from.
    pub(super) fn key_source(&self) -> Result<KeySource, CliError> {
        match (&self.key, &self.key_field) {
            (Some(key), _) => match self.key_encoding.decode(key.as_bytes()) {
                Ok(key) => Ok(KeySource::Fixed(Cow::into_owned(key))),
                Err(error) => Err(CliError::Usage(format!("--key: {error}"))),
            },
            (None, Some(field)) => Ok(KeySource::Field(field.clone())),
            (None, None) => Ok(KeySource::Input),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_bytes_and_never_none() {
        assert_eq!(parse_separator(r"\t").expect("a tab").0, b"\t");
        assert!(parse_separator("").is_err());
    }

    #[test]
    fn headers_may_hold_equals_signs() {
        let header = parse_header("a=b=c").expect("a header");
        assert_eq!(header, Header::new("a", Some("b=c".into())));
        assert!(parse_header("a").is_err());
    }

    #[test]
    fn partitions_have_numbers_or_are_chosen() {
        assert_eq!("auto".parse(), Ok(PartitionChoice::Auto));
        assert_eq!("7".parse(), Ok(PartitionChoice::Number(7)));
        for text in ["", "-1", "x", "2147483648"] {
            assert!(text.parse::<PartitionChoice>().is_err(), "{text}");
        }
    }
}
