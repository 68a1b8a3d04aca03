//! Drives one shard: a task that owns it, and the handle by which others reach it.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use logway_coordinator::{
    CommitToken, Effect, EffectsOf, Moment, Request, RequestToken, StateMachine,
};
use logway_model::{ErrorCode, LeaderEpoch};
use logway_record::Compression;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::appends::{AppendFailed, AppendResult, Appends, Written};
use super::clock::ShardClock;
use super::loading::LogReader;
use super::pending::{Question, ShardOutcome};
use super::waiting::Waiting;
use crate::CLIENTS;
use crate::failure::Failure;
use crate::memory::MemoryBudget;
use crate::replica::Replica;
use crate::tasks::{until, wall_clock};

/// How long a shard whose log could not be read waits before it tries again.
const LOAD_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// For so long requests wait for a shard that loads, before they are told that it does. A short log is read in this
/// time, and its clients need not ask twice.
const PATIENCE: Duration = Duration::from_millis(500);

/// For so long a shard that ends waits for other replicas, before it leaves what it has written to the next one. A node that is cut
/// off does not learn that its epoch is over.
const COMMIT_PATIENCE: Duration = Duration::from_secs(1);

/// Reaches a running shard. The shard ends when nobody has a handle any more.
pub(crate) struct ShardHandle<M: StateMachine> {
    replica: Arc<Replica>,
    /// The leader epoch that the shard is of.
    epoch: LeaderEpoch,
    /// Without a bound of its own: each request in it holds memory of the broker's budgets.
    commands: mpsc::UnboundedSender<Command<M>>,
}

/// As a [`ShardHandle`], and does not keep the shard from its end.
pub(crate) struct WeakShardHandle<M: StateMachine> {
    /// The leader epoch that the shard is of.
    pub(crate) epoch: LeaderEpoch,
    commands: mpsc::WeakUnboundedSender<Command<M>>,
}

/// Does a shard's errands, beside it; the handle is for telling that one is done.
pub(crate) type RunErrand<M> = Box<dyn Fn(<M as StateMachine>::Errand, &WeakShardHandle<M>) + Send>;

/// What a shard does about something that has happened.
type Event<M> = Box<dyn FnOnce(&mut M, Moment) -> EffectsOf<M> + Send>;

/// What a shard is told.
pub(crate) enum Command<M: StateMachine> {
    /// A request of a client.
    Ask(Box<Ask<M>>),
    /// A request to come, whose answer may be large: it is sent back with the size.
    Measure(Box<Question<M>>, oneshot::Sender<(Question<M>, usize)>),
    /// Somebody looks at it.
    Look(Box<dyn FnOnce(&M) + Send>),
    /// Something has happened that concerns it.
    Event(Event<M>),
}

/// A request, and who waits for what becomes of it.
pub(crate) struct Ask<M: StateMachine> {
    pub(super) question: Question<M>,
    /// The memory that there is for the answer, where it was measured.
    pub(super) answer_bytes_max: Option<usize>,
    pub(super) send_outcome: oneshot::Sender<ShardOutcome<M>>,
}

/// The task's state.
pub(crate) struct ShardDriver<M: StateMachine> {
    replica: Arc<Replica>,
    epoch: LeaderEpoch,
    shard: M,
    /// Has a permit for each shard that may load at once.
    loads: Arc<Semaphore>,
    /// Until then, requests wait for the load.
    patience_ends: Instant,
    commands: mpsc::UnboundedReceiver<Command<M>>,
    clock: ShardClock,
    next_token: u64,
    waiting: Waiting<M>,
    appends: Appends<M>,
    own: WeakShardHandle<M>,
    run_errand: RunErrand<M>,
}

/// What drives `shard`, which is that of `replica`'s partition in its leader epoch. What an answer takes that has waited
/// for other clients comes from `reply_memory`; the shard loads with a permit of `loads`. Its batches are compressed with
/// `compression`, unless the topic says otherwise.
pub(crate) fn new<M: StateMachine>(
    replica: Arc<Replica>,
    shard: M,
    compression: Compression,
    reply_memory: MemoryBudget,
    loads: Arc<Semaphore>,
    run_errand: RunErrand<M>,
) -> (ShardHandle<M>, ShardDriver<M>) {
    let (sender, commands) = mpsc::unbounded_channel();
    let epoch = replica.leader_epoch();
    let own = WeakShardHandle { epoch, commands: sender.downgrade() };
    let handle = ShardHandle { replica: Arc::clone(&replica), epoch, commands: sender };
    let driver = ShardDriver {
        epoch,
        shard,
        loads,
        patience_ends: Instant::now() + PATIENCE,
        commands,
        clock: ShardClock::start(Instant::now()),
        next_token: 0,
        waiting: Waiting::new(reply_memory),
        appends: Appends::new(Arc::clone(&replica), compression),
        own,
        run_errand,
        replica,
    };
    (handle, driver)
}

