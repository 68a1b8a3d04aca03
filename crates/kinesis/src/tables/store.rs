//! Tables on the log: one topic of one partition each, compacted.
//!
//! Any node serves a table. It holds a view of it, which it brings up to date from the partition's leader before each request. A write
//! is decided by the view, and appended only if the partition still ends where the view does. So what is written is decided by
//! all that was written before it, whichever node does it: writes of a table have one order. Who loses looks again and decides anew.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use logway_log::random_uuid;
use logway_metadata::MetadataImage;
use logway_model::{ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId, Uuid};
use logway_node::streams::anywhere::{Partition, PartitionWish, Search};
use logway_node::tasks::wall_clock;
use logway_node::{Failure, Node};
use logway_record::{BatchBuilder, Batches, Compression, DecodeLimit, Header};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::error::{Refused, failed, throttled};
use super::expression::condition::WORK_BYTES_MAX;
use super::state::{Change, Draft, State, WRITE_BYTES_MAX};
use crate::error::ApiError;
use crate::value::Structure;

/// How long a write is tried.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// How long a write waits to be tried.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How long a reader waits for the view to be up to date.
const READ_MAX: Duration = Duration::from_secs(10);

/// Read of a partition at once, in bytes.
const READ_BYTES: u32 = 1 << 20;

/// A batch of a table's topic unpacks to so much at most.
const UNPACKED_MAX: DecodeLimit = DecodeLimit::new(16 << 20);

/// Requests that are written with one append, and those that wait.
const ROUND_MAX: usize = 64;
const QUEUE_MAX: usize = 1_000;

/// Conditions of a round look at so much, and one request more: nobody else gets at the table meanwhile.
const ROUND_LOOK_BYTES_MAX: usize = WORK_BYTES_MAX;

/// Before another try, where nobody leads or the outcome is not known.
const RETRY: Duration = Duration::from_millis(20);

/// A view that nobody has asked for so long is given up. Deleted keys are told in the log for longer.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(600);

/// What all views of a node take, in bytes.
const VIEWS_BYTES_MAX: usize = 128 << 20;

/// The header that tells by which append a record came.
const WRITE_ID: &str = "kinesis.table.write";

/// The tables that this node has a view of.
#[derive(Debug, Default)]
pub(crate) struct Tables(Arc<Views>);

#[derive(Debug, Default)]
struct Views {
    tables: Mutex<HashMap<TopicId, Arc<Table>>>,
    used_bytes: AtomicUsize,
}

