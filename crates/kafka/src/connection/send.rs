//! Sends replies: bytes from memory, record batches from the page cache by `sendfile` where the transport can.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logway_log::FileRange;
use tokio::time::timeout;

use super::page_cache::{CLOSE_STEP_BYTES, PageCacheProbes};
use super::transport::Transport;
use logway_node::memory::Memory;

use crate::request::EncodedReply;

/// What is checked for being in memory, and then sent, at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// What is copied at a time of a file that the transport cannot send.
const COPY_BYTES: u64 = 64 * 1024;

/// While memory is short, a client must read at least this much of its replies in each
/// [`PACE_INTERVAL`]: its connection may hold memory that others wait for.
const PACE_BYTES: u64 = 64 * 1024;

const PACE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client may take to read.
pub(super) struct SendPatience<'a> {
    /// A client that takes no byte for so long is given up on.
    pub(super) stall_max: Duration,
    /// Whose memory may be short.
    pub(super) memory: &'a Memory,
}

impl SendPatience<'_> {
    fn is_memory_short(&self) -> bool {
        self.memory.is_contended() || self.memory.replies.is_short()
    }
}

/// How fast a client takes a reply.
struct Pace {
    interval_start: Instant,
    interval_bytes: u64,
    last_progress: Instant,
}

impl Pace {
    /// Of a reply of which so much was taken at once.
    fn new(sent_bytes: u64) -> Pace {
        let now = Instant::now();
        Pace { interval_start: now, interval_bytes: sent_bytes, last_progress: now }
    }

    fn sent(&mut self, bytes: usize) {
        self.interval_bytes += bytes as u64;
        self.last_progress = Instant::now();
    }

    /// Waits until the transport takes more, or fails if the client is too slow.
    async fn wait(&mut self, transport: &Transport, patience: &SendPatience<'_>) -> io::Result<()> {
        if let Ok(writable) = timeout(PACE_INTERVAL, transport.writable()).await {
            writable?;
        }
        if self.interval_start.elapsed() < PACE_INTERVAL {
            return Ok(());
        }
        let has_stopped = self.last_progress.elapsed() >= patience.stall_max;
        let is_slow = self.interval_bytes < PACE_BYTES;
        if has_stopped || (is_slow && patience.is_memory_short()) {
            let reason = "the client stopped reading, or reads too slowly while memory is short";
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        self.interval_start = Instant::now();
        self.interval_bytes = 0;
        Ok(())
    }
}

/// Sends a whole reply.
pub(super) async fn send(
    transport: &mut Transport,
    reply: &EncodedReply,
    probes: &mut PageCacheProbes,
    patience: &SendPatience<'_>,
) -> io::Result<()> {
    let mut sent = 0;
    for span in &reply.files {
        send_bytes(transport, &reply.bytes[sent..span.after_bytes], patience).await?;
        sent = span.after_bytes;
        send_range(transport, &span.range, probes, patience).await?;
    }
    send_bytes(transport, &reply.bytes[sent..], patience).await
}

/// Sends bytes from memory.
pub(super) async fn send_bytes(
    transport: &mut Transport,
    mut bytes: &[u8],
    patience: &SendPatience<'_>,
) -> io::Result<()> {
    // Most replies are taken at once, and need no look at the clock.
    let mut pace = None;
    let mut sent_bytes = 0;
    while !bytes.is_empty() {
        match transport.try_write(bytes) {
            Ok(sent) => {
                bytes = &bytes[sent..];
                sent_bytes += sent as u64;
                pace.iter_mut().for_each(|pace: &mut Pace| pace.sent(sent));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let pace = pace.get_or_insert_with(|| Pace::new(sent_bytes));
                pace.wait(transport, patience).await?;
            }
            Err(error) => return Err(error),
        }
    }
    flush(transport, patience).await
}

/// Waits until what was written has left.
async fn flush(transport: &mut Transport, patience: &SendPatience<'_>) -> io::Result<()> {
    let mut pace = None;
    loop {
        match transport.try_flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let pace = pace.get_or_insert_with(|| Pace::new(0));
                pace.wait(transport, patience).await?;
            }
            done => return done,
        }
    }
}

async fn send_range(
    transport: &mut Transport,
    range: &FileRange,
    probes: &mut PageCacheProbes,
    patience: &SendPatience<'_>,
) -> io::Result<()> {
    let end = range.position + range.len_bytes;
    let mut position = range.position;
    while position < end {
        let chunk_end = end.min(position + CHUNK_BYTES);
        let chunk =
            FileRange { file: Arc::clone(&range.file), position, len_bytes: chunk_end - position };
        if transport.file_to_send(&chunk).is_some() {
            if !probes.find(&chunk) {
                let cold = chunk.clone();
                tokio::task::spawn_blocking(move || read_through(&cold, |_| ())).await??;
            }
            send_file(transport, &chunk, patience).await?;
        } else {
            send_copy(transport, &chunk, probes, patience).await?;
        }
        position = chunk_end;
    }
    Ok(())
}

/// Sends what the transport cannot send as it is, in pieces that a connection may hold uncounted.
async fn send_copy(
    transport: &mut Transport,
    chunk: &FileRange,
    probes: &mut PageCacheProbes,
    patience: &SendPatience<'_>,
) -> io::Result<()> {
    let end = chunk.position + chunk.len_bytes;
    let mut bytes = Vec::new();
    let mut position = chunk.position;
    while position < end {
        let len_bytes = (end - position).min(COPY_BYTES);
        let piece = FileRange { file: Arc::clone(&chunk.file), position, len_bytes };
        let is_hot = piece.file.fd().is_some() && probes.find(&piece);
        let read = move |mut bytes: Vec<u8>| -> io::Result<Vec<u8>> {
            bytes.clear();
            read_through(&piece, |read| bytes.extend_from_slice(read))?;
            Ok(bytes)
        };
        bytes = match is_hot {
            true => read(bytes)?,
            false => tokio::task::spawn_blocking(move || read(bytes)).await??,
        };
        send_bytes(transport, &bytes, patience).await?;
        position += len_bytes;
    }
    Ok(())
}

async fn send_file(
    transport: &mut Transport,
    chunk: &FileRange,
    patience: &SendPatience<'_>,
) -> io::Result<()> {
    let mut pace = Pace::new(0);
    let mut position = chunk.position;
    let end = chunk.position + chunk.len_bytes;
    while position < end {
        let file = transport.file_to_send(chunk).ok_or(io::ErrorKind::Unsupported)?;
        let wanted = usize::try_from(end - position).unwrap_or(usize::MAX);
        match transport.try_send_file(file, &mut position, wanted) {
            // The length is promised already, so nothing can be said to the client any more.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(sent) => pace.sent(sent),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                pace.wait(transport, patience).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the chunk piece by piece, so that its pages are in memory afterwards.
fn read_through(chunk: &FileRange, mut piece_read: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(CLOSE_STEP_BYTES).expect("is small")];
    let end = chunk.position + chunk.len_bytes;
    let mut position = chunk.position;
    while position < end {
        let wanted = usize::try_from(end - position).unwrap_or(usize::MAX).min(buffer.len());
        let read_bytes = chunk.file.read_at(&mut buffer[..wanted], position)?;
        if read_bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        piece_read(&buffer[..read_bytes]);
        position += read_bytes as u64;
    }
    Ok(())
}
