//! The loop that serves all connections of the generator.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;

use super::{Lane, Meter, Observed, Pace, Timetable, Window};

/// How long an open loop waits for answers that are still due when the window is over: a broker
/// beyond its knee may have a backlog without end.
const OPEN_DRAIN_PATIENCE: Duration = Duration::from_secs(20);

/// The same for a closed loop, which has but a few requests on their way. A broker that syncs for
/// each of them, one after the other, takes its time.
const CLOSED_DRAIN_PATIENCE: Duration = Duration::from_secs(120);

/// How often to look whether the run was called off.
pub(crate) const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Connections and when they are used.
pub(crate) struct Drive<'a> {
    pub(crate) lanes: Vec<Lane>,
    /// For the lanes whose pace is open; their requests are dealt out in turn.
    pub(crate) timetable: Option<Timetable>,
    pub(crate) window: Window,
    /// The broker's processes, if they run here: their use of the machine is measured.
    pub(crate) broker_pids: Vec<u32>,
    pub(crate) stop: &'a AtomicBool,
}

impl Drive<'_> {
    /// Runs until the window is over and the last answer is there. Blocks; for a thread of its
    /// own.
    pub(crate) fn run(&mut self) -> anyhow::Result<Observed> {
        // A sleep then ends when it should and not up to 50 µs later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut observed = Observed::new(self.window);
        let mut blocked = vec![false; self.lanes.len()];
        let now = Instant::now();
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            lane.stream.set_nonblocking(true)?;
            epoll::add(&epoll, &lane.stream, EventData::new_u64(index as u64), EventFlags::IN)?;
            lane.begin(now);
        }
        let mut events: Vec<Event> = Vec::with_capacity(self.lanes.len().max(1));
        let mut meter = Meter::new(self.broker_pids.clone());
        // Those that have something to write.
        let mut ready: Vec<usize> = (0..self.lanes.len()).collect();
        let is_bounded = self.lanes.iter().any(Lane::is_bounded);
        let mut exhausted = None;
        loop {
            let now = Instant::now();
            if is_bounded && now < self.window.from && self.all_bounded(Lane::is_half_exhausted) {
                // What it may still send is to be measured.
                self.window = self.window.moved_to(now);
                observed.window = self.window;
            }
            if is_bounded && exhausted.is_none() && self.all_bounded(Lane::is_exhausted) {
                exhausted = Some(now);
            }
            meter.look(now, &self.window);
            self.deal_out(now, &mut ready, &mut observed);
            for index in ready.drain(..) {
                let is_blocked = self.lanes[index].write(&mut observed)?;
                if is_blocked != blocked[index] {
                    blocked[index] = is_blocked;
                    let flags = if is_blocked { EventFlags::OUT } else { EventFlags::empty() };
                    let data = EventData::new_u64(index as u64);
                    let stream = &self.lanes[index].stream;
                    epoll::modify(&epoll, stream, data, EventFlags::IN | flags)?;
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                bail!("the run was called off");
            }
            if self.is_over(now, &observed) {
                meter.close();
                // Consumers may have gone on behind a producer that had no more to send.
                let end = exhausted.unwrap_or(now).min(now);
                if end < self.window.to {
                    observed.counted = Some(end.saturating_duration_since(self.window.from));
                }
                break;
            }
            if now > self.window.to + self.drain_patience() {
                self.give_up(now, &mut observed)?;
                break;
            }
            events.clear();
            match wait(epoll.as_fd(), &mut events, self.timeout(now)) {
                Ok(()) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error).context("cannot wait for the broker"),
            }
            for event in &events {
                let (flags, data) = (event.flags, event.data);
                let index = data.u64() as usize;
                if flags != EventFlags::OUT {
                    self.lanes[index].read(&mut observed)?;
                }
                ready.push(index);
            }
        }
        observed.read(&meter);
        Ok(observed)
    }

    /// Gives the open lanes what is due.
    fn deal_out(&mut self, now: Instant, ready: &mut Vec<usize>, observed: &mut Observed) {
        let Some(timetable) = &mut self.timetable else { return };
        // Lanes of an open loop come first.
        let open = self.lanes.iter().take_while(|lane| lane.pace == Pace::Open).count();
        while let Some((number, moment)) = timetable.pop_due(now) {
            let index = (number % open as u64) as usize;
            self.lanes[index].push(moment);
            observed.offer(moment);
            if !ready.contains(&index) {
                ready.push(index);
            }
        }
    }

    fn is_over(&self, now: Instant, observed: &Observed) -> bool {
        // Closed loops may have no more to do before the window is over.
        let has_ended = now >= self.window.to
            || self.is_closed() && !self.lanes.iter().any(|lane| lane.goes_on(now, observed));
        has_ended
            && self.timetable.as_ref().is_none_or(|timetable| timetable.next_moment().is_none())
            && self.lanes.iter().all(|lane| lane.outstanding() == 0)
    }

    /// Whether something holds of all connections whose number of requests is bounded.
    fn all_bounded(&self, holds: impl Fn(&Lane) -> bool) -> bool {
        self.lanes.iter().filter(|lane| lane.is_bounded()).all(holds)
    }

    fn is_closed(&self) -> bool {
        self.lanes.iter().all(|lane| lane.pace != Pace::Open)
    }

    fn drain_patience(&self) -> Duration {
        if self.is_closed() { CLOSED_DRAIN_PATIENCE } else { OPEN_DRAIN_PATIENCE }
    }

    /// Until something is to be done that no socket announces.
    fn timeout(&self, now: Instant) -> Duration {
        let next = self.timetable.as_ref().and_then(Timetable::next_moment);
        let edge = if now < self.window.from { self.window.from } else { self.window.to };
        [next, Some(edge)]
            .into_iter()
            .flatten()
            .filter(|&moment| moment > now)
            .map(|moment| moment - now)
            .fold(STOP_CHECK_INTERVAL, Duration::min)
    }

    /// What has no answer now has waited at least until now: it counts as that long.
    fn give_up(&self, now: Instant, observed: &mut Observed) -> anyhow::Result<()> {
        for lane in self.lanes.iter().filter(|lane| lane.pace == Pace::Open) {
            for due in lane.outstanding_since().filter(|&due| self.window.contains(due)) {
                observed.note_latency(now - due);
                observed.unanswered += 1;
            }
            for due in lane.unwritten_since().filter(|&due| self.window.contains(due)) {
                observed.note_lateness(now - due);
            }
        }
        if observed.unanswered == 0 {
            bail!("no answer within {} s", self.drain_patience().as_secs());
        }
        Ok(())
    }
}

