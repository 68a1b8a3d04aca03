//! What can go wrong between a client and its brokers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use logway_model::{BrokerId, ErrorCode, Offset, PartitionId, TopicName, TopicPartition};
use logway_record::RecordError;
use logway_wire::{DecodeError, EncodeError, VersionRange, WireString};

use crate::BrokerAddress;

/// Why a call did not do what was asked.
///
/// It can be cloned because one broken connection fails every request that waits on it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// No TCP connection could be made.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Whom we called.
        address: BrokerAddress,
        /// What the system said; a time-out is [`io::ErrorKind::TimedOut`].
        source: Arc<io::Error>,
        /// Whether the client was connected to this address before: then the address is right, and
        /// the broker went away.
        was_reached: bool,
    },
    /// None of the bootstrap addresses answered.
    #[error("no broker can be reached: {}", joined(.failures))]
    NoBroker {
        /// What went wrong with each of them, which says its address.
        failures: Vec<ClientError>,
    },
    /// The connection ended before the answer came.
    #[error("{api} to {address} failed: {failure}")]
    Connection {
        /// Whom we asked.
        address: BrokerAddress,
        /// What we asked.
        api: &'static str,
        /// How the connection ended.
        failure: ConnectionFailure,
    },
    /// The broker speaks no version of the request that we speak, or not the request at all.
    #[error("{address} does not serve {api} at versions {ours}; it announces {announced}")]
    Unsupported {
        /// Whom we asked.
        address: BrokerAddress,
        /// What we asked.
        api: &'static str,
        /// The versions that would do.
        ours: VersionRange,
        /// The versions that the broker announces; empty if none.
        announced: VersionRange,
    },
    /// The answer is not what the protocol says.
    #[error("{address} answered {api} version {version} with a malformed response: {source}")]
    MalformedResponse {
        /// Whom we asked.
        address: BrokerAddress,
        /// What we asked.
        api: &'static str,
        /// The version we asked at.
        version: i16,
        /// What is wrong.
        source: DecodeError,
    },
    /// The answer is well-formed but makes no sense.
    #[error("{address} answered {api} with {problem}")]
    UnexpectedResponse {
        /// Whom we asked.
        address: BrokerAddress,
        /// What we asked.
        api: &'static str,
        /// What makes no sense.
        problem: String,
    },
    /// The request cannot be written at the version the broker understands.
    #[error("cannot write {api} at version {version}: {source}")]
    Request {
        /// What was to be asked.
        api: &'static str,
        /// The version it was to be asked at.
        version: i16,
        /// What stood in the way.
        source: EncodeError,
    },
    /// The broker understood and said no.
    #[error("cannot {what}: {}", describe(what, *code, message.as_deref()))]
    Refused {
        /// What was asked, e.g. `create topic 'a'`.
        what: String,
        /// Kafka's code.
        code: ErrorCode,
        /// The broker's own words, if it sent any.
        message: Option<String>,
    },
    /// The topic has no such partition.
    #[error("topic '{topic}' has no partition {partition}: it has {partitions} in all")]
    NoSuchPartition {
        /// The topic.
        topic: TopicName,
        /// The partition asked for.
        partition: PartitionId,
        /// How many there are.
        partitions: usize,
    },
    /// The topic has no partition that can be written or read: none has a leader.
    #[error("partition {partition} has no leader")]
    NoLeader {
        /// The partition.
        partition: TopicPartition,
    },
    /// A broker that leads something but is not among those that are alive.
    #[error("broker {id} is not alive")]
    UnknownBroker {
        /// Its number.
        id: BrokerId,
    },
    /// A position outside of what the partition holds.
    #[error("offset {offset} of {partition} is out of range: {}", holding(*.start, *.end))]
    OffsetOutOfRange {
        /// The partition.
        partition: TopicPartition,
        /// What was asked for.
        offset: Offset,
        /// The first offset there.
        start: Offset,
        /// The offset after the last one there.
        end: Offset,
    },
    /// The members of a group do not understand each other.
    #[error("the members of group '{group}' agreed on {problem}")]
    BadGroup {
        /// The group.
        group: String,
        /// What cannot be followed.
        problem: String,
    },
    /// Records that are damaged where the broker has them, which it does not send.
    #[error("{partition} has damaged records at offset {offset}")]
    DamagedRecords {
        /// The partition.
        partition: TopicPartition,
        /// Where we were reading.
        offset: Offset,
        /// Where to go on behind them, if that could be found.
        next: Option<Offset>,
    },
    /// Records that cannot be decoded.
    #[error("{partition} sent unreadable records at offset {offset}: {source}")]
    UnreadableRecords {
        /// The partition.
        partition: TopicPartition,
        /// Where we were reading.
        offset: Offset,
        /// Where to go on behind them, if their own header says so.
        next: Option<Offset>,
        /// What is wrong.
        source: RecordError,
    },
    /// A record that cannot be encoded.
    #[error("a record for {partition} cannot be encoded: {source}")]
    UnwritableRecord {
        /// The partition.
        partition: TopicPartition,
        /// What is wrong.
        source: RecordError,
    },
    /// The task that does the work is gone.
    #[error("the {task} has stopped")]
    Stopped {
        /// Which.
        task: &'static str,
    },
}

