//! The memory in which replies are made of batches: what is read, what it unpacks to, and the reply.
//!
//! How much that is shows when it is too late. So a reader takes what most batches need, and is stopped at a larger one. Then it has
//! its turn at large ones. Clients take turns there, so that a batch which takes long costs others one turn each.
//!
//! A large batch is unpacked once for all its replies while nobody else wants a turn.

use std::iter::Peekable;
use std::time::Duration;

use logway_model::Offset;
use logway_node::Node;
use logway_node::failure::Failure;
use logway_node::memory::BudgetShare;
use logway_node::streams::anywhere::Partition;
use logway_record::{Batch, DecodeLimit, RecordIter};
use tokio::time::sleep;

use crate::call::Call;
use crate::grpc::status::{Code, Status};
use crate::read::unreadable;

/// A batch that is read may be so large without a turn.
const BATCH_BYTES: u32 = 1 << 20;

/// And it may unpack to so much.
const UNPACKED: DecodeLimit = DecodeLimit::new(4 << 20);

/// What is taken then: for both, and for the reply.
const ROOM_BYTES: usize = 2 * BATCH_BYTES as usize + UNPACKED.bytes();

/// A batch may unpack to so much in any case.
const UNPACKED_MAX: DecodeLimit = DecodeLimit::new(64 << 20);

/// How often who keeps an unpacked batch looks whether others want a turn.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a reader knows of the batches before it.
#[derive(Debug, Default)]
pub(crate) struct Building {
    /// Up to this offset there is a large one.
    large_until: Option<Offset>,
    /// What is left of an unpacked one.
    open: Option<OpenBatch>,
}

/// The memory for one reply.
#[derive(Debug)]
pub(crate) struct Room {
    _share: BudgetShare,
    is_large: bool,
}

/// The records of a batch that were not sent yet, and its last offset.
pub(crate) type Rest = (Peekable<RecordIter>, Offset);

/// A batch that is kept unpacked.
#[derive(Debug)]
struct OpenBatch {
    rest: Rest,
    room: Room,
}

/// Why no reply was made.
#[derive(Debug)]
pub(crate) enum Unmade {
    /// The batch up to this offset takes more memory than there is in the room.
    Larger(Offset),
    /// The client is told.
    Refused(Status),
}

impl From<Status> for Unmade {
    fn from(status: Status) -> Unmade {
        Unmade::Refused(status)
    }
}

impl From<Failure> for Unmade {
    fn from(failure: Failure) -> Unmade {
        Unmade::Refused(failure.into())
    }
}

impl Building {
    /// Waits for the memory of a reply from `next` on.
    pub(crate) async fn room(&self, call: &Call, partition: Partition, next: Offset) -> Room {
        let is_large = self.large_until.is_some_and(|until| until >= next);
        let readers = &call.node().memory.readers;
        let share = match is_large {
            true => call.service.large_turns.take(call.client(), &readers.large, 1).await,
            false if call.node().leads(partition) => readers.here.take(ROOM_BYTES).await,
            false => readers.elsewhere.take(ROOM_BYTES).await,
        };
        Room { _share: share, is_large }
    }

    /// Notes that there is a large batch up to an offset.
    pub(crate) fn note_large(&mut self, until: Offset) {
        self.large_until = Some(until);
    }

    /// What is left of the batch at an offset, if that is kept: its records from there on, and its last offset.
    pub(crate) fn kept(&mut self, next: Offset) -> Option<Rest> {
        self.open = self.open.take().filter(|open| open.rest.1 >= next);
        self.open.as_ref().map(|open| open.rest.clone())
    }

    /// Keeps what a reply has left of a batch, if it is a large one. The reply was made in `room`, or of the batch that is kept.
    pub(crate) fn keep(&mut self, rest: Option<Rest>, room: Option<Room>) {
        let room = room.or_else(|| self.open.take().map(|open| open.room));
        self.open = match (rest, room) {
            (Some(rest), Some(room)) if room.is_large => Some(OpenBatch { rest, room }),
            _ => None,
        };
    }

    /// Waits for something, and keeps the batch meanwhile unless others want a turn.
    pub(crate) async fn while_kept<T>(
        &mut self,
        call: &Call,
        waiting: impl Future<Output = T>,
    ) -> T {
        let mut waiting = std::pin::pin!(waiting);
        while self.open.is_some() {
            if call.node().memory.readers.large.is_contended() {
                self.open = None;
                break;
            }
            tokio::select! {
                biased;
                outcome = &mut waiting => return outcome,
                () = sleep(LOOK_INTERVAL) => {}
            }
        }
        waiting.await
    }
}

impl Room {
    /// The largest batch that there is room for.
    pub(crate) fn batch_bytes_max(&self) -> u32 {
        if self.is_large { u32::MAX } else { BATCH_BYTES }
    }

    /// Whether there is room for batches of so many bytes. Other nodes do not hold to the bound.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.is_large || bytes <= BATCH_BYTES as usize
    }

    /// The records of a batch, unpacked.
    pub(crate) async fn records_of(
        &self,
        node: &Node,
        batch: &Batch,
    ) -> Result<RecordIter, Unmade> {
        let limit = if self.is_large { UNPACKED_MAX } else { UNPACKED };
        match node.records_of(batch, limit).await? {
            Ok(records) => Ok(records),
            Err(error) if error.is_over_limit() && !self.is_large => {
                Err(Unmade::Larger(batch.last_offset()))
            }
            Err(error) if error.is_over_limit() => Err(too_large(batch.last_offset()).into()),
            Err(error) => Err(unreadable(&error).into()),
        }
    }
}

/// What is said of a batch that unpacks to more than [`UNPACKED_MAX`].
fn too_large(last: Offset) -> Status {
    let bytes = UNPACKED_MAX.bytes();
    let message = format!("the batch up to offset {last} unpacks to more than {bytes} bytes");
    Status::new(Code::FailedPrecondition, "BATCH_TOO_LARGE", message)
        .with("offset", last)
        .remedy("read it with FORMAT_BATCHES, or go on at the offset behind it")
}
