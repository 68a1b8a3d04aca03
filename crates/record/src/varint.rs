//! Variable-length integers: zigzag, then seven bits a byte, the lowest first.
//!
//! As in Protocol Buffers' `sint32` and `sint64`. A 32-bit one takes up to 5 bytes, a 64-bit one
//! up to 10. Forms longer than need be are read, as Kafka reads them; bits beyond the type's are
//! an error.

use bytes::{Buf, BufMut, Bytes};

use crate::RecordProblem;

/// The most bytes that a 32-bit integer takes.
pub(crate) const I32_BYTES_MAX: usize = 5;

/// The most bytes that a 64-bit integer takes.
pub(crate) const I64_BYTES_MAX: usize = 10;

/// Reads a 32-bit integer off the front of `bytes`.
pub(crate) fn get_i32(bytes: &mut Bytes) -> Result<i32, RecordProblem> {
    let (value, size_bytes) = i32_at(bytes)?;
    bytes.advance(size_bytes);
    Ok(value)
}

/// Reads a 64-bit integer off the front of `bytes`.
pub(crate) fn get_i64(bytes: &mut Bytes) -> Result<i64, RecordProblem> {
    let (value, size_bytes) = i64_at(bytes)?;
    bytes.advance(size_bytes);
    Ok(value)
}

/// The 32-bit integer at the front of `bytes`, and how many of them it takes.
#[inline(always)]
pub(crate) fn i32_at(bytes: &[u8]) -> Result<(i32, usize), RecordProblem> {
    // Most integers of a record take one byte or two.
    let (raw, size_bytes) = match *bytes {
        [low, ..] if low < 0x80 => (u32::from(low), 1),
        [low, high, ..] if high < 0x80 => (u32::from(low & 0x7f) | u32::from(high) << 7, 2),
        _ => {
            let (raw, size_bytes) = raw_at(bytes, I32_BYTES_MAX)?;
            (u32::try_from(raw).map_err(|_| RecordProblem::BadVarint)?, size_bytes)
        }
    };
    Ok(((raw >> 1) as i32 ^ -((raw & 1) as i32), size_bytes))
}

/// The 64-bit integer at the front of `bytes`, and how many of them it takes.
#[inline(always)]
pub(crate) fn i64_at(bytes: &[u8]) -> Result<(i64, usize), RecordProblem> {
    let (raw, size_bytes) = match *bytes {
        [low, ..] if low < 0x80 => (u64::from(low), 1),
        [low, high, ..] if high < 0x80 => (u64::from(low & 0x7f) | u64::from(high) << 7, 2),
        _ => raw_at(bytes, I64_BYTES_MAX)?,
    };
    Ok(((raw >> 1) as i64 ^ -((raw & 1) as i64), size_bytes))
}

/// Writes an integer; those of 32 bits have the same form as those of 64.
pub(crate) fn put(out: &mut impl BufMut, value: i64) {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        out.put_u8(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.put_u8(raw as u8);
}

/// How many bytes [`put`] writes.
pub(crate) fn size_bytes(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn raw_at(bytes: &[u8], bytes_max: usize) -> Result<(u64, usize), RecordProblem> {
    let mut raw = 0u64;
    for (position, &byte) in bytes.iter().take(bytes_max).enumerate() {
        let low = u64::from(byte & 0x7f);
        let shift = 7 * position;
        if (low << shift) >> shift != low {
            return Err(RecordProblem::BadVarint);
        }
        raw |= low << shift;
        if byte & 0x80 == 0 {
            return Ok((raw, position + 1));
        }
    }
    let is_cut_off = bytes.len() < bytes_max;
    Err(if is_cut_off { RecordProblem::Truncated } else { RecordProblem::BadVarint })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(value: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, value);
        bytes
    }

    #[test]
    fn known_values_have_known_bytes() {
        let known: [(i64, &[u8]); 8] = [
            (0, &[0x00]),
            (-1, &[0x01]),
            (1, &[0x02]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ];
        for (value, bytes) in known {
            assert_eq!(encoded(value), bytes, "{value}");
            assert_eq!(get_i64(&mut Bytes::copy_from_slice(bytes)), Ok(value));
        }
    }

    #[test]
    fn too_many_bytes_or_bits_are_refused() {
        let long = [0xff; 11];
        assert_eq!(get_i32(&mut Bytes::copy_from_slice(&long[..])), Err(RecordProblem::BadVarint));
        assert_eq!(get_i64(&mut Bytes::copy_from_slice(&long[..])), Err(RecordProblem::BadVarint));
        // One bit more than the type has, in the last byte that is allowed.
        let wide = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert_eq!(get_i32(&mut Bytes::copy_from_slice(&wide[..])), Err(RecordProblem::BadVarint));
        let wide = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(get_i64(&mut Bytes::copy_from_slice(&wide[..])), Err(RecordProblem::BadVarint));
        assert_eq!(get_i64(&mut Bytes::copy_from_slice(&long[..9])), Err(RecordProblem::Truncated));
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value: i64, narrow: i32) {
            let bytes = encoded(value);
            prop_assert_eq!(bytes.len(), size_bytes(value));
            prop_assert_eq!(get_i64(&mut Bytes::copy_from_slice(&bytes[..])), Ok(value));
            let bytes = encoded(i64::from(narrow));
            prop_assert_eq!(bytes.len(), size_bytes(i64::from(narrow)));
            prop_assert_eq!(get_i32(&mut Bytes::copy_from_slice(&bytes[..])), Ok(narrow));
        }
    }
}
