//! Reading through the log service, which filters records and fields of their values before it sends them.

use std::io::Write;
use std::time::Duration;

use logway_client::{BrokerAddress, ConnectionOptions, StartAt};
use logway_logservice::messages::log::read_request::From;
use logway_logservice::messages::log::{self, Filter, PartitionInfo, ReadReply, ReadRequest};
use logway_logservice::{LogClient, LogClientError};
use logway_model::{Offset, PartitionId, TimestampMs, TopicName, TopicPartition};
use logway_record::{Header, Record};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::printer::{Printer, Wanted};
use super::{ConsumeArgs, PATIENCE_TO_THE_END};
use crate::cli::error::CliError;
use crate::cli::hint;

/// Replies that wait to be printed.
const REPLIES_AHEAD: usize = 4;

/// How long a partition may not be readable, where the command goes on for ever.
const PATIENCE: Duration = Duration::from_secs(60);

const PASS_OVER: &str =
    "leave such records out, as with --filter 'has(value.a)', or go on behind it with -o";

const RETRY: Duration = Duration::from_millis(200);

/// A partition to read.
struct Wish {
    partition: TopicPartition,
    request: ReadRequest,
}

/// Prints what the service sends, until the bounds or for ever.
pub(super) async fn run(
    address: &BrokerAddress,
    options: ConnectionOptions,
    args: &ConsumeArgs,
    printer: &mut Printer<impl Write>,
) -> Result<(), CliError> {
    let mut client = LogClient::connect(address, options.clone()).await.map_err(told)?;
    let mut wishes = Vec::new();
    for topic in &args.topics {
        let info = client.info(topic.as_str()).await.map_err(told)?;
        for partition in chosen(topic, &info.partitions, &args.partitions)? {
            wishes.extend(wish(topic, partition, args)?);
        }
    }
    drop(client);
    let patience = if args.exit_at_end { PATIENCE_TO_THE_END } else { PATIENCE };
    let (replies, receiver) = mpsc::channel(REPLIES_AHEAD);
    // Its tasks end with it.
    let mut streams = JoinSet::new();
    for wish in wishes {
        let reading = Reading {
            address: address.clone(),
            options: options.clone(),
            patience,
            replies: replies.clone(),
        };
        streams.spawn(reading.run(wish));
    }
    drop(replies);
    let mut unresolved = 0;
    let outcome = print_all(receiver, printer, &mut unresolved).await;
    if unresolved > 0 {
        eprintln!(
            "warning: records left out because the filter has no result for them: {unresolved}"
        );
    }
    outcome
}

async fn print_all(
    mut receiver: mpsc::Receiver<Sent>,
    printer: &mut Printer<impl Write>,
    unresolved: &mut u64,
) -> Result<(), CliError> {
    loop {
        let next = match receiver.try_recv() {
            Ok(next) => Some(next),
            Err(_) => {
                // Nothing to do but wait: let the reader see what there is.
                printer.flush()?;
                receiver.recv().await
            }
        };
        let Some((partition, reply)) = next else { return Ok(()) };
        let reply = reply?;
        *unresolved += reply.unresolved_records;
        for record in reply.records {
            if printer.print(&partition, &record_of(record))? == Wanted::Nothing {
                return Ok(());
            }
        }
    }
}

/// The partitions that were asked for, or all of them.
fn chosen<'i>(
    topic: &TopicName,
    existing: &'i [PartitionInfo],
    asked: &[i32],
) -> Result<Vec<&'i PartitionInfo>, CliError> {
    if asked.is_empty() {
        return Ok(existing.iter().collect());
    }
    let found = asked.iter().map(|asked| {
        let found = existing.iter().find(|it| i32::try_from(it.partition) == Ok(*asked));
        found.ok_or_else(|| {
            let message =
                format!("log '{topic}' has {} partitions, and no {asked}", existing.len());
            CliError::Usage(message)
        })
    });
    found.collect()
}