/// A request that writes. It may be done more than once: the last time counts.
pub(super) type Write = Box<dyn FnMut(&mut Draft<'_>) -> Result<Structure, Refused> + Send>;

struct Waiting {
    write: Write,
    answer: oneshot::Sender<Result<Structure, Refused>>,
    /// It is not tried later.
    deadline: Instant,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Whether a task takes from it.
    is_driven: bool,
}

/// A table, as this node sees it.
pub(super) struct Table {
    partition: Partition,
    view: tokio::sync::Mutex<View>,
    queue: Mutex<Queue>,
    last_asked: Mutex<Instant>,
    /// Of the view.
    bytes: AtomicUsize,
    views: Weak<Views>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(views) = self.views.upgrade() {
            views.used_bytes.fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// All that was committed before an offset.
struct View {
    state: State,
    next: Offset,
    leader_epoch: LeaderEpoch,
}

impl View {
    fn empty(leader_epoch: LeaderEpoch) -> View {
        View { state: State::default(), next: Offset(0), leader_epoch }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is right after each step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tables {
    /// The view of a table that the metadata has.
    pub(super) fn table(&self, topic: TopicId, image: &MetadataImage) -> Arc<Table> {
        let views = &self.0;
        let mut tables = lock(&views.tables);
        let now = Instant::now();
        tables.retain(|id, table| {
            let is_idle = now.duration_since(*lock(&table.last_asked)) > IDLE_MAX;
            Arc::strong_count(table) > 1 || !is_idle && image.topic_by_id(*id).is_some()
        });
        if !tables.contains_key(&topic)
            && views.used_bytes.load(Ordering::Relaxed) > VIEWS_BYTES_MAX / 2
        {
            remove_oldest_unused(&mut tables);
        }
        let table = tables.entry(topic).or_insert_with(|| {
            let partition = Partition { topic, number: PartitionId(0) };
            Arc::new(Table {
                partition,
                view: tokio::sync::Mutex::new(View::empty(LeaderEpoch::NONE)),
                queue: Mutex::default(),
                last_asked: Mutex::new(now),
                bytes: AtomicUsize::new(0),
                views: Arc::downgrade(views),
            })
        });
        *lock(&table.last_asked) = now;
        Arc::clone(table)
    }
}

/// Gives up the view that nobody uses and nobody has asked for the longest. Whether there was one.
fn remove_oldest_unused(tables: &mut HashMap<TopicId, Arc<Table>>) -> bool {
    let unused = tables.iter().filter(|(_, table)| Arc::strong_count(table) == 1);
    let oldest = unused.min_by_key(|(_, table)| *lock(&table.last_asked)).map(|(id, _)| *id);
    oldest.is_some_and(|id| tables.remove(&id).is_some())
}

impl Views {
    /// Whether a view of this size may stay. Others that nobody uses go before it, and no view has to that has its share at most.
    fn has_room(&self, bytes: usize) -> bool {
        let mut tables = lock(&self.tables);
        while self.used_bytes.load(Ordering::Relaxed) > VIEWS_BYTES_MAX {
            if !remove_oldest_unused(&mut tables) {
                return bytes <= VIEWS_BYTES_MAX / tables.len().max(1);
            }
        }
        true
    }
}

/// Leaves out the writes whose clients have gone, and refuses those that have waited for too long.
fn shed(waiting: Vec<Waiting>) -> Vec<Waiting> {
    let now = Instant::now();
    let (tried, late): (Vec<Waiting>, Vec<Waiting>) = waiting
        .into_iter()
        .filter(|waiting| !waiting.answer.is_closed())
        .partition(|waiting| now < waiting.deadline);
    for waiting in late {
        let error = failed("the write has waited for too long, and was not tried");
        // Its client may have gone away.
        _ = waiting.answer.send(Err(error.into()));
    }
    tried
}

/// The error of a write that was tried: nobody knows whether it was done.
fn unknown_outcome(error: ApiError) -> ApiError {
    match error.status >= 500 {
        true => error,
        false => {
            let reason = error.message.as_deref().unwrap_or(error.name);
            failed(format!("it is not known whether the write was done: {reason}"))
        }
    }
}

impl Table {
    /// Reads the table, with all that was written before.
    pub(super) async fn read<T>(
        &self,
        node: &Arc<Node>,
        read: impl FnOnce(&State) -> T,
    ) -> Result<T, ApiError> {
        let reading = async {
            let mut view = self.view.lock().await;
            self.catch_up(node, &mut view, None).await?;
            Ok(read(&view.state))
        };
        timeout(READ_MAX, reading)
            .await
            .unwrap_or_else(|_| Err(failed("the table cannot be read now")))
    }

    /// Writes to the table. The answer comes when that is committed.
    pub(super) async fn write(
        self: &Arc<Self>,
        node: &Arc<Node>,
        write: Write,
    ) -> Result<Structure, Refused> {
        let (answer, answered) = oneshot::channel();
        {
            let mut queue = lock(&self.queue);
            if queue.waiting.len() >= QUEUE_MAX {
                return Err(throttled("too many requests wait to write to the table").into());
            }
            let deadline = Instant::now() + WAIT_MAX;
            queue.waiting.push_back(Waiting { write, answer, deadline });
            if !queue.is_driven {
                queue.is_driven = true;
                // A task of its own: a client that goes away must not take the writes of others with it.
                tokio::spawn(drive(Arc::clone(self), Arc::clone(node)));
            }
        }
        answered.await.unwrap_or_else(|_| Err(failed("the node stops").into()))
    }

    /// Writes what some requests ask for.
    async fn write_round(
        &self,
        node: &Arc<Node>,
        round: &mut Vec<Waiting>,
    ) -> Result<(), ApiError> {
        let deadline = Instant::now() + WRITE_MAX;
        let mut view = self.view.lock().await;
        let mut tried: Option<Tried> = None;
        loop {
            let caught_up = self.catch_up(node, &mut view, tried.as_mut()).await;
            if tried.as_ref().is_some_and(|tried| tried.is_found) {
                break;
            }
            match caught_up {
                Ok(()) => {}
                Err(error) if error.status >= 500 && Instant::now() < deadline => {
                    sleep(RETRY).await;
                    continue;
                }
                Err(error) if tried.is_some() => return Err(unknown_outcome(error)),
                Err(error) => return Err(error),
            }
            // What was tried at another end was not appended, and never will be.
            if tried.as_ref().is_none_or(|tried| tried.end != view.next) {
                *round = shed(std::mem::take(round));
                tried = Some(Tried::of(&view, round));
            }
            let Some(trying) = &tried else { continue };
            if trying.changes.is_empty() {
                break;
            }
            let batch = trying.batch();
            let appending = node.append_at_anywhere(self.partition, view.next, batch, deadline);
            match appending.await {
                Ok(appended) => {
                    let changes = tried.as_mut().map(|tried| std::mem::take(&mut tried.changes));
                    let changes = changes.unwrap_or_default();
                    view.next =
                        appended.base_offset + i64::try_from(changes.len()).unwrap_or(i64::MAX);
                    changes.into_iter().for_each(|change| view.state.apply(change));
                    self.note_bytes(&view.state);
                    break;
                }
                Err(failure) if Instant::now() >= deadline => return Err(of_failure(failure)),
                Err(failure) => match failure.code {
                    // Another one was faster. What it has appended may not be committed yet.
                    ErrorCode::OffsetOutOfRange => sleep(RETRY / 10).await,
                    code if code.is_retriable() => sleep(RETRY).await,
                    _ => return Err(of_failure(failure)),
                },
            }
        }
        if let Some(tried) = tried {
            tried.answer(round);
        }
        Ok(())
    }

    /// Takes over what was committed since. Notes it if what was tried is among that.
    async fn catch_up(
        &self,
        node: &Arc<Node>,
        view: &mut View,
        mut tried: Option<&mut Tried>,
    ) -> Result<(), ApiError> {
        let leader_epoch = self.leader_epoch(node)?;
        // After an election that was not clean the log may be another one.
        if leader_epoch != view.leader_epoch && tried.is_none() {
            *view = View::empty(leader_epoch);
        }
        // A new leader says so only when it knows all that the one before it has acknowledged.
        let end = node.search_anywhere(self.partition, Search::End).await.map_err(of_failure)?;
        if end < view.next {
            *view = View::empty(leader_epoch);
            return Err(failed("the log of the table has changed"));
        }
        while view.next < end {
            let wish = PartitionWish {
                offset: view.next,
                max_bytes: READ_BYTES,
                first_max_bytes: u32::MAX,
                wait: Duration::ZERO,
            };
            let read = node.read_anywhere(self.partition, wish).await.map_err(of_failure)?;
            let before = view.next;
            take_over(node, view, read.batches, tried.as_deref_mut()).await?;
            view.next = view.next.max(read.next);
            self.note_bytes(&view.state);
            let views = self.views.upgrade();
            let has_room = views.is_none_or(|views| views.has_room(view.state.extent().bytes));
            if view.state.is_too_large() || !has_room {
                *view = View::empty(leader_epoch);
                self.note_bytes(&view.state);
                return Err(throttled("there is no memory for the table"));
            }
            if view.next == before {
                return Err(failed("the records of the table cannot be read"));
            }
        }
        Ok(())
    }

    fn leader_epoch(&self, node: &Node) -> Result<LeaderEpoch, ApiError> {
        let image = node.image();
        let topic = image.topic_by_id(self.partition.topic);
        let partition = topic.and_then(|topic| topic.partition(self.partition.number));
        let gone = || ApiError::not_found("Requested resource not found");
        partition.map(|partition| partition.leader_epoch).ok_or_else(gone)
    }

    fn note_bytes(&self, state: &State) {
        let bytes = state.extent().bytes;
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if let Some(views) = self.views.upgrade() {
            views.used_bytes.fetch_add(bytes, Ordering::Relaxed);
            views.used_bytes.fetch_sub(before, Ordering::Relaxed);
        }
    }
}

async fn take_over(
    node: &Node,
    view: &mut View,
    batches: Bytes,
    mut tried: Option<&mut Tried>,
) -> Result<(), ApiError> {
    let unreadable = |error| failed(format!("a record of the table cannot be read: {error}"));
    for batch in Batches::with_partial_tail(batches) {
        let batch = batch.map_err(unreadable)?;
        if batch.last_offset() < view.next || batch.header().attributes.is_control() {
            continue;
        }
        let records = node.records_of(&batch, UNPACKED_MAX).await.map_err(of_failure)?;
        for record in records.map_err(unreadable)? {
            let record = record.map_err(unreadable)?;
            if record.offset < view.next {
                continue;
            }
            if let Some(tried) = &mut tried {
                tried.is_found |= record.headers.iter().any(|header| tried.is_told_by(header));
            }
            view.state
                .apply_record(record.key.as_deref().unwrap_or_default(), record.value.as_deref());
        }
        view.next = view.next.max(batch.last_offset().next());
    }
    Ok(())
}

/// Takes from the queue until it is empty.
async fn drive(table: Arc<Table>, node: Arc<Node>) {
    loop {
        let mut round: Vec<Waiting> = {
            let mut queue = lock(&table.queue);
            if queue.waiting.is_empty() {
                queue.is_driven = false;
                return;
            }
            let count = queue.waiting.len().min(ROUND_MAX);
            queue.waiting.drain(..count).collect()
        };
        round = shed(round);
        if round.is_empty() {
            continue;
        }
        if let Err(error) = table.write_round(&node, &mut round).await {
            for waiting in round.drain(..) {
                // Its client may have gone away.
                _ = waiting.answer.send(Err(error.clone().into()));
            }
        }
        // Those for which there was no room.
        let mut queue = lock(&table.queue);
        round.into_iter().rev().for_each(|waiting| queue.waiting.push_front(waiting));
    }
}

/// What some requests write, decided by one state of the table.
struct Tried {
    id: Uuid,
    /// Where the table ended then.
    end: Offset,
    /// Whether it was found in the log.
    is_found: bool,
    changes: Vec<Change>,
    answers: Vec<Result<Structure, Refused>>,
}

impl Tried {
    /// Of as many requests as there is room for in one append, and as can be decided in a short time.
    fn of(view: &View, round: &mut [Waiting]) -> Tried {
        let mut draft = Draft::of(&view.state);
        let mut answers = Vec::with_capacity(round.len());
        for waiting in round {
            let is_full = draft.written_bytes() >= WRITE_BYTES_MAX / 2
                || draft.looked_bytes() >= ROUND_LOOK_BYTES_MAX;
            if is_full {
                break;
            }
            answers.push(draft.attempt(|draft| (waiting.write)(draft)));
        }
        let changes = draft.into_changes();
        Tried { id: random_uuid(), end: view.next, is_found: false, changes, answers }
    }

    /// Whether a header says that its record came by this append.
    fn is_told_by(&self, header: &Header) -> bool {
        header.key == WRITE_ID && header.value.as_deref() == Some(self.id.0.as_slice())
    }

    fn batch(&self) -> Bytes {
        let mut builder = BatchBuilder::new(Compression::None);
        let id = [Header::new(WRITE_ID, Some(Bytes::copy_from_slice(&self.id.0)))];
        for Change { key, value, .. } in &self.changes {
            builder
                .append(wall_clock(), Some(key), value.as_deref(), &id)
                .expect("what one append may write is far smaller than a batch may be");
        }
        builder.finish().expect("there is a change")
    }

    /// Answers those that were written, and leaves the others.
    fn answer(self, round: &mut Vec<Waiting>) {
        let count = self.answers.len();
        for (waiting, answer) in round.drain(..count).zip(self.answers) {
            // Its client may have gone away.
            _ = waiting.answer.send(answer);
        }
    }
}

fn of_failure(failure: Failure) -> ApiError {
    let Failure { code, message, .. } = failure;
    match code {
        ErrorCode::UnknownTopicId | ErrorCode::UnknownTopicOrPartition => {
            ApiError::not_found("Requested resource not found")
        }
        _ => failed(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(deadline: Instant) -> (Waiting, oneshot::Receiver<Result<Structure, Refused>>) {
        let (answer, answered) = oneshot::channel();
        let write: Write = Box::new(|_| Ok(Structure::new()));
        (Waiting { write, answer, deadline }, answered)
    }

    #[tokio::test(start_paused = true)]
    async fn writes_that_nobody_waits_for_are_not_tried() {
        let later = Instant::now() + WAIT_MAX;
        let (late, late_answer) = waiting(Instant::now());
        let (gone, gone_answer) = waiting(later);
        let (there, mut there_answer) = waiting(later);
        drop(gone_answer);
        let left = shed(vec![late, gone, there]);
        assert_eq!(left.len(), 1);
        let refused = late_answer.await.expect("is answered").expect_err("is late");
        assert_eq!((refused.error.name, refused.error.status), ("InternalServerError", 500));
        assert!(there_answer.try_recv().is_err(), "is not answered yet");
        let tried = Tried::of(&View::empty(LeaderEpoch::NONE), &mut { left });
        assert_eq!(tried.answers.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_ends_where_its_conditions_have_looked_at_enough() {
        let look = |part: usize| -> Write {
            Box::new(move |draft: &mut Draft<'_>| {
                draft.work().spend(WORK_BYTES_MAX / part).map_err(ApiError::from)?;
                // What a condition refuses has cost the same.
                Err(Refused::condition(None))
            })
        };
        for (part, decided) in [(1, 1), (3, 4), (1_000, 10)] {
            let deadline = Instant::now() + WAIT_MAX;
            let mut round: Vec<Waiting> = (0..10)
                .map(|_| Waiting { write: look(part), answer: oneshot::channel().0, deadline })
                .collect();
            let tried = Tried::of(&View::empty(LeaderEpoch::NONE), &mut round);
            assert_eq!(tried.answers.len(), decided, "a {part}th each");
            let refused = tried.answers[0].as_ref().expect_err("is refused");
            assert_eq!(refused.error.name, "ConditionalCheckFailedException");
            tried.answer(&mut round);
            assert_eq!(round.len(), 10 - decided, "the others wait for the next round");
        }
    }

    #[test]
    fn a_write_whose_outcome_is_unknown_is_no_throttled_one() {
        let error = unknown_outcome(throttled("there is no memory for the table"));
        assert_eq!((error.name, error.status), ("InternalServerError", 500));
        let gone = failed("nobody leads");
        assert_eq!(unknown_outcome(gone.clone()), gone);
    }

    fn table_of(views: &Arc<Views>, id: u8, bytes: usize) -> Arc<Table> {
        let topic = TopicId(Uuid([id; 16]));
        let table = Arc::new(Table {
            partition: Partition { topic, number: PartitionId(0) },
            view: tokio::sync::Mutex::new(View::empty(LeaderEpoch::NONE)),
            queue: Mutex::default(),
            last_asked: Mutex::new(Instant::now() + Duration::from_secs(id.into())),
            bytes: AtomicUsize::new(bytes),
            views: Arc::downgrade(views),
        });
        views.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        lock(&views.tables).insert(topic, Arc::clone(&table));
        table
    }

    #[tokio::test(start_paused = true)]
    async fn views_that_nobody_uses_go_first_and_then_the_large_ones() {
        const LARGE: usize = VIEWS_BYTES_MAX / 2 - 1;
        const SMALL: usize = 1_000;
        let views = Arc::new(Views::default());
        drop(table_of(&views, 1, LARGE));
        drop(table_of(&views, 2, SMALL));
        let used = [table_of(&views, 3, LARGE), table_of(&views, 4, SMALL)];
        assert!(views.has_room(SMALL), "the oldest one that nobody uses goes");
        assert_eq!(lock(&views.tables).len(), 3);
        assert!(lock(&views.tables).contains_key(&TopicId(Uuid([2; 16]))));
        let other = table_of(&views, 5, LARGE);
        assert!(views.has_room(SMALL), "a small one may stay");
        assert!(!views.has_room(LARGE), "a large one may not");
        assert_eq!(lock(&views.tables).len(), 3, "all of them are used");
        drop((used, other));
        assert!(views.has_room(LARGE));
    }
}
