//! Frames of AWS's event streams.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | the length of all, big-endian as all numbers |
//! | 4 | the length of the headers |
//! | 4 | CRC-32 of the eight bytes before it |
//! | N | headers: length of the name (1), name, 7 for a text, length of the value (2), value |
//! | N | payload |
//! | 4 | CRC-32 of all before it |

use bytes::Bytes;
use crc_fast::CrcAlgorithm::Crc32IsoHdlc;

/// The HTTP content type of a stream.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

/// The type of payloads: they are JSON whatever the request was.
const PAYLOAD_TYPE: &str = "application/x-amz-json-1.1";

/// What a frame is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FrameKind<'a> {
    /// An event of this type.
    Event(&'a str),
    /// An error of this name, behind which nothing comes.
    Exception(&'a str),
}

/// A frame.
pub(crate) fn frame(kind: FrameKind<'_>, payload: &[u8]) -> Bytes {
    let (message, name, value) = match kind {
        FrameKind::Event(name) => ("event", ":event-type", name),
        FrameKind::Exception(name) => ("exception", ":exception-type", name),
    };
    let mut headers = Vec::with_capacity(128);
    for (name, value) in
        [(":message-type", message), (name, value), (":content-type", PAYLOAD_TYPE)]
    {
        headers.push(u8::try_from(name.len()).expect("names of headers are short"));
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        let length = u16::try_from(value.len()).expect("values of headers are short");
        headers.extend_from_slice(&length.to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let length = 12 + headers.len() + payload.len() + 4;
    let mut bytes = Vec::with_capacity(length);
    for number in [length, headers.len()] {
        let number = u32::try_from(number).expect("a payload is bounded");
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    push_crc(&mut bytes);
    bytes.extend_from_slice(&headers);
    bytes.extend_from_slice(payload);
    push_crc(&mut bytes);
    bytes.into()
}

fn push_crc(bytes: &mut Vec<u8>) {
    let crc = crc_fast::checksum(Crc32IsoHdlc, bytes) as u32;
    bytes.extend_from_slice(&crc.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_lengths_and_sums() {
        let frame = frame(FrameKind::Event("SubscribeToShardEvent"), b"{}");
        let number = |at: usize| u32::from_be_bytes(std::array::from_fn(|index| frame[at + index]));
        assert_eq!(number(0) as usize, frame.len());
        assert_eq!(number(8), crc_fast::checksum(Crc32IsoHdlc, &frame[..8]) as u32);
        let end = frame.len() - 4;
        assert_eq!(number(end), crc_fast::checksum(Crc32IsoHdlc, &frame[..end]) as u32);
        assert_eq!(&frame[12 + number(4) as usize..end], b"{}");
        assert_eq!(&frame[12..26], b"\x0d:message-type");
    }
}