/// What is asked of a partition; nothing where it has nothing to give.
fn wish(
    topic: &TopicName,
    info: &PartitionInfo,
    args: &ConsumeArgs,
) -> Result<Option<Wish>, CliError> {
    let id = PartitionId(i32::try_from(info.partition).unwrap_or(i32::MAX));
    let partition = TopicPartition::new(topic.clone(), id);
    // The end is that of now, whatever breaks meanwhile.
    let end = info.end_offset.filter(|_| info.start_offset.is_some());
    let unknown = || {
        CliError::Input(format!("nobody can say now where {partition} ends"))
            .with_hint("it has no leader: see 'logway cluster status'")
    };
    let from = match args.offset.0 {
        StartAt::Start => None,
        StartAt::End => Some(From::End(true)),
        StartAt::Offset(Offset(offset)) => Some(From::Offset(offset)),
        StartAt::Timestamp(TimestampMs(time_ms)) => Some(From::TimeMs(time_ms)),
        StartAt::BeforeEnd(count) => {
            let before = i64::try_from(count).unwrap_or(i64::MAX);
            let end = end.ok_or_else(unknown)?;
            Some(From::Offset((end - before).max(info.start_offset.unwrap_or(0))))
        }
    };
    let until_offset = match args.exit_at_end {
        true => Some(end.ok_or_else(unknown)?),
        false => None,
    };
    if let (Some(end), Some(From::Offset(offset))) = (until_offset, from)
        && offset > end
    {
        let message = format!("offset {offset} of {partition} is out of range: it ends at {end}");
        return Err(CliError::Input(message).with_hint(hint::OUT_OF_RANGE));
    }
    if until_offset.is_some()
        && (until_offset == info.start_offset || from == Some(From::End(true)))
    {
        return Ok(None);
    }
    let request = ReadRequest {
        log: topic.as_str().to_owned(),
        partition: info.partition,
        from,
        until_offset,
        filter: args.filter.clone().map(|expression| Filter { expression, ..Filter::default() }),
        projection: args.fields.clone(),
        ..ReadRequest::default()
    };
    Ok(Some(Wish { partition, request }))
}

type Sent = (TopicPartition, Result<ReadReply, CliError>);

/// A stream on a connection of its own, over breaks.
struct Reading {
    address: BrokerAddress,
    options: ConnectionOptions,
    patience: Duration,
    replies: mpsc::Sender<Sent>,
}

impl Reading {
    async fn run(self, mut wish: Wish) {
        let mut heard = Instant::now();
        while let Err(error) = self.read(&mut wish, &mut heard).await {
            if !error.may_pass() || heard.elapsed() >= self.patience {
                // Who does not listen any more has ended.
                let _ = self.replies.send((wish.partition, Err(told(error)))).await;
                return;
            }
            sleep(RETRY).await;
        }
    }

    /// Reads until the stream ends or breaks, and keeps where to go on.
    async fn read(&self, wish: &mut Wish, heard: &mut Instant) -> Result<(), LogClientError> {
        let mut client = LogClient::connect(&self.address, self.options.clone()).await?;
        let mut replies = client.read(&wish.request).await?;
        while let Some(reply) = replies.next().await? {
            *heard = Instant::now();
            wish.request.from = Some(From::Offset(reply.next_offset));
            if self.replies.send((wish.partition.clone(), Ok(reply))).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn told(error: LogClientError) -> CliError {
    let hint = match &error {
        LogClientError::Refused { reason, remedy, .. } => match reason.as_str() {
            // What the server says of it is for who writes requests.
            "TRUNCATED" | "BEYOND_END" => Some(hint::OUT_OF_RANGE.to_owned()),
            "NOT_PROJECTED" => Some(PASS_OVER.to_owned()),
            "BATCH_TOO_LARGE" => {
                Some("read it without --grpc, or go on behind it with -o".to_owned())
            }
            _ => remedy.clone(),
        },
        LogClientError::PasswordInTheClear => {
            Some("use --tls or --tls-ca, or --mechanism PLAIN if it may".to_owned())
        }
        LogClientError::Connect(_) => {
            Some("a broker has a log service if it was started with --log-listen".to_owned())
        }
        LogClientError::Broken { .. }
        | LogClientError::Ended { .. }
        | LogClientError::NoHttp2 { .. }
        | LogClientError::Malformed { .. } => {
            Some("is that the address of --log-listen, and does it have TLS?".to_owned())
        }
    };
    let error = CliError::Input(error.to_string());
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

fn record_of(record: log::Record) -> Record {
    let log::Record { offset, timestamp_ms, key, value, headers } = record;
    Record {
        offset: Offset(offset),
        timestamp: TimestampMs(timestamp_ms),
        key,
        value,
        headers: headers.into_iter().map(|it| Header::new(it.name, it.value)).collect(),
    }
}