impl<M: StateMachine> Clone for ShardHandle<M> {
    fn clone(&self) -> ShardHandle<M> {
        let (replica, commands) = (Arc::clone(&self.replica), self.commands.clone());
        ShardHandle { replica, epoch: self.epoch, commands }
    }
}

impl<M: StateMachine> ShardHandle<M> {
    /// Whether this is the running shard of just that partition in its leader epoch, and not of one
    /// that had its name, or of an earlier epoch.
    pub(crate) fn drives(&self, replica: &Arc<Replica>) -> bool {
        Arc::ptr_eq(&self.replica, replica)
            && self.epoch == replica.leader_epoch()
            && !self.commands.is_closed()
    }

    /// The leader epoch that the shard is of.
    pub(crate) fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Tells the shard. One that is ending drops what it is told, and whoever waits notices.
    pub(crate) fn send(&self, command: Command<M>) {
        let _ = self.commands.send(command);
    }
}

impl<M: StateMachine> Clone for WeakShardHandle<M> {
    fn clone(&self) -> WeakShardHandle<M> {
        WeakShardHandle { epoch: self.epoch, commands: self.commands.clone() }
    }
}

impl<M: StateMachine> WeakShardHandle<M> {
    /// Whether the shard runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.commands.upgrade().is_some_and(|commands| !commands.is_closed())
    }

    /// Tells the shard, if it runs.
    pub(crate) fn send(&self, command: Command<M>) {
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(command);
        }
    }
}

impl<M: StateMachine> ShardDriver<M> {
    /// Loads the shard and drives it until its handles are gone.
    pub(crate) async fn run(mut self) {
        if self.load().await.is_continue() {
            let now = self.now();
            let effects = self.shard.loaded(now);
            self.carry_out(effects);
            while self.step().await.is_continue() {}
        }
        self.end().await;
    }

    /// Reads the log from its start. Meanwhile requests wait for a moment, then they are answered: that this is going on.
    ///
    /// A log that cannot be read keeps its clients waiting until it can: without their offsets, groups
    /// would start from wherever their settings say, silently.
    async fn load(&mut self) -> ControlFlow<()> {
        let began = Instant::now();
        let open = LogReader::open(Arc::clone(&self.replica), self.epoch);
        // A log that is closed is led no more.
        let Ok(mut reader) = self.meanwhile(open).await? else { return ControlFlow::Break(()) };
        while let Err(failure) = self.replay_rest(&mut reader).await? {
            let partition = self.replica.topic_partition();
            tracing::error!(%partition, offset = %reader.position(), "the coordinator of \
                this partition cannot be loaded, and its clients wait: {}", failure.message);
            self.meanwhile(sleep(LOAD_RETRY_INTERVAL)).await?;
        }
        // What was read may not be committed yet, and nobody may be told of what the next leader may not have.
        let (replica, end, epoch) = (Arc::clone(&self.replica), reader.end(), self.epoch);
        let committed = async move { replica.committed(end, epoch).await };
        if self.meanwhile(committed).await?.is_err() {
            return ControlFlow::Break(());
        }
        let partition = self.replica.topic_partition();
        tracing::debug!(%partition, elapsed = ?began.elapsed(), "the coordinator is loaded");
        ControlFlow::Continue(())
    }

    /// Replays what was not read yet, when it is this shard's turn.
    async fn replay_rest(
        &mut self,
        reader: &mut LogReader,
    ) -> ControlFlow<(), Result<(), Failure>> {
        let loads = Arc::clone(&self.loads);
        let permit = self.meanwhile(loads.acquire()).await?;
        let _permit = permit.expect("the semaphore is never closed");
        loop {
            match self.meanwhile(reader.next::<M>()).await? {
                Ok(Some(entries)) => {
                    entries.iter().for_each(|entry| entry.replay_into(&mut self.shard));
                }
                Ok(None) => return ControlFlow::Continue(Ok(())),
                Err(failure) => return ControlFlow::Continue(Err(failure)),
            }
        }
    }

