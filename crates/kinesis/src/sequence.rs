//! Sequence numbers, which are offsets in AWS's dress.
//!
//! | hexadecimal digits | content |
//! |---|---|
//! | 1 | `2` |
//! | 9 | seconds since 1970 at which the shard was created |
//! | 1 | the last digit of the shard's number |
//! | 16 | the offset |
//! | 2 | `00` |
//! | 9 | seconds since 1970 of the append |
//! | 8 | the shard's number |
//! | 1 | `2` |
//!
//! They are written as decimal numbers of 56 digits. The layout is kinesalite's finding about those of AWS.

use logway_metadata::record::{Shard, ShardEnd};
use logway_model::{Offset, PartitionId, TimestampMs};

/// A closed shard ends with this counter.
const CLOSED: i64 = i64::MAX;

/// What a sequence number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SequenceNumber {
    /// When its shard was created, in seconds since 1970.
    pub(crate) shard_created_s: i64,
    /// Its shard.
    pub(crate) shard: PartitionId,
    /// The offset of its record.
    pub(crate) offset: Offset,
    /// When the record was appended, in seconds since 1970.
    pub(crate) time_s: i64,
}

/// 47 hexadecimal digits.
const DIGITS: usize = 47;

/// So many decimal ones: 2^185 and a little less than 2^186 have 56.
const TEXT_DIGITS: usize = 56;

/// A day in the year 2477: later ones cannot be told from other numbers.
const TIME_LIMIT_S: i64 = 16_025_175_000;

impl SequenceNumber {
    /// That of a record. Its time is later than that of its shard, so that it is above the shard's start.
    pub(crate) fn of_record(
        number: PartitionId,
        shard: &Shard,
        offset: Offset,
        time: TimestampMs,
    ) -> SequenceNumber {
        let time_s = time.0.div_euclid(1_000).max(shard.created_s + 1);
        SequenceNumber { shard_created_s: shard.created_s, shard: number, offset, time_s }
    }

    /// Where a shard starts.
    pub(crate) fn start_of(number: PartitionId, shard: &Shard) -> SequenceNumber {
        let created_s = shard.created_s;
        SequenceNumber {
            shard_created_s: created_s,
            shard: number,
            offset: Offset::ZERO,
            time_s: created_s,
        }
    }

    /// Where a closed shard ends: above all of its records.
    pub(crate) fn end_of(number: PartitionId, shard: &Shard, end: ShardEnd) -> SequenceNumber {
        SequenceNumber {
            offset: Offset(CLOSED),
            time_s: end.at_ms.div_euclid(1_000).max(shard.created_s),
            ..SequenceNumber::start_of(number, shard)
        }
    }

    /// Reads one. `None` for what no shard of any stream could have given.
    pub(crate) fn parse(text: &str) -> Option<SequenceNumber> {
        let digits = hexadecimal(text)?;
        let number = |range: std::ops::Range<usize>| {
            digits[range].iter().fold(0_u64, |number, digit| number << 4 | u64::from(*digit))
        };
        let shard_created_s = i64::try_from(number(1..10)).ok()?;
        let (counter, shard) = (i64::try_from(number(11..27)).ok()?, number(38..46));
        let shard = PartitionId(i32::try_from(shard).ok()?);
        let is_ours = digits[0] == 2 && digits[DIGITS - 1] == 2 && number(27..29) == 0;
        (is_ours && shard_created_s < TIME_LIMIT_S).then_some(SequenceNumber {
            shard_created_s,
            shard,
            offset: Offset(counter),
            time_s: i64::try_from(number(29..38)).ok()?,
        })
    }

    /// Whether it is a sequence number of this shard.
    pub(crate) fn is_of(&self, number: PartitionId, shard: &Shard) -> bool {
        self.shard == number && self.shard_created_s == shard.created_s
    }
}

impl std::fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |seconds: i64| u64::try_from(seconds).unwrap_or(0) & 0xf_ffff_ffff;
        let (shard, offset) = (self.shard.0.cast_unsigned(), self.offset.0.cast_unsigned());
        // The 60 bits above the lower 128.
        let upper = 2_u64 << 56
            | seconds(self.shard_created_s) << 20
            | u64::from(shard & 0xf) << 16
            | offset >> 48;
        let lower = u128::from(offset) << 80
            | u128::from(seconds(self.time_s)) << 36
            | u128::from(shard) << 4
            | 2;
        let digits = decimal(upper, lower);
        f.write_str(std::str::from_utf8(&digits).expect("these are digits"))
    }
}

