//! The bytes of an entry. All integers are big-endian.
//!
//! | at | bytes | field | covered by the CRC |
//! |---|---|---|---|
//! | 0 | 4 | `LWJ1` | no |
//! | 4 | 4 | CRC-32C of everything after it | |
//! | 8 | 4 | length of the whole entry, with the zeros at its end | yes |
//! | 12 | 4 | number of pieces; 0 makes all entries before it void | yes |
//! | 16 | 8 | generation of the half | yes |
//! | 24 | 8 | number of the entry in it, from 0 on | yes |
//! | 32 | | the pieces, and zeros up to a multiple of 4096 | yes |
//!
//! Entries are whole blocks of the disk: they can be written past the page cache, and no write to one touches
//! a block of the one before, which somebody was told about.
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

use std::ops::Range;

use bytes::{Buf, BufMut, Bytes};
use crc_fast::crc32_iscsi;
use logway_model::{Offset, PartitionId, TopicId, TopicName, TopicPartition, Uuid};

use super::block_buffer::BlockBuffer;
use crate::fs::DIRECT_BLOCK_BYTES;
use crate::random::random_bits;
use crate::view::LogPoint;

/// What an entry begins with.
pub(super) const MAGIC: [u8; 4] = *b"LWJ1";

/// Behind this the CRC begins to cover.
const COVERED_FROM: usize = 8;

const HEADER_BYTES: usize = 32;

/// What an entry takes that makes all before it void.
pub(crate) const VOID_ENTRY_BYTES: u64 = DIRECT_BLOCK_BYTES as u64;

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
    /// Space for the header, then the pieces.
    encoded: BlockBuffer,
}

impl EntryBuilder {
    /// Forgets all pieces.
    pub(crate) fn clear(&mut self) {
        self.encoded.clear();
    }

    /// The bytes of all pieces.
    pub(crate) fn size_bytes(&self) -> usize {
        self.encoded.len()
    }

    /// Adds a piece whose batches, of so many bytes, `batches` puts behind what is there; returns where it is.
    pub(crate) fn add(
        &mut self,
        (topic_id, partition): (TopicId, &TopicPartition),
        (start, end): (LogPoint, Offset),
        batches_bytes: usize,
        batches: impl FnOnce(&mut Vec<u8>),
    ) -> Range<usize> {
        self.make_room_for_header();
        let TopicId(Uuid(id)) = topic_id;
        let topic = partition.topic.as_str().as_bytes();
        let piece_bytes = PIECE_HEADER_BYTES + topic.len() + batches_bytes;
        let piece = self.encoded.extend(piece_bytes, |out| {
            out.put_slice(&id);
            out.put_i32(partition.partition.0);
            out.put_i64(start.offset.0);
            out.put_i64(end.0);
            out.put_i64(start.segment.0);
            out.put_u64(start.position);
            out.put_u32(u32::try_from(batches_bytes).expect("a piece is small"));
            out.put_u16(u16::try_from(topic.len()).expect("names of topics are short"));
            out.put_slice(topic);
            batches(out);
        });
        debug_assert_eq!(piece.len(), piece_bytes, "the batches are as long as was said");
        piece
    }

    /// Makes the entry that holds some of the pieces, in their order; the others are forgotten.
    ///
    /// It begins at a multiple of [`DIRECT_BLOCK_BYTES`] in memory and is as long as some of them.
    pub(crate) fn finish(&mut self, number: EntryNumber, pieces: &[Range<usize>]) -> &[u8] {
        self.make_room_for_header();
        self.encoded.keep(HEADER_BYTES, pieces);
        self.encoded.fill_block();
        let entry = self.encoded.as_mut_slice();
        let length = u32::try_from(entry.len()).expect("an entry fits into the journal");
        let count = u32::try_from(pieces.len()).expect("an entry fits into the journal");
        let mut covered = &mut entry[COVERED_FROM..];
        covered.put_u32(length);
        covered.put_u32(count);
        covered.put_u64(number.generation);
        covered.put_u64(number.sequence);
        let crc = crc32_iscsi(&entry[COVERED_FROM..]);
        entry[..4].copy_from_slice(&MAGIC);
        entry[4..COVERED_FROM].copy_from_slice(&crc.to_be_bytes());
        entry
    }

    /// How long an entry with some of the pieces is.
    pub(crate) fn entry_bytes(pieces: &[Range<usize>]) -> u64 {
        let bytes = HEADER_BYTES + pieces.iter().map(|range| range.len()).sum::<usize>();
        bytes.next_multiple_of(DIRECT_BLOCK_BYTES) as u64
    }

    fn make_room_for_header(&mut self) {
        if self.encoded.is_empty() {
            self.encoded.extend(HEADER_BYTES, |out| out.put_bytes(0, HEADER_BYTES));
        }
    }
}

impl Piece {
    /// The entry that holds this piece alone.
    pub(super) fn to_entry(&self, number: EntryNumber) -> Vec<u8> {
        let mut builder = EntryBuilder::default();
        let id = (self.topic_id, &self.partition);
        let put = |out: &mut Vec<u8>| out.put_slice(&self.bytes);
        let piece = builder.add(id, (self.start, self.end), self.bytes.len(), put);
        builder.finish(number, &[piece]).to_vec()
    }
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
    let is_all = rest.iter().all(|&byte| byte == 0);
    is_all.then_some(Entry { number, pieces, size_bytes })
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
