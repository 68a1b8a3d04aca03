//! A closed loop over one connection: so many produce requests are always on their way.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::{Bytes, BytesMut};
use hdrhistogram::Histogram;
use logway_client::RawConnection;
use logway_model::ErrorCode;
use logway_wire::messages::ProduceResponse;
use logway_wire::{ApiKey, Decoder, Message, decode_response_header};

/// The correlation id's place in a request frame: after the length, the API key and the version.
const CORRELATION_ID_AT: usize = 8;

/// What one connection, or all together, saw while measuring.
pub(crate) struct Observed {
    /// Requests that were acknowledged.
    pub acknowledged: u64,
    /// From the write of a request to its answer, in microseconds.
    pub latency_us: Histogram<u64>,
}

impl Observed {
    pub(crate) fn new() -> Observed {
        // A minute at most, three significant digits.
        let latency_us = Histogram::new_with_max(60_000_000, 3).expect("the bounds are valid");
        Observed { acknowledged: 0, latency_us }
    }

    pub(crate) fn add(&mut self, other: &Observed) {
        self.acknowledged += other.acknowledged;
        self.latency_us.add(&other.latency_us).expect("both have the same bounds");
    }
}

/// When to look, and when to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// Answers before this are not counted.
    pub measure_from: Instant,
    /// Answers after this are not counted, and no request is sent any more.
    pub stop_at: Instant,
}

impl Schedule {
    pub(crate) fn starting_now(warm_up: Duration, measured: Duration) -> Schedule {
        let measure_from = Instant::now() + warm_up;
        Schedule { measure_from, stop_at: measure_from + measured }
    }
}

/// Keeps `in_flight` copies of a produce request on their way until the schedule ends, and waits
/// for the last answers. A request that is refused ends the run: a benchmark of errors says
/// nothing.
pub(crate) async fn run(
    mut connection: RawConnection,
    request: Bytes,
    version: i16,
    in_flight: usize,
    schedule: Schedule,
) -> anyhow::Result<Observed> {
    let mut observed = Observed::new();
    let mut sent_at = VecDeque::with_capacity(in_flight);
    let mut frame = BytesMut::from(&request[..]);
    let mut next_id = 0_i32;
    let mut to_send = in_flight;
    while to_send > 0 || !sent_at.is_empty() {
        for _ in 0..std::mem::take(&mut to_send) {
            frame[CORRELATION_ID_AT..CORRELATION_ID_AT + 4].copy_from_slice(&next_id.to_be_bytes());
            next_id = next_id.wrapping_add(1);
            sent_at.push_back(Instant::now());
            connection.writer.write_frame(&frame).await?;
        }
        connection.writer.flush().await?;
        let mut answer = Some(connection.reader.read_frame().await?);
        // Everything that has come together is answered together: one write for many requests.
        while let Some(response) = answer {
            check(response, version)?;
            let now = Instant::now();
            let sent = sent_at.pop_front().context("an answer without a request")?;
            if schedule.measure_from <= now && now < schedule.stop_at {
                observed.acknowledged += 1;
                let latency_us = u64::try_from((now - sent).as_micros()).unwrap_or(u64::MAX);
                observed.latency_us.saturating_record(latency_us);
            }
            to_send += usize::from(now < schedule.stop_at);
            answer = ready_now(connection.reader.read_frame()).transpose()?;
        }
    }
    Ok(observed)
}

/// The result of a future that is complete already; it must be cancel safe.
fn ready_now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn check(response: Bytes, version: i16) -> anyhow::Result<()> {
    let mut decoder = Decoder::new(response);
    decode_response_header(&mut decoder, ApiKey::Produce, version)?;
    let response = ProduceResponse::decode(&mut decoder, version)?;
    for partition in response.responses.iter().flat_map(|topic| &topic.partition_responses) {
        if partition.error_code != ErrorCode::None.code() {
            let name =
                ErrorCode::from_code(partition.error_code).map_or("unknown", ErrorCode::name);
            bail!("the broker refused an append: {name} {:?}", partition.error_message);
        }
    }
    Ok(())
}
