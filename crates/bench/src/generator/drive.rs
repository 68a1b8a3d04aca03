//! The loop that serves all connections of the generator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use super::observed::record;
use super::{Lane, Observed, Pace, Timetable, Window};
use crate::measure::Snapshot;

/// How long answers may take that are still due when the window is over.
const DRAIN_PATIENCE: Duration = Duration::from_secs(20);

/// How often to look whether the run was called off.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Whose use of the machine to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// The broker's process, if it runs here.
    pub(crate) broker_pid: Option<u32>,
}

/// Connections and when they are used.
pub(crate) struct Drive<'a> {
    pub(crate) lanes: Vec<Lane>,
    /// For the lanes whose pace is open; their requests are dealt out in turn.
    pub(crate) timetable: Option<Timetable>,
    pub(crate) window: Window,
    pub(crate) probe: Probe,
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
        let mut snapshots = Snapshots::default();
        // Those that have something to write.
        let mut ready: Vec<usize> = (0..self.lanes.len()).collect();
        loop {
            let now = Instant::now();
            snapshots.look(now, &self.window, self.probe);
            self.deal_out(now, &mut ready);
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
            if self.is_over(now) {
                snapshots.close(self.probe);
                if now < self.window.to {
                    observed.counted = Some(now.saturating_duration_since(self.window.from));
                }
                break;
            }
            if now > self.window.to + DRAIN_PATIENCE {
                self.give_up(now, &mut observed)?;
                break;
            }
            let timeout = Timespec::try_from(self.timeout(now)).context("a short time")?;
            events.clear();
            match epoll::wait(&epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) => {}
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
        observed.usage = snapshots.usage(self.probe);
        Ok(observed)
    }

    /// Gives the open lanes what is due.
    fn deal_out(&mut self, now: Instant, ready: &mut Vec<usize>) {
        let Some(timetable) = &mut self.timetable else { return };
        // Lanes of an open loop come first.
        let open = self.lanes.iter().take_while(|lane| lane.pace == Pace::Open).count();
        while let Some((number, moment)) = timetable.pop_due(now) {
            let index = (number % open as u64) as usize;
            self.lanes[index].push(moment);
            if !ready.contains(&index) {
                ready.push(index);
            }
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        // Closed loops may have no more to do before the window is over.
        let is_closed = self.lanes.iter().all(|lane| lane.pace != Pace::Open);
        (now >= self.window.to || is_closed)
            && self.timetable.as_ref().is_none_or(|timetable| timetable.next_moment().is_none())
            && self.lanes.iter().all(|lane| lane.outstanding() == 0)
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
        let open = self.lanes.iter().filter(|lane| lane.pace == Pace::Open);
        for due in open.flat_map(Lane::outstanding_since) {
            if self.window.contains(due) {
                record(&mut observed.latency_ns, now - due, 1);
                observed.unanswered += 1;
            }
        }
        if observed.unanswered == 0 {
            bail!("no answer within {} s", DRAIN_PATIENCE.as_secs());
        }
        Ok(())
    }
}

/// The use of the machine at the window's edges.
#[derive(Debug, Default)]
struct Snapshots {
    opening: Option<Snapshot>,
    closing: Option<Snapshot>,
}

impl Snapshots {
    fn look(&mut self, now: Instant, window: &Window, probe: Probe) {
        if self.opening.is_none() && now >= window.from {
            self.opening = Some(Snapshot::take(probe.broker_pid));
        }
        if self.closing.is_none() && now >= window.to {
            self.closing = Some(Snapshot::take(probe.broker_pid));
        }
    }

    /// The run ends here, if the window did not before.
    fn close(&mut self, probe: Probe) {
        self.closing.get_or_insert_with(|| Snapshot::take(probe.broker_pid));
    }

    fn usage(self, probe: Probe) -> crate::measure::Usage {
        match (self.opening, self.closing) {
            (Some(opening), Some(closing)) => opening.until(&closing, probe.broker_pid),
            _ => crate::measure::Usage::default(),
        }
    }
}
