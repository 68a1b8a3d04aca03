//! The memory that clients may take, over all front doors together.

mod arrival;
mod attention;
mod budget;
mod request_memory;

use std::sync::Arc;

pub use arrival::{ArrivalRules, Arriving};
pub use attention::{Attendant, Attention, Bell};
pub use budget::{BudgetShare, Held, MemoryBudget, hold_with};
pub use request_memory::RequestMemory;

/// What large replies may hold, as a part of what requests may hold; and what may be taken to make
/// such replies.
const REPLY_MEMORY_PART: usize = 2;

/// What replies to readers may be made in, as a part of what requests may hold.
const READER_MEMORY_PART: usize = 8;

/// In what replies to readers are made.
#[derive(Debug)]
pub struct ReaderMemory {
    /// Of what is read here.
    pub here: MemoryBudget,
    /// Of what is read from other nodes.
    pub elsewhere: MemoryBudget,
    /// For a batch that takes more than is given at once. Who has it has all of it, whatever the batch takes: it is a turn.
    pub large: MemoryBudget,
    /// The same for what is read for another node, whose reader has a turn there. Were it one turn, two nodes that read large batches
    /// of each other would wait for each other.
    pub large_for_others: MemoryBudget,
}

/// The budgets of a node.
#[derive(Debug)]
pub struct Memory {
    /// What requests may hold.
    pub requests: RequestMemory,
    /// What answering may take beyond that, for answers that are much larger than their requests.
    pub building: MemoryBudget,
    /// What replies to readers are made in where this node leads the partition, and where another one is asked, which may hang.
    pub readers: ReaderMemory,
    /// What large replies may hold until their clients have read them.
    pub replies: MemoryBudget,
    /// Calls the connections.
    pub attention: Arc<Attention>,
}

impl Memory {
    /// Budgets where requests may hold so much.
    pub fn new(requests_bytes: usize) -> Memory {
        let attention = Arc::new(Attention::default());
        let budget = |limit_bytes| MemoryBudget::new(limit_bytes, Arc::clone(&attention));
        let part = || budget(requests_bytes / REPLY_MEMORY_PART);
        let readers = ReaderMemory {
            here: budget(requests_bytes / READER_MEMORY_PART),
            elsewhere: budget(requests_bytes / READER_MEMORY_PART),
            large: budget(1),
            large_for_others: budget(1),
        };
        Memory {
            requests: RequestMemory::new(requests_bytes, &attention),
            building: part(),
            readers,
            replies: part(),
            attention,
        }
    }

    /// Whether somebody waits for memory that connections hold.
    pub fn is_contended(&self) -> bool {
        self.requests.is_contended() || self.building.is_contended()
    }
}
