//! Requests that are encoded when they are due.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::frames::Payload;
use super::records::Records;
use super::tape::{WRITE_BYTES, set_correlation_id};
use super::{BatchShape, EncodedBatch, ProduceShape};

/// In place of a [`Tape`](super::Tape): records are fetched and batches encoded while the run goes on, by
/// the thread that sends them, so that its time says what that takes. It holds what one write takes and
/// no more.
#[derive(Debug)]
pub(crate) struct Stream {
    records: Records,
    batch: BatchShape,
    /// For the partitions in turn, at least one.
    shapes: Vec<ProduceShape>,
    next_shape: usize,
    bytes: Vec<u8>,
    waiting: Duration,
}

impl Stream {
    pub(crate) fn new(records: Records, batch: BatchShape, shapes: Vec<ProduceShape>) -> Stream {
        let (bytes, waiting) = (Vec::new(), Duration::ZERO);
        Stream { records, batch, shapes, next_shape: 0, bytes, waiting }
    }

    /// Replaces what was there with the next frames, at most `most`, at least one and about as much as one
    /// write takes; `on_batch` is called with what is in each. Returns how many they are.
    ///
    /// # Errors
    ///
    /// There are no more records, or one is too large.
    pub(super) fn advance(
        &mut self,
        most: usize,
        next_id: &mut i32,
        mut on_batch: impl FnMut(Payload),
    ) -> anyhow::Result<usize> {
        let (began, cpu_before) = (Instant::now(), thread_cpu());
        self.bytes.clear();
        let (mut taken, mut longest) = (0, 0);
        while taken == 0 || taken < most && self.bytes.len() + longest <= WRITE_BYTES {
            let batch = EncodedBatch::of_records(self.batch, &mut self.records)?;
            let frame = self.shapes[self.next_shape].encode(&batch)?;
            self.next_shape = (self.next_shape + 1) % self.shapes.len();
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&frame);
            set_correlation_id(&mut self.bytes[start..], next_id);
            on_batch(batch.payload());
            longest = longest.max(frame.len());
            taken += 1;
        }
        self.waiting += began.elapsed().saturating_sub(thread_cpu() - cpu_before);
        Ok(taken)
    }

    /// The frames.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How long records or batches were not ready because of a file, or of others who had the processor: a
    /// time that the sender's own clock of the processor does not show.
    pub(super) fn waiting(&self) -> Duration {
        self.waiting
    }
}

/// The processor's time of the calling thread.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use bytes::Bytes;
    use logway_model::TopicName;
    use logway_record::{Batch, DecodeLimit};
    use logway_wire::messages::ProduceRequest;
    use logway_wire::{Decoder, Message, decode_request_header};

    use super::*;
    use crate::generator::{Acks, Origin, VERSION_MAX};

    fn stream(batch: BatchShape) -> Stream {
        stream_of(Origin::Sensors(7), batch)
    }

    fn stream_of(origin: Origin, batch: BatchShape) -> Stream {
        let topic = TopicName::new("t").expect("a name");
        let shape = |partition| ProduceShape {
            topic: topic.clone(),
            partition,
            acks: Acks::All,
            version: VERSION_MAX,
        };
        let records = origin.open(0).expect("there are some");
        Stream::new(records, batch, (0..2).map(shape).collect())
    }

    /// The values of the frames, each with its correlation id and partition.
    fn decode(mut bytes: &[u8]) -> Vec<(i32, i32, Vec<Bytes>)> {
        let mut decoded = Vec::new();
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
            bytes = rest;
            let mut decoder = Decoder::new(Bytes::copy_from_slice(frame));
            let (_, header) = decode_request_header(&mut decoder).expect("a header");
            let request = ProduceRequest::decode(&mut decoder, VERSION_MAX).expect("a request");
            let data = &request.topic_data[0].partition_data[0];
            let records = data.records.clone().expect("records");
            let batch =
                Batch::parse(records.into_bytes().expect("in memory")).expect("a whole batch");
            let values = batch.records(DecodeLimit::DEFAULT).expect("records");
            let values = values.map(|record| record.expect("a record").value.expect("a value"));
            decoded.push((header.correlation_id, data.index, values.collect()));
        }
        decoded
    }

    #[test]
    fn all_records_are_sent_in_their_order_and_none_twice() {
        let mut stream = stream(BatchShape::Bytes(1000));
        let mut expected = Origin::Sensors(7).open(0).expect("a seed");
        let (mut id, mut payloads) = (5, Vec::new());
        let mut number = 0;
        for most in [1, 3, 2] {
            let taken =
                stream.advance(most, &mut id, |payload| payloads.push(payload)).expect("records");
            let frames = decode(stream.bytes());
            assert_eq!((taken, frames.len()), (most, most));
            for (correlation_id, partition, values) in frames {
                assert_eq!((correlation_id, partition), (5 + number, number % 2));
                let value_bytes = values.iter().map(|value| value.len() as u64).sum();
                let expected_payload = Payload { records: values.len() as u64, value_bytes };
                assert_eq!(payloads[number as usize], expected_payload);
                for value in values {
                    assert_eq!(value, expected.peek().expect("a record"));
                    expected.take();
                }
                number += 1;
            }
        }
        let is_right = |payload: &Payload| payload.value_bytes <= 1000 && payload.records > 1;
        assert!(payloads.iter().all(is_right), "{payloads:?}");
    }

    #[test]
    fn a_slow_file_is_waited_for() {
        const SLOW: Duration = Duration::from_millis(200);
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("it starts");
        assert!(made.success());
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut pipe = std::fs::File::create(path).expect("somebody reads");
                std::thread::sleep(SLOW);
                pipe.write_all(b"late\nlater\n").expect("somebody reads");
            }
        });
        let mut stream = stream_of(Origin::File(path), BatchShape::Records(1));
        assert_eq!(stream.advance(1, &mut 0, |_| ()).expect("a record"), 1);
        writer.join().expect("it ends");
        assert!(stream.waiting() > SLOW / 10, "{:?}", stream.waiting());
    }

    #[test]
    fn no_more_is_held_than_one_write_takes() {
        let mut stream = stream(BatchShape::Bytes(16 << 10));
        let taken = stream.advance(usize::MAX, &mut 0, |_| ()).expect("records");
        assert!(taken > 1 && stream.bytes().len() <= WRITE_BYTES, "{taken}");
        let mut large = self::stream(BatchShape::Bytes(4 * WRITE_BYTES));
        assert_eq!(large.advance(usize::MAX, &mut 0, |_| ()).expect("records"), 1);
    }
}
