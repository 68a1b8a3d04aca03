//! The bytes of an entry. All integers are big-endian.
//!
//! | at | bytes | field | covered by the CRC |
//! |---|---|---|---|
//! | 0 | 4 | `LWJ1` | no |
//! | 4 | 4 | CRC-32C of everything after it | |
//! | 8 | 4 | length of the whole entry | yes |
//! | 12 | 4 | number of pieces; 0 makes all entries before it void | yes |
//! | 16 | 8 | generation of the half | yes |
//! | 24 | 8 | number of the entry in it, from 0 on | yes |
//! | 32 | | the pieces | yes |
//!
//! A piece is what one log got in the round:
//!
//! | bytes | field |
//! |---|---|
//! | 16 | topic id |
//! | 4 | partition |
//! | 8 | first offset |
//! | 8 | the offset after the last |
//! | 8 | base offset of the segment |
//! | 8 | position in the segment's file |
//! | 4 | length of the batches |
//! | 2 | length of the topic's name |
//! | | the topic's name |
//! | | the batches, as they are in the segment |

use std::io::IoSlice;
use std::ops::Range;

use bytes::{Buf, BufMut, Bytes};
use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};
use logway_model::{Offset, PartitionId, TopicId, TopicName, TopicPartition, Uuid};

use crate::random::random_bits;
use crate::view::LogPoint;

/// What an entry begins with.
pub(super) const MAGIC: [u8; 4] = *b"LWJ1";

/// Behind this the CRC begins to cover.
const COVERED_FROM: usize = 8;

const HEADER_BYTES: usize = 32;

/// What an entry takes that makes all before it void.
pub(crate) const VOID_ENTRY_BYTES: u64 = HEADER_BYTES as u64;

/// What a piece takes beside the topic's name and the batches.
const PIECE_HEADER_BYTES: usize = 58;

/// Which entry it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryNumber {
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
}

impl EntryNumber {
    /// That of the first entry of a new journal.
    ///
    /// Its generation is nobody's guess: where an entry is damaged, the next one is looked for among bytes
    /// that clients have sent, and what they put there must not pass for an entry.
    pub(crate) fn first() -> EntryNumber {
        let mut bits = &random_bits()[..];
        // So that others can follow.
        EntryNumber { generation: bits.get_u64() >> 1, sequence: 0 }
    }
}

/// An entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) number: EntryNumber,
    /// None if it makes all before it void.
    pub(crate) pieces: Vec<Piece>,
    /// Its length.
    pub(crate) size_bytes: usize,
}

/// Batches of one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) topic_id: TopicId,
    pub(crate) partition: TopicPartition,
    /// Where they begin.
    pub(crate) start: LogPoint,
    /// The offset after the last.
    pub(crate) end: Offset,
    /// The batches as they are in the segment.
    pub(crate) bytes: Bytes,
}

/// Pieces in the making, encoded one after the other in a buffer that is used again.
#[derive(Debug, Default)]
pub(crate) struct EntryBuilder {
    encoded: Vec<u8>,
}

/// A larger buffer is given back after the round that needed it.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

impl EntryBuilder {
    /// Forgets all pieces.
    pub(crate) fn clear(&mut self) {
        self.encoded.clear();
        self.encoded.shrink_to(BUFFER_KEPT_BYTES);
    }

    /// The bytes of all pieces.
    pub(crate) fn size_bytes(&self) -> usize {
        self.encoded.len()
    }

    /// Adds a piece whose batches `bytes` puts behind what is there; returns where it is.
    pub(crate) fn add(
        &mut self,
        (topic_id, partition): (TopicId, &TopicPartition),
        (start, end): (LogPoint, Offset),
        bytes: impl FnOnce(&mut Vec<u8>),
    ) -> Range<usize> {
        let from = self.encoded.len();
        let TopicId(Uuid(id)) = topic_id;
        let topic = partition.topic.as_str().as_bytes();
        let out = &mut self.encoded;
        out.put_slice(&id);
        out.put_i32(partition.partition.0);
        out.put_i64(start.offset.0);
        out.put_i64(end.0);
        out.put_i64(start.segment.0);
        out.put_u64(start.position);
        let length_at = out.len();
        out.put_u32(0);
        out.put_u16(u16::try_from(topic.len()).expect("names of topics are short"));
        out.put_slice(topic);
        let batches_at = out.len();
        bytes(out);
        let length = u32::try_from(out.len() - batches_at).expect("a piece is small");
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
        from..out.len()
    }

