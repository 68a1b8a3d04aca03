//! Bodies of HTTP's requests: bounded in size, in what all connections hold, and in time.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::HttpBody;
use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, timeout_at};

use crate::codec::budget::{Exhausted, Share};

/// How long a client may send nothing of a body.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long any body may take, and how much has to come in each second behind that, on average.
const GRACE: Duration = Duration::from_secs(60);
const PACE_BYTES_PER_S: u64 = 16 << 10;

/// Why there is no body.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoBody {
    #[error("the request ends before its end")]
    Cut,
    #[error("the request comes too slowly")]
    TooSlow,
    #[error("the request is above {0} bytes (maxMessageBytes)")]
    TooLarge(usize),
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

/// Reads a body; each piece is charged when it has come.
pub(super) async fn read_body<B>(
    mut body: B,
    bytes_max: usize,
    share: &mut Share,
) -> Result<Bytes, NoBody>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let (began, mut heard) = (Instant::now(), Instant::now());
    let mut bytes = BytesMut::new();
    loop {
        let due = GRACE + Duration::from_secs(bytes.len() as u64 / PACE_BYTES_PER_S);
        let until = (heard + SILENCE_MAX).min(began + due);
        let frame = poll_fn(|task| Pin::new(&mut body).poll_frame(task));
        let frame = timeout_at(until, frame).await.map_err(|_| NoBody::TooSlow)?;
        let Some(frame) = frame else { return Ok(bytes.freeze()) };
        let Ok(data) = frame.map_err(|_| NoBody::Cut)?.into_data() else { continue };
        if bytes.len() + data.len() > bytes_max {
            return Err(NoBody::TooLarge(bytes_max));
        }
        if !data.is_empty() {
            heard = Instant::now();
        }
        share.grow(data.len())?;
        bytes.extend_from_slice(&data);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::task::{Context, Poll};

    use hyper::body::Frame;
    use tokio::time::Interval;

    use super::*;
    use crate::codec::budget::Budget;

    /// A piece at each tick, and an end.
    struct Drip {
        ticks: Interval,
        piece_bytes: usize,
        pieces: usize,
    }

    impl HttpBody for Drip {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            task: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            std::task::ready!(self.ticks.poll_tick(task));
            if self.pieces == 0 {
                return Poll::Ready(None);
            }
            self.pieces -= 1;
            Poll::Ready(Some(Ok(Frame::data(vec![0; self.piece_bytes].into()))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_to_come_at_some_pace() {
        let read = async |every_s, piece_bytes, pieces| {
            let ticks = tokio::time::interval(Duration::from_secs(every_s));
            let budget = Budget::new(1 << 30);
            let drip = Drip { ticks, piece_bytes, pieces };
            let began = Instant::now();
            let read = read_body(drip, 8 << 20, &mut budget.share()).await;
            (read.map(|bytes| bytes.len()), began.elapsed().as_secs())
        };
        // A byte, and then nothing; a byte in each 29 s; 20 KiB and 10 KiB a second; one piece too many.
        assert_eq!(read(100, 1, 1000).await, (Err(NoBody::TooSlow), 30));
        assert_eq!(read(29, 1, 1000).await, (Err(NoBody::TooSlow), 60));
        assert_eq!(read(1, 20 << 10, 400).await, (Ok(8_192_000), 400));
        let (slow, after_s) = read(1, 10 << 10, 400).await;
        assert!(slow == Err(NoBody::TooSlow) && (100..200).contains(&after_s), "{after_s}");
        assert_eq!(read(1, 1 << 20, 9).await.0, Err(NoBody::TooLarge(8 << 20)));
    }
}
