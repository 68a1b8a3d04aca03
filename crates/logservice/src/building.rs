//! The memory in which replies are made of batches: what is read, what it unpacks to, and the reply.
//!
//! How much that is shows when it is too late. So a reader takes what most batches need, and is stopped at a larger one. Then it takes
//! all that there is, and large ones are made one after the other.

use logway_model::Offset;
use logway_node::Node;
use logway_node::failure::Failure;
use logway_node::memory::{BudgetShare, MemoryBudget};
use logway_record::{Batch, DecodeLimit, RecordIter};

use crate::grpc::status::{Code, Status};
use crate::read::unreadable;

/// A batch that is read may be so large without all of the memory.
const BATCH_BYTES: u32 = 1 << 20;

/// And it may unpack to so much.
const UNPACKED: DecodeLimit = DecodeLimit::new(4 << 20);

/// What is taken then: for both, and for the reply.
const ROOM_BYTES: usize = 2 * BATCH_BYTES as usize + UNPACKED.bytes();

/// A batch may unpack to so much in any case.
const UNPACKED_MAX: DecodeLimit = DecodeLimit::new(64 << 20);

/// What a reader knows of the batches before it.
#[derive(Debug, Default)]
pub(crate) struct Building {
    /// Up to this offset there is a large one.
    large_until: Option<Offset>,
}

/// The memory for one reply.
#[derive(Debug)]
pub(crate) struct Room {
    _share: BudgetShare,
    is_all: bool,
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
    pub(crate) async fn room(&self, memory: &MemoryBudget, next: Offset) -> Room {
        let is_all = self.large_until.is_some_and(|until| until >= next);
        let bytes = if is_all { memory.limit_bytes() } else { ROOM_BYTES };
        Room { _share: memory.take(bytes).await, is_all }
    }

    /// Notes that there is a large batch up to an offset.
    pub(crate) fn note_large(&mut self, until: Offset) {
        self.large_until = Some(until);
    }
}

impl Room {
    /// The largest batch that there is room for.
    pub(crate) fn batch_bytes_max(&self) -> u32 {
        if self.is_all { u32::MAX } else { BATCH_BYTES }
    }

    /// The records of a batch, unpacked.
    pub(crate) async fn records_of(
        &self,
        node: &Node,
        batch: &Batch,
    ) -> Result<RecordIter, Unmade> {
        let limit = if self.is_all { UNPACKED_MAX } else { UNPACKED };
        match node.records_of(batch, limit).await? {
            Ok(records) => Ok(records),
            Err(error) if error.is_over_limit() && !self.is_all => {
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