    /// Waits for something while commands are obeyed, if the load has taken long; breaks off when there are no handles.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> ControlFlow<(), T> {
        let mut work = pin!(work);
        if let Ok(done) = timeout_at(self.patience_ends, &mut work).await {
            return ControlFlow::Continue(done);
        }
        loop {
            let command = tokio::select! {
                // First: nobody is told to wait for work that is done.
                biased;
                done = &mut work => return ControlFlow::Continue(done),
                command = self.commands.recv() => command,
            };
            match command {
                Some(command) => self.obey(command),
                None => return ControlFlow::Break(()),
            }
        }
    }

    /// Waits for one event and lets the shard handle it.
    async fn step(&mut self) -> ControlFlow<()> {
        let now = self.now();
        if self.shard.next_deadline().is_some_and(|deadline| deadline <= now.elapsed) {
            // Before what comes in, which may never stop coming.
            let effects = self.shard.tick(now);
            self.carry_out(effects);
        }
        let wake = self.clock.wake_for(self.shard.next_deadline());
        tokio::select! {
            biased;
            (token, outcome) = self.appends.next() => return self.note_appended(token, outcome),
            command = self.commands.recv() => match command {
                Some(command) => self.obey(command),
                None => return ControlFlow::Break(()),
            },
            // The next step sees to it.
            () = until(wake) => {}
        }
        ControlFlow::Continue(())
    }

    fn obey(&mut self, command: Command<M>) {
        let now = self.now();
        let effects = match command {
            Command::Ask(ask) => self.begin(now, *ask),
            Command::Measure(question, send) => {
                let bytes = self.shard.answer_bytes(&question.body);
                // Its client may have gone.
                let _ = send.send((*question, bytes));
                return;
            }
            Command::Look(look) => return look(&self.shard),
            Command::Event(event) => event(&mut self.shard, now),
        };
        self.carry_out(effects);
    }

    fn begin(&mut self, now: Moment, ask: Ask<M>) -> EffectsOf<M> {
        let Ask { question, answer_bytes_max, send_outcome } = ask;
        let Question { version, client, body, held } = question;
        if answer_bytes_max.is_some_and(|bytes_max| self.shard.answer_bytes(&body) > bytes_max) {
            let _ = send_outcome.send(Err(ErrorCode::CoordinatorLoadInProgress));
            return Vec::new();
        }
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        // What waits for other clients may wait for long: what is kept of it, the shard counts itself.
        let waits = M::waits_for_others(&body);
        let kept = if waits { Vec::new() } else { held.clone() };
        self.waiting.add(token, send_outcome, kept);
        let effects = self.shard.request(now, Request { token, version, client, body });
        if waits && self.shard.keeps_request(token) {
            self.waiting.hold(token, held);
        }
        effects
    }

    fn carry_out(&mut self, effects: EffectsOf<M>) {
        for effect in effects {
            match effect {
                Effect::Reply { token, reply } => self.waiting.answer(token, reply),
                Effect::Append { token, records } => {
                    self.appends.push(token, Written::Records(records));
                }
                Effect::AppendInTransaction { token, part, records } => {
                    self.appends.push(token, Written::InTransaction(part, records));
                }
                Effect::AppendMarker { token, marker } => {
                    self.appends.push(token, Written::Marker(marker));
                }
                Effect::Errand(errand) => (self.run_errand)(errand, &self.own),
            }
        }
    }

    /// Breaks off when nobody can know what the log holds now: the shard that is loaded when it is
    /// open again will.
    fn note_appended(&mut self, token: CommitToken, outcome: AppendResult) -> ControlFlow<()> {
        let outcome = match outcome {
            Ok(()) => Ok(()),
            Err(AppendFailed::WithoutTrace(failure)) => {
                let partition = self.replica.topic_partition();
                tracing::warn!(target: CLIENTS, %partition, reason = failure.message,
                    "what a coordinator has decided could not be written down");
                Err(failure.code)
            }
            Err(AppendFailed::Unknown(error)) => {
                let partition = self.replica.topic_partition();
                tracing::error!(%partition, %error, "the coordinator of this partition is offline");
                return ControlFlow::Break(());
            }
        };
        let now = self.now();
        let effects = self.shard.appended(now, token, outcome);
        self.carry_out(effects);
        ControlFlow::Continue(())
    }

    /// Sees what was begun to its end, if that comes soon, then tells those who still wait that the shard is gone.
    async fn end(mut self) {
        self.commands.close();
        let patience_ends = Instant::now() + COMMIT_PATIENCE;
        while !self.appends.is_empty() {
            let Ok((token, outcome)) = timeout_at(patience_ends, self.appends.next()).await else {
                let partition = self.replica.topic_partition();
                tracing::warn!(%partition, "the coordinator of this partition ends before all that it wrote is replicated");
                break;
            };
            if self.note_appended(token, outcome).is_break() {
                break;
            }
        }
        let now = self.now();
        let ShardDriver { shard, mut waiting, .. } = self;
        waiting.answer_all(shard.unload(now));
    }

    fn now(&mut self) -> Moment {
        Moment { elapsed: self.clock.read(Instant::now()), wall: wall_clock() }
    }
}
