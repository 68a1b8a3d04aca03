//! Cuts a connection's byte stream into request frames.
//!
//! | bytes | field  | meaning                             |
//! |-------|--------|-------------------------------------|
//! | 4     | length | big-endian i32, of what follows     |
//! | N     | body   | request header, then the request    |

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use logway_node::append::Appender;
use logway_node::memory::{BudgetShare, RequestMemory};
use logway_wire::ApiKey;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use super::transport::Transport;
use crate::request::{DENSE_BYTES_MIN, decoded_bytes_max};

const LENGTH_BYTES: usize = 4;

/// Every request begins with the number of its API.
const API_KEY_BYTES: usize = 2;

/// A Produce is nearly all records, which stay in the frame; its structs are few. Any other request
/// turns into structs, and its answer into more: a small one is charged this many times its size.
const SMALL_FACTOR: usize = 8;

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
pub(crate) enum FrameError {
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
    /// Whether it carries records to be appended.
    pub is_produce: bool,
    /// Whether it holds so many structs that decoding it takes long.
    pub is_dense: bool,
    /// Held until the request is answered.
    pub share: BudgetShare,
}

/// Reads frames from one connection.
///
/// Memory is taken as bytes come, never for what is only announced: of a request that is not whole,
/// [`READ_BYTES`] are not counted, then its *beginning* is, and then all of it. A large one is copied
/// twice so, its first bytes, and only these; nothing is held while the connection is idle.
#[derive(Debug)]
pub(super) struct FrameReader {
    buffer: BytesMut,
    max_bytes: usize,
    memory: RequestMemory,
    /// What was taken for the frame that is being read.
    granted: Option<Granted>,
}

#[derive(Debug)]
struct Granted {
    share: BudgetShare,
    /// So much of the frame may be held, with its length field.
    room_bytes: usize,
    frame_bytes: usize,
    interval_start: Instant,
    buffered_at_start: usize,
}

impl FrameReader {
    /// A reader of frames of at most `max_bytes`.
    pub(super) fn new(max_bytes: usize, memory: RequestMemory) -> FrameReader {
        let (buffer, granted) = (BytesMut::new(), None);
        FrameReader { buffer, max_bytes, memory, granted }
    }

    /// Frames of at most so many bytes from now on; gives back what it was.
    pub(super) fn set_max_bytes(&mut self, max_bytes: usize) -> usize {
        std::mem::replace(&mut self.max_bytes, max_bytes)
    }

    /// Whether a frame is half read, for which memory was taken.
    pub(super) fn holds_memory(&self) -> bool {
        self.granted.is_some()
    }

    /// Gives back what there is beyond what was read: the connection waits for something else, and there may be as many
    /// of these as there may be connections.
    pub(super) fn keep_little(&mut self) {
        self.buffer = BytesMut::from(&self.buffer[..]);
    }

