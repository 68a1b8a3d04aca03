//! `logway consume`.

mod as_member;
mod over_grpc;
mod printer;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use logway_client::{
    BrokerAddress, Client, ClientError, Consumer, ConsumerOptions, FetchEvent, InvalidAddress,
    Isolation, MissingTopic, StartAt,
};
use logway_model::{ErrorCode, PartitionId, TopicName, TopicPartition};

use self::printer::{Printer, Wanted};
use super::GlobalArgs;
use super::ends::{Ends, Second};
use super::error::CliError;
use super::offset_spec::OffsetSpec;
use super::record_format::{Encodings, RecordFormat};
use super::template::Template;

/// Read records of topics
///
/// Without -n or -e it follows the topics for ever. With --group it shares them with the other
/// members of a group, and goes on where the group has got to.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway consume events                         everything, and then what comes
  logway consume events -e                      everything there is, then stop
  logway consume events -o end                  only what comes
  logway consume events -o -10 -e -p 0          the last 10 of partition 0
  logway consume events -o @2026-01-31T00:00:00Z --format json
  logway consume events -f '%p:%o %k=%v\\n'
  logway consume events -o @-1h -e              what came in the last hour
  logway consume events -f '%T{rfc3339} %v{hex}\\n'
  logway consume events --format json -e | logway produce copy --input-format json
  logway consume events --group billing         what falls to a member of a group
  logway consume orders --isolation read-committed
  logway consume events --grpc 127.0.0.1:4572 --filter 'value.age >= 18' --field user.name

Template:
  %t topic   %p partition   %o offset   %T timestamp, ms (-1 if there is none)
  %k key     %K its size    %v value    %V its size (-1 if there is none)
  %h headers, as KEY=VALUE,...   %% a percent sign
  %k{hex} %v{base64} %h{hex}   in hexadecimal digits or base64   %T{rfc3339} as a date, or -1
  \\n \\t \\r \\0 \\\\ \\xHH   bytes")]
pub(super) struct ConsumeArgs {
    /// Topics to read
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<TopicName>,
    /// Where to begin: start, end, an offset, -COUNT (before the end) or @TIME (milliseconds, RFC
    /// 3339, or -1h30m: so long ago, in d, h, m, s and ms); with --group, only in partitions of
    /// which the group has committed nothing
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
    /// Stop at what is the end when the command starts. A partition that cannot be read for 10 seconds,
    /// as one without a leader, is an error then; else one that cannot be for a minute
    #[arg(short, long)]
    exit_at_end: bool,
    /// Join this group, and commit what has been printed, every 5 seconds and at the end
    #[arg(short, long, conflicts_with = "partitions")]
    group: Option<String>,
    /// Commit nothing
    #[arg(long, requires = "group")]
    no_commit: bool,
    /// What to see of transactions: all records, or those that are committed, and then nothing behind the
    /// first transaction that is open
    #[arg(long, value_enum, default_value_t, value_name = "LEVEL")]
    isolation: IsolationLevel,
    /// Read through the log service at this address (port 4572 if it names none), which may filter records and fields of their values
    #[arg(long, value_name = "HOST:PORT", value_parser = log_service_address, conflicts_with_all = ["group", "isolation"])]
    grpc: Option<BrokerAddress>,
    /// Only records of which this is true, as in 'value.age >= 18': the log service's expressions
    #[arg(long, requires = "grpc", value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Of each value, which is JSON, only this field, as in user.name; repeatable
    #[arg(long = "field", requires = "grpc", value_name = "FIELD")]
    fields: Vec<String>,
    /// How to print a record [default: %v\n]
    #[arg(short = 'f', long, value_name = "TEMPLATE", value_parser = Template::parse)]
    template: Option<Template>,
    #[command(flatten)]
    encodings: Encodings,
}

fn log_service_address(text: &str) -> Result<BrokerAddress, InvalidAddress> {
    BrokerAddress::parse_with_port(text, logway_logservice::DEFAULT_PORT)
}

/// What to see of transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum IsolationLevel {
    #[default]
    ReadUncommitted,
    ReadCommitted,
}

impl From<IsolationLevel> for Isolation {
    fn from(level: IsolationLevel) -> Isolation {
        match level {
            IsolationLevel::ReadUncommitted => Isolation::ReadUncommitted,
            IsolationLevel::ReadCommitted => Isolation::ReadCommitted,
        }
    }
}