/// How a connection ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectionFailure {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The broker closed the connection, between responses or inside one.
    #[error("the broker closed the connection")]
    Closed,
    /// A request was not answered in time, so the connection is given up.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// A response that would be larger than we accept; also a negative length.
    #[error("the response is {length} bytes long, but at most {max_bytes} are accepted")]
    ResponseTooLarge {
        /// The length as the broker announced it.
        length: i32,
        /// What we accept.
        max_bytes: usize,
    },
    /// A response too short to say what it answers.
    #[error("the response has no correlation id")]
    ResponseTooShort,
    /// A response to something else than what we asked next.
    #[error("the response has correlation id {actual}, not {expected}")]
    UnexpectedCorrelationId {
        /// That of the oldest request without a response.
        expected: i32,
        /// That of the response.
        actual: i32,
    },
    /// A response although nothing was asked.
    #[error("a response came that nothing asked for")]
    Unasked,
    /// We gave the connection up ourselves.
    #[error("the connection is closed")]
    GivenUp,
}

impl From<io::Error> for ConnectionFailure {
    fn from(error: io::Error) -> ConnectionFailure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ConnectionFailure::Closed,
            _ => ConnectionFailure::Io(Arc::new(error)),
        }
    }
}

impl ClientError {
    /// Kafka's code, if a broker answered with one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the same request may well succeed a little later.
    ///
    /// That says nothing about whether it was carried out already: only a request that may be
    /// carried out twice should be repeated after a [`ClientError::Connection`].
    pub fn is_retriable(&self) -> bool {
        match self {
            ClientError::Connect { .. }
            | ClientError::NoBroker { .. }
            | ClientError::Connection { .. }
            | ClientError::UnknownBroker { .. }
            | ClientError::NoLeader { .. } => true,
            ClientError::Refused { code, .. } => code.is_retriable(),
            _ => false,
        }
    }
}

/// The code of a number from the wire. A number that we do not know is an unknown error.
pub(crate) fn error_code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}

/// Turns a code from a response into a result; `what` says what was asked, e.g. `list topics`.
pub(crate) fn check(
    what: impl FnOnce() -> String,
    code: i16,
    message: Option<&WireString>,
) -> Result<(), ClientError> {
    if code == ErrorCode::None.code() {
        return Ok(());
    }
    let message = match ErrorCode::from_code(code) {
        Some(_) => message.map(|text| text.as_str().to_owned()),
        None => Some(format!("error code {code}")),
    };
    Err(ClientError::Refused { what: what(), code: error_code(code), message })
}

/// The broker's words and its code. What the words are about, such as `topic 'a': `, is left out if
/// `what` ends with it.
fn describe(what: &str, code: ErrorCode, message: Option<&str>) -> String {
    let unrepeated = |text| match str::split_once(text, ": ") {
        Some((about, rest)) if what.ends_with(about) => rest,
        _ => text,
    };
    match message.map(str::trim).filter(|text| !text.is_empty()).map(unrepeated) {
        Some(text) => format!("{text} ({code})"),
        None => code.to_string(),
    }
}

/// What a partition holds, in words.
fn holding(start: Offset, end: Offset) -> String {
    match start < end {
        true => format!("it holds {start} to {}", end + -1),
        false => format!("it is empty, and the next offset is {end}"),
    }
}

fn joined(failures: &[ClientError]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_said_once() {
        let message = WireString::from("topic 'a': unknown setting 'x'");
        let error = check(|| "create topic 'a'".to_owned(), 40, Some(&message)).expect_err("40");
        let expected = "cannot create topic 'a': unknown setting 'x' (INVALID_CONFIG)";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn an_offset_out_of_range_says_what_there_is() {
        let name = TopicName::new("a").expect("a name");
        let out_of_range = |start, end| ClientError::OffsetOutOfRange {
            partition: TopicPartition::new(name.clone(), PartitionId(0)),
            offset: Offset(9999),
            start: Offset(start),
            end: Offset(end),
        };
        let expected = "offset 9999 of a-0 is out of range: it is empty, and the next offset is 7";
        assert_eq!(out_of_range(7, 7).to_string(), expected);
        let expected = "offset 9999 of a-0 is out of range: it holds 7 to 9";
        assert_eq!(out_of_range(7, 10).to_string(), expected);
    }

    #[test]
    fn refusals_show_the_brokers_words_and_the_code() {
        let message = WireString::from("it exists");
        let error = check(|| "create topic 'a'".to_owned(), 36, Some(&message)).expect_err("36");
        assert_eq!(error.to_string(), "cannot create topic 'a': it exists (TOPIC_ALREADY_EXISTS)");
        let error = check(|| "list topics".to_owned(), 7, None).expect_err("7");
        assert_eq!(error.to_string(), "cannot list topics: REQUEST_TIMED_OUT");
        assert!(error.is_retriable());
    }

    #[test]
    fn an_unknown_code_keeps_its_number() {
        let error = check(|| "list topics".to_owned(), 999, None).expect_err("999");
        assert_eq!(error.to_string(), "cannot list topics: error code 999 (UNKNOWN_SERVER_ERROR)");
        assert!(check(String::new, 0, None).is_ok());
    }
}
