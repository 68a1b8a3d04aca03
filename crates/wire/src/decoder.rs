//! Reading the protocol's types from a frame.

use bytes::Bytes;
use logway_model::Uuid;

use crate::wire_struct::WireStruct;
use crate::{DecodeError, DecodeErrorKind, Message, RawTaggedField, Records, WireString};

/// Reads values from one frame, without trusting anything in it.
///
/// Strings, bytes and records are slices of the frame. A count is believed only if that many elements, at their
/// smallest, fit into the bytes that remain; and the memory of the elements is charged against the decoder's limit
/// before it is allocated. So a decoder allocates at most its limit, whatever the frame says.
///
/// Every method takes the name of the field it reads, for the error. `flexible` chooses between the two forms of
/// lengths: variable-length and one too large (KIP-482), or of fixed size.
#[derive(Debug, Clone)]
pub struct Decoder {
    frame: Bytes,
    position: usize,
    /// The end of the frame, or of the tagged field being read.
    end: usize,
    decoded_bytes: usize,
    decoded_bytes_max: usize,
}

/// The longest string that Kafka reads or writes, in either form.
pub(crate) const STRING_BYTES_MAX: usize = i16::MAX as usize;

macro_rules! integers {
    ($($name:ident)*) => {$(
        #[doc = concat!("Reads a big-endian `", stringify!($name), "`.")]
        pub fn $name(&mut self, field: &'static str) -> Result<$name, DecodeError> {
            Ok($name::from_be_bytes(self.fixed(field)?))
        }
    )*};
}

impl Decoder {
    /// The limit of [`Decoder::new`], in bytes.
    pub const DEFAULT_DECODED_BYTES_MAX: usize = 64 << 20;

    /// Reads `frame` with the default limit.
    pub fn new(frame: Bytes) -> Decoder {
        Decoder::with_limit(frame, Decoder::DEFAULT_DECODED_BYTES_MAX)
    }

    /// Reads `frame`; the decoded arrays and tagged fields may take `decoded_bytes_max` bytes of memory in total,
    /// beside the frame itself.
    pub fn with_limit(frame: Bytes, decoded_bytes_max: usize) -> Decoder {
        let end = frame.len();
        Decoder { frame, position: 0, end, decoded_bytes: 0, decoded_bytes_max }
    }

    /// How many bytes are left.
    pub fn remaining_bytes(&self) -> usize {
        self.end - self.position
    }

    /// How many bytes have been read.
    pub fn position_bytes(&self) -> usize {
        self.position
    }

    /// How much memory the decoded arrays and tagged fields take so far.
    pub fn decoded_bytes(&self) -> usize {
        self.decoded_bytes
    }

    /// Ends the reading of a frame.
    ///
    /// # Errors
    /// Bytes are left over.
    pub fn finish(self, field: &'static str) -> Result<(), DecodeError> {
        match self.remaining_bytes() {
            0 => Ok(()),
            bytes => Err(self.error(field, DecodeErrorKind::TrailingBytes(bytes))),
        }
    }

    /// Fails unless `M` has that version.
    pub(crate) fn check_version<M: Message>(&self, version: i16) -> Result<(), DecodeError> {
        match M::VALID_VERSIONS.contains(version) {
            true => Ok(()),
            false => Err(self.error(M::NAME, DecodeErrorKind::UnsupportedVersion(version))),
        }
    }

    integers! { i8 i16 u16 i32 u32 i64 f64 }

