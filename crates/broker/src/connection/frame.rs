//! Cuts a connection's byte stream into request frames.
//!
//! | bytes | field  | meaning                             |
//! |-------|--------|-------------------------------------|
//! | 4     | length | big-endian i32, of what follows     |
//! | N     | body   | request header, then the request    |

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use logway_wire::ApiKey;
use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::memory_budget::{BudgetShare, MemoryBudget};

const LENGTH_BYTES: usize = 4;

/// Every request begins with the number of its API.
const API_KEY_BYTES: usize = 2;

/// A Produce is nearly all records, which stay in the frame; its structs are few. Any other request
/// turns into structs, and its answer into more: it is charged this many times its size.
const DECODED_FACTOR: usize = 8;

/// The largest request that is not a Produce. It is far more than clients send, and small enough
/// that one such request never takes the whole budget.
const WITHOUT_RECORDS_BYTES_MAX: usize = 8 << 20;

/// What one read asks for. Many small requests arrive with one system call; the rest of a larger
/// one is then read straight into a buffer of its size.
const READ_BYTES: usize = 64 * 1024;

/// A request stays a slice of the buffer that it was read into if it is this part of it at least.
const SLICE_PART: usize = 4;

/// While others wait for the memory that a half-read request holds, it must grow in each such
/// interval by [`PROGRESS_BYTES_MIN`] and by a tenth of its size, or end.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

const PROGRESS_BYTES_MIN: usize = 64 * 1024;

const PROGRESS_PARTS: usize = 10;

/// Why no frame came; each closes the connection.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The length field is negative or over the limit.
    #[error("request length {length} is outside 0..={max_bytes} (socket.request.max.bytes)")]
    Length {
        /// As it came.
        length: i32,
        /// `socket.request.max.bytes`.
        max_bytes: usize,
    },
    /// Only a Produce may be that large.
    #[error(
        "request of {frame_bytes} bytes that carries no records is over {WITHOUT_RECORDS_BYTES_MAX}"
    )]
    TooLargeWithoutRecords {
        /// The announced size.
        frame_bytes: usize,
    },
    /// The client stopped in the middle of a request that others had to wait for.
    #[error("request of {frame_bytes} bytes stalled while others wait for request memory")]
    Stalled {
        /// The announced size.
        frame_bytes: usize,
    },
    /// The client closed in the middle of a request.
    #[error("connection closed in the middle of a request")]
    Truncated,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One request as it came, without its length field, and its share of the memory budget.
#[derive(Debug)]
pub(super) struct Frame {
    /// Request header and body.
    pub body: Bytes,
    /// Held until the request is answered.
    pub share: BudgetShare,
}

/// Reads frames from one socket.
///
/// Holds at most [`READ_BYTES`] beyond what the memory budget has granted, and nothing at all
/// while the connection is idle.
#[derive(Debug)]
pub(super) struct FrameReader {
    buffer: BytesMut,
    max_bytes: usize,
    budget: MemoryBudget,
    /// The frame that is being read, once its length is known.
    granted: Option<Granted>,
}

#[derive(Debug)]
struct Granted {
    share: BudgetShare,
    frame_bytes: usize,
    interval_start: Instant,
    buffered_at_start: usize,
}

impl FrameReader {
    /// A reader of frames of at most `max_bytes`.
    pub(super) fn new(max_bytes: usize, budget: MemoryBudget) -> FrameReader {
        FrameReader { buffer: BytesMut::new(), max_bytes, budget, granted: None }
    }

    /// Whether a frame is half read, for which memory was taken.
    pub(super) fn holds_memory(&self) -> bool {
        self.granted.is_some()
    }

