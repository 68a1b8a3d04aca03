//! Appends on the network threads, while the disk does not hold them up.
//!
//! What a client sends at a time, if it is little, is written (and synced, where syncs are quick) by the thread that
//! has received it, in one round of the writer, instead of being handed to the writer's thread and
//! back: see [`InlineRound`]. The connection's [`Appender`] keeps the round open while there is more to
//! read, and does it before the connection waits for anything.
//!
//! A worker of the runtime that has looked at the sockets goes on to do what they brought. If that
//! is one request the other workers sleep on, and if the worker is held up in a write, nobody looks
//! at the sockets until the disk has caught up. So inline appends are watched: when one takes long,
//! another worker is woken, which looks at the sockets from then on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use logway_log::AppendOrigin;
use logway_record::Batch;
use tokio::runtime::Handle;

use super::appender::{Appender, OpenRound};
use crate::replica::{Replica, StartedAppend};

/// A round is done when its appends take so much, although there is more to read: a client that waits
/// for room to send more gets its answers while the broker works on the rest. One with a sync takes as much as is done
/// inline: syncs are dearer than what would be won.
const ROUND_BYTES_MAX: usize = 24 << 10;

/// Of what a connection has sent before it is read, so much is done inline and the rest is left to the
/// writer's thread: it pays to have it written by one thread while another looks at what comes next.
const BURST_BYTES_MAX: usize = 128 << 10;

/// Behind so many rounds with a sync, counted from another connection's last request, it is the others' turn. Each
/// time that wakes another worker, which then looks at the sockets during the next sync.
const ROUNDS_WITH_COMPANY: u32 = 256;

/// How often it is looked whether a round goes on.
const TICK: Duration = Duration::from_millis(10);

/// After so many looks at nothing the watch sleeps until the next round.
const QUIET_TICKS_MAX: u32 = 100;

/// Has small appends written by the network thread that has received them.
///
/// One worker is always left to the network; a runtime with a single one has no inline rounds.
#[derive(Debug)]
pub(super) struct InlineRounds {
    shared: Arc<Shared>,
    watch: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// The connection that appended last, by its address. Where several take turns there are no rounds: answers that
    /// the writer's thread gives to many at once cost all of them less than each its own.
    last_source: AtomicUsize,
    /// How many rounds with syncs there have been since another connection asked for something.
    rounds_alone: AtomicU32,
    /// How many rounds may be under way at a time.
    rounds_max: usize,
    under_way: AtomicUsize,
    /// How many have come to their end.
    ended: AtomicU64,
    is_watch_asleep: AtomicBool,
    is_over: AtomicBool,
}

/// What a tick has seen. If two in a row see the same, and rounds under way, those hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    under_way: usize,
    ended: u64,
}

