//! Produce requests that begin alike, and the answer to them.

use anyhow::{Context, ensure};
use logway_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use logway_wire::messages::{ProduceRequest, ProduceResponse};
use logway_wire::{ApiKey, Decoder, Message, WireString};

use super::replies::encode;

/// Where the correlation id is, in a request without its length and in an answer with it.
const REQUEST_ID_AT: usize = 4;
const REPLY_ID_AT: usize = 4;

/// A partition as requests of one client name it, and what to say to them.
pub(crate) struct Produced {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// Whether integers that count bytes are of variable length.
    is_flexible: bool,
    before_id: Vec<u8>,
    after_id: Vec<u8>,
    /// None if no answer is wanted.
    reply: Option<Vec<u8>>,
    base_offset_at: usize,
}

/// Whether a request is a Produce.
pub(crate) fn is_produce(head: &[u8]) -> bool {
    head.starts_with(&ApiKey::Produce.id().to_be_bytes())
}

/// The correlation id of a request.
pub(crate) fn correlation_id(head: &[u8]) -> anyhow::Result<[u8; 4]> {
    let id = head.get(REQUEST_ID_AT..).and_then(|rest| rest.first_chunk());
    id.copied().context("a short request")
}

impl Produced {
    /// Whether this is the answer: nothing but the correlation id and the records may differ.
    pub(super) fn answers(&self, head: &[u8]) -> bool {
        head.starts_with(&self.before_id)
            && head.get(REQUEST_ID_AT + 4..).is_some_and(|rest| rest.starts_with(&self.after_id))
    }

    /// Reads a request for one partition up to its records, which may not be all there.
    pub(super) fn read(from: &mut Decoder, head: &[u8], version: i16) -> anyhow::Result<Produced> {
        let is_flexible = ProduceRequest::FLEXIBLE_VERSIONS.contains(version);
        let count = |from: &mut Decoder| -> anyhow::Result<()> {
            let count = match is_flexible {
                true => from.unsigned_varint("count")? as i32 - 1,
                false => from.i32("count")?,
            };
            ensure!(count == 1, "a request for one partition, not for {count}");
            Ok(())
        };
        from.nullable_string("transactional_id", is_flexible)?;
        let acks = from.i16("acks")?;
        from.i32("timeout_ms")?;
        count(from)?;
        let topic = from.string("name", is_flexible)?;
        count(from)?;
        let partition = from.i32("index")?;
        let reply = |base_offset| answer(&topic, partition, base_offset, version);
        // The offset's place is where two answers that differ in nothing else differ.
        let (zeros, ones) = (reply(0)?, reply(-1)?);
        let base_offset_at = zeros.iter().zip(&ones).position(|(zero, one)| zero != one);
        Ok(Produced {
            partition,
            is_flexible,
            before_id: head[..REQUEST_ID_AT].to_vec(),
            after_id: head[REQUEST_ID_AT + 4..from.position_bytes()].to_vec(),
            reply: (acks != 0).then_some(zeros),
            base_offset_at: base_offset_at.expect("the offset is part of the answer"),
            topic: topic.to_string(),
        })
    }

    /// Where the records of such a request begin in it, and how many bytes they have.
    ///
    /// # Errors
    ///
    /// It has none.
    pub(crate) fn records(&self, head: &[u8]) -> anyhow::Result<(usize, usize)> {
        let mut at = REQUEST_ID_AT + 4 + self.after_id.len();
        if !self.is_flexible {
            let length =
                head.get(at..).and_then(|rest| rest.first_chunk()).context("no records")?;
            return Ok((at + 4, usize::try_from(i32::from_be_bytes(*length))?));
        }
        let mut length = 0;
        for shift in (0..32).step_by(7) {
            let byte = *head.get(at).context("no records")?;
            at += 1;
            length |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        // Zero says that there are none, and the rest is one more than the length.
        Ok((at, length.checked_sub(1).context("no records")?))
    }

    /// What to say to a request with that correlation id, if it wants to hear anything.
    pub(crate) fn reply(&mut self, id: [u8; 4], base_offset: i64) -> Option<&[u8]> {
        let reply = self.reply.as_mut()?;
        reply[REPLY_ID_AT..REPLY_ID_AT + 4].copy_from_slice(&id);
        let at = self.base_offset_at;
        reply[at..at + 8].copy_from_slice(&base_offset.to_be_bytes());
        Some(reply)
    }
}

fn answer(
    topic: &WireString,
    index: i32,
    base_offset: i64,
    version: i16,
) -> anyhow::Result<Vec<u8>> {
    let partition =
        PartitionProduceResponse { index, base_offset, ..PartitionProduceResponse::default() };
    let topic = TopicProduceResponse {
        name: topic.clone(),
        partition_responses: vec![partition],
        ..TopicProduceResponse::default()
    };
    encode(0, version, &ProduceResponse { responses: vec![topic], ..ProduceResponse::default() })
}
