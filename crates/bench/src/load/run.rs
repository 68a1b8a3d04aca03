//! How long a run is, and how it is called off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::generator::{Acks, Drive, Lane, Observed, Timetable, Window};
use crate::side::Side;

/// With a new partition a broker has work beside that which is measured. Of Kafka's 100, most of a quick run was that:
/// 1,300 records a second in the first, 667,000 after some.
const NEW_PARTITION: Duration = Duration::from_millis(30);

/// What all loads of a session are given.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Before anything is counted.
    pub(crate) warm_up: Duration,
    /// For how long is counted.
    pub(crate) measured: Duration,
    /// Bytes that a load which reads writes first.
    pub(crate) preloaded_bytes: u64,
    /// Partitions, besides the one with data, of a broker that is restarted.
    pub(crate) empty_partitions: i32,
    /// Bytes of batches after which a closed loop ends before its time: of a broker that was not started here.
    pub(crate) sent_bytes_max: Option<u64>,
    /// Called off when the session goes.
    pub(crate) stop: Arc<AtomicBool>,
}

/// Calls the generator's threads off when it goes: they would go on with nobody waiting.
#[derive(Debug, Default)]
pub(crate) struct Stop(pub(crate) Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Run {
    /// The same for another time.
    pub(crate) fn lasting(&self, warm_up: Duration, measured: Duration) -> Run {
        Run { warm_up, measured, ..self.clone() }
    }

    /// The same, but warmed up for as long as so many new partitions need, and what gets no answers not at all: at the
    /// start of the window there would be requests on their way that were not counted, and take the window's time.
    pub(crate) fn of_new_topic(&self, partitions: i32, acks: Acks) -> Run {
        let partitions = u32::try_from(partitions).unwrap_or(0);
        let warm_up = match acks {
            Acks::None => Duration::ZERO,
            _ => self.warm_up.max(partitions * NEW_PARTITION),
        };
        self.lasting(warm_up, self.measured)
    }

    /// What is sent at so many requests a second, of so many bytes each.
    pub(crate) fn bytes_at(&self, rate: f64, request_bytes: u64) -> u64 {
        ((self.warm_up + self.measured).as_secs_f64() * rate).ceil() as u64 * request_bytes
    }

    /// How many requests a closed loop may begin on each of its connections, of so many bytes each: at least one.
    pub(crate) fn requests_max(&self, request_bytes: u64, connections: usize) -> Option<u64> {
        let requests = self.sent_bytes_max? / request_bytes.max(1) / connections.max(1) as u64;
        Some(requests.max(1))
    }

    /// When it is measured, if it starts at `start`.
    pub(crate) fn window(&self, start: Instant) -> Window {
        Window::starting_at(start, self.warm_up, self.measured)
    }

    /// Runs the generator on a thread of its own, from now on. The lanes are made when everything else is
    /// ready; they get the timetable, if there is one.
    pub(crate) async fn drive(
        &self,
        side: &Side,
        rate: Option<f64>,
        lanes: impl FnOnce(Option<&Arc<Timetable>>) -> anyhow::Result<Vec<Lane>>,
    ) -> anyhow::Result<Observed> {
        self.drive_from(Instant::now(), side, rate, lanes, |_, _, _| Ok(())).await
    }

    /// The same from `start` on, with something to do when all is sent.
    pub(crate) async fn drive_from(
        &self,
        start: Instant,
        side: &Side,
        rate: Option<f64>,
        lanes: impl FnOnce(Option<&Arc<Timetable>>) -> anyhow::Result<Vec<Lane>>,
        after: impl FnOnce(Vec<Lane>, &AtomicBool, &mut Observed) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Observed> {
        let window = self.window(start);
        let timetable = |rate| Timetable::new(start, rate, self.warm_up + self.measured);
        let timetable = rate.map(timetable).map(Arc::new);
        let lanes = lanes(timetable.as_ref())?;
        let broker_pids = side.pids.clone();
        let stop = Arc::clone(&self.stop);
        let drive = move || {
            let timetable = timetable.as_deref().cloned();
            let mut drive = Drive { lanes, timetable, window, broker_pids, stop: &stop };
            let mut observed = drive.run()?;
            after(drive.lanes, &stop, &mut observed)?;
            Ok(observed)
        };
        tokio::task::spawn_blocking(drive).await.context("the generator failed")?
    }
}
