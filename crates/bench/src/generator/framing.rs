//! How protocols cut their streams into frames.

use anyhow::{Context, ensure};

use crate::peer;

/// The size of the length in front of Kafka's frames.
const KAFKA_PREFIX_BYTES: usize = 4;

/// The protocols that the generator speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A length of 4 bytes, then the frame.
    Kafka,
    /// AMQP 0-9-1: a type, a channel, a length, the payload, an end mark.
    Amqp,
    /// STOMP: lines, an empty line, a body, a zero.
    Stomp,
    /// NATS: a line, and for messages a payload.
    Nats,
}

impl Framing {
    /// What stands in front of a frame and is no part of it.
    pub(crate) fn prefix_bytes(self) -> usize {
        match self {
            Framing::Kafka => KAFKA_PREFIX_BYTES,
            Framing::Amqp | Framing::Stomp | Framing::Nats => 0,
        }
    }

    /// How long the frame at the beginning of `bytes` is, without its prefix; `None` if that cannot
    /// be told yet.
    ///
    /// # Errors
    ///
    /// No frame begins so.
    pub(crate) fn frame_bytes(self, bytes: &[u8]) -> anyhow::Result<Option<usize>> {
        match self {
            Framing::Kafka => kafka_frame_bytes(bytes),
            Framing::Amqp => peer::amqp_frame_bytes(bytes),
            Framing::Stomp => peer::stomp_frame_bytes(bytes),
            Framing::Nats => peer::nats_frame_bytes(bytes),
        }
    }
}

fn kafka_frame_bytes(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(&length) = bytes.first_chunk::<KAFKA_PREFIX_BYTES>() else { return Ok(None) };
    let length = i32::from_be_bytes(length);
    let frame_bytes = usize::try_from(length);
    let frame_bytes = frame_bytes.with_context(|| format!("a frame of {length} bytes"))?;
    ensure!(frame_bytes >= KAFKA_PREFIX_BYTES, "a frame of {length} bytes");
    Ok(Some(frame_bytes))
}