/// Waits until there are events, or the time is over, to the microsecond: `epoll_wait` counts in
/// milliseconds and rounds up, by which an open loop would send half a millisecond late on average.
fn wait(
    epoll: BorrowedFd<'_>,
    events: &mut Vec<Event>,
    timeout: Duration,
) -> rustix::io::Result<()> {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    if epoll::wait(epoll, spare_capacity(events), Some(&AT_ONCE))? > 0 {
        return Ok(());
    }
    let timeout = Timespec::try_from(timeout).expect("no more than some seconds");
    if poll(&mut [PollFd::from_borrowed_fd(epoll, PollFlags::IN)], Some(&timeout))? > 0 {
        epoll::wait(epoll, spare_capacity(events), Some(&AT_ONCE))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::TcpStream;

    use logway_model::TopicName;

    use super::*;
    use crate::generator::{
        Acks, BatchShape, EncodedBatch, Origin, Payloads, ProduceShape, ProduceTraffic, Stream,
        Tape, VERSION_MAX,
    };
    use crate::null_broker;

    const MEASURED: Duration = Duration::from_millis(200);

    /// A machine that lets nothing be done in a window as long as this has stopped.
    const MEASURED_MAX: Duration = Duration::from_secs(60);

    /// To a broker that does nothing, which serves until the test's process ends.
    fn null() -> TcpStream {
        TcpStream::connect(null_broker::started()).expect("it accepts")
    }

    /// A lane to it that repeats one request.
    fn lane(acks: Acks, pace: Pace) -> Lane {
        lane_until(acks, pace, u64::MAX)
    }

    /// The same until values of so many bytes are answered.
    fn lane_until(acks: Acks, pace: Pace, value_bytes_max: u64) -> Lane {
        let batch = EncodedBatch::of_size(BatchShape::Records(7), 100).expect("a batch");
        let topic = TopicName::new("t").expect("a name");
        let shape = ProduceShape { topic, partition: 0, acks, version: VERSION_MAX };
        let frame = shape.encode(&batch).expect("a frame");
        let traffic = ProduceTraffic::new(batch.payload(), acks, VERSION_MAX, pace);
        let traffic = traffic.until(value_bytes_max);
        Lane::new(null(), pace, Tape::repeating(&frame, 5), Box::new(traffic))
    }

    /// A lane to it whose batches are made as they are due, and hold three records and one in turn.
    fn streaming_lane(acks: Acks, pace: Pace) -> Lane {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lines");
        let lines: Vec<String> = [100, 100, 100, 300].map(|length| "x".repeat(length)).to_vec();
        std::fs::write(&path, lines.join("\n")).expect("is written");
        let records = Origin::File(path).open(0).expect("it is there");
        let topic = TopicName::new("t").expect("a name");
        let shape = ProduceShape { topic, partition: 0, acks, version: VERSION_MAX };
        let requests = Stream::new(records, BatchShape::Bytes(450), vec![shape]);
        let payloads = Payloads::AsEncoded(VecDeque::new());
        let traffic = ProduceTraffic::of_payloads(payloads, acks, VERSION_MAX, pace);
        Lane::streaming(null(), pace, requests, Box::new(traffic))
    }

    /// Runs a closed loop until its window was long enough for something to be done in it, however
    /// busy the machine is.
    fn run_closed(acks: Acks) -> Observed {
        let mut measured = MEASURED;
        loop {
            let observed = run(lane(acks, Pace::Closed(5)), None, measured);
            if observed.requests > 0 {
                return observed;
            }
            measured *= 2;
            assert!(measured <= MEASURED_MAX, "nothing was done within {:?}", measured / 2);
        }
    }

    fn run(lane: Lane, rate: Option<f64>, measured: Duration) -> Observed {
        let stop = AtomicBool::new(false);
        let window = Window::starting_now(Duration::from_millis(20), measured);
        let broker_pids = vec![std::process::id()];
        let timetable = rate.map(|rate| Timetable::new(window.from, rate, measured));
        let mut drive = Drive { lanes: vec![lane], timetable, window, broker_pids, stop: &stop };
        let observed = drive.run().expect("nobody refuses anything");
        assert!(Instant::now() >= window.to, "it ended early");
        observed
    }

    #[test]
    fn a_closed_loop_is_answered_to_the_end() {
        let observed = run_closed(Acks::All);
        assert_eq!(observed.records, 7 * observed.requests);
        assert_eq!(observed.latency_ns.len(), observed.requests);
        assert_eq!(observed.timeline.iter().sum::<u64>(), observed.records);
        assert!(observed.usage.generator_cpu_seconds > 0.0);
    }

    #[test]
    fn without_answers_the_socket_is_kept_full() {
        let observed = run_closed(Acks::None);
        assert_eq!(observed.counted, None);
        assert_eq!(observed.latency_ns.len(), 0);
    }

    #[test]
    fn a_closed_loop_may_end_when_it_has_sent_enough() {
        const BYTES_MAX: u64 = 10_000;
        let lanes = vec![lane_until(Acks::All, Pace::Closed(5), BYTES_MAX)];
        let window = Window::starting_now(Duration::ZERO, Duration::from_secs(3600));
        let stop = AtomicBool::new(false);
        let mut drive =
            Drive { lanes, timetable: None, window, broker_pids: Vec::new(), stop: &stop };
        let observed = drive.run().expect("nobody refuses anything");
        // What is on its way then is still answered.
        let in_batch = observed.value_bytes / observed.requests;
        assert!((BYTES_MAX..BYTES_MAX + 6 * in_batch).contains(&observed.value_bytes));
        assert!(observed.counted.is_some_and(|counted| counted < Duration::from_secs(3600)));
    }

    /// Over so many lanes that may each begin so many requests.
    fn run_bounded(
        acks: Acks,
        lanes: usize,
        requests_max: u64,
        warm_up: Duration,
    ) -> anyhow::Result<Observed> {
        let lane = || lane(acks, Pace::Closed(5)).with_requests_max(Some(requests_max));
        let lanes = std::iter::repeat_with(lane).take(lanes).collect();
        let window = Window::starting_now(warm_up, Duration::from_secs(3600));
        let stop = AtomicBool::new(false);
        Drive { lanes, timetable: None, window, broker_pids: Vec::new(), stop: &stop }.run()
    }

    #[test]
    fn a_closed_loop_writes_no_more_than_it_may() {
        for acks in [Acks::All, Acks::None] {
            let observed = run_bounded(acks, 2, 103, Duration::ZERO).expect("it is measured");
            assert_eq!(observed.entrusted_records, 2 * 103 * 7, "acks {}", acks.name());
            assert!(observed.counted.is_some_and(|counted| counted < Duration::from_secs(3600)));
        }
    }

    #[test]
    fn a_warm_up_takes_no_more_than_half_of_a_bound() {
        for (requests_max, in_flight) in [(100, 5), (3, 5), (1, 5)] {
            let observed = run_bounded(Acks::All, 1, requests_max, Duration::from_secs(3600));
            let observed = observed.expect("it is measured");
            assert_eq!(observed.entrusted_records, requests_max * 7);
            let half = requests_max / 2;
            assert!(
                (half.saturating_sub(in_flight)..=half + in_flight).contains(&observed.requests)
            );
            assert!(observed.length() > Duration::ZERO);
        }
    }

    #[test]
    fn an_open_loop_sends_all_and_waits_for_the_answers() {
        let observed = run(lane(Acks::All, Pace::Open), Some(1000.0), MEASURED);
        assert_eq!(observed.latency_ns.len(), 200);
        assert_eq!(observed.lateness_ns.len(), 200);
        assert_eq!(observed.unanswered, 0);
    }

    #[test]
    fn what_is_streamed_counts_for_what_each_batch_holds() {
        for acks in [Acks::All, Acks::None] {
            let observed = run(streaming_lane(acks, Pace::Open), Some(1000.0), MEASURED);
            // Three records and one in turn, as far as they were answered in time.
            let (requests, threes) = (observed.requests, observed.requests.div_ceil(2));
            assert_eq!(observed.records, 3 * threes + (requests - threes), "acks {}", acks.name());
            let sent = if acks == Acks::None { requests } else { observed.latency_ns.len() };
            assert_eq!(sent, 200, "acks {}", acks.name());
        }
    }

    #[test]
    fn a_wait_is_over_within_the_millisecond() {
        const WAIT: Duration = Duration::from_micros(200);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
        let shortest = (0..50).map(|_| {
            let started = Instant::now();
            wait(epoll.as_fd(), &mut Vec::with_capacity(1), WAIT).expect("a wait");
            started.elapsed()
        });
        let shortest = shortest.min().expect("there were some");
        assert!((WAIT..WAIT * 4).contains(&shortest), "{shortest:?}");
    }

    #[test]
    fn a_run_can_be_called_off() {
        let stop = AtomicBool::new(true);
        let window = Window::starting_now(Duration::ZERO, Duration::from_secs(600));
        let lanes = vec![lane(Acks::All, Pace::Closed(1))];
        let error =
            Drive { lanes, timetable: None, window, broker_pids: Vec::new(), stop: &stop }.run();
        assert!(error.expect_err("it ends").to_string().contains("called off"));
    }
}