/// The digits of `upper` · 2^128 + `lower`, which has [`TEXT_DIGITS`] of them.
///
/// Responses have thousands of these. The number is taken apart by 32 bits, and put together in base 10^9.
fn decimal(upper: u64, lower: u128) -> [u8; TEXT_DIGITS] {
    const LIMB: u64 = 1_000_000_000;
    const LIMB_DIGITS: usize = 9;
    const LIMBS: usize = TEXT_DIGITS.div_ceil(LIMB_DIGITS);
    let words = [
        upper >> 32,
        upper,
        (lower >> 96) as u64,
        (lower >> 64) as u64,
        (lower >> 32) as u64,
        lower as u64,
    ];
    let mut limbs = [0_u64; LIMBS];
    for word in words {
        let mut carry = word & 0xffff_ffff;
        for limb in &mut limbs {
            let next = *limb << 32 | carry;
            *limb = next % LIMB;
            carry = next / LIMB;
        }
    }
    let mut digits = [0; LIMBS * LIMB_DIGITS];
    for (limb, place) in limbs.iter().zip(digits.rchunks_exact_mut(LIMB_DIGITS)) {
        let mut rest = *limb;
        for digit in place.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    std::array::from_fn(|index| digits[digits.len() - TEXT_DIGITS + index])
}

/// The hexadecimal digits of a decimal number, if there are as many as a sequence number has.
fn hexadecimal(text: &str) -> Option<[u8; DIGITS]> {
    // Longer texts cost more than they are worth.
    if text.len() != TEXT_DIGITS || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut limbs = [0_u64; 6];
    for digit in text.bytes() {
        let mut carry = u64::from(digit - b'0');
        for limb in &mut limbs {
            let next = *limb * 10 + carry;
            *limb = next & 0xffff_ffff;
            carry = next >> 32;
        }
    }
    let digit = |index: usize| {
        let from_below = DIGITS - 1 - index;
        (limbs[from_below / 8] >> (4 * (from_below % 8)) & 0xf) as u8
    };
    // The sixth limb has seven digits.
    (limbs[5] >> 28 == 0).then(|| std::array::from_fn(digit))
}

#[cfg(test)]
mod tests {
    use logway_metadata::record::HashRange;

    use super::*;

    fn shard(created_s: i64) -> Shard {
        Shard { range: HashRange::ALL, parents: Vec::new(), created_s, closed: None }
    }

    #[test]
    fn a_number_comes_back_from_its_text() {
        for (created_s, number, offset, time_ms) in [
            (1_420_000_000, 0, 0, 1_420_000_005_000),
            (1_420_000_000, 17, 1, 1_420_000_005_000),
            (1_790_000_000, 2_147_483_647, i64::MAX, 1_790_000_000_000),
            (0, 3, 5, 0),
        ] {
            let shard = shard(created_s);
            let (number, time) = (PartitionId(number), TimestampMs(time_ms));
            let sequence = SequenceNumber::of_record(number, &shard, Offset(offset), time);
            let text = sequence.to_string();
            assert_eq!(text.len(), 56, "{text}");
            assert_eq!(SequenceNumber::parse(&text), Some(sequence), "{text}");
            assert!(sequence.is_of(number, &shard));
            assert!(SequenceNumber::start_of(number, &shard).to_string() < text);
        }
    }

    #[test]
    fn the_text_is_that_of_aws() {
        // One that AWS's documentation shows.
        let text = "49546986683135544286507457936321625675700192471156785154";
        let parsed = SequenceNumber::parse(text).expect("is one");
        assert_eq!(parsed.to_string(), text);
        assert_eq!(parsed.shard, PartitionId(0));
    }

    #[test]
    fn children_are_above_the_end_of_their_parents() {
        let parent = shard(1_700_000_000);
        let end = ShardEnd { at_ms: 1_700_000_100_999, offset: Some(7) };
        let end = SequenceNumber::end_of(PartitionId(9), &parent, end).to_string();
        let child = SequenceNumber::start_of(PartitionId(1), &shard(1_700_000_101)).to_string();
        assert!(end < child);
        assert_eq!(SequenceNumber::parse(&end).map(|end| end.offset), Some(Offset(CLOSED)));
    }

    #[test]
    fn what_is_no_sequence_number_is_refused() {
        for text in ["", "0", "1", "49546986683135544286507457936321625675700192471156785153"] {
            assert_eq!(SequenceNumber::parse(text), None, "{text}");
        }
        assert_eq!(SequenceNumber::parse(&"9".repeat(56)), None);
        assert_eq!(SequenceNumber::parse(&"4".repeat(5_000)), None);
    }
}
