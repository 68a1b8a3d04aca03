//! Appends as they come. Records are decoded one by one, when their batch is made.

use bytes::Bytes;
use logway_model::TimestampMs;
use logway_node::tasks::wall_clock;
use logway_record::{BatchBuilder, Header, RecordError};
use prost::Message as _;

use crate::grpc::fields::{Field, Fields, Malformed};
use crate::grpc::status::Status;
use crate::messages::log::NewRecord;

/// Headers that a record may have. Kafka has no bound but that of the batch.
const HEADERS_MAX: usize = 10_000;

/// Records of an append. A record without content takes more bytes in a batch than in a request, whose memory is counted.
pub(super) const RECORDS_MAX: u64 = 100_000;

/// A message of a stream of appends.
pub(super) enum Request {
    /// Encoded.
    Open(Bytes),
    Append(AppendMessage),
}

/// Where an append goes, as the client says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    Partition(u32),
    ByKey(Bytes),
    Unsaid,
}

/// One append.
pub(super) struct AppendMessage {
    pub(super) sequence: u64,
    pub(super) log: String,
    pub(super) destination: Destination,
    pub(super) records: NewRecords,
    pub(super) count: u64,
}

/// Why bytes are no append.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// They are no message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// They are another one.
    #[error("{0}")]
    Wrong(String),
}

impl From<RequestError> for Status {
    fn from(error: RequestError) -> Status {
        Status::invalid(error.to_string())
    }
}

fn wrong(message: impl Into<String>) -> RequestError {
    RequestError::Wrong(message.into())
}

impl Request {
    pub(super) fn decode(bytes: Bytes) -> Result<Request, RequestError> {
        // As everywhere in the format, the last one counts.
        let mut request = None;
        for field in Fields::of(bytes) {
            match field? {
                (1, Field::Bytes(open)) => request = Some(Request::Open(open)),
                (2, Field::Bytes(append)) => {
                    request = Some(Request::Append(AppendMessage::decode(append)?));
                }
                _ => {}
            }
        }
        request.ok_or_else(|| wrong("a request is 'open' or 'append'"))
    }
}

impl AppendMessage {
    fn decode(bytes: Bytes) -> Result<AppendMessage, RequestError> {
        let records = NewRecords(bytes.clone());
        let (mut sequence, mut log, mut count) = (0, String::new(), 0);
        let mut destination = Destination::Unsaid;
        for field in Fields::of(bytes) {
            match field? {
                (1, Field::Varint(number)) => sequence = number,
                (2, Field::Bytes(name)) => {
                    let name = std::str::from_utf8(&name).map_err(|_| wrong("'log' is no text"))?;
                    log = name.to_owned();
                }
                (3, Field::Varint(number)) => {
                    let number = u32::try_from(number);
                    let number = number.map_err(|_| wrong("'partition' is no number of one"))?;
                    destination = Destination::Partition(number);
                }
                (4, Field::Bytes(key)) => destination = Destination::ByKey(key),
                (5, Field::Bytes(record)) => {
                    count += 1;
                    // Of too many none is appended, nor looked at.
                    if count <= RECORDS_MAX {
                        check_record(record)?;
                    }
                }
                _ => {}
            }
        }
        match count {
            0 => Err(wrong("an append needs a record")),
            _ => Ok(AppendMessage { sequence, log, destination, records, count }),
        }
    }
}

/// So that nothing about it is wrong when its batch is made, but what the log finds.
fn check_record(record: Bytes) -> Result<(), RequestError> {
    const NAME_BYTES_MAX: usize = 32_767;
    let headers = Fields::of(record.clone()).filter(|field| matches!(field, Ok((3, _)))).count();
    if headers > HEADERS_MAX {
        return Err(wrong(format!("a record has {headers} headers; {HEADERS_MAX} are the most")));
    }
    let record = NewRecord::decode(record)
        .map_err(|error| wrong(format!("a record cannot be read: {error}")))?;
    match record.headers.iter().any(|header| header.name.len() > NAME_BYTES_MAX) {
        true => Err(wrong(format!("a header's name has more than {NAME_BYTES_MAX} bytes"))),
        false => Ok(()),
    }
}

