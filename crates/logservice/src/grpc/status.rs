//! How a call ends: a code, a message, and details.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use logway_model::ErrorCode;
use logway_node::Failure;
use prost::Message;

/// gRPC's codes, as far as they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Ok = 0,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

/// How a call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: Code,
    /// For programs: a word in capitals.
    pub(crate) reason: &'static str,
    /// For a person.
    pub(crate) message: String,
    /// What it is about, by name, such as `log`, `offset` and `remedy`.
    pub(crate) details: Vec<(&'static str, String)>,
}

impl Status {
    pub(crate) const OK: Status =
        Status { code: Code::Ok, reason: "", message: String::new(), details: Vec::new() };

    pub(crate) fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Status {
        Status { code, reason, message: message.into(), details: Vec::new() }
    }

    /// A request that is wrong in itself.
    pub(crate) fn invalid(message: impl Into<String>) -> Status {
        Status::new(Code::InvalidArgument, "INVALID_REQUEST", message)
            .remedy("correct the request: the message says what is wrong with it")
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Status {
        self.details.push((name, value.to_string()));
        self
    }

    /// What a client can do about it, instead of what was said of that before.
    pub(crate) fn remedy(mut self, remedy: &'static str) -> Status {
        self.details.retain(|(name, _)| *name != "remedy");
        self.with("remedy", remedy)
    }

    /// The broker stops.
    pub(crate) fn stopping() -> Status {
        Status::new(Code::Unavailable, "STOPPING", "the node stops")
            .remedy("connect again, to another node if there is one, and go on from there")
    }

    pub(crate) fn late() -> Status {
        Status::new(Code::DeadlineExceeded, "DEADLINE", "the deadline of the call is over")
    }

    /// The trailers that say it.
    pub(crate) fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(3);
        trailers.insert("grpc-status", HeaderValue::from(self.code as i32));
        if self.code == Code::Ok {
            return trailers;
        }
        let text = |text: String| {
            HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
        };
        let message = cut(&self.message, MESSAGE_BYTES_MAX);
        trailers.insert("grpc-message", text(percent_encoded(&message)));
        let details = STANDARD_NO_PAD.encode(self.details());
        trailers.insert("grpc-status-details-bin", text(details));
        trailers
    }

    fn details(&self) -> Vec<u8> {
        let info = ErrorInfo {
            reason: self.reason.to_owned(),
            domain: "logway".to_owned(),
            metadata: self
                .details
                .iter()
                .map(|(name, value)| ((*name).to_owned(), cut(value, VALUE_BYTES_MAX)))
                .collect(),
        };
        let info = Any {
            type_url: "type.googleapis.com/google.rpc.ErrorInfo".to_owned(),
            value: info.encode_to_vec(),
        };
        let message = cut(&self.message, MESSAGE_BYTES_MAX);
        RpcStatus { code: self.code as i32, message, details: vec![info] }.encode_to_vec()
    }
}

/// The longest message that is sent. Clients take trailers of 8 KiB, and the message is in them twice: with up to 3 bytes for
/// each, and in Base64.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// The longest value of the details. Names of topics have 249 bytes at most; longer ones are of no topic.
const VALUE_BYTES_MAX: usize = 256;

/// A text of so many bytes at most; of a longer one the beginning.
fn cut(text: &str, bytes_max: usize) -> String {
    const MARK: &str = "…";
    match text.len() <= bytes_max {
        true => text.to_owned(),
        false => text[..text.floor_char_boundary(bytes_max - MARK.len())].to_owned() + MARK,
    }
}

/// As headers may have it.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b'%' => encoded.push_str("%25"),
            b' '..=b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The one place where errors of the node become statuses.
impl From<Failure> for Status {
    fn from(failure: Failure) -> Status {
        use ErrorCode as E;
        let Failure { code, message, .. } = failure;
        let (status, reason, remedy) = match code {
            E::UnknownTopicOrPartition | E::UnknownTopicId => {
                (Code::NotFound, "UNKNOWN_LOG", "create the topic, or name another partition")
            }
            E::InvalidTopicException => (Code::InvalidArgument, "INTERNAL_LOG", "name another log"),
            E::TopicAuthorizationFailed => {
                (Code::PermissionDenied, "NOT_PERMITTED", "have an ACL made that allows it")
            }
            E::OffsetOutOfRange => {
                (Code::OutOfRange, "OFFSET_OUT_OF_RANGE", "begin between start and end")
            }
            E::NotLeaderOrFollower | E::LeaderNotAvailable | E::NotController => {
                (Code::Unavailable, "NO_LEADER", "try again")
            }
            E::ReplicaNotAvailable => (
                Code::Unavailable,
                "TOO_STALE",
                "read from the leader, or allow more with staleness_max_ms",
            ),
            E::NotEnoughReplicas | E::NotEnoughReplicasAfterAppend => {
                (Code::Unavailable, "TOO_FEW_IN_SYNC", "try again when more nodes are up")
            }
            E::RequestTimedOut => {
                (Code::Unavailable, "OUTCOME_UNKNOWN", "come back with the session")
            }
            E::MessageTooLarge => {
                (Code::InvalidArgument, "RECORD_TOO_LARGE", "raise max.message.bytes of the topic")
            }
            E::InvalidRecord | E::InvalidTimestamp | E::UnsupportedCompressionType => {
                (Code::InvalidArgument, "INVALID_RECORD", "change the records")
            }
            E::PolicyViolation => (Code::FailedPrecondition, "NOT_TAKEN", "see the message"),
            E::OutOfOrderSequenceNumber | E::InvalidProducerEpoch => {
                (Code::Aborted, "SESSION_ELSEWHERE", "use a session on one stream at a time")
            }
            E::CorruptMessage => (Code::DataLoss, "DAMAGED", "see the broker's log"),
            E::KafkaStorageError => {
                (Code::Unavailable, "STORAGE", "see the broker's log; try again")
            }
            _ => (Code::Internal, "INTERNAL", "see the broker's log"),
        };
        Status::new(status, reason, message).remedy(remedy)
    }
}

