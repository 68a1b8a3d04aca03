//! Writing what a run reads.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::generator::{
    Asked, EncodedBatch, Framing, Intake, Observed, Pace, ProduceShape, ProduceTraffic, Tape,
    Traffic, Window,
};

/// Bytes of requests on their way.
const IN_FLIGHT_BYTES: usize = 2 << 20;

/// Requests on their way, at most.
const IN_FLIGHT_MAX: usize = 64;

/// Appends a batch `count` times over a blocking connection, and returns when all are
/// acknowledged.
pub(crate) fn append(
    stream: &mut TcpStream,
    shape: &ProduceShape,
    batch: &EncodedBatch,
    count: u64,
    stop: Option<&AtomicBool>,
) -> anyhow::Result<()> {
    stream.set_nonblocking(false)?;
    let in_flight = (IN_FLIGHT_BYTES / batch.bytes.len()).clamp(2, IN_FLIGHT_MAX) as u64;
    let pace = Pace::Closed(in_flight as usize);
    let mut traffic = ProduceTraffic::new(batch.payload(), shape.acks, shape.version, pace);
    let mut tape = Tape::repeating(&shape.encode(batch)?, 1);
    let mut intake = Intake::new(Framing::Kafka, traffic.head_bytes_max());
    let now = Instant::now();
    let mut observed = Observed::new(Window { from: now, to: now + Duration::from_secs(3600) });
    let mut asked = Asked::default();
    let (mut sent, mut answered, mut next_id) = (0, 0, 0);
    while answered < count {
        ensure!(stop.is_none_or(|stop| !stop.load(Ordering::Relaxed)), "the run was called off");
        if sent < count && sent - answered < in_flight {
            let (stretch, _) = tape.advance(1, &mut next_id, |_| ());
            stream.write_all(tape.bytes(stretch))?;
            asked.push(now);
            sent += 1;
            continue;
        }
        intake.read(stream, |head, frame_bytes| {
            answered += 1;
            traffic.answer(head, frame_bytes, &mut asked, Instant::now(), &mut observed)
        })?;
    }
    Ok(())
}
