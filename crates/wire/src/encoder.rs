//! Writing the protocol's types.

use bytes::{BufMut, Bytes, BytesMut};
use logway_model::Uuid;

use crate::decoder::STRING_BYTES_MAX;
use crate::tagged_fields::TaggedFields;
use crate::wire_struct::WireStruct;
use crate::{EncodeError, Message, RawTaggedField, Records, WireString};

/// Appends values to a buffer.
///
/// Names and `flexible` are as in [`Decoder`](crate::Decoder). After an error the buffer holds an incomplete message:
/// drop the encoder.
#[derive(Debug, Default)]
pub struct Encoder {
    out: BytesMut,
    holes: Vec<Hole>,
}

/// A place where the caller has to send bytes of its own, between two parts of the encoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// How many encoded bytes go before it.
    pub position_bytes: usize,
    /// How many bytes the caller sends here.
    pub len_bytes: usize,
    /// The token of the [`Records::External`].
    pub token: usize,
}

/// Encoded bytes, with the holes to fill while sending them, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes in memory, those of the holes missing.
    pub bytes: Bytes,
    /// Where the caller's bytes go; positions never fall.
    pub holes: Vec<Hole>,
}

macro_rules! integers {
    ($($name:ident: $type:ty)*) => {$(
        #[doc = concat!("Writes a big-endian `", stringify!($type), "`.")]
        pub fn $name(&mut self, value: $type) {
            self.out.put_slice(&value.to_be_bytes());
        }
    )*};
}

impl Encoder {
    /// An empty buffer.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// An empty buffer with room for `capacity_bytes`.
    pub fn with_capacity(capacity_bytes: usize) -> Encoder {
        Encoder { out: BytesMut::with_capacity(capacity_bytes), holes: Vec::new() }
    }

    /// How many bytes are in the buffer; those of the holes do not count.
    pub fn len_bytes(&self) -> usize {
        self.out.len()
    }

    /// The bytes and the holes between them.
    pub fn finish(self) -> Encoded {
        Encoded { bytes: self.out.freeze(), holes: self.holes }
    }

    /// The bytes of a message without external records.
    ///
    /// # Errors
    /// There were external records.
    pub fn into_bytes(self) -> Result<Bytes, EncodeError> {
        match self.holes.is_empty() {
            true => Ok(self.out.freeze()),
            false => Err(EncodeError::UnexpectedHole),
        }
    }

    /// Takes back all but the first `len_bytes`. What goes must hold no records.
    pub(crate) fn truncate(&mut self, len_bytes: usize) {
        self.out.truncate(len_bytes);
    }

