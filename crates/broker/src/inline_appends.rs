//! Appends on the network threads, while the disk does not hold them up.
//!
//! What a client sends at a time, to logs that need no sync, is written by the network thread that
//! has received it, in one round of the writer, instead of being handed to the writer's thread and
//! back: see [`InlineRound`]. The connection holds the round while there is more to read, and does it
//! before it waits for anything ([`HeldRound`]).
//!
//! A worker of the runtime that has looked at the sockets goes on to do what they brought. If that
//! is one request the other workers sleep on, and if the worker is held up in a write, nobody looks
//! at the sockets until the disk has caught up. So inline appends are watched: when one takes long,
//! another worker is woken, which looks at the sockets from then on.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use logway_log::InlineRound;
use logway_record::Batch;
use tokio::runtime::Handle;

use crate::partition::{Partition, StartedAppend};

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

/// Has small appends that need no sync written by the network thread that has received them.
///
/// One worker is always left to the network; a runtime with a single one has no inline appends.
#[derive(Debug)]
pub(crate) struct InlineAppends {
    shared: Arc<Shared>,
    watch: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// The connection that appended last, by its address. Where several take turns there are no rounds: answers that
    /// the writer's thread gives to many at once cost all of them less than each its own.
    last_connection: AtomicUsize,
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

impl InlineAppends {
    /// For the runtime that this is called in.
    pub(crate) fn new() -> io::Result<InlineAppends> {
        let runtime = Handle::current();
        let shared = Arc::new(Shared {
            last_connection: AtomicUsize::new(0),
            rounds_alone: AtomicU32::new(0),
            rounds_max: runtime.metrics().num_workers().saturating_sub(1),
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
        Ok(InlineAppends { shared, watch: watch.transpose()? })
    }

    /// As [`Partition::append`]. The append may be left to the connection's round.
    pub(crate) fn append(
        &self,
        connection: &HeldRound,
        partition: &Partition,
        batches: Vec<Batch>,
    ) -> StartedAppend {
        let Some(watch) = &self.watch else { return partition.append(batches) };
        let is_alone = self.is_same_connection(connection);
        let mut burst = connection.lock();
        if burst.held.is_none() && !is_alone {
            return partition.append(batches);
        }
        let (mut round, under_way) = match burst.held.take() {
            Some(Held { round, under_way }) => (Some(round), Some(under_way)),
            None => (None, None),
        };
        let answer = partition.append_inline(batches, &mut round);
        let Some(round) = round else { return answer };
        let Some(under_way) = under_way.or_else(|| self.begin(watch)) else { return answer };
        let round_bytes = round.size_bytes();
        let held = Held { round, under_way };
        let bytes_max = if held.round.has_sync() { BURST_BYTES_MAX } else { ROUND_BYTES_MAX };
        if round_bytes < bytes_max {
            burst.held = Some(held);
            return answer;
        }
        burst.done_bytes += round_bytes;
        let is_thread_better = burst.done_bytes > BURST_BYTES_MAX;
        drop(burst);
        match is_thread_better {
            true => drop(held),
            false => held.run(),
        }
        answer
    }

    /// Takes note of a request: who appends with syncs has to give others their turn from now on.
    pub(crate) fn note_request(&self, connection: &HeldRound) {
        let is_alone = self.shared.rounds_alone.load(Ordering::Relaxed) > 0;
        let last = self.shared.last_connection.load(Ordering::Relaxed);
        if is_alone && last != std::ptr::from_ref(connection).addr() {
            self.shared.rounds_alone.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the append before was of this connection, too.
    fn is_same_connection(&self, connection: &HeldRound) -> bool {
        let last = &self.shared.last_connection;
        let address = std::ptr::from_ref(connection).addr();
        let is_same = last.load(Ordering::Relaxed) == address;
        if !is_same {
            last.store(address, Ordering::Relaxed);
        }
        is_same
    }

    /// A place for a round. If there is none the round is dropped, and so left to the writer's thread.
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

impl Drop for InlineAppends {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            // It has no more to do than to return.
            let _ = watch.join();
        }
    }
}

/// The round of the writer that a connection holds, if any.
#[derive(Debug, Default)]
pub struct HeldRound {
    burst: Mutex<Burst>,
    /// It has done a round with a sync, and reads nothing more until others have had their turn.
    is_resting: AtomicBool,
    /// The others are to have their turn: there is something that it would have read, or they have asked for
    /// something lately.
    yields: AtomicBool,
}

/// What a connection does of what its client has sent.
#[derive(Debug, Default)]
struct Burst {
    held: Option<Held>,
    /// What the rounds have taken since there was nothing more to read.
    done_bytes: usize,
}

#[derive(Debug)]
struct Held {
    round: InlineRound,
    under_way: UnderWay,
}

impl Held {
    fn run(self) {
        let Held { round, under_way: _under_way } = self;
        round.run();
    }
}

impl HeldRound {
    /// Whether there is one.
    pub(crate) fn is_held(&self) -> bool {
        self.lock().held.is_some()
    }

    /// Nothing more was there to be read.
    pub(crate) fn begin_burst(&self) {
        self.lock().done_bytes = 0;
    }

    /// Does the round that is held, before the connection waits; whether there was one.
    pub(crate) fn run(&self) -> bool {
        let Some(held) = self.lock().held.take() else { return false };
        if held.round.has_sync() {
            self.is_resting.store(true, Ordering::Relaxed);
            self.yields.store(held.under_way.has_company(), Ordering::Relaxed);
        }
        held.run();
        true
    }

    /// Ends when the connection may read what has come, which is not before the next [`HeldRound::end_rest`] if it has
    /// just done a sync. Nobody is woken by that.
    pub(crate) async fn rest(&self) {
        poll_fn(|_| match self.is_resting.load(Ordering::Relaxed) {
            true => {
                self.yields.store(true, Ordering::Relaxed);
                Poll::Pending
            }
            false => Poll::Ready(()),
        })
        .await;
    }

    /// Has the connection read again; whether that is to be after the others' turn.
    pub(crate) fn end_rest(&self) -> bool {
        self.is_resting.store(false, Ordering::Relaxed);
        self.yields.swap(false, Ordering::Relaxed)
    }

    /// Leaves the round that is held to the writer's thread.
    pub(crate) fn leave(&self) {
        let held = self.lock().held.take();
        drop(held);
    }

    fn lock(&self) -> MutexGuard<'_, Burst> {
        // What it guards is right after each step.
        self.burst.lock().unwrap_or_else(PoisonError::into_inner)
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
struct UnderWay(Arc<Shared>);

impl UnderWay {
    /// Whether another connection has asked for something within the last rounds.
    fn has_company(&self) -> bool {
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
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    impl InlineAppends {
        fn place(&self) -> Option<UnderWay> {
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
            let inline = InlineAppends::new().expect("a thread");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            tokio::spawn(async move {
                let (mut held_up, _) = listener.accept().await.expect("a client");
                let (mut polite, _) = listener.accept().await.expect("a client");
                tokio::spawn(async move {
                    held_up.read_u8().await.expect("a byte");
                    let _under_way = inline.place().expect("it is the first");
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
        let inline = InlineAppends::new().expect("a thread");
        let first = inline.place().expect("there are two workers");
        assert!(inline.place().is_none());
        drop(first);
        assert!(inline.place().is_some());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_has_asked_lately_gets_a_turn_behind_each_sync() {
        let inline = InlineAppends::new().expect("a thread");
        let (appends, asks) = (HeldRound::default(), HeldRound::default());
        inline.is_same_connection(&appends);
        let rounds_with_company = || {
            let place = inline.place().expect("there are two workers");
            (0..10_000).take_while(|_| place.has_company()).count()
        };
        rounds_with_company();
        inline.note_request(&appends);
        assert_eq!(rounds_with_company(), 0, "it has nobody to make room for");
        inline.note_request(&asks);
        assert_eq!(rounds_with_company(), 256);
    }

    #[test]
    fn who_rests_does_not_read_until_the_others_had_their_turn() {
        let connection = HeldRound::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut may_read = || pin!(connection.rest()).poll(&mut context).is_ready();
        assert!(may_read());
        connection.is_resting.store(true, Ordering::Relaxed);
        assert!(!connection.end_rest(), "there was nothing to read");
        connection.is_resting.store(true, Ordering::Relaxed);
        assert!(!may_read());
        assert!(connection.end_rest());
        assert!(may_read() && !connection.end_rest());
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_has_none() {
        assert!(InlineAppends::new().expect("needs none").place().is_none());
    }
}
