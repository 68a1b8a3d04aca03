//! One client of the broker that only stores.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use logway_record::BATCH_HEADER_BYTES;

use super::store::{Partition, Piece, Store};
use crate::generator::Framing;
use crate::null_broker::{Replies, Reply, Topics, correlation_id, is_produce};

/// Small enough to stay in the processor's cache, large enough for few system calls.
const BUFFER_BYTES: usize = 256 << 10;

/// Enough for what stands before the records of a request, and for their first header.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// What tells a Produce from other requests, at the beginning of a frame.
const API_KEY_BYTES: usize = 2;

/// Where a batch says how far its last record is from its first.
const LAST_OFFSET_DELTA: Range<usize> = 23..27;

/// A socket with what has come from it and what is to be said.
pub(super) struct Connection {
    stream: TcpStream,
    replies: Replies,
    /// The partition of each kind of request that [`Replies`] knows.
    partitions: Vec<Rc<Partition>>,
    buffer: Vec<u8>,
    filled: usize,
    /// How much of the buffer is done with when it is stored.
    taken: usize,
    /// The request whose records are coming.
    arriving: Option<Arriving>,
    out: Vec<u8>,
    has_ended: bool,
}

/// A request of which the head has come.
struct Arriving {
    known: usize,
    id: [u8; 4],
    base_offset: i64,
    /// Where the next of its records go.
    position: u64,
    records_missing: usize,
    /// What comes after the records.
    rest_missing: usize,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, replies: Replies) -> Connection {
        Connection {
            stream,
            replies,
            partitions: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            taken: 0,
            arriving: None,
            out: Vec::new(),
            has_ended: false,
        }
    }

    /// Reads once and gives the store what has come; `number` is what the store calls this by.
    ///
    /// # Errors
    ///
    /// The client has gone, or said something that cannot be understood.
    pub(super) fn read(
        &mut self,
        number: u64,
        store: &mut Store,
        topics: &Topics,
    ) -> anyhow::Result<()> {
        let read = self.stream.read(&mut self.buffer[self.filled..])?;
        if read == 0 {
            self.has_ended = true;
        }
        self.filled += read;
        while self.step(number, store, topics)? {}
        Ok(())
    }

    /// Says what is to be said, when what was read is stored.
    ///
    /// # Errors
    ///
    /// There is nobody to talk to any more.
    pub(super) fn answer(&mut self) -> anyhow::Result<()> {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        self.stream.write_all(&self.out)?;
        self.out.clear();
        ensure!(!self.has_ended, "the client has gone");
        Ok(())
    }

    /// Has it end with its next answer.
    pub(super) fn give_up(&mut self, error: &anyhow::Error) {
        eprintln!("a connection ends: {error:#}");
        self.has_ended = true;
    }

    /// What has come, as the store was told.
    pub(super) fn bytes(&self, at: Range<usize>) -> &[u8] {
        &self.buffer[at]
    }

    /// Goes on by one request, or a part of one; false when more must come first.
    fn step(&mut self, number: u64, store: &mut Store, topics: &Topics) -> anyhow::Result<bool> {
        if let Some(mut arriving) = self.arriving.take() {
            let is_whole = self.take(number, &mut arriving, store);
            if !is_whole {
                self.arriving = Some(arriving);
            }
            return Ok(is_whole);
        }
        let here = &self.buffer[self.taken..self.filled];
        let Some(frame_bytes) = Framing::Kafka.frame_bytes(here)? else { return Ok(false) };
        let prefix_bytes = Framing::Kafka.prefix_bytes();
        let frame = &here[prefix_bytes..];
        if frame.len() < API_KEY_BYTES.min(frame_bytes) {
            // What is not known to be a Produce yet would have to fit into the buffer.
            return Ok(false);
        }
        let head_bytes = match is_produce(frame) {
            true => frame_bytes.min(HEAD_BYTES_MAX),
            false => frame_bytes,
        };
        ensure!(prefix_bytes + head_bytes <= self.buffer.len(), "a request of {frame_bytes} bytes");
        let Some(head) = frame.get(..head_bytes) else { return Ok(false) };
        if is_produce(head) {
            self.begin(frame_bytes, store, topics)?;
            return Ok(true);
        }
        match self.replies.reply(head)? {
            Reply::Bytes(bytes) => self.out.extend_from_slice(bytes),
            Reply::Nothing => {}
            Reply::Fetched { .. } => bail!("what is stored here is given to nobody"),
        }
        self.taken += prefix_bytes + frame_bytes;
        // It may have created or deleted topics.
        store.follow(topics)?;
        Ok(true)
    }

    /// Finds a place for the records of the request that begins here, and writes into them at which
    /// offset they are.
    fn begin(
        &mut self,
        frame_bytes: usize,
        store: &mut Store,
        topics: &Topics,
    ) -> anyhow::Result<()> {
        let frame_at = self.taken + Framing::Kafka.prefix_bytes();
        let head = &self.buffer[frame_at..self.filled];
        let known = self.replies.produced(head)?;
        let id = correlation_id(head)?;
        let produced = self.replies.known(known);
        let (records_at, records_bytes) = produced.records(head)?;
        let rest_missing = frame_bytes.checked_sub(records_at + records_bytes);
        let rest_missing = rest_missing.context("records that end after their request")?;
        if known == self.partitions.len() {
            self.partitions.push(store.partition(&produced.topic, produced.partition, topics)?);
        }
        let batch = self.buffer[frame_at + records_at..self.filled].get_mut(..BATCH_HEADER_BYTES);
        let batch = batch.filter(|_| records_bytes >= BATCH_HEADER_BYTES).context("no batch")?;
        let delta = batch[LAST_OFFSET_DELTA].first_chunk().map_or(0, |it| i32::from_be_bytes(*it));
        let (base_offset, position) =
            self.partitions[known].reserve(i64::from(delta) + 1, records_bytes as u64);
        batch[..8].copy_from_slice(&base_offset.to_be_bytes());
        self.taken = frame_at + records_at;
        let records_missing = records_bytes;
        self.arriving =
            Some(Arriving { known, id, base_offset, position, records_missing, rest_missing });
        Ok(())
    }

    /// Takes what is there of a request; whether that was all.
    fn take(&mut self, number: u64, arriving: &mut Arriving, store: &mut Store) -> bool {
        let bytes = arriving.records_missing.min(self.filled - self.taken);
        if bytes > 0 {
            let at = self.taken..self.taken + bytes;
            let piece = Piece { position: arriving.position, connection: number, at };
            store.add(&self.partitions[arriving.known], piece);
            arriving.position += bytes as u64;
            arriving.records_missing -= bytes;
            self.taken += bytes;
        }
        let rest = arriving.rest_missing.min(self.filled - self.taken);
        arriving.rest_missing -= rest;
        self.taken += rest;
        let is_whole = arriving.records_missing == 0 && arriving.rest_missing == 0;
        if is_whole {
            let reply = self.replies.known(arriving.known).reply(arriving.id, arriving.base_offset);
            self.out.extend_from_slice(reply.unwrap_or_default());
        }
        is_whole
    }
}
