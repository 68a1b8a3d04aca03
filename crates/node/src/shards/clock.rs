//! The time by which a shard judges its members.

use std::time::Duration;

use logway_coordinator::ElapsedMs;
use tokio::time::Instant;

/// How long before a deadline the driver is awake, so that what has come meanwhile is heard before it. Much less than a
/// session lasts.
const AWAKE_BEFORE: Duration = Duration::from_secs(1);

/// A driver that runs so much later than it meant to was held up: load alone delays it less.
const LATE_MAX: Duration = Duration::from_millis(500);

/// A clock that never goes back or jumps, and stands still while the driver does not run.
///
/// A process can be stopped for longer than sessions last (SIGSTOP, a frozen container or virtual machine). When it
/// goes on, the sessions of all its members are over by any other clock, while their heartbeats wait in its sockets; and
/// no order of the driver's own work helps, because connections read the sockets when their turn comes. So that time
/// does not count: each member has as much left of its session as it had before.
///
/// That the driver was held up shows when it runs much later than it meant to. It means to run at each deadline, and a
/// moment before: had a stop ended just before the deadline, nobody would notice, and nobody would have been heard. Since
/// when it was held up nobody knows, so nothing counts since it ran last. Who fell silent meanwhile may have the time from
/// then to its deadline twice, which is a session at most; who did not loses nothing.
#[derive(Debug)]
pub(super) struct ShardClock {
    /// When the clock would have been at 0, had it never stood still.
    zero: Instant,
    last_read: Instant,
    /// When the driver means to run again.
    wake: Option<Instant>,
}

impl ShardClock {
    pub(super) fn start(now: Instant) -> ShardClock {
        ShardClock { zero: now, last_read: now, wake: None }
    }

    /// What the clock shows.
    pub(super) fn read(&mut self, now: Instant) -> ElapsedMs {
        if self.wake.is_some_and(|wake| now > wake + LATE_MAX) {
            let held_up = now - self.last_read;
            tracing::info!(?held_up, "the broker was held up: that does not count for its clients");
            self.zero += held_up;
            self.wake = None;
        }
        self.last_read = now;
        let elapsed = now - self.zero;
        ElapsedMs(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }

    /// When the driver should run again if nothing else happens before the shard's next deadline. It must, since else
    /// it was held up.
    pub(super) fn wake_for(&mut self, deadline: Option<ElapsedMs>) -> Option<Instant> {
        self.wake = deadline.map(|deadline| {
            let deadline = self.zero + Duration::from_millis(deadline.0);
            let before = deadline.checked_sub(AWAKE_BEFORE);
            before.filter(|before| *before > self.last_read).unwrap_or(deadline)
        });
        self.wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const DEADLINE: ElapsedMs = ElapsedMs(10_000);

    /// A clock, and when it was started.
    fn clock() -> (ShardClock, Instant) {
        let zero = Instant::now();
        (ShardClock::start(zero), zero)
    }

    #[test]
    fn a_driver_that_runs_in_time_has_the_time_of_the_machine() {
        let (mut clock, zero) = clock();
        assert_eq!(clock.read(zero + ms(7_000)), ElapsedMs(7_000));
        let before = clock.wake_for(Some(DEADLINE));
        assert_eq!(before, Some(zero + ms(9_000)), "it is awake before the deadline");
        assert_eq!(clock.read(zero + ms(9_000) + LATE_MAX), ElapsedMs(9_500));
        assert_eq!(clock.wake_for(Some(DEADLINE)), Some(zero + ms(10_000)));
        assert_eq!(clock.read(zero + ms(10_003)), ElapsedMs(10_003));
        assert_eq!(clock.wake_for(None), None);
        assert_eq!(clock.read(zero + ms(1_000_000)), ElapsedMs(1_000_000), "it meant to sleep");
    }

    #[test]
    fn a_stop_does_not_count_whenever_it_begins_and_ends() {
        for (ran_ms, runs_again_ms) in
            [(0, 9_501), (0, 60_000), (7_000, 9_900), (9_000, 10_501), (9_999, 3_600_000)]
        {
            let (mut clock, zero) = clock();
            clock.read(zero + ms(ran_ms));
            clock.wake_for(Some(DEADLINE));
            let now = clock.read(zero + ms(runs_again_ms));
            assert_eq!(now, ElapsedMs(ran_ms), "stopped until {runs_again_ms}");
            let deadline = zero + ms(10_000 + runs_again_ms - ran_ms);
            let before = clock.wake_for(Some(DEADLINE)).expect("there is a deadline");
            clock.read(before);
            assert_eq!(clock.wake_for(Some(DEADLINE)), Some(deadline), "the rest is left of it");
            assert_eq!(clock.read(deadline), DEADLINE);
        }
    }

    #[test]
    fn who_was_not_noticed_to_be_stopped_has_time_left_to_listen() {
        let (mut clock, zero) = clock();
        clock.wake_for(Some(DEADLINE));
        let now = clock.read(zero + ms(9_500));
        assert_eq!(now, ElapsedMs(9_500), "late, but not by much");
        assert!(now.after_ms(500) <= DEADLINE);
    }
}
