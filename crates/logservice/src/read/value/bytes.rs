//! What is left of the bytes of a value, taken from the front.

use super::Misfit;

pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Misfit> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Misfit::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Misfit> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Misfit::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A number, by seven bits a byte, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64, Misfit> {
        let mut number = 0u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Misfit::Wrong("a number has more than ten bytes"))
    }
}

/// A number of either sign: the lowest bit says which.
pub(super) fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, Misfit> {
    std::str::from_utf8(bytes).map_err(|_| Misfit::Wrong("a text is no UTF-8"))
}