    /// Overwrites the four bytes at `position_bytes`, which must have been written.
    pub(crate) fn patch_i32(&mut self, position_bytes: usize, value: i32) {
        self.out[position_bytes..position_bytes + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// How many bytes will be sent: the buffer and the holes.
    pub(crate) fn total_bytes(&self) -> usize {
        self.out.len() + self.holes.iter().map(|hole| hole.len_bytes).sum::<usize>()
    }

    /// Fails unless `M` has that version.
    pub(crate) fn check_version<M: Message>(&self, version: i16) -> Result<(), EncodeError> {
        match M::VALID_VERSIONS.contains(version) {
            true => Ok(()),
            false => Err(EncodeError::UnsupportedVersion { message: M::NAME, version }),
        }
    }

    integers! { i8: i8 i16: i16 u16: u16 i32: i32 u32: u32 i64: i64 f64: f64 }

    /// Writes 1 for true and 0 for false.
    pub fn bool(&mut self, value: bool) {
        self.out.put_u8(u8::from(value));
    }

    /// Writes 16 bytes.
    pub fn uuid(&mut self, value: Uuid) {
        self.out.put_slice(&value.0);
    }

    /// Writes bytes as they are, without a length.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.put_slice(bytes);
    }

    /// Writes an unsigned integer of 7 bits per byte, low bits first.
    pub fn unsigned_varint(&mut self, value: u32) {
        let (bytes, len) = varint_bytes(value);
        self.out.put_slice(&bytes[..len]);
    }

    /// Writes a string.
    pub fn string(
        &mut self,
        field: &'static str,
        flexible: bool,
        value: &WireString,
    ) -> Result<(), EncodeError> {
        self.nullable_string(field, flexible, Some(value))
    }

    /// Writes a string or null.
    pub fn nullable_string(
        &mut self,
        field: &'static str,
        flexible: bool,
        value: Option<&WireString>,
    ) -> Result<(), EncodeError> {
        let bytes = value.map(WireString::as_bytes);
        let len = bytes.map(Bytes::len);
        if let Some(length) = len.filter(|len| *len > STRING_BYTES_MAX) {
            return Err(EncodeError::TooLong { field, length });
        }
        match len {
            _ if flexible => self.long_len(field, true, len)?,
            Some(len) => self.u16(len as u16),
            None => self.i16(-1),
        }
        self.out.put_slice(bytes.map_or(&[], |bytes| bytes));
        Ok(())
    }

    /// Writes bytes.
    pub fn bytes(
        &mut self,
        field: &'static str,
        flexible: bool,
        value: &Bytes,
    ) -> Result<(), EncodeError> {
        self.nullable_bytes(field, flexible, Some(value))
    }

    /// Writes bytes or null.
    pub fn nullable_bytes(
        &mut self,
        field: &'static str,
        flexible: bool,
        value: Option<&Bytes>,
    ) -> Result<(), EncodeError> {
        self.long_len(field, flexible, value.map(Bytes::len))?;
        self.out.put_slice(value.map_or(&[], |bytes| bytes));
        Ok(())
    }

    /// Writes record batches, or their length and a hole.
    pub fn records(
        &mut self,
        field: &'static str,
        flexible: bool,
        value: &Records,
    ) -> Result<(), EncodeError> {
        self.long_len(field, flexible, Some(value.len_bytes()))?;
        match value {
            Records::InMemory(bytes) => self.out.put_slice(bytes),
            Records::External { len_bytes, token } => {
                let position_bytes = self.out.len();
                self.holes.push(Hole { position_bytes, len_bytes: *len_bytes, token: *token });
            }
        }
        Ok(())
    }

    /// Writes record batches, or their length and a hole, or null.
    pub fn nullable_records(
        &mut self,
        field: &'static str,
        flexible: bool,
        value: Option<&Records>,
    ) -> Result<(), EncodeError> {
        match value {
            Some(records) => self.records(field, flexible, records),
            None => self.long_len(field, flexible, None),
        }
    }

    /// Writes an array of values of fixed size, each by `write`.
    pub fn primitives<T: Copy>(
        &mut self,
        field: &'static str,
        flexible: bool,
        values: &[T],
        write: impl Fn(&mut Encoder, T),
    ) -> Result<(), EncodeError> {
        self.nullable_primitives(field, flexible, Some(values), write)
    }

    /// Writes an array of values of fixed size, or null.
    pub fn nullable_primitives<T: Copy>(
        &mut self,
        field: &'static str,
        flexible: bool,
        values: Option<&[T]>,
        write: impl Fn(&mut Encoder, T),
    ) -> Result<(), EncodeError> {
        self.long_len(field, flexible, values.map(<[T]>::len))?;
        values.unwrap_or_default().iter().for_each(|value| write(self, *value));
        Ok(())
    }

    /// Writes an array of strings.
    pub fn strings(
        &mut self,
        field: &'static str,
        flexible: bool,
        values: &[WireString],
    ) -> Result<(), EncodeError> {
        self.nullable_strings(field, flexible, Some(values))
    }

    /// Writes an array of strings, or null.
    pub fn nullable_strings(
        &mut self,
        field: &'static str,
        flexible: bool,
        values: Option<&[WireString]>,
    ) -> Result<(), EncodeError> {
        self.long_len(field, flexible, values.map(<[WireString]>::len))?;
        let values = values.unwrap_or_default();
        values.iter().try_for_each(|value| self.string(field, flexible, value))
    }

    /// Writes an array of structs.
    pub(crate) fn structs<T: WireStruct>(
        &mut self,
        field: &'static str,
        flexible: bool,
        version: i16,
        values: &[T],
    ) -> Result<(), EncodeError> {
        self.nullable_structs(field, flexible, version, Some(values))
    }

    /// Writes an array of structs, or null.
    pub(crate) fn nullable_structs<T: WireStruct>(
        &mut self,
        field: &'static str,
        flexible: bool,
        version: i16,
        values: Option<&[T]>,
    ) -> Result<(), EncodeError> {
        self.long_len(field, flexible, values.map(<[T]>::len))?;
        values.unwrap_or_default().iter().try_for_each(|value| value.encode(self, version))
    }

    /// Writes -1 for null, or 1 and the struct (KIP-893).
    pub(crate) fn nullable_struct<T: WireStruct>(
        &mut self,
        version: i16,
        value: Option<&T>,
    ) -> Result<(), EncodeError> {
        self.i8(if value.is_some() { 1 } else { -1 });
        value.map_or(Ok(()), |value| value.encode(self, version))
    }

    /// Writes the tagged fields at the end of a struct whose definition knows none.
    pub(crate) fn unknown_tagged_fields(
        &mut self,
        name: &'static str,
        version: i16,
        flexible: bool,
        unknown: &[RawTaggedField],
    ) -> Result<(), EncodeError> {
        self.tagged_fields(name, version, flexible, unknown)?.finish()
    }

    /// Starts the tagged fields at the end of the struct of that name; a version that is not flexible has none.
    pub(crate) fn tagged_fields<'a>(
        &'a mut self,
        name: &'static str,
        version: i16,
        flexible: bool,
        unknown: &'a [RawTaggedField],
    ) -> Result<TaggedFields<'a>, EncodeError> {
        if !flexible && !unknown.is_empty() {
            return Err(unsupported(name, version));
        }
        Ok(TaggedFields::new(self, name, flexible, unknown))
    }

    /// Writes the length in front of bytes, records or an array.
    pub(crate) fn long_len(
        &mut self,
        field: &'static str,
        flexible: bool,
        len: Option<usize>,
    ) -> Result<(), EncodeError> {
        let length = len.unwrap_or(0);
        // One less than the largest, because the flexible form is one too large.
        let Some(checked) = i32::try_from(length).ok().filter(|len| *len < i32::MAX) else {
            return Err(EncodeError::TooLong { field, length });
        };
        match (flexible, len) {
            (true, Some(_)) => self.unsigned_varint(checked as u32 + 1),
            (true, None) => self.unsigned_varint(0),
            (false, Some(_)) => self.i32(checked),
            (false, None) => self.i32(-1),
        }
        Ok(())
    }

    /// Replaces the byte at `position_bytes`, which held the place of a variable-length integer.
    pub(crate) fn fill_varint(&mut self, position_bytes: usize, value: u32) {
        let (bytes, len) = varint_bytes(value);
        self.out[position_bytes] = bytes[0];
        if len > 1 {
            // Rare: 128 bytes or fields. What moves is tagged fields, which hold no records, so no hole moves.
            let rest = self.out.split_off(position_bytes + 1);
            self.out.put_slice(&bytes[1..len]);
            self.out.put_slice(&rest);
        }
    }
}

/// The value of a field that is nullable, but not at this version.
pub(crate) fn required<'a, T>(
    value: Option<&'a T>,
    field: &'static str,
    version: i16,
) -> Result<&'a T, EncodeError> {
    value.ok_or(EncodeError::UnexpectedNull { field, version })
}

/// The error for a field that is set at a version that lacks it.
pub(crate) fn unsupported(field: &'static str, version: i16) -> EncodeError {
    EncodeError::UnsupportedField { field, version }
}

/// The value's variable-length form: the bytes, and how many of them count.
fn varint_bytes(mut value: u32) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    let mut len = 0;
    loop {
        bytes[len] = (value & 0x7f) as u8;
        value >>= 7;
        len += 1;
        if value == 0 {
            return (bytes, len);
        }
        bytes[len - 1] |= 0x80;
    }
}