/// How a call has ended, as its client hears it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) message: String,
    /// Empty if the server told none.
    pub(crate) reason: String,
    pub(crate) remedy: Option<String>,
}

impl Ended {
    /// What trailers say; `None` if they are of no call's end.
    pub(crate) fn of(trailers: &HeaderMap) -> Option<Ended> {
        let text = |name| trailers.get(name).and_then(|value| value.to_str().ok());
        let code = text("grpc-status")?.parse().ok()?;
        let message = text("grpc-message").map(percent_decoded).unwrap_or_default();
        let details = text("grpc-status-details-bin").unwrap_or_default();
        let details = STANDARD_NO_PAD.decode(details.trim_end_matches('=')).unwrap_or_default();
        let details = RpcStatus::decode(&details[..]).unwrap_or_default().details;
        let info = details.iter().find(|any| any.type_url.ends_with("google.rpc.ErrorInfo"));
        let info = info.and_then(|any| ErrorInfo::decode(&any.value[..]).ok()).unwrap_or_default();
        let remedy = info.metadata.get("remedy").cloned();
        Some(Ended { code, message, reason: info.reason, remedy })
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.code == Code::Ok as i32
    }
}

fn percent_decoded(text: &str) -> String {
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) if byte == b'%' => {
                decoded.push(escaped);
                rest = &behind[2..];
            }
            _ => {
                decoded.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// `google.rpc.Status`, which clients look for in the details.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(map = "string, string", tag = "3")]
    metadata: HashMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_headers_whatever_they_hold() {
        assert_eq!(percent_encoded("50 % ü\n"), "50 %25 %C3%BC%0A");
    }

    #[test]
    fn trailers_stay_small_whatever_a_client_has_named() {
        for name in ["x".repeat(100_000), "ü".repeat(100_000), "\n".repeat(100_000)] {
            let message = format!("there is no log '{name}'");
            let failure = Failure::new(ErrorCode::UnknownTopicOrPartition, message);
            let status = Status::from(failure).with("log", &name).with("offset", i64::MIN);
            let trailers = status.trailers();
            let bytes = trailers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
            assert!(bytes.sum::<usize>() < 8 << 10, "a client drops them");
            let heard = Ended::of(&trailers).expect("is an end");
            assert_eq!((heard.code, heard.reason.as_str()), (5, "UNKNOWN_LOG"));
            assert!(heard.message.starts_with("there is no log '"));
            assert!(heard.message.ends_with('…') && heard.message.len() <= MESSAGE_BYTES_MAX);
            assert!(heard.remedy.is_some());
        }
        assert_eq!(cut("x", 1), "x");
    }

    #[test]
    fn details_name_what_it_is_about() {
        let status = Status::from(Failure::new(ErrorCode::OffsetOutOfRange, "gone"));
        let trailers = status.with("log", "clicks").trailers();
        assert_eq!(trailers["grpc-status"], "11");
        let details = STANDARD_NO_PAD.decode(&trailers["grpc-status-details-bin"]).expect("base64");
        let details = RpcStatus::decode(&details[..]).expect("is one");
        assert_eq!((details.code, details.message.as_str()), (11, "gone"));
        let info = ErrorInfo::decode(&details.details[0].value[..]).expect("is one");
        assert_eq!(info.reason, "OFFSET_OUT_OF_RANGE");
        assert_eq!(info.metadata["log"], "clicks");
        assert!(info.metadata.contains_key("remedy"));
    }

    #[test]
    fn a_client_hears_what_was_said() {
        let said = Status::invalid("50 % ü\n").remedy("say less");
        let heard = Ended::of(&said.trailers()).expect("is an end");
        assert_eq!((heard.code, heard.message.as_str()), (3, "50 % ü\n"));
        assert_eq!(heard.reason, "INVALID_REQUEST");
        assert_eq!(heard.remedy.as_deref(), Some("say less"));
        assert!(Ended::of(&Status::OK.trailers()).expect("is an end").is_ok());
        assert_eq!(Ended::of(&HeaderMap::new()), None);
        assert_eq!(percent_decoded("%4%zz%"), "%4%zz%");
    }
}
