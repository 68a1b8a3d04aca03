//! Writing the tagged fields at the end of a struct.

use std::iter::Peekable;
use std::slice::Iter;

use crate::{EncodeError, Encoder, RawTaggedField};

/// The tagged fields of one struct while they are written.
///
/// | bytes | what |
/// |---|---|
/// | 1-5 | count, a variable-length integer; then for each field, by rising tag: |
/// | 1-5 | tag, a variable-length integer |
/// | 1-5 | size, a variable-length integer |
/// | … | the field |
///
/// Count and sizes are known only afterwards: a byte holds their place, and in the rare case that one byte is not
/// enough, what follows is moved.
#[derive(Debug)]
pub(crate) struct TaggedFields<'a> {
    encoder: &'a mut Encoder,
    /// The struct, for errors.
    name: &'static str,
    /// Where the count goes; `None` if the version is not flexible.
    start_bytes: Option<usize>,
    count: u32,
    last_tag: Option<u32>,
    unknown: Peekable<Iter<'a, RawTaggedField>>,
}

impl<'a> TaggedFields<'a> {
    /// Starts the fields; `unknown` will go between the known ones, by their tags.
    pub(crate) fn new(
        encoder: &'a mut Encoder,
        name: &'static str,
        flexible: bool,
        unknown: &'a [RawTaggedField],
    ) -> TaggedFields<'a> {
        let start_bytes = flexible.then(|| encoder.len_bytes());
        if flexible {
            encoder.raw(&[0]);
        }
        TaggedFields {
            encoder,
            name,
            start_bytes,
            count: 0,
            last_tag: None,
            unknown: unknown.iter().peekable(),
        }
    }

    /// Writes a known field, after the unknown ones with smaller tags. Tags must rise from call to call.
    pub(crate) fn field(
        &mut self,
        tag: u32,
        write: impl FnOnce(&mut Encoder) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        debug_assert!(
            self.start_bytes.is_some(),
            "{} has no tagged fields at this version",
            self.name
        );
        self.unknown_below(Some(tag))?;
        self.begin(tag)?;
        let start_bytes = self.encoder.len_bytes();
        self.encoder.raw(&[0]);
        write(self.encoder)?;
        let size = self.size(self.encoder.len_bytes() - start_bytes - 1)?;
        self.encoder.fill_varint(start_bytes, size);
        Ok(())
    }

    /// Writes the rest of the unknown fields, and the count.
    pub(crate) fn finish(mut self) -> Result<(), EncodeError> {
        self.unknown_below(None)?;
        if let Some(start_bytes) = self.start_bytes {
            self.encoder.fill_varint(start_bytes, self.count);
        }
        Ok(())
    }

    fn unknown_below(&mut self, tag: Option<u32>) -> Result<(), EncodeError> {
        let is_below = |field: &&RawTaggedField| tag.is_none_or(|tag| field.tag < tag);
        while let Some(field) = self.unknown.next_if(is_below) {
            self.begin(field.tag)?;
            let size = self.size(field.data.len())?;
            self.encoder.unsigned_varint(size);
            self.encoder.raw(&field.data);
        }
        Ok(())
    }

    fn begin(&mut self, tag: u32) -> Result<(), EncodeError> {
        if self.last_tag.is_some_and(|last| last >= tag) {
            return Err(EncodeError::TagOrder { field: self.name, tag });
        }
        self.last_tag = Some(tag);
        self.count += 1;
        self.encoder.unsigned_varint(tag);
        Ok(())
    }

    fn size(&self, length: usize) -> Result<u32, EncodeError> {
        let size =
            i32::try_from(length).map_err(|_| EncodeError::TooLong { field: self.name, length })?;
        Ok(size.unsigned_abs())
    }
}
