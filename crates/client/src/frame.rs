//! Frames on a socket: four bytes of length, then that many bytes.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter};

use crate::ConnectionFailure;
use crate::stream::{Incoming, Outgoing};

/// The size of a frame's length field.
const LENGTH_BYTES: usize = 4;

/// Enough for many small frames in one system call.
const BUFFER_BYTES: usize = 64 << 10;

/// How much is set aside at a time for a large frame: a broker that announces much and sends
/// little costs no more.
const GROWTH_BYTES: usize = 1 << 20;

/// The reading half of a connection.
#[derive(Debug)]
pub struct FrameReader {
    stream: Incoming,
    received: BytesMut,
    frame_bytes_max: usize,
}

impl FrameReader {
    /// Reads frames of at most `frame_bytes_max` bytes, the length field not counted.
    pub(crate) fn new(stream: Incoming, frame_bytes_max: usize) -> FrameReader {
        FrameReader { stream, received: BytesMut::with_capacity(BUFFER_BYTES), frame_bytes_max }
    }

    /// The next frame without its length. Cancel safe: nothing is lost when it is not awaited to
    /// the end.
    ///
    /// # Errors
    ///
    /// [`ConnectionFailure::Closed`] at the end of the stream, also inside a frame, and
    /// [`ConnectionFailure::ResponseTooLarge`] before anything is allocated for it.
    pub async fn read_frame(&mut self) -> Result<Bytes, ConnectionFailure> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(ConnectionFailure::Closed);
            }
        }
    }

    /// A frame that is complete in the buffer; otherwise there is room for more bytes of it.
    fn take_frame(&mut self) -> Result<Option<Bytes>, ConnectionFailure> {
        let Some(&length) = self.received.first_chunk::<LENGTH_BYTES>() else {
            self.received.reserve(BUFFER_BYTES);
            return Ok(None);
        };
        let length = i32::from_be_bytes(length);
        let frame_bytes = usize::try_from(length)
            .ok()
            .filter(|&frame_bytes| frame_bytes <= self.frame_bytes_max)
            .ok_or(ConnectionFailure::ResponseTooLarge {
                length,
                max_bytes: self.frame_bytes_max,
            })?;
        let missing_bytes = (LENGTH_BYTES + frame_bytes).saturating_sub(self.received.len());
        if missing_bytes > 0 {
            self.received.reserve(missing_bytes.min(GROWTH_BYTES.max(self.received.len())));
            return Ok(None);
        }
        self.received.advance(LENGTH_BYTES);
        Ok(Some(self.received.split_to(frame_bytes).freeze()))
    }
}

/// The writing half of a connection.
#[derive(Debug)]
pub struct FrameWriter {
    stream: BufWriter<Outgoing>,
}

impl FrameWriter {
    pub(crate) fn new(stream: Outgoing) -> FrameWriter {
        FrameWriter { stream: BufWriter::with_capacity(BUFFER_BYTES, stream) }
    }

    /// Writes a frame that has its length in front, perhaps only into the buffer.
    pub async fn write_frame(&mut self, frame: &[u8]) -> Result<(), ConnectionFailure> {
        Ok(self.stream.write_all(frame).await?)
    }

    /// Hands everything written so far to the system.
    pub async fn flush(&mut self) -> Result<(), ConnectionFailure> {
        Ok(self.stream.flush().await?)
    }
}
