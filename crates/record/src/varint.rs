//! Variable-length integers: zigzag, then seven bits a byte, the lowest first.
//!
//! As in Protocol Buffers' `sint32` and `sint64`. A 32-bit one takes up to 5 bytes, a 64-bit one
//! up to 10. Forms longer than need be are read, as Kafka reads them; bits beyond the type's are
//! an error.

use bytes::{Buf, BufMut};

use crate::RecordProblem;

/// Reads a 32-bit integer off the front of `bytes`.
pub(crate) fn get_i32(bytes: &mut impl Buf) -> Result<i32, RecordProblem> {
    let raw = u32::try_from(get_raw(bytes, 5)?).map_err(|_| RecordProblem::BadVarint)?;
    Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
}

/// Reads a 64-bit integer off the front of `bytes`.
pub(crate) fn get_i64(bytes: &mut impl Buf) -> Result<i64, RecordProblem> {
    let raw = get_raw(bytes, 10)?;
    Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
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

fn get_raw(bytes: &mut impl Buf, max_bytes: u32) -> Result<u64, RecordProblem> {
    let mut raw = 0u64;
    for position in 0..max_bytes {
        if !bytes.has_remaining() {
            return Err(RecordProblem::Truncated);
        }
        let byte = bytes.get_u8();
        let low = u64::from(byte & 0x7f);
        let shift = 7 * position;
        if (low << shift) >> shift != low {
            return Err(RecordProblem::BadVarint);
        }
        raw |= low << shift;
        if byte & 0x80 == 0 {
            return Ok(raw);
        }
    }
    Err(RecordProblem::BadVarint)
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
            assert_eq!(get_i64(&mut &bytes[..]), Ok(value));
        }
    }

    #[test]
    fn too_many_bytes_or_bits_are_refused() {
        let long = [0xff; 11];
        assert_eq!(get_i32(&mut &long[..]), Err(RecordProblem::BadVarint));
        assert_eq!(get_i64(&mut &long[..]), Err(RecordProblem::BadVarint));
        // One bit more than the type has, in the last byte that is allowed.
        let wide = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert_eq!(get_i32(&mut &wide[..]), Err(RecordProblem::BadVarint));
        let wide = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(get_i64(&mut &wide[..]), Err(RecordProblem::BadVarint));
        assert_eq!(get_i64(&mut &long[..9]), Err(RecordProblem::Truncated));
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value: i64, narrow: i32) {
            let bytes = encoded(value);
            prop_assert_eq!(bytes.len(), size_bytes(value));
            prop_assert_eq!(get_i64(&mut &bytes[..]), Ok(value));
            let bytes = encoded(i64::from(narrow));
            prop_assert_eq!(bytes.len(), size_bytes(i64::from(narrow)));
            prop_assert_eq!(get_i32(&mut &bytes[..]), Ok(narrow));
        }
    }
}
