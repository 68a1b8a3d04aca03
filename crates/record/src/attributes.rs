//! The attribute bits of a batch.
//!
//! ```text
//! bit   meaning
//! 0-2   compression codec
//! 3     timestamp type: 0 create time, 1 log append time (KIP-32)
//! 4     written in a transaction (KIP-98)
//! 5     control batch: a transaction marker, not for consumers (KIP-98)
//! 6     the base timestamp field holds a delete horizon (KIP-534)
//! 7-15  unused
//! ```

use crate::{Compression, RecordError};

/// The attribute bits of a batch, as they are: unused bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub i16);

const COMPRESSION_MASK: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

impl Attributes {
    /// How the records are compressed; [`RecordError::UnknownCompression`] for the codecs 5 to 7,
    /// which nobody has defined.
    pub fn compression(self) -> Result<Compression, RecordError> {
        Compression::from_id(self.codec())
    }

    /// The number of the codec, 0 to 7.
    pub fn codec(self) -> u8 {
        (self.0 & COMPRESSION_MASK) as u8
    }

    /// Who set the timestamps of the records.
    pub fn timestamp_type(self) -> TimestampType {
        if self.has(LOG_APPEND_TIME) {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(self) -> bool {
        self.has(TRANSACTIONAL)
    }

    /// Whether the batch holds a transaction marker instead of a client's records.
    pub fn is_control(self) -> bool {
        self.has(CONTROL)
    }

    /// Whether the base timestamp is the time from which compaction may drop the tombstones and
    /// markers of the batch.
    pub fn has_delete_horizon(self) -> bool {
        self.has(DELETE_HORIZON)
    }

    /// The same bits with another codec.
    #[must_use]
    pub fn with_compression(self, compression: Compression) -> Attributes {
        Attributes(self.0 & !COMPRESSION_MASK | i16::from(compression.id()))
    }

    /// The same bits with another timestamp type.
    #[must_use]
    pub fn with_timestamp_type(self, timestamp_type: TimestampType) -> Attributes {
        self.with(LOG_APPEND_TIME, timestamp_type == TimestampType::LogAppendTime)
    }

    /// The same bits, marked as part of a transaction or not.
    #[must_use]
    pub fn with_transactional(self, is_transactional: bool) -> Attributes {
        self.with(TRANSACTIONAL, is_transactional)
    }

    /// The same bits, marked as a control batch or not.
    #[must_use]
    pub fn with_control(self, is_control: bool) -> Attributes {
        self.with(CONTROL, is_control)
    }

    /// The same bits, with the base timestamp marked as a delete horizon or not.
    #[must_use]
    pub(crate) fn with_delete_horizon(self, has_delete_horizon: bool) -> Attributes {
        self.with(DELETE_HORIZON, has_delete_horizon)
    }

    fn has(self, bit: i16) -> bool {
        self.0 & bit != 0
    }

    fn with(self, bit: i16, set: bool) -> Attributes {
        Attributes(if set { self.0 | bit } else { self.0 & !bit })
    }
}

/// Who set the timestamps of the records of a batch (KIP-32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// The producer: each record has its own.
    #[default]
    CreateTime,
    /// The leader at the append: the batch's max timestamp is that of all its records.
    LogAppendTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_read_and_set_alone() {
        let all = Attributes(!0);
        assert!(all.is_transactional() && all.is_control() && all.has_delete_horizon());
        assert_eq!(all.timestamp_type(), TimestampType::LogAppendTime);
        assert_eq!(all.with_transactional(false), Attributes(!0x10));
        assert_eq!(all.with_control(false), Attributes(!0x20));
        assert_eq!(all.with_delete_horizon(false), Attributes(!0x40));
        assert_eq!(all.with_timestamp_type(TimestampType::CreateTime), Attributes(!0x08));
        assert_eq!(all.with_compression(Compression::Zstd), Attributes(!0x03));

        let none = Attributes::default();
        assert!(!none.is_transactional() && !none.is_control() && !none.has_delete_horizon());
        assert_eq!(none.timestamp_type(), TimestampType::CreateTime);
        assert_eq!(none.with_transactional(true), Attributes(0x10));
        assert_eq!(none.with_control(true), Attributes(0x20));
        assert_eq!(none.with_delete_horizon(true), Attributes(0x40));
        assert_eq!(none.with_timestamp_type(TimestampType::LogAppendTime), Attributes(0x08));
    }

    #[test]
    fn codecs_without_a_definition_are_refused() {
        for id in 0..=4 {
            assert_eq!(Attributes(id).compression().map(|codec| i16::from(codec.id())), Ok(id));
        }
        for id in 5..=7 {
            assert_eq!(
                Attributes(id).compression(),
                Err(RecordError::UnknownCompression { codec: id as u8 })
            );
        }
    }
}
