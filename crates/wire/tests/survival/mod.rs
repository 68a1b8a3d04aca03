//! What holds of any bytes that are taken for a message. Also the body of fuzz targets (`crates/fuzz-targets`).

use std::fmt::Debug;

use bytes::Bytes;
use logway_wire::{DecodeError, Decoder, Encoder, Message};

/// The most memory that decoding may take beside the bytes.
pub(crate) const DECODED_BYTES_MAX: usize = 1 << 20;

/// Decodes, and if that works checks that encoding loses nothing.
pub(crate) fn survive<M: Message + PartialEq + Debug>(
    bytes: &Bytes,
    version: i16,
) -> Result<(), DecodeError> {
    let mut decoder = Decoder::with_limit(bytes.clone(), DECODED_BYTES_MAX);
    let decoded = M::decode(&mut decoder, version);
    assert!(decoder.decoded_bytes() <= DECODED_BYTES_MAX);
    let message = decoded?;
    let again = M::decode(&mut Decoder::new(encode(&message, version)), version)?;
    assert!(is_same(&again, &message), "{again:?}\nis not\n{message:?}");
    Ok(())
}

/// Equal, or both with something in them that does not equal itself: a floating-point NaN.
fn is_same<M: PartialEq + Debug>(a: &M, b: &M) -> bool {
    a == b || format!("{a:?}") == format!("{b:?}")
}

/// The bytes of a message that was decoded at that version.
pub(crate) fn encode(message: &impl Message, version: i16) -> Bytes {
    let mut encoder = Encoder::new();
    message.encode(&mut encoder, version).expect("what was decoded can be encoded");
    encoder.into_bytes().expect("no records are external")
}
