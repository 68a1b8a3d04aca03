//! The memory of requests, in lanes: small ones never queue behind large ones.

use std::sync::Arc;

use super::attention::Attention;
use super::budget::{BudgetShare, MemoryBudget};

/// Each lane that is kept free of larger requests has this part of the whole.
const LANE_PART: usize = 16;

/// What a middling request may be charged, as a part of the whole.
const MIDDLING_PART: usize = 128;

/// What a large request may bring before it is charged whole, as a part of the whole.
const BEGINNING_PART: usize = 256;

/// The memory that requests hold while they are received and until they are answered.
///
/// | who takes | from |
/// |---|---|
/// | a small request, which is whole | the common part, or the lane of small ones |
/// | one that is charged up to a 128th of all | the common part, or the lane of middling ones |
/// | the beginning of a larger one, up to a 256th of all | the lane of beginnings |
/// | a larger one of which that has come, or which is not much larger | the common part |
///
/// So what a connection only announces takes nothing. Only who holds a beginning waits while it
/// holds something, and only for the common part, whose holders never wait for a beginning: nobody
/// waits in a circle.
#[derive(Debug, Clone)]
pub struct RequestMemory {
    common: MemoryBudget,
    small: MemoryBudget,
    middling: MemoryBudget,
    beginnings: MemoryBudget,
}

impl RequestMemory {
    /// As much as `limit_bytes` in all. When somebody begins to wait, `attention` calls the
    /// connections that hold memory.
    pub fn new(limit_bytes: usize, attention: &Arc<Attention>) -> RequestMemory {
        let lane_bytes = limit_bytes / LANE_PART;
        let budget = |limit_bytes| MemoryBudget::new(limit_bytes, Arc::clone(attention));
        RequestMemory {
            common: budget(limit_bytes - 3 * lane_bytes),
            small: budget(lane_bytes),
            middling: budget(lane_bytes),
            beginnings: budget(lane_bytes),
        }
    }

    /// A share for a small request, all of which has come.
    pub async fn take_small(&self, bytes: usize) -> BudgetShare {
        self.take_or(&self.small, bytes).await
    }

    /// A share for a larger request. One that is larger than the common part takes all of it.
    pub async fn take_large(&self, bytes: usize) -> BudgetShare {
        match bytes <= self.limit_bytes() / MIDDLING_PART {
            true => self.take_or(&self.middling, bytes).await,
            false => self.common.take(bytes).await,
        }
    }

    /// A share for the first bytes of a large request.
    pub async fn take_beginning(&self) -> BudgetShare {
        self.beginnings.take(self.beginning_bytes()).await
    }

    /// So much of a large request has come before it is charged whole.
    pub fn beginning_bytes(&self) -> usize {
        self.limit_bytes() / BEGINNING_PART
    }

    /// Whether somebody waits for memory right now.
    pub fn is_contended(&self) -> bool {
        self.lanes().iter().any(|lane| lane.is_contended())
    }

    /// The bytes that requests hold now, rounded up per request.
    pub fn used_bytes(&self) -> usize {
        self.lanes().iter().map(|lane| lane.used_bytes()).sum()
    }

    /// The most that requests may hold.
    pub fn limit_bytes(&self) -> usize {
        self.lanes().iter().map(|lane| lane.limit_bytes()).sum()
    }

    /// The same, if it can be had at once.
    pub fn try_take_small(&self, bytes: usize) -> Option<BudgetShare> {
        self.try_take_or(&self.small, bytes)
    }

    fn try_take_or(&self, lane: &MemoryBudget, bytes: usize) -> Option<BudgetShare> {
        self.common.try_take(bytes).or_else(|| lane.try_take(bytes))
    }

    async fn take_or(&self, lane: &MemoryBudget, bytes: usize) -> BudgetShare {
        if let Some(share) = self.try_take_or(lane, bytes) {
            return share;
        }
        tokio::select! {
            biased;
            share = self.common.take(bytes) => share,
            share = lane.take(bytes) => share,
        }
    }

    fn lanes(&self) -> [&MemoryBudget; 4] {
        [&self.common, &self.small, &self.middling, &self.beginnings]
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const LIMIT_BYTES: usize = 128 << 20;

    fn at_once(taking: impl Future<Output = BudgetShare>) -> Option<BudgetShare> {
        match pin!(taking).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(share) => Some(share),
            Poll::Pending => None,
        }
    }

    #[test]
    fn smaller_requests_do_not_queue_behind_larger_ones() {
        let memory = RequestMemory::new(LIMIT_BYTES, &Arc::default());
        let _largest = at_once(memory.take_large(100 << 20)).expect("there is room");
        let mut next = pin!(memory.take_large(100 << 20));
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let mut middling = Vec::new();
        while let Some(share) = at_once(memory.take_large(1 << 20)) {
            middling.push(share);
        }
        assert_eq!(middling.len(), 8, "they have a lane");
        let _small = at_once(memory.take_small(64 << 10)).expect("they have one, too");
        let _beginning = at_once(memory.take_beginning()).expect("these as well");
        assert!(memory.used_bytes() <= LIMIT_BYTES && memory.limit_bytes() == LIMIT_BYTES);
    }

    #[test]
    fn a_small_request_that_waits_takes_what_comes_first() {
        let memory = RequestMemory::new(1 << 20, &Arc::default());
        let mut cx = Context::from_waker(Waker::noop());
        for frees_lane in [true, false] {
            let all = at_once(memory.take_large(1 << 20)).expect("there is room");
            let lane = at_once(memory.take_small(64 << 10)).expect("there is room");
            let mut waiting = pin!(memory.take_small(64 << 10));
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
            let _kept = match frees_lane {
                true => (drop(lane), all).1,
                false => (drop(all), lane).1,
            };
            assert!(waiting.as_mut().poll(&mut cx).is_ready());
        }
    }
}