    /// Calls `write` with the parts of the entry that holds some of the pieces.
    pub(crate) fn with_entry<T>(
        &self,
        number: EntryNumber,
        pieces: &[Range<usize>],
        write: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> T {
        let slices: Vec<&[u8]> = pieces.iter().map(|range| &self.encoded[range.clone()]).collect();
        let header = header(number, &slices);
        let parts: Vec<IoSlice<'_>> =
            [&header[..]].into_iter().chain(slices).map(IoSlice::new).collect();
        write(&parts)
    }

    /// How long an entry with some of the pieces is.
    pub(crate) fn entry_bytes(pieces: &[Range<usize>]) -> u64 {
        (HEADER_BYTES + pieces.iter().map(|range| range.len()).sum::<usize>()) as u64
    }
}

impl Piece {
    /// The entry that holds this piece alone.
    pub(super) fn to_entry(&self, number: EntryNumber) -> Vec<u8> {
        let mut builder = EntryBuilder::default();
        let id = (self.topic_id, &self.partition);
        let piece = builder.add(id, (self.start, self.end), |out| out.put_slice(&self.bytes));
        builder
            .with_entry(number, &[piece], |parts| parts.iter().flat_map(|p| p.to_vec()).collect())
    }
}

/// The entry that makes all before it void.
pub(crate) fn void_entry(number: EntryNumber) -> [u8; HEADER_BYTES] {
    header(number, &[])
}

fn header(number: EntryNumber, pieces: &[&[u8]]) -> [u8; HEADER_BYTES] {
    let size_bytes = HEADER_BYTES + pieces.iter().map(|piece| piece.len()).sum::<usize>();
    let mut header = [0; HEADER_BYTES];
    let mut out = &mut header[COVERED_FROM..];
    out.put_u32(u32::try_from(size_bytes).expect("an entry fits into the journal"));
    out.put_u32(u32::try_from(pieces.len()).expect("an entry fits into the journal"));
    out.put_u64(number.generation);
    out.put_u64(number.sequence);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&header[COVERED_FROM..]);
    pieces.iter().for_each(|piece| digest.update(piece));
    let crc = u32::try_from(digest.finalize()).expect("it has 32 bits");
    header[..4].copy_from_slice(&MAGIC);
    header[4..COVERED_FROM].copy_from_slice(&crc.to_be_bytes());
    header
}

/// The entry that `bytes` begins with; `None` if there is none that is whole.
pub(super) fn decode(bytes: &Bytes) -> Option<Entry> {
    let number = number_of(bytes)?;
    let size_bytes = usize::try_from(u32_at(bytes, 8)?).ok()?;
    if size_bytes < HEADER_BYTES || size_bytes > bytes.len() {
        return None;
    }
    if u32_at(bytes, 4)? != crc32_iscsi(&bytes[COVERED_FROM..size_bytes]) {
        return None;
    }
    let mut rest = bytes.slice(HEADER_BYTES..size_bytes);
    let count = u32_at(bytes, 12)?;
    let mut pieces = Vec::new();
    for _ in 0..count {
        pieces.push(decode_piece(&mut rest)?);
    }
    rest.is_empty().then_some(Entry { number, pieces, size_bytes })
}

/// The number that the entry has with which `bytes` begins, if it is one; nothing else is checked.
pub(super) fn number_of(bytes: &[u8]) -> Option<EntryNumber> {
    let header = bytes.first_chunk::<HEADER_BYTES>().filter(|header| header.starts_with(&MAGIC))?;
    let mut numbers = &header[16..];
    Some(EntryNumber { generation: numbers.get_u64(), sequence: numbers.get_u64() })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn decode_piece(rest: &mut Bytes) -> Option<Piece> {
    if rest.len() < PIECE_HEADER_BYTES {
        return None;
    }
    let mut id = [0; 16];
    rest.copy_to_slice(&mut id);
    let partition = PartitionId(rest.get_i32());
    let (offset, end) = (Offset(rest.get_i64()), Offset(rest.get_i64()));
    let (segment, position) = (Offset(rest.get_i64()), rest.get_u64());
    let batches_bytes = usize::try_from(rest.get_u32()).ok()?;
    let topic_bytes = usize::from(rest.get_u16());
    if rest.len() < topic_bytes.checked_add(batches_bytes)? {
        return None;
    }
    let topic = rest.split_to(topic_bytes);
    let topic = TopicName::new(std::str::from_utf8(&topic).ok()?).ok()?;
    let bytes = rest.split_to(batches_bytes);
    let is_sound = Offset::ZERO <= segment && segment <= offset && offset < end;
    is_sound.then_some(Piece {
        topic_id: TopicId(Uuid(id)),
        partition: TopicPartition::new(topic, partition),
        start: LogPoint { offset, segment, position },
        end,
        bytes,
    })
}