    /// The next frame, or `None` when the client has closed between two.
    ///
    /// Cancel safe: what was read stays in the reader.
    pub(super) async fn next(
        &mut self,
        socket: &mut TcpStream,
    ) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(body_bytes) = self.announced_bytes()? {
                if let (None, Some(charge_bytes)) = (&self.granted, self.charge_bytes(body_bytes)?)
                {
                    let share = self.budget.take(charge_bytes).await;
                    let (interval_start, buffered_at_start) = (Instant::now(), self.buffer.len());
                    let frame_bytes = body_bytes;
                    self.granted =
                        Some(Granted { share, frame_bytes, interval_start, buffered_at_start });
                }
                if self.granted.is_some() && self.buffer.len() >= LENGTH_BYTES + body_bytes {
                    return Ok(Some(self.take_frame(body_bytes)));
                }
                if self.granted.is_some() {
                    self.buffer.reserve(LENGTH_BYTES + body_bytes - self.buffer.len());
                }
            }
            if self.read_some(socket).await? == 0 {
                let between_frames = self.buffer.is_empty();
                return if between_frames { Ok(None) } else { Err(FrameError::Truncated) };
            }
        }
    }

    /// The body length of the frame at the front of the buffer, once its four bytes are here.
    fn announced_bytes(&self) -> Result<Option<usize>, FrameError> {
        let Some(mut prefix) = self.buffer.get(..LENGTH_BYTES) else { return Ok(None) };
        let length = prefix.get_i32();
        match usize::try_from(length) {
            Ok(bytes) if bytes <= self.max_bytes => Ok(Some(bytes)),
            _ => Err(FrameError::Length { length, max_bytes: self.max_bytes }),
        }
    }

    /// What the frame at the front of the buffer costs of the budget, once that can be told.
    fn charge_bytes(&self, body_bytes: usize) -> Result<Option<usize>, FrameError> {
        if body_bytes < API_KEY_BYTES {
            return Ok(Some(body_bytes));
        }
        let api_key = self.buffer.get(LENGTH_BYTES..LENGTH_BYTES + API_KEY_BYTES);
        let Some(mut api_key) = api_key else { return Ok(None) };
        if api_key.get_i16() == ApiKey::Produce.id() {
            return Ok(Some(body_bytes));
        }
        if body_bytes > WITHOUT_RECORDS_BYTES_MAX {
            return Err(FrameError::TooLargeWithoutRecords { frame_bytes: body_bytes });
        }
        Ok(Some(body_bytes * DECODED_FACTOR))
    }

    /// A slice of a buffer keeps all of it for as long as the request is in work: one that is much smaller than the
    /// buffer is copied instead, and the buffer used again.
    fn take_frame(&mut self, body_bytes: usize) -> Frame {
        self.buffer.advance(LENGTH_BYTES);
        let body = match body_bytes * SLICE_PART < READ_BYTES {
            true => {
                let copy = Bytes::copy_from_slice(&self.buffer[..body_bytes]);
                self.buffer.advance(body_bytes);
                copy
            }
            false => self.buffer.split_to(body_bytes).freeze(),
        };
        let granted = self.granted.take().expect("a frame is granted before it is complete");
        Frame { body, share: granted.share }
    }

    async fn read_some(&mut self, socket: &mut TcpStream) -> Result<usize, FrameError> {
        if self.buffer.is_empty() {
            // An idle connection keeps no buffer.
            self.buffer = BytesMut::new();
        }
        loop {
            let Some(granted) = &mut self.granted else {
                return Ok(read_when_ready(socket, &mut self.buffer).await?);
            };
            let interval_end = granted.interval_start + PROGRESS_INTERVAL;
            let read = timeout_at(interval_end, read_when_ready(socket, &mut self.buffer)).await;
            if Instant::now() >= interval_end {
                let progress_bytes = self.buffer.len() - granted.buffered_at_start;
                let frame_bytes = granted.frame_bytes;
                let due_bytes = PROGRESS_BYTES_MIN.max(frame_bytes / PROGRESS_PARTS);
                if progress_bytes < due_bytes && self.budget.is_contended() {
                    return Err(FrameError::Stalled { frame_bytes });
                }
                granted.interval_start = Instant::now();
                granted.buffered_at_start = self.buffer.len();
            }
            if let Ok(read) = read {
                return Ok(read?);
            }
        }
    }
}