/// The records of an append, encoded.
#[derive(Debug, Clone)]
pub(crate) struct NewRecords(Bytes);

impl NewRecords {
    fn encoded(&self) -> impl Iterator<Item = Result<Bytes, Malformed>> {
        Fields::of(self.0.clone()).filter_map(|field| match field {
            Ok((5, Field::Bytes(record))) => Some(Ok(record)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn decoded(&self) -> impl Iterator<Item = Result<NewRecord, RequestError>> {
        self.encoded().map(|record| {
            NewRecord::decode(record?)
                .map_err(|error| wrong(format!("a record cannot be read: {error}")))
        })
    }

    /// The key of the first record.
    pub(super) fn first_key(&self) -> Result<Option<Bytes>, RequestError> {
        Ok(self.decoded().next().transpose()?.and_then(|record| record.key))
    }

    /// Puts them into a batch.
    pub(crate) fn add_to(&self, batch: &mut BatchBuilder) -> Result<(), AddError> {
        let now = wall_clock();
        for record in self.decoded() {
            let NewRecord { key, value, headers, timestamp_ms } = record?;
            let headers: Vec<Header> =
                headers.into_iter().map(|header| Header::new(header.name, header.value)).collect();
            let time = timestamp_ms.map_or(now, TimestampMs);
            batch.append(time, key.as_deref(), value.as_deref(), &headers)?;
        }
        Ok(())
    }
}

/// Why records are in no batch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddError {
    /// They are none.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// There is no room for them, or their times are too far apart.
    #[error(transparent)]
    Record(#[from] RecordError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::log::append_request::Request as RequestKind;
    use crate::messages::log::{self, Append, AppendRequest, append};

    fn encoded(append: Append) -> Bytes {
        AppendRequest { request: Some(RequestKind::Append(append)) }.encode_to_vec().into()
    }

    fn record(headers: usize) -> NewRecord {
        let header = log::Header { name: "h".to_owned(), value: None };
        NewRecord {
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::from_static(b"v")),
            headers: vec![header; headers],
            timestamp_ms: Some(7),
        }
    }

    #[test]
    fn an_append_comes_as_it_was_encoded() {
        for (to, destination) in [
            (Some(append::To::Partition(0)), Destination::Partition(0)),
            (Some(append::To::ByKey(Bytes::from_static(b"x"))), Destination::ByKey("x".into())),
            (None, Destination::Unsaid),
        ] {
            let bytes = encoded(Append {
                sequence: 3,
                log: "clicks".to_owned(),
                to,
                records: vec![record(1), record(2)],
            });
            let Ok(Request::Append(append)) = Request::decode(bytes.clone()) else {
                panic!("is an append");
            };
            assert_eq!((append.sequence, append.log.as_str(), append.count), (3, "clicks", 2));
            assert_eq!(append.destination, destination);
            assert_eq!(append.records.first_key(), Ok(Some(Bytes::from_static(b"k"))));
            let mut batch = BatchBuilder::new(logway_record::Compression::None);
            append.records.add_to(&mut batch).expect("fits");
            assert_eq!(batch.record_count(), 2);
            for cut in 0..bytes.len() {
                _ = Request::decode(bytes.slice(..cut));
            }
        }
    }

    #[test]
    fn what_is_no_append_is_refused_by_name() {
        let wrong = |append| Request::decode(encoded(append)).err().map(|error| error.to_string());
        let none = Append { sequence: 1, ..Append::default() };
        assert_eq!(wrong(none).as_deref(), Some("an append needs a record"));
        let many = Append { records: vec![record(HEADERS_MAX + 1)], ..Append::default() };
        assert!(wrong(many).is_some_and(|error| error.contains("10001 headers")));
        assert!(Request::decode(Bytes::new()).is_err());
    }

    #[test]
    fn of_too_many_records_none_is_looked_at() {
        let mut fields = b"\x08\x01".to_vec();
        let records = usize::try_from(RECORDS_MAX).expect("fits");
        fields.extend(b"\x2a\x00".repeat(records));
        // What is no record, behind as many as there may be.
        fields.extend(b"\x2a\x01\xff");
        let append = AppendMessage::decode(fields.into()).expect("is refused when its turn comes");
        assert_eq!(append.count, RECORDS_MAX + 1);
    }
}