impl InlineRounds {
    /// For the runtime that this is called in; without rounds unless they are `wanted`.
    pub(super) fn new(wanted: bool) -> io::Result<InlineRounds> {
        let runtime = Handle::current();
        let shared = Arc::new(Shared {
            last_source: AtomicUsize::new(0),
            rounds_alone: AtomicU32::new(0),
            rounds_max: if wanted { runtime.metrics().num_workers().saturating_sub(1) } else { 0 },
            under_way: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            is_watch_asleep: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let watched = Arc::clone(&shared);
        let watch = (shared.rounds_max > 0).then(|| {
            let thread = thread::Builder::new().name("append-watch".to_owned());
            thread.spawn(move || watched.watch(&runtime))
        });
        Ok(InlineRounds { shared, watch: watch.transpose()? })
    }

    /// As [`Replica::append`]. The append may be left to the appender's round.
    pub(super) fn append(
        &self,
        appender: &Appender,
        replica: &Replica,
        batches: Vec<Batch>,
        origin: AppendOrigin,
    ) -> StartedAppend {
        let is_for_thread = appender.hands_over() || replica.in_sync() > 1;
        let watch = self.watch.as_ref().filter(|_| !is_for_thread);
        let Some(watch) = watch else { return replica.append(batches, origin) };
        let is_alone = self.is_same_source(appender);
        let mut burst = appender.burst();
        if burst.open.is_none() && !is_alone {
            return replica.append(batches, origin);
        }
        let (mut round, under_way) = match burst.open.take() {
            Some(OpenRound { round, under_way }) => (Some(round), Some(under_way)),
            None => (None, None),
        };
        let started = replica.append_inline(batches, origin, &mut round);
        let Some(round) = round else { return started };
        let Some(under_way) = under_way.or_else(|| self.begin(watch)) else { return started };
        let round_bytes = round.size_bytes();
        let open = OpenRound { round, under_way };
        let bytes_max = if open.round.has_sync() { BURST_BYTES_MAX } else { ROUND_BYTES_MAX };
        if round_bytes < bytes_max {
            burst.open = Some(open);
            return started;
        }
        burst.done_bytes += round_bytes;
        let is_thread_better = burst.done_bytes > BURST_BYTES_MAX;
        drop(burst);
        match is_thread_better {
            true => drop(open),
            false => open.run(),
        }
        started
    }

    /// Takes note of a request: who appends with syncs has to give others their turn from now on.
    pub(super) fn note_request(&self, appender: &Appender) {
        let is_alone = self.shared.rounds_alone.load(Ordering::Relaxed) > 0;
        let last = self.shared.last_source.load(Ordering::Relaxed);
        if is_alone && last != std::ptr::from_ref(appender).addr() {
            self.shared.rounds_alone.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the append before came from there, too.
    fn is_same_source(&self, appender: &Appender) -> bool {
        let last = &self.shared.last_source;
        let address = std::ptr::from_ref(appender).addr();
        let is_same = last.load(Ordering::Relaxed) == address;
        if !is_same {
            last.store(address, Ordering::Relaxed);
        }
        is_same
    }

    /// Begins a round. `None` if too many are under way: it is then left to the writer's thread.
    fn begin(&self, watch: &JoinHandle<()>) -> Option<UnderWay> {
        let before = self.shared.under_way.fetch_add(1, Ordering::SeqCst);
        let under_way = UnderWay(Arc::clone(&self.shared));
        if before >= self.shared.rounds_max {
            return None;
        }
        if self.shared.is_watch_asleep.load(Ordering::SeqCst) {
            watch.thread().unpark();
        }
        Some(under_way)
    }
}

impl Drop for InlineRounds {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            // It has no more to do than to return.
            let _ = watch.join();
        }
    }
}

impl Shared {
    fn watch(&self, runtime: &Handle) {
        let mut last = self.seen();
        let mut quiet_ticks = 0;
        while !self.is_over.load(Ordering::SeqCst) {
            thread::park_timeout(TICK);
            let seen = self.seen();
            let has_changed = seen != last;
            last = seen;
            if has_changed {
                quiet_ticks = 0;
            } else if seen.under_way > 0 {
                // Whoever is woken for it looks at the sockets when it is done.
                drop(runtime.spawn(async {}));
            } else {
                quiet_ticks += 1;
            }
            if quiet_ticks > QUIET_TICKS_MAX {
                self.sleep(seen);
                quiet_ticks = 0;
            }
        }
    }

    /// Sleeps until there is a round.
    fn sleep(&self, seen: Seen) {
        self.is_watch_asleep.store(true, Ordering::SeqCst);
        // Who begins now unparks this thread, which then does not sleep.
        while self.seen() == seen && !self.is_over.load(Ordering::SeqCst) {
            thread::park();
        }
        self.is_watch_asleep.store(false, Ordering::SeqCst);
    }

    fn seen(&self) -> Seen {
        Seen {
            under_way: self.under_way.load(Ordering::SeqCst),
            ended: self.ended.load(Ordering::SeqCst),
        }
    }
}

/// A round, or what would have been one too many.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Shared>);

impl UnderWay {
    /// Whether another connection has asked for something within the last rounds.
    pub(super) fn has_company(&self) -> bool {
        self.0.rounds_alone.fetch_add(1, Ordering::Relaxed) < ROUNDS_WITH_COMPANY
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::mpsc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    impl InlineRounds {
        fn begin_one(&self) -> Option<UnderWay> {
            self.begin(self.watch.as_ref()?)
        }
    }

    #[test]
    fn while_one_is_held_up_others_are_served() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let (release, released) = mpsc::channel::<()>();
        let (began, has_begun) = mpsc::channel();
        let address = runtime.block_on(async {
            let inline = InlineRounds::new(true).expect("a thread");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            tokio::spawn(async move {
                let (mut held_up, _) = listener.accept().await.expect("a client");
                let (mut polite, _) = listener.accept().await.expect("a client");
                tokio::spawn(async move {
                    held_up.read_u8().await.expect("a byte");
                    let _under_way = inline.begin_one().expect("it is the first");
                    began.send(()).expect("the test waits");
                    released.recv().expect("the test releases it");
                });
                while let Ok(byte) = polite.read_u8().await {
                    polite.write_u8(byte).await.expect("a reader");
                }
            });
            address
        });
        let mut held_up = TcpStream::connect(address).expect("it listens");
        let mut polite = TcpStream::connect(address).expect("it listens");
        polite.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut ask = |byte: u8| {
            polite.write_all(&[byte]).expect("it is read");
            let mut answer = [0];
            polite.read_exact(&mut answer).expect("it is answered");
            assert_eq!(answer, [byte]);
        };
        ask(1);
        held_up.write_all(&[0]).expect("it is read");
        has_begun.recv_timeout(PATIENCE).expect("it is served");
        (2..10).for_each(&mut ask);
        release.send(()).expect("it waits");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_worker_is_left_to_the_network() {
        let inline = InlineRounds::new(true).expect("a thread");
        let first = inline.begin_one().expect("there are two workers");
        assert!(inline.begin_one().is_none());
        drop(first);
        assert!(inline.begin_one().is_some());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_has_asked_lately_gets_a_turn_behind_each_sync() {
        let inline = InlineRounds::new(true).expect("a thread");
        let (appends, asks) = (Appender::default(), Appender::default());
        inline.is_same_source(&appends);
        let rounds_with_company = || {
            let round = inline.begin_one().expect("there are two workers");
            (0..10_000).take_while(|_| round.has_company()).count()
        };
        rounds_with_company();
        inline.note_request(&appends);
        assert_eq!(rounds_with_company(), 0, "it has nobody to make room for");
        inline.note_request(&asks);
        assert_eq!(rounds_with_company(), 256);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_wants_none_has_none() {
        assert!(InlineRounds::new(false).expect("needs no thread").begin_one().is_none());
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_has_none() {
        assert!(InlineRounds::new(true).expect("needs none").begin_one().is_none());
    }
}