/// Reads what has come, into room that is made only now. A read that does not fill the room has
/// emptied the socket: it is not asked again before it reports more, which spares each small
/// request a second system call.
///
/// Cancel safe: what was read is in the buffer.
async fn read_when_ready(socket: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<usize> {
    socket.readable().await?;
    if buffer.capacity() == buffer.len() {
        buffer.reserve(READ_BYTES);
    }
    socket.read_buf(buffer).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    const MAX_BYTES: usize = 1 << 20;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.expect("connect"), accepted.expect("accept").0)
    }

    fn frame(body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len()).expect("small");
        [&length.to_be_bytes(), body].concat()
    }

    #[tokio::test]
    async fn frames_come_out_whole_however_they_are_cut() {
        let (mut client, mut server) = pair().await;
        let bodies: [&[u8]; 4] = [b"one", b"", &[7; 300_000], b"last"];
        let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
        let writer = tokio::spawn(async move {
            for piece in stream.chunks(1_021) {
                client.write_all(piece).await.expect("write");
            }
        });
        let budget = MemoryBudget::new(MAX_BYTES, Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, budget.clone());
        for body in bodies {
            let frame = reader.next(&mut server).await.expect("no error").expect("a frame");
            assert_eq!(frame.body, body);
        }
        assert!(reader.next(&mut server).await.expect("no error").is_none());
        assert_eq!(budget.used_bytes(), 0);
        writer.await.expect("writer");
    }

    #[tokio::test]
    async fn small_requests_in_work_keep_no_large_buffers() {
        let (mut client, mut server) = pair().await;
        let budget = MemoryBudget::new(MAX_BYTES, Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, budget);
        for _ in 0..10 {
            client.write_all(&frame(b"small")).await.expect("write");
            let frame = reader.next(&mut server).await.expect("no error").expect("a frame");
            assert_eq!(&frame.body[..], b"small");
            assert!(frame.body.is_unique(), "it is no part of the buffer");
        }
    }

    #[tokio::test]
    async fn lengths_out_of_range_are_refused_before_anything_is_allocated() {
        for length in [-1, i32::MIN, i32::MAX, 1_048_577] {
            let (mut client, mut server) = pair().await;
            client.write_all(&length.to_be_bytes()).await.expect("write");
            let mut reader =
                FrameReader::new(MAX_BYTES, MemoryBudget::new(MAX_BYTES, Arc::default()));
            let error = reader.next(&mut server).await.expect_err("refused");
            assert!(matches!(error, FrameError::Length { .. }), "{error}");
            assert!(reader.buffer.capacity() <= 2 * READ_BYTES);
        }
    }

    #[tokio::test]
    async fn a_close_inside_a_frame_is_an_error() {
        let (mut client, mut server) = pair().await;
        client.write_all(&[0, 0, 0, 9, 1]).await.expect("write");
        drop(client);
        let mut reader = FrameReader::new(MAX_BYTES, MemoryBudget::new(MAX_BYTES, Arc::default()));
        assert!(matches!(reader.next(&mut server).await, Err(FrameError::Truncated)));
    }

    #[tokio::test]
    async fn a_stalled_frame_gives_way_when_others_wait_for_its_memory() {
        let (mut client, mut server) = pair().await;
        let budget = MemoryBudget::new(MAX_BYTES, Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, budget.clone());
        client.write_all(&1_000_000_i32.to_be_bytes()).await.expect("write");
        client.write_all(&ApiKey::Produce.id().to_be_bytes()).await.expect("write");
        let stalled = tokio::spawn(async move { reader.next(&mut server).await.map(|_| ()) });
        while budget.used_bytes() == 0 {
            tokio::task::yield_now().await;
        }
        budget.take(MAX_BYTES).await;
        let outcome = stalled.await.expect("no panic");
        assert!(matches!(outcome, Err(FrameError::Stalled { .. })), "{outcome:?}");
    }

    /// Reads until the reader has taken in so many bytes and waits for more.
    async fn read_until(reader: &mut FrameReader, server: &mut TcpStream, bytes: usize) {
        while reader.buffer.len() < bytes {
            tokio::select! {
                biased;
                _ = reader.next(server) => panic!("no frame is whole"),
                () = tokio::task::yield_now() => {}
            }
        }
    }

    #[tokio::test]
    async fn room_for_a_large_request_is_made_only_when_its_memory_is_granted() {
        let (mut client, mut server) = pair().await;
        let budget = MemoryBudget::new(MAX_BYTES, Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, budget.clone());
        let all = budget.try_take(MAX_BYTES).expect("nothing is taken yet");
        // So far nobody can know what the request costs.
        client.write_all(&1_000_000_i32.to_be_bytes()).await.expect("write");
        read_until(&mut reader, &mut server, LENGTH_BYTES).await;
        assert!(reader.buffer.capacity() <= 2 * READ_BYTES, "{}", reader.buffer.capacity());
        // Now its memory is waited for.
        client.write_all(&ApiKey::Produce.id().to_be_bytes()).await.expect("write");
        read_until(&mut reader, &mut server, LENGTH_BYTES + API_KEY_BYTES).await;
        assert!(reader.buffer.capacity() <= 2 * READ_BYTES, "{}", reader.buffer.capacity());
        drop(all);
        client.write_all(&[0]).await.expect("write");
        read_until(&mut reader, &mut server, LENGTH_BYTES + API_KEY_BYTES + 1).await;
        assert!(reader.buffer.capacity() >= 1_000_000 && budget.used_bytes() >= 1_000_000);
    }
}
