//! The one thing that we say over Kafka's protocol and Kafka does not: how old the oldest record is that a group has
//! not read.
//!
//! It travels in tagged fields, which whoever does not know them skips (KIP-482), so that either side may be Apache
//! Kafka. Versions of OffsetFetch from 6 on have them.
//!
//! | where | tag | bytes | what |
//! |---|---|---|---|
//! | `OffsetFetchRequest` | 10000 | 0 | the client asks for ages |
//! | each partition of an `OffsetFetchResponse` | 10000 | 8 | the age in milliseconds, an `int64`; -1 if unknown |
//!
//! The age is that of the first record at or after the committed offset, by its timestamp and the broker's clock; 0 if
//! there is none. A coordinator says nothing of partitions that another broker leads.

use bytes::Bytes;

use crate::RawTaggedField;

/// Far above the tags that Kafka's definitions use, which count from 0 in each struct.
const TAG: u32 = 10_000;

/// What stands for an age that the broker does not know.
const UNKNOWN_MS: i64 = -1;

/// How long the oldest record that a group has not read has been waiting for it in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadAge {
    /// In milliseconds; 0 if everything is read.
    Ms(u64),
    /// The broker cannot tell.
    Unknown,
}

impl UnreadAge {
    /// What asks for ages, among the tagged fields of an `OffsetFetchRequest`.
    pub fn question() -> RawTaggedField {
        RawTaggedField { tag: TAG, data: Bytes::new() }
    }

    /// Whether the tagged fields of an `OffsetFetchRequest` ask for ages.
    pub fn is_asked_in(fields: &[RawTaggedField]) -> bool {
        fields.iter().any(|field| field.tag == TAG)
    }

    /// What carries this age, among the tagged fields of a partition in an `OffsetFetchResponse`.
    pub fn answer(self) -> RawTaggedField {
        let age_ms = match self {
            UnreadAge::Ms(age_ms) => i64::try_from(age_ms).unwrap_or(i64::MAX),
            UnreadAge::Unknown => UNKNOWN_MS,
        };
        RawTaggedField { tag: TAG, data: Bytes::copy_from_slice(&age_ms.to_be_bytes()) }
    }

    /// The age among the tagged fields of a partition; `None` from brokers that do not know the question, or do not
    /// lead the partition. What cannot be an age is unknown.
    pub fn find_in(fields: &[RawTaggedField]) -> Option<UnreadAge> {
        let field = fields.iter().find(|field| field.tag == TAG)?;
        let age_ms = <[u8; 8]>::try_from(&*field.data).map(i64::from_be_bytes);
        let age_ms = age_ms.ok().and_then(|age_ms| u64::try_from(age_ms).ok());
        Some(age_ms.map_or(UnreadAge::Unknown, UnreadAge::Ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::offset_fetch_response::{
        OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
    };
    use crate::messages::{OffsetFetchRequest, OffsetFetchResponse};
    use crate::{Decoder, Encoder, Message};

    /// The first version with tagged fields that asks about several groups, and the last.
    const VERSIONS: [i16; 2] = [8, 10];

    fn round_trip<M: Message>(message: &M, version: i16) -> M {
        let mut encoder = Encoder::new();
        message.encode(&mut encoder, version).expect("the version has all that is set");
        let frame = encoder.into_bytes().expect("no holes");
        M::decode(&mut Decoder::new(frame), version).expect("what was encoded")
    }

    #[test]
    fn the_question_survives_the_wire() {
        for version in VERSIONS {
            let mut request = OffsetFetchRequest::default();
            assert!(!UnreadAge::is_asked_in(&round_trip(&request, version).unknown_tagged_fields));
            request.unknown_tagged_fields.push(UnreadAge::question());
            assert!(UnreadAge::is_asked_in(&round_trip(&request, version).unknown_tagged_fields));
        }
    }

    #[test]
    fn answers_survive_the_wire() {
        let ages = [UnreadAge::Ms(0), UnreadAge::Ms(1_234_567_890_123), UnreadAge::Unknown];
        let partition = |age: UnreadAge| OffsetFetchResponsePartitions {
            unknown_tagged_fields: vec![age.answer()],
            ..OffsetFetchResponsePartitions::default()
        };
        let partitions = ages.into_iter().map(partition).collect();
        let topics = vec![OffsetFetchResponseTopics { partitions, ..Default::default() }];
        let groups = vec![OffsetFetchResponseGroup { topics, ..Default::default() }];
        let response = OffsetFetchResponse { groups, ..Default::default() };
        for version in VERSIONS {
            let decoded = round_trip(&response, version);
            let partitions = &decoded.groups[0].topics[0].partitions;
            let found = partitions.iter().map(|p| UnreadAge::find_in(&p.unknown_tagged_fields));
            assert_eq!(found.collect::<Vec<_>>(), ages.map(Some));
        }
    }

    #[test]
    fn other_fields_are_no_answer_and_bad_ones_are_unknown() {
        let field = |tag, data: &'static [u8]| RawTaggedField { tag, data: data.into() };
        assert_eq!(UnreadAge::find_in(&[field(9_999, &[0; 8])]), None);
        for bad in [&[][..], &[0; 7], &[0; 9], &[0xff; 8], &[0x80, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(UnreadAge::find_in(&[field(TAG, bad)]), Some(UnreadAge::Unknown), "{bad:?}");
        }
    }

    #[test]
    fn an_age_beyond_the_wire_is_the_longest_there_is() {
        let longest = UnreadAge::Ms(i64::MAX as u64);
        assert_eq!(UnreadAge::find_in(&[UnreadAge::Ms(u64::MAX).answer()]), Some(longest));
    }
}