    /// Reads a byte, of which any but 0 is true.
    pub fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        Ok(self.i8(field)? != 0)
    }

    /// Reads 16 bytes.
    pub fn uuid(&mut self, field: &'static str) -> Result<Uuid, DecodeError> {
        Ok(Uuid(self.fixed(field)?))
    }

    /// Reads an unsigned integer of 7 bits per byte, low bits first; at most 5 bytes.
    pub fn unsigned_varint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed(field)?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(field, DecodeErrorKind::VarintOverflow))
    }

    /// Reads a string.
    pub fn string(
        &mut self,
        field: &'static str,
        flexible: bool,
    ) -> Result<WireString, DecodeError> {
        let text = self.nullable_string(field, flexible)?;
        self.required(field, text)
    }

    /// Reads a string that may be null.
    pub fn nullable_string(
        &mut self,
        field: &'static str,
        flexible: bool,
    ) -> Result<Option<WireString>, DecodeError> {
        let len = if flexible { self.compact_len(field)? } else { self.fixed_len16(field)? };
        let Some(len) = len else { return Ok(None) };
        if len > STRING_BYTES_MAX {
            return Err(self.error(field, DecodeErrorKind::StringTooLong(len)));
        }
        let bytes = self.slice(field, len)?;
        match WireString::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(bytes) => self.replaced(field, &bytes).map(Some),
        }
    }

    /// The text with U+FFFD in place of what is not UTF-8, as Kafka reads it. Unlike others it is a copy, up to three
    /// times as long, and is charged as one.
    fn replaced(&mut self, field: &'static str, bytes: &[u8]) -> Result<WireString, DecodeError> {
        self.charge(field, bytes.len() * char::REPLACEMENT_CHARACTER.len_utf8())?;
        let text = String::from_utf8_lossy(bytes).into_owned();
        match text.len() {
            ..=STRING_BYTES_MAX => Ok(WireString::from(text)),
            len => Err(self.error(field, DecodeErrorKind::StringTooLong(len))),
        }
    }

    /// Reads bytes.
    pub fn bytes(&mut self, field: &'static str, flexible: bool) -> Result<Bytes, DecodeError> {
        let bytes = self.nullable_bytes(field, flexible)?;
        self.required(field, bytes)
    }

    /// Reads bytes that may be null.
    pub fn nullable_bytes(
        &mut self,
        field: &'static str,
        flexible: bool,
    ) -> Result<Option<Bytes>, DecodeError> {
        match self.long_len(field, flexible)? {
            Some(len) => self.slice(field, len).map(Some),
            None => Ok(None),
        }
    }

    /// Reads record batches.
    pub fn records(&mut self, field: &'static str, flexible: bool) -> Result<Records, DecodeError> {
        self.bytes(field, flexible).map(Records::InMemory)
    }

    /// Reads record batches that may be null.
    pub fn nullable_records(
        &mut self,
        field: &'static str,
        flexible: bool,
    ) -> Result<Option<Records>, DecodeError> {
        Ok(self.nullable_bytes(field, flexible)?.map(Records::InMemory))
    }

    /// Reads an array of values of fixed size, each by `read`.
    pub fn primitives<T>(
        &mut self,
        field: &'static str,
        flexible: bool,
        read: impl Fn(&mut Decoder, &'static str) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let values = self.nullable_primitives(field, flexible, read)?;
        self.required(field, values)
    }

    /// Reads an array of values of fixed size that may be null.
    pub fn nullable_primitives<T>(
        &mut self,
        field: &'static str,
        flexible: bool,
        read: impl Fn(&mut Decoder, &'static str) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        // These have the same size in memory as on the wire.
        self.nullable_array(field, flexible, size_of::<T>(), |from| read(from, field))
    }

    /// Reads an array of strings.
    pub fn strings(
        &mut self,
        field: &'static str,
        flexible: bool,
    ) -> Result<Vec<WireString>, DecodeError> {
        let values = self.nullable_strings(field, flexible)?;
        self.required(field, values)
    }

    /// Reads an array of strings that may be null.
    pub fn nullable_strings(
        &mut self,
        field: &'static str,
        flexible: bool,
    ) -> Result<Option<Vec<WireString>>, DecodeError> {
        let bytes_min = if flexible { 1 } else { 2 };
        self.nullable_array(field, flexible, bytes_min, |from| from.string(field, flexible))
    }

    /// Reads an array of structs.
    pub(crate) fn structs<T: WireStruct>(
        &mut self,
        field: &'static str,
        flexible: bool,
        version: i16,
    ) -> Result<Vec<T>, DecodeError> {
        let values = self.nullable_structs(field, flexible, version)?;
        self.required(field, values)
    }

    /// Reads an array of structs that may be null.
    pub(crate) fn nullable_structs<T: WireStruct>(
        &mut self,
        field: &'static str,
        flexible: bool,
        version: i16,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let bytes_min = T::wire_bytes_min(version);
        self.nullable_array(field, flexible, bytes_min, |from| T::decode(from, version))
    }

    /// Reads a struct that may be null: a byte of -1 for null, or 1 and the struct (KIP-893).
    pub(crate) fn nullable_struct<T: WireStruct>(
        &mut self,
        field: &'static str,
        version: i16,
    ) -> Result<Option<T>, DecodeError> {
        match self.i8(field)? {
            -1 => Ok(None),
            1 => T::decode(self, version).map(Some),
            other => Err(self.error(field, DecodeErrorKind::InvalidPresence(other))),
        }
    }

    /// Reads the tagged fields at the end of a struct whose definition knows none.
    pub(crate) fn unknown_tagged_fields(
        &mut self,
        field: &'static str,
        flexible: bool,
    ) -> Result<Vec<RawTaggedField>, DecodeError> {
        self.tagged_fields(field, flexible, |_, _| Ok(false))
    }

    /// Reads the tagged fields at the end of a struct, if it is flexible, and returns the unknown ones.
    ///
    /// `known` is called with each tag, rising, and a decoder that ends where the field does. It reads the whole
    /// field and returns true, or reads nothing and returns false if it does not know the tag.
    pub(crate) fn tagged_fields(
        &mut self,
        field: &'static str,
        flexible: bool,
        mut known: impl FnMut(u32, &mut Decoder) -> Result<bool, DecodeError>,
    ) -> Result<Vec<RawTaggedField>, DecodeError> {
        let mut unknown = Vec::new();
        if !flexible {
            return Ok(unknown);
        }
        // A tag and a length take a byte each at least.
        let count = self.unsigned_varint(field)? as usize;
        self.check_count(field, count, 2, size_of::<RawTaggedField>())?;
        let mut previous = None;
        for _ in 0..count {
            let tag = self.next_tag(field, previous)?;
            previous = Some(tag);
            let len = self.unsigned_varint(field)? as usize;
            self.check_remaining(field, len)?;
            if !self.within(field, len, |from| known(tag, from))? {
                // As many as were charged for: growing step by step could take twice that.
                unknown.reserve_exact(if unknown.is_empty() { count } else { 0 });
                unknown.push(RawTaggedField { tag, data: self.slice(field, len)? });
            }
        }
        Ok(unknown)
    }

    fn next_tag(&mut self, field: &'static str, previous: Option<u32>) -> Result<u32, DecodeError> {
        let tag = self.unsigned_varint(field)?;
        match previous {
            Some(previous) if tag <= previous => {
                Err(self.error(field, DecodeErrorKind::TagOrder { tag, previous }))
            }
            _ => Ok(tag),
        }
    }

    /// Lets `known` read the next `len` bytes, all or (returning false) none of them.
    fn within(
        &mut self,
        field: &'static str,
        len: usize,
        known: impl FnOnce(&mut Decoder) -> Result<bool, DecodeError>,
    ) -> Result<bool, DecodeError> {
        let end = self.end;
        self.end = self.position + len;
        let was_known = known(self);
        let left = self.remaining_bytes();
        self.end = end;
        if matches!(was_known, Ok(true)) && left > 0 {
            return Err(self.error(field, DecodeErrorKind::TrailingBytes(left)));
        }
        was_known
    }

    /// Reads an array that may be null, each element by `read`; one takes at least `bytes_min` bytes on the wire.
    fn nullable_array<T>(
        &mut self,
        field: &'static str,
        flexible: bool,
        bytes_min: usize,
        read: impl Fn(&mut Decoder) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.long_len(field, flexible)? else { return Ok(None) };
        self.check_count(field, count, bytes_min, size_of::<T>())?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Ok(Some(elements))
    }

    /// The length in front of a string, in its old form; `None` for null.
    fn fixed_len16(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        let len = self.i16(field)?;
        self.checked_len(field, i32::from(len))
    }

    /// The length in front of bytes, records or an array; `None` for null.
    fn long_len(
        &mut self,
        field: &'static str,
        flexible: bool,
    ) -> Result<Option<usize>, DecodeError> {
        if flexible {
            return self.compact_len(field);
        }
        let len = self.i32(field)?;
        self.checked_len(field, len)
    }

    /// A length in its flexible form: 0 for null, else one more than the length.
    fn compact_len(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        Ok((self.unsigned_varint(field)? as usize).checked_sub(1))
    }

    fn checked_len(&self, field: &'static str, len: i32) -> Result<Option<usize>, DecodeError> {
        match usize::try_from(len) {
            Ok(len) => Ok(Some(len)),
            Err(_) if len == -1 => Ok(None),
            Err(_) => Err(self.error(field, DecodeErrorKind::NegativeLength(len))),
        }
    }

    /// Believes `count` only if that many elements can be there, and charges their memory.
    fn check_count(
        &mut self,
        field: &'static str,
        count: usize,
        element_bytes_min: usize,
        element_size: usize,
    ) -> Result<(), DecodeError> {
        let remaining_bytes = self.remaining_bytes();
        if count > remaining_bytes / element_bytes_min {
            let kind = DecodeErrorKind::CountTooLarge { count, element_bytes_min, remaining_bytes };
            return Err(self.error(field, kind));
        }
        self.charge(field, count.saturating_mul(element_size))
    }

    /// Counts memory against the limit, before it is allocated.
    fn charge(&mut self, field: &'static str, bytes: usize) -> Result<(), DecodeError> {
        let charged = bytes.saturating_add(self.decoded_bytes);
        if charged > self.decoded_bytes_max {
            let decoded_bytes_max = self.decoded_bytes_max;
            return Err(self.error(field, DecodeErrorKind::LimitExceeded { decoded_bytes_max }));
        }
        self.decoded_bytes = charged;
        Ok(())
    }

    fn check_remaining(&self, field: &'static str, needed_bytes: usize) -> Result<(), DecodeError> {
        let remaining_bytes = self.remaining_bytes();
        if needed_bytes > remaining_bytes {
            let kind = DecodeErrorKind::Truncated { needed_bytes, remaining_bytes };
            return Err(self.error(field, kind));
        }
        Ok(())
    }

    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        match self.frame[self.position..self.end].first_chunk() {
            Some(bytes) => {
                self.position += N;
                Ok(*bytes)
            }
            None => {
                let remaining_bytes = self.remaining_bytes();
                Err(self
                    .error(field, DecodeErrorKind::Truncated { needed_bytes: N, remaining_bytes }))
            }
        }
    }

    fn slice(&mut self, field: &'static str, len: usize) -> Result<Bytes, DecodeError> {
        self.check_remaining(field, len)?;
        let start = self.position;
        self.position += len;
        Ok(self.frame.slice(start..self.position))
    }

    fn required<T>(&self, field: &'static str, value: Option<T>) -> Result<T, DecodeError> {
        value.ok_or_else(|| self.error(field, DecodeErrorKind::UnexpectedNull))
    }

    #[cold]
    pub(crate) fn error(&self, field: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { field, position_bytes: self.position, kind }
    }
}
