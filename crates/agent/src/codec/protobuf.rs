//! Protocol Buffers, field by field. No length allocates, and nothing is kept but what is asked for.
//!
//! A message is fields: a varint of `number << 3 | type`, and a value. Source: "Encoding" in the Protocol Buffers
//! documentation.

use super::Malformed;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    /// The bytes of a field that has to have some.
    pub(crate) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Field::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::new("a field of the message has another type than it should")),
        }
    }

    pub(crate) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::new("a text is no UTF-8"))
    }

    /// A number, however it is written.
    pub(crate) fn number(self) -> Result<u64, Malformed> {
        match self {
            Field::Varint(number) | Field::Fixed64(number) => Ok(number),
            Field::Fixed32(number) => Ok(number.into()),
            Field::Bytes(_) => Err(Malformed::new("a field of the message is no number")),
        }
    }
}

/// The fields of a message, in their order. Behind an error there is nothing.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Fields<'a> {
        Fields(message)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first().ok_or_else(cut_off)?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::new("a number of the message is too long"))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn read(&mut self) -> Result<(u64, Field<'a>), Malformed> {
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(cut_off)?;
                self.0 = rest;
                Field::Bytes(bytes)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.fixed()?)),
            kind => return Err(Malformed(format!("the message has a field of the type {kind}"))),
        };
        Ok((key >> 3, field))
    }
}

fn cut_off() -> Malformed {
    Malformed::new("the message ends within a field")
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.0 = &[];
        }
        Some(read)
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number; zero is left away, as it is what a missing field means.
pub(crate) fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        put_varint(out, field << 3);
        put_varint(out, number);
    }
}

pub(crate) fn put_fixed64(out: &mut Vec<u8>, field: u64, number: u64) {
    put_varint(out, field << 3 | 1);
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_fixed32(out: &mut Vec<u8>, field: u64, number: u32) {
    put_varint(out, field << 3 | 5);
    out.extend_from_slice(&number.to_le_bytes());
}

/// A text, bytes or a message.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_they_were_written_and_no_cut_panics() {
        let mut message = Vec::new();
        put_number(&mut message, 1, 300);
        put_bytes(&mut message, 2, b"text");
        put_fixed64(&mut message, 3, u64::MAX);
        put_fixed32(&mut message, 4, 7);
        put_number(&mut message, 5, u64::MAX);
        put_number(&mut message, 6, 0);
        // The documentation's own example, and a text.
        assert_eq!(message[..10], *b"\x08\xac\x02\x12\x04text\x19");
        let fields: Vec<_> = Fields::of(&message).map(|field| field.expect("is one")).collect();
        assert_eq!(
            fields,
            [
                (1, Field::Varint(300)),
                (2, Field::Bytes(b"text")),
                (3, Field::Fixed64(u64::MAX)),
                (4, Field::Fixed32(7)),
                (5, Field::Varint(u64::MAX)),
            ]
        );
        for cut in 0..message.len() {
            assert!(Fields::of(&message[..cut]).take_while(Result::is_ok).count() < 5);
        }
        for odd in [&[0x0b][..], &[0xff; 11], b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"] {
            assert!(Fields::of(odd).any(|field| field.is_err()));
        }
    }
}
