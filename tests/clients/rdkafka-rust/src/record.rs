//! A record to send, or one that was read.

use rdkafka::message::{BorrowedMessage, Headers, Message};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
    /// Milliseconds since 1970; for a record to send, none means now.
    pub timestamp_ms: Option<i64>,
    pub partition: i32,
    pub offset: i64,
}

impl Record {
    pub fn of_value(value: Vec<u8>) -> Self {
        Self { value: Some(value), ..Self::default() }
    }

    /// What must come back of it.
    pub fn content(&self) -> impl PartialEq + use<'_> {
        (&self.key, &self.value, &self.headers)
    }

    /// The number of a record that `numbered` made.
    pub fn number(&self) -> usize {
        let key = self.key.as_deref().expect("numbered records have keys");
        std::str::from_utf8(key)
            .ok()
            .and_then(|key| key.parse().ok())
            .expect("their keys are numbers")
    }
}

impl From<&BorrowedMessage<'_>> for Record {
    fn from(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        Self {
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers
                .map(|one| (one.key.to_owned(), one.value.unwrap_or_default().to_vec()))
                .collect(),
            timestamp_ms: message.timestamp().to_millis(),
            partition: message.partition(),
            offset: message.offset(),
        }
    }
}

pub fn numbered(numbers: std::ops::Range<usize>) -> Vec<Record> {
    numbers
        .map(|number| Record {
            key: Some(number.to_string().into_bytes()),
            ..Record::of_value(format!("value {number}").into_bytes())
        })
        .collect()
}