pub(super) async fn run(args: ConsumeArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let format = RecordFormat::new(global.format, args.template.clone(), args.encodings)?;
    let client = global.client()?;
    if args.count == Some(0) {
        return Ok(());
    }
    let mut ends = Ends::listen(Second::Exits)?;
    let mut printer = Printer::new(format, args.count);
    if let Some(address) = &args.grpc {
        let options = global.connection()?;
        let outcome = tokio::select! {
            outcome = over_grpc::run(address, options, &args, &mut printer) => outcome,
            _ = ends.any() => Ok(()),
        };
        return outcome.and(printer.flush());
    }
    if let Some(group) = &args.group {
        return as_member::run(&client, group, &args, &mut printer, &mut ends).await;
    }
    let outcome = tokio::select! {
        outcome = print_assigned(&client, &args, &mut printer) => outcome,
        _ = ends.any() => Ok(()),
    };
    // What came before an error, or before Ctrl-C, has been read as well, and ends with a whole record.
    outcome.and(printer.flush())
}

impl ConsumeArgs {
    fn consumer_options(&self) -> ConsumerOptions {
        let (stops_at_end, isolation) = (self.exit_at_end, self.isolation.into());
        let options = ConsumerOptions { stops_at_end, isolation, ..Default::default() };
        match self.exit_at_end {
            true => ConsumerOptions { patience: PATIENCE_TO_THE_END, ..options },
            false => options,
        }
    }
}

/// How long a partition may have no leader when the command is to end: as long as other commands wait.
const PATIENCE_TO_THE_END: Duration = Duration::from_secs(10);

/// Says more of a failure of reading what was there when reading began.
fn while_reading(error: ClientError) -> CliError {
    match error.code() {
        Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId) => CliError::from(
            error,
        )
        .with_hint(
            "it was there when reading began: somebody has deleted the topic; see those there are \
                 with 'logway topic list'",
        ),
        _ => error.into(),
    }
}

/// The chosen partitions of each topic, or all of them.
async fn assignment(
    client: &Client,
    args: &ConsumeArgs,
) -> Result<BTreeMap<TopicPartition, StartAt>, CliError> {
    let topics: BTreeSet<TopicName> = args.topics.iter().cloned().collect();
    let metadata = client.find_topics(&topics, MissingTopic::Refuse).await?;
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

async fn print_assigned(
    client: &Client,
    args: &ConsumeArgs,
    printer: &mut Printer<impl Write>,
) -> Result<(), CliError> {
    let assignment = assignment(client, args).await?;
    let consumer = Consumer::open(client, &assignment, args.consumer_options()).await?;
    print_all(consumer, printer).await
}

async fn print_all(
    mut consumer: Consumer,
    printer: &mut Printer<impl Write>,
) -> Result<(), CliError> {
    loop {
        if !consumer.is_ready() {
            // Nothing to do but wait: let the reader see what there is.
            printer.flush()?;
        }
        let events = consumer.next().await.map_err(while_reading)?;
        let Some(events) = events else { return Ok(()) };
        for event in events {
            match event {
                FetchEvent::Skipped { partition, from, to } => printer::warn(&partition, from, to),
                FetchEvent::Recreated { partition, to, .. } => {
                    printer::warn_of_other_topic(&partition, to);
                }
                FetchEvent::Records(records) => {
                    if printer.print_batches(&records)?.wanted == Wanted::Nothing {
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_was_deleted_is_said_to_be() {
        let refused = |code| {
            let what = "find topic 't'".to_owned();
            while_reading(ClientError::Refused { what, code, message: None })
        };
        let CliError::Hinted { hint, .. } = refused(ErrorCode::UnknownTopicOrPartition) else {
            panic!("a hint")
        };
        assert!(hint.contains("somebody has deleted the topic"), "{hint}");
        assert!(matches!(refused(ErrorCode::TopicAuthorizationFailed), CliError::Client(_)));
    }

    #[test]
    fn the_log_service_has_a_port_of_its_own() {
        let address = |text| log_service_address(text).map(|address| address.to_string());
        assert_eq!(address("127.0.0.1").as_deref(), Ok("127.0.0.1:4572"));
        assert_eq!(address("[::1]").as_deref(), Ok("[::1]:4572"));
        assert_eq!(address("log:9").as_deref(), Ok("log:9"));
        assert!(address("log:x").is_err());
    }
}
