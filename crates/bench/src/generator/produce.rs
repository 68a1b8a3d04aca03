//! Produce requests and their answers.

use std::time::Instant;

use anyhow::{bail, ensure};
use bytes::Bytes;
use logway_model::ErrorCode;
use logway_wire::messages::ProduceResponse;
use logway_wire::messages::produce_response::PartitionProduceResponse;
use logway_wire::{ApiKey, Decoder, Message, decode_response_header};

use super::{Acks, Asked, Observed, Pace, Payload, Payloads, Traffic};

/// The correlation id's size, in front of everything else in an answer.
const CORRELATION_ID_BYTES: usize = 4;

/// Requests with one batch each.
#[derive(Debug)]
pub(crate) struct ProduceTraffic {
    payloads: Payloads,
    acks: Acks,
    version: i16,
    pace: Pace,
    is_counted: bool,
    /// When values of so many bytes have been counted, over all connections, no more is sent.
    value_bytes_max: u64,
    /// One for each partition.
    good: Vec<GoodAnswer>,
}

/// What an answer begins with that says nothing bad.
#[derive(Debug)]
struct GoodAnswer {
    after_id: Vec<u8>,
    frame_bytes: usize,
}

impl ProduceTraffic {
    /// All with the same in it.
    pub(crate) fn new(batch: Payload, acks: Acks, version: i16, pace: Pace) -> Self {
        let payloads = Payloads::InTurn { payloads: vec![batch], counted: 0 };
        ProduceTraffic::of_payloads(payloads, acks, version, pace)
    }

    /// With different things in it.
    pub(crate) fn of_payloads(payloads: Payloads, acks: Acks, version: i16, pace: Pace) -> Self {
        ProduceTraffic {
            payloads,
            acks,
            version,
            pace,
            is_counted: true,
            value_bytes_max: u64::MAX,
            good: Vec::new(),
        }
    }

    /// The same, but a closed loop ends when values of so many bytes have been counted, if the window does not before.
    pub(crate) fn until(self, value_bytes_max: u64) -> Self {
        ProduceTraffic { value_bytes_max, ..self }
    }

    /// The same, but only consumers are to be counted.
    pub(crate) fn uncounted(self) -> Self {
        ProduceTraffic { is_counted: false, ..self }
    }

    /// Decodes the first answer, and each that does not begin as that did: it must be about one partition, and say
    /// where its records are.
    fn check(&mut self, head: &[u8], frame_bytes: usize) -> anyhow::Result<()> {
        let is_good = |good: &GoodAnswer| {
            frame_bytes == good.frame_bytes
                && head[CORRELATION_ID_BYTES..].starts_with(&good.after_id)
        };
        if self.good.iter().any(is_good) {
            return Ok(());
        }
        let response = decode(head, self.version)?;
        for partition in response.responses.iter().flat_map(|topic| &topic.partition_responses) {
            if partition.error_code != ErrorCode::None.code() {
                let name =
                    ErrorCode::from_code(partition.error_code).map_or("unknown", ErrorCode::name);
                match &partition.error_message {
                    Some(message) => bail!("the broker refused an append: {name}: {message}"),
                    None => bail!("the broker refused an append: {name}"),
                }
            }
        }
        let [topic] = response.responses.as_slice() else {
            bail!("an answer about {} topics instead of one", response.responses.len());
        };
        let [partition] = topic.partition_responses.as_slice() else {
            let partitions = topic.partition_responses.len();
            bail!("an answer about {partitions} partitions instead of one");
        };
        ensure!(partition.base_offset >= 0, "an answer without an offset");
        self.good.extend(good_answer(head, topic.name.len(), partition, self.version));
        Ok(())
    }
}

fn decode(head: &[u8], version: i16) -> anyhow::Result<ProduceResponse> {
    let mut decoder = Decoder::new(Bytes::copy_from_slice(head));
    decode_response_header(&mut decoder, ApiKey::Produce, version)?;
    Ok(ProduceResponse::decode(&mut decoder, version)?)
}

/// Everything between the correlation id and the base offset stays the same from one answer to
/// the next: topic, partition and the error code that is none.
fn good_answer(
    head: &[u8],
    name_bytes: usize,
    partition: &PartitionProduceResponse,
    version: i16,
) -> Option<GoodAnswer> {
    // Flexible versions have a byte of tagged fields in the header, and lengths as varints.
    let flexible = ProduceResponse::FLEXIBLE_VERSIONS.contains(version);
    let (header, count, length) = if flexible { (5, 1, 1) } else { (4, 4, 2) };
    let error_at = header + count + length + name_bytes + count + 4;
    let code = head.get(error_at..error_at + 2)?;
    let index = head.get(error_at - 4..error_at)?;
    let is_there = code == [0, 0] && index == partition.index.to_be_bytes();
    is_there.then(|| GoodAnswer {
        after_id: head[CORRELATION_ID_BYTES..error_at + 2].to_vec(),
        frame_bytes: head.len(),
    })
}

