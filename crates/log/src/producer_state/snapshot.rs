//! The producers of a partition in a file: Kafka's `.snapshot`, version 1.
//!
//! | bytes | type | field |
//! |---|---|---|
//! | 0–1 | i16 | version, 1 |
//! | 2–5 | u32 | CRC-32C of all that follows |
//! | 6–9 | i32 | number of producers |
//! | 10– | 46 bytes each | the producers |
//!
//! | bytes | type | field of a producer |
//! |---|---|---|
//! | 0–7 | i64 | producer id |
//! | 8–9 | i16 | epoch |
//! | 10–13 | i32 | last sequence, -1 if no batch is known |
//! | 14–21 | i64 | last offset, -1 if no batch is known |
//! | 22–25 | i32 | last offset of the last batch less its first |
//! | 26–33 | i64 | last timestamp |
//! | 34–37 | i32 | epoch of the coordinator of the last marker, -1 if there was none |
//! | 38–45 | i64 | first offset of the open transaction, -1 if there is none |
//!
//! All numbers are big-endian. The file's name is the offset below which it knows the log. Of the
//! last 5 batches of a producer only the newest is kept.

use std::path::Path;

use bytes::{Buf, BufMut};
use crc_fast::crc32_iscsi;
use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use super::producer::{AppendedBatch, ProducerState};
use super::table::ProducerStateTable;
use crate::LogError;
use crate::checkpoint::replace_file;
use crate::fs::{Fs, OpenMode, read_to_end};

const VERSION: i16 = 1;
const CHECKED_FROM: usize = 6;
const HEADER_BYTES: usize = 10;
const PRODUCER_BYTES: usize = 46;

/// More than a million producers.
const FILE_MAX_BYTES: usize = 64 << 20;

/// What a snapshot file says, in a quarter of the memory that a table takes.
#[derive(Debug)]
pub struct Snapshot {
    producers: Vec<CodedProducer>,
}

type CodedProducer = [u8; PRODUCER_BYTES];

impl Snapshot {
    /// The producers of a table as they are now.
    pub fn of(table: &ProducerStateTable) -> Snapshot {
        let producers = table.iter().map(|(id, producer)| encode_producer(id, producer));
        Snapshot { producers: producers.collect() }
    }

    /// The memory that the snapshot of a table takes.
    pub fn size_bytes_of(table: &ProducerStateTable) -> usize {
        table.len() * PRODUCER_BYTES
    }

    /// The memory that it takes.
    pub fn size_bytes(&self) -> usize {
        self.producers.len() * PRODUCER_BYTES
    }

    /// Replaces the snapshot file at `path`; it is durable on return.
    pub fn write(&self, fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
        replace_file(fs, path, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let count =
            i32::try_from(self.producers.len()).expect("a table has less than 2^31 producers");
        let mut out = Vec::with_capacity(HEADER_BYTES + self.size_bytes());
        out.put_i16(VERSION);
        out.put_u32(0);
        out.put_i32(count);
        // They begin with the id: so they sort by it.
        let mut producers: Vec<&CodedProducer> = self.producers.iter().collect();
        producers.sort_unstable();
        for producer in producers {
            out.put_slice(producer);
        }
        let crc = crc32_iscsi(&out[CHECKED_FROM..]);
        out[2..CHECKED_FROM].copy_from_slice(&crc.to_be_bytes());
        out
    }
}

/// Replaces the snapshot file at `path`; it is durable on return.
pub fn write(fs: &dyn Fs, path: &Path, table: &ProducerStateTable) -> Result<(), LogError> {
    Snapshot::of(table).write(fs, path)
}

/// Reads the snapshot file at `path`, which must exist.
///
/// A file that is not whole is [`LogError::Corrupt`]; an older snapshot and the log make up for
/// it.
pub fn read(fs: &dyn Fs, path: &Path) -> Result<Vec<(ProducerId, ProducerState)>, LogError> {
    let file = fs.open(path, OpenMode::Read).map_err(LogError::io("open", path))?;
    let coded = read_to_end(&*file, FILE_MAX_BYTES).map_err(LogError::io("read", path))?;
    decode(&coded).map_err(|(position, reason)| LogError::Corrupt {
        path: path.to_owned(),
        position: position as u64,
        reason,
    })
}

/// Where the producer of an index is in a file, in bytes.
pub(crate) fn producer_position(index: usize) -> u64 {
    (HEADER_BYTES + index * PRODUCER_BYTES) as u64
}

fn encode_producer(id: ProducerId, producer: &ProducerState) -> CodedProducer {
    let mut coded = [0; PRODUCER_BYTES];
    let mut out = &mut coded[..];
    let batch = producer.last_batch();
    out.put_i64(id.0);
    out.put_i16(producer.epoch.0);
    out.put_i32(batch.map_or(-1, |batch| batch.last_sequence.0));
    out.put_i64(batch.map_or(-1, |batch| batch.last_offset.0));
    out.put_i32(batch.map_or(0, |batch| batch.offset_delta));
    out.put_i64(producer.last_timestamp.0);
    out.put_i32(producer.coordinator_epoch);
    out.put_i64(producer.transaction_start.map_or(-1, |offset| offset.0));
    coded
}

/// Decodes a snapshot, or says at which byte what is wrong.
fn decode(coded: &[u8]) -> Result<Vec<(ProducerId, ProducerState)>, (usize, String)> {
    if coded.len() < HEADER_BYTES {
        return Err((coded.len(), "the file ends within its header".to_owned()));
    }
    let mut header = coded;
    let version = header.get_i16();
    if version != VERSION {
        return Err((0, format!("version {version} is unknown")));
    }
    let crc = header.get_u32();
    let count = header.get_i32();
    let computed = crc32_iscsi(&coded[CHECKED_FROM..]);
    if crc != computed {
        return Err((2, format!("its CRC is {crc:#010x}, that of its content {computed:#010x}")));
    }
    let producers = &coded[HEADER_BYTES..];
    if usize::try_from(count).ok().and_then(|count| count.checked_mul(PRODUCER_BYTES))
        != Some(producers.len())
    {
        let reason = format!("it has {} bytes for {count} producers", producers.len());
        return Err((CHECKED_FROM, reason));
    }
    (HEADER_BYTES..)
        .step_by(PRODUCER_BYTES)
        .zip(producers.chunks_exact(PRODUCER_BYTES))
        .map(|(position, coded)| decode_producer(coded).map_err(|reason| (position, reason)))
        .collect()
}

fn decode_producer(mut coded: &[u8]) -> Result<(ProducerId, ProducerState), String> {
    let id = ProducerId(coded.get_i64());
    let epoch = ProducerEpoch(coded.get_i16());
    if id.0 < 0 || epoch.0 < 0 {
        return Err(format!("producer {id} with epoch {epoch} cannot be"));
    }
    let last_sequence = Sequence(coded.get_i32());
    let last_offset = Offset(coded.get_i64());
    let offset_delta = coded.get_i32();
    let timestamp = TimestampMs(coded.get_i64());

    let mut producer = ProducerState::new(epoch);
    if last_offset >= Offset::LIMIT || offset_delta < 0 {
        return Err(format!(
            "a batch that ends at offset {last_offset}, {offset_delta} behind its first, cannot be"
        ));
    }
    if last_offset.0 >= 0 {
        producer.push(epoch, AppendedBatch { last_sequence, last_offset, offset_delta, timestamp });
    }
    producer.last_timestamp = timestamp;
    producer.coordinator_epoch = coded.get_i32();
    producer.transaction_start = Some(Offset(coded.get_i64())).filter(|offset| offset.0 >= 0);
    Ok((id, producer))
}