    /// The next frame, or `None` when the client has closed between two. What has come is not read while the connection
    /// [rests](Appender::rest).
    ///
    /// Cancel safe: what was read stays in the reader.
    pub(super) async fn next(
        &mut self,
        transport: &mut Transport,
        appender: &Appender,
    ) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(body_bytes) = self.announced_bytes()? {
                if let Some(charge_bytes) = self.charge_bytes(body_bytes)? {
                    self.take_memory(body_bytes, charge_bytes).await;
                }
                if self.buffer.len() >= LENGTH_BYTES + body_bytes
                    && let Some(granted) = self.granted.take()
                {
                    return Ok(Some(self.cut_frame(body_bytes, granted.share)));
                }
                let room_bytes = self.room_bytes(body_bytes);
                self.buffer.reserve(room_bytes.saturating_sub(self.buffer.len()));
            }
            let read_bytes = self.read_some(transport, appender).await?;
            if read_bytes == 0 {
                let between_frames = self.buffer.is_empty();
                return if between_frames { Ok(None) } else { Err(FrameError::Truncated) };
            }
        }
    }

    /// The next frame, if all of it has been read, it is small, and there is memory for it now.
    pub(super) fn next_at_hand(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(body_bytes) = self.announced_bytes()? else { return Ok(None) };
        let whole_bytes = LENGTH_BYTES + body_bytes;
        if self.granted.is_some() || whole_bytes > READ_BYTES || self.buffer.len() < whole_bytes {
            return Ok(None);
        }
        let Some(charge_bytes) = self.charge_bytes(body_bytes)? else { return Ok(None) };
        let share = self.memory.try_take_small(charge_bytes);
        Ok(share.map(|share| self.cut_frame(body_bytes, share)))
    }

    /// Takes what the frame at the front of the buffer needs to be received further, when it has filled its room.
    async fn take_memory(&mut self, body_bytes: usize, charge_bytes: usize) {
        let whole_bytes = LENGTH_BYTES + body_bytes;
        let room_bytes = self.room_bytes(body_bytes);
        let is_whole = self.granted.is_some() && room_bytes == whole_bytes;
        if is_whole || self.buffer.len() < room_bytes {
            return;
        }
        let beginning_bytes = self.memory.beginning_bytes();
        let (share, room_bytes) = if whole_bytes <= READ_BYTES {
            (self.memory.take_small(charge_bytes).await, whole_bytes)
        } else if self.buffer.len() < beginning_bytes && whole_bytes / 2 > beginning_bytes {
            (self.memory.take_beginning().await, beginning_bytes)
        } else {
            (self.memory.take_large(charge_bytes).await, whole_bytes)
        };
        self.granted = Some(Granted {
            share,
            room_bytes,
            frame_bytes: body_bytes,
            interval_start: Instant::now(),
            buffered_at_start: self.buffer.len(),
        });
    }

    /// What may be held now of the frame at the front of the buffer.
    fn room_bytes(&self, body_bytes: usize) -> usize {
        let uncounted_bytes = READ_BYTES.min(LENGTH_BYTES + body_bytes);
        self.granted.as_ref().map_or(uncounted_bytes, |granted| granted.room_bytes)
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
        let Some(api_key) = self.api_key() else { return Ok(None) };
        if api_key == ApiKey::Produce.id() {
            return Ok(Some(body_bytes));
        }
        if body_bytes > WITHOUT_RECORDS_BYTES_MAX {
            return Err(FrameError::TooLargeWithoutRecords { frame_bytes: body_bytes });
        }
        Ok(Some(match body_bytes < DENSE_BYTES_MIN {
            true => body_bytes * SMALL_FACTOR,
            false => body_bytes + decoded_bytes_max(body_bytes),
        }))
    }

    /// The API of the frame at the front of the buffer, once its two bytes are here.
    fn api_key(&self) -> Option<i16> {
        let mut api_key = self.buffer.get(LENGTH_BYTES..LENGTH_BYTES + API_KEY_BYTES)?;
        Some(api_key.get_i16())
    }

    /// A slice of a buffer keeps all of it for as long as the request is in work: one that is much smaller than the
    /// buffer is copied instead, and the buffer used again.
    fn cut_frame(&mut self, body_bytes: usize, share: BudgetShare) -> Frame {
        let is_produce = self.api_key() == Some(ApiKey::Produce.id());
        let is_dense = body_bytes >= DENSE_BYTES_MIN && !is_produce;
        self.buffer.advance(LENGTH_BYTES);
        let body = match body_bytes * SLICE_PART < READ_BYTES {
            true => {
                let copy = Bytes::copy_from_slice(&self.buffer[..body_bytes]);
                self.buffer.advance(body_bytes);
                copy
            }
            false => self.buffer.split_to(body_bytes).freeze(),
        };
        Frame { body, is_produce, is_dense, share }
    }

    async fn read_some(
        &mut self,
        transport: &mut Transport,
        appender: &Appender,
    ) -> Result<usize, FrameError> {
        if self.buffer.is_empty() {
            // An idle connection keeps no buffer.
            self.buffer = BytesMut::new();
        }
        loop {
            let Some(granted) = &mut self.granted else {
                return Ok(read_when_ready(transport, &mut self.buffer, appender).await?);
            };
            let interval_end = granted.interval_start + PROGRESS_INTERVAL;
            let read =
                timeout_at(interval_end, read_when_ready(transport, &mut self.buffer, appender))
                    .await;
            if Instant::now() >= interval_end {
                let progress_bytes = self.buffer.len() - granted.buffered_at_start;
                let frame_bytes = granted.frame_bytes;
                let due_bytes = PROGRESS_BYTES_MIN.max(frame_bytes / PROGRESS_PARTS);
                if progress_bytes < due_bytes && self.memory.is_contended() {
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
async fn read_when_ready(
    transport: &mut Transport,
    buffer: &mut BytesMut,
    appender: &Appender,
) -> io::Result<usize> {
    transport.readable().await?;
    appender.may_read().await;
    if buffer.capacity() == buffer.len() {
        buffer.reserve(READ_BYTES);
    }
    transport.read(buffer).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt;

    use super::super::transport::tests::pair;
    use super::*;

    const MAX_BYTES: usize = 1 << 20;

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
        let budget = RequestMemory::new(MAX_BYTES, &Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, budget.clone());
        for body in bodies {
            let frame = reader
                .next(&mut server, &Appender::default())
                .await
                .expect("no error")
                .expect("a frame");
            assert_eq!(frame.body, body);
        }
        assert!(reader.next(&mut server, &Appender::default()).await.expect("no error").is_none());
        assert_eq!(budget.used_bytes(), 0);
        writer.await.expect("writer");
    }

    #[tokio::test]
    async fn what_was_read_along_is_at_hand_if_it_is_whole_and_small_and_there_is_memory() {
        let (mut client, mut server) = pair().await;
        let bodies: [&[u8]; 4] = [b"one", b"two", b"three", b"four"];
        let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
        // The last is not whole.
        client.write_all(&stream[..stream.len() - 1]).await.expect("write");
        let memory = RequestMemory::new(MAX_BYTES, &Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, memory.clone());
        assert!(reader.next_at_hand().expect("no error").is_none(), "nothing was read");
        let first = reader
            .next(&mut server, &Appender::default())
            .await
            .expect("no error")
            .expect("a frame");
        assert_eq!(first.body, bodies[0]);
        let second = reader.next_at_hand().expect("no error").expect("it is at hand");
        assert_eq!((&second.body[..], second.share.bytes()), (bodies[1], 1024));

        // Others hold all that there is.
        let mut others = Vec::new();
        while let Some(share) = memory.try_take_small(MAX_BYTES / 64) {
            others.push(share);
        }
        while let Some(share) = memory.try_take_small(1) {
            others.push(share);
        }
        assert!(reader.next_at_hand().expect("no error").is_none(), "there is no memory");
        drop(others);
        let third = reader.next_at_hand().expect("no error").expect("now there is");
        assert_eq!(third.body, bodies[2]);
        assert!(reader.next_at_hand().expect("no error").is_none(), "not all of it has come");
        client.write_all(&stream[stream.len() - 1..]).await.expect("write");
        let last = reader
            .next(&mut server, &Appender::default())
            .await
            .expect("no error")
            .expect("a frame");
        assert_eq!(last.body, bodies[3]);

        let large = frame(&[0; READ_BYTES]);
        client.write_all(&large[..READ_BYTES]).await.expect("write");
        read_until(&mut reader, &mut server, READ_BYTES / 2).await;
        assert!(reader.next_at_hand().expect("no error").is_none(), "it is large");
    }

    #[tokio::test]
    async fn small_requests_in_work_keep_no_large_buffers() {
        let (mut client, mut server) = pair().await;
        let budget = RequestMemory::new(MAX_BYTES, &Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, budget);
        for _ in 0..10 {
            client.write_all(&frame(b"small")).await.expect("write");
            let frame = reader
                .next(&mut server, &Appender::default())
                .await
                .expect("no error")
                .expect("a frame");
            assert_eq!(&frame.body[..], b"small");
            assert!(frame.body.is_unique(), "it is no part of the buffer");
        }
    }

    #[tokio::test]
    async fn who_keeps_little_keeps_what_was_read() {
        let (mut client, mut server) = pair().await;
        let budget = RequestMemory::new(MAX_BYTES, &Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, budget);
        let bodies: [&[u8]; 3] = [b"first", b"second", b"last"];
        let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
        client.write_all(&stream).await.expect("write");
        let mut unread_bytes = stream.len();
        for body in bodies {
            let frame = reader
                .next(&mut server, &Appender::default())
                .await
                .expect("no error")
                .expect("a frame");
            assert_eq!(frame.body, body);
            reader.keep_little();
            unread_bytes -= LENGTH_BYTES + body.len();
            assert!(reader.buffer.capacity() <= unread_bytes, "{}", reader.buffer.capacity());
        }
    }

    #[tokio::test]
    async fn lengths_out_of_range_are_refused_before_anything_is_allocated() {
        for length in [-1, i32::MIN, i32::MAX, 1_048_577] {
            let (mut client, mut server) = pair().await;
            client.write_all(&length.to_be_bytes()).await.expect("write");
            let mut reader =
                FrameReader::new(MAX_BYTES, RequestMemory::new(MAX_BYTES, &Arc::default()));
            let error = reader.next(&mut server, &Appender::default()).await.expect_err("refused");
            assert!(matches!(error, FrameError::Length { .. }), "{error}");
            assert!(reader.buffer.capacity() <= 2 * READ_BYTES);
        }
    }

    #[tokio::test]
    async fn a_close_inside_a_frame_is_an_error() {
        let (mut client, mut server) = pair().await;
        client.write_all(&[0, 0, 0, 9, 1]).await.expect("write");
        drop(client);
        let mut reader =
            FrameReader::new(MAX_BYTES, RequestMemory::new(MAX_BYTES, &Arc::default()));
        assert!(matches!(
            reader.next(&mut server, &Appender::default()).await,
            Err(FrameError::Truncated)
        ));
    }

    /// The beginning of a Produce of this size, as many bytes of it as asked.
    fn produce_start(body_bytes: usize, bytes: usize) -> Vec<u8> {
        let length = i32::try_from(body_bytes).expect("small");
        let mut start = [&length.to_be_bytes()[..], &ApiKey::Produce.id().to_be_bytes()].concat();
        start.resize(bytes, 0);
        start
    }

    /// Reads until the reader has taken in so many bytes and waits for more.
    async fn read_until(reader: &mut FrameReader, server: &mut Transport, bytes: usize) {
        let appender = Appender::default();
        while reader.buffer.len() < bytes {
            tokio::select! {
                biased;
                _ = reader.next(server, &appender) => panic!("no frame is whole"),
                () = tokio::task::yield_now() => {}
            }
        }
        // What has come is seen.
        tokio::select! {
            biased;
            _ = reader.next(server, &appender) => panic!("no frame is whole"),
            () = tokio::task::yield_now() => {}
        }
    }

    #[tokio::test]
    async fn a_stalled_frame_gives_way_when_others_wait_for_its_memory() {
        let (mut client, mut server) = pair().await;
        let memory = RequestMemory::new(MAX_BYTES, &Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, memory.clone());
        client.write_all(&produce_start(1_000_000, 2 * READ_BYTES)).await.expect("write");
        let stalled = tokio::spawn(async move {
            reader.next(&mut server, &Appender::default()).await.map(|_| ())
        });
        while memory.used_bytes() == 0 {
            tokio::task::yield_now().await;
        }
        memory.take_large(MAX_BYTES).await;
        let outcome = stalled.await.expect("no panic");
        assert!(matches!(outcome, Err(FrameError::Stalled { .. })), "{outcome:?}");
    }

    #[tokio::test]
    async fn what_is_announced_takes_no_memory_until_it_comes() {
        const LIMIT_BYTES: usize = 128 << 20;
        const FRAME_BYTES: usize = 100 << 20;
        let (mut client, mut server) = pair().await;
        let memory = RequestMemory::new(LIMIT_BYTES, &Arc::default());
        let mut reader = FrameReader::new(FRAME_BYTES, memory.clone());
        let beginning_bytes = memory.beginning_bytes();
        let mut sent_bytes = 0;
        for (sent, used_bytes) in [
            (20, 0),
            (READ_BYTES - 1, 0),
            (READ_BYTES, beginning_bytes),
            (beginning_bytes - 1, beginning_bytes),
            (beginning_bytes, FRAME_BYTES),
        ] {
            let bytes = produce_start(FRAME_BYTES, sent).split_off(sent_bytes);
            let write = client.write_all(&bytes);
            let (written, ()) = tokio::join!(write, read_until(&mut reader, &mut server, sent));
            written.expect("write");
            sent_bytes = sent;
            assert_eq!(memory.used_bytes(), used_bytes, "after {sent} bytes");
            let most_bytes = 2 * used_bytes.max(READ_BYTES) + LENGTH_BYTES;
            assert!(reader.buffer.capacity() <= most_bytes, "{}", reader.buffer.capacity());
        }
        drop(reader);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[tokio::test]
    async fn room_for_a_large_request_is_made_only_when_its_memory_is_granted() {
        let (mut client, mut server) = pair().await;
        let memory = RequestMemory::new(MAX_BYTES, &Arc::default());
        let mut reader = FrameReader::new(MAX_BYTES, memory.clone());
        let all = memory.take_large(MAX_BYTES).await;
        let used_bytes = memory.used_bytes();
        client.write_all(&produce_start(1_000_000, READ_BYTES)).await.expect("write");
        read_until(&mut reader, &mut server, READ_BYTES).await;
        assert!(reader.buffer.capacity() <= 2 * READ_BYTES, "{}", reader.buffer.capacity());
        assert_eq!(memory.used_bytes(), used_bytes);
        drop(all);
        client.write_all(&[0]).await.expect("write");
        read_until(&mut reader, &mut server, READ_BYTES + 1).await;
        assert!(reader.buffer.capacity() >= 1_000_000 && memory.used_bytes() >= used_bytes);
    }
}