impl Traffic for ProduceTraffic {
    fn head_bytes_max(&self) -> usize {
        64 << 10
    }

    fn answer(
        &mut self,
        head: &[u8],
        frame_bytes: usize,
        asked: &mut Asked,
        now: Instant,
        observed: &mut Observed,
    ) -> anyhow::Result<()> {
        let due = asked.answered(head)?;
        self.check(head, frame_bytes)?;
        if !self.is_counted {
            return Ok(());
        }
        let payload = self.payloads.next();
        observed.entrusted_records += payload.records;
        observed.count_answer(self.pace, (due, now), payload);
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.acks != Acks::None
    }

    fn sent_unanswered(&mut self) -> Payload {
        self.payloads.next()
    }

    fn will_send(&mut self, payload: Payload) {
        self.payloads.push(payload);
    }

    fn goes_on(&self, now: Instant, observed: &Observed) -> bool {
        observed.value_bytes < self.value_bytes_max && now < observed.window.to
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use logway_wire::messages::produce_response::TopicProduceResponse;
    use logway_wire::{WireString, encode_response};

    use super::*;
    use crate::generator::{BatchShape, EncodedBatch, Window};

    fn answer(id: i32, version: i16, base_offset: i64, error_code: i16) -> Bytes {
        let partition = PartitionProduceResponse {
            index: 5,
            base_offset,
            error_code,
            ..PartitionProduceResponse::default()
        };
        let topic = TopicProduceResponse {
            name: WireString::from_static("some-topic"),
            partition_responses: vec![partition],
            ..TopicProduceResponse::default()
        };
        let response = ProduceResponse { responses: vec![topic], ..Default::default() };
        encode_response(id, version, &response).expect("a response").bytes.slice(4..)
    }

    #[test]
    fn an_answer_that_acknowledges_nothing_ends_the_run() {
        let empty = ProduceResponse::default();
        let no_partition =
            ProduceResponse { responses: vec![TopicProduceResponse::default()], ..empty.clone() };
        for (response, complaint) in [(empty, "0 topics"), (no_partition, "0 partitions")] {
            let frame = encode_response(0, 12, &response).expect("a response").bytes.slice(4..);
            let payload = Payload { records: 1, value_bytes: 1 };
            let mut traffic = ProduceTraffic::new(payload, Acks::All, 12, Pace::Closed(1));
            let error = traffic.check(&frame, frame.len()).expect_err("it says nothing");
            assert!(error.to_string().contains(complaint), "{error}");
        }
        let payload = Payload { records: 1, value_bytes: 1 };
        let mut traffic = ProduceTraffic::new(payload, Acks::All, 12, Pace::Closed(1));
        let frame = answer(0, 12, -1, 0);
        let error = traffic.check(&frame, frame.len()).expect_err("it says not where");
        assert!(error.to_string().contains("without an offset"), "{error}");
    }

    #[test]
    fn answers_are_counted_and_refusals_end_the_run() {
        for version in 3..=12 {
            let batch = EncodedBatch::of_size(BatchShape::Records(3), 10).expect("a batch");
            let mut traffic =
                ProduceTraffic::new(batch.payload(), Acks::All, version, Pace::Closed(1));
            let window = Window::starting_now(Duration::ZERO, Duration::from_secs(60));
            let mut observed = Observed::new(window);
            let mut asked = Asked::default();
            for _ in 0..4 {
                asked.push(window.from);
            }
            for (id, offset) in [(0, 0), (1, 3), (2, 1_000_000)] {
                let frame = answer(id, version, offset, 0);
                let now = Instant::now();
                traffic
                    .answer(&frame, frame.len(), &mut asked, now, &mut observed)
                    .expect("is good");
                assert!(!traffic.good.is_empty(), "version {version}");
            }
            assert_eq!((observed.requests, observed.records), (3, 9));
            assert_eq!(observed.latency_ns.len(), 3);
            let refused = answer(3, version, -1, ErrorCode::NotLeaderOrFollower.code());
            let error = traffic
                .answer(&refused, refused.len(), &mut asked, Instant::now(), &mut observed)
                .expect_err("is bad");
            assert!(error.to_string().contains("NOT_LEADER_OR_FOLLOWER"), "{error}");
        }
    }
}
