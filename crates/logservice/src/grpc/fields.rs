//! A message field by field: decoded at once, millions of empty fields would take far more memory than their bytes.

use bytes::{Buf as _, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    /// A number.
    Varint(u64),
    /// A text, bytes or a message.
    Bytes(Bytes),
    /// Something that no message here has.
    Other,
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is malformed")]
pub(crate) struct Malformed;

/// The fields of a message, in their order, by their numbers. Behind an error there is nothing.
#[derive(Debug, Clone)]
pub(crate) struct Fields(Bytes);

impl Fields {
    /// Those of an encoded message.
    pub(crate) fn of(message: Bytes) -> Fields {
        Fields(message)
    }

    fn read(&mut self) -> Result<(u32, Field), Malformed> {
        let (number, wire_type) = decode_key(&mut self.0).map_err(|_| Malformed)?;
        let field = match wire_type {
            WireType::Varint => Field::Varint(decode_varint(&mut self.0).map_err(|_| Malformed)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.0).map_err(|_| Malformed)?;
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                if length > self.0.remaining() {
                    return Err(Malformed);
                }
                Field::Bytes(self.0.split_to(length))
            }
            other => {
                skip_field(other, number, &mut self.0, DecodeContext::default())
                    .map_err(|_| Malformed)?;
                Field::Other
            }
        };
        Ok((number, field))
    }
}

impl Iterator for Fields {
    type Item = Result<(u32, Field), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.0.clear();
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct Inner {
        #[prost(string, tag = "1")]
        name: String,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Outer {
        #[prost(bytes = "bytes", tag = "1")]
        key: Bytes,
        #[prost(message, repeated, tag = "3")]
        inner: Vec<Inner>,
        #[prost(int64, tag = "4")]
        number: i64,
        #[prost(double, tag = "5")]
        other: f64,
    }

    #[test]
    fn fields_are_as_they_were_encoded_and_no_cut_panics() {
        let inner = Inner { name: "h".to_owned() };
        let outer = Outer {
            key: Bytes::from_static(b"k"),
            inner: vec![inner.clone(), inner.clone()],
            number: 300,
            other: 1.5,
        };
        let bytes = Bytes::from(outer.encode_to_vec());
        let fields: Vec<_> = Fields::of(bytes.clone()).map(|it| it.expect("is one")).collect();
        let of_inner = Field::Bytes(inner.encode_to_vec().into());
        assert_eq!(
            fields,
            [
                (1, Field::Bytes(Bytes::from_static(b"k"))),
                (3, of_inner.clone()),
                (3, of_inner),
                (4, Field::Varint(300)),
                (5, Field::Other),
            ]
        );
        for cut in 0..bytes.len() {
            let fields = Fields::of(bytes.slice(..cut)).take_while(Result::is_ok).count();
            assert!(fields < 5);
        }
    }
}
