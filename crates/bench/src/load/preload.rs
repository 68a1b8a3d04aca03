//! Writing what a run reads.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::generator::{
    Asked, EncodedBatch, Framing, Intake, Observed, Pace, ProduceShape, ProduceTraffic,
    STOP_CHECK_INTERVAL, Tape, Traffic, Window,
};

/// Bytes of requests on their way.
const IN_FLIGHT_BYTES: usize = 2 << 20;

/// Requests on their way, at most.
const IN_FLIGHT_MAX: usize = 64;

/// How long the broker may take for one answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Appends a batch `count` times over a blocking connection, and returns when all are
/// acknowledged.
///
/// # Errors
///
/// The broker refuses one, or does not answer for two minutes, or the run is called off.
pub(crate) fn append(
    stream: &mut TcpStream,
    shape: &ProduceShape,
    batch: &EncodedBatch,
    count: u64,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
    stream.set_write_timeout(Some(STOP_CHECK_INTERVAL))?;
    let in_flight = (IN_FLIGHT_BYTES / batch.bytes.len()).clamp(2, IN_FLIGHT_MAX) as u64;
    let pace = Pace::Closed(in_flight as usize);
    let mut traffic = ProduceTraffic::new(batch.payload(), shape.acks, shape.version, pace);
    let mut tape = Tape::repeating(&shape.encode(batch)?, 1);
    let mut intake = Intake::new(Framing::Kafka, traffic.head_bytes_max());
    let now = Instant::now();
    let mut observed = Observed::new(Window { from: now, to: now + Duration::from_secs(3600) });
    let mut asked = Asked::default();
    let (mut sent, mut answered, mut next_id, mut moved) = (0, 0, 0, now);
    let mut writing = 0..0;
    while answered < count {
        ensure!(!stop.load(Ordering::Relaxed), "the run was called off");
        ensure!(moved.elapsed() < PATIENCE, "no answer within {} s", PATIENCE.as_secs());
        if writing.is_empty() && sent < count && sent - answered < in_flight {
            (writing, _) = tape.advance(1, &mut next_id, |_| ());
            asked.push(now);
            sent += 1;
        }
        if !writing.is_empty() {
            match stream.write(tape.bytes(writing.clone())) {
                Ok(written) => (writing.start, moved) = (writing.start + written, Instant::now()),
                Err(error) if is_no_progress(&error) => {}
                Err(error) => return Err(error).context("cannot write to the broker"),
            }
            continue;
        }
        intake.read(stream, |head, frame_bytes| {
            answered += 1;
            moved = Instant::now();
            traffic.answer(head, frame_bytes, &mut asked, moved, &mut observed)
        })?;
    }
    Ok(())
}

/// Whether it is only that nothing went on for a moment.
fn is_no_progress(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
