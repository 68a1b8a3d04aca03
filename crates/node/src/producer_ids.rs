//! Ids for idempotent producers.

use std::future::Future;
use std::sync::Arc;

use logway_metadata::controller::{AllocateProducerIds, ProducerIdBlock};
use logway_model::{ProducerEpoch, ProducerId};
use logway_quorum::Committed;
use tokio::sync::Mutex;

use crate::Node;
use crate::failure::Failure;

/// Gives out producer ids from blocks that the quorum has reserved for this broker.
///
/// No id is given out twice: a block is committed before its first id is used, and what is left of
/// it when the broker stops is never used at all.
#[derive(Debug, Default)]
pub struct ProducerIds {
    /// Held while a block is fetched, so that those who come meanwhile share that block.
    unused: Mutex<Unused>,
}

/// The ids of a block that are not given out yet.
#[derive(Debug, Default)]
struct Unused {
    next: i64,
    end: i64,
}

impl ProducerIds {
    /// The next id. When there is none, `reserve` commits another block; its error is the answer
    /// to the one who called it, and the next caller tries again.
    pub async fn next<E, F>(&self, reserve: impl FnOnce() -> F) -> Result<ProducerId, E>
    where
        F: Future<Output = Result<ProducerIdBlock, E>>,
    {
        let mut unused = self.unused.lock().await;
        if unused.next == unused.end {
            let block = reserve().await?;
            *unused = Unused { next: block.first.0, end: block.first.0 + block.count };
        }
        let id = ProducerId(unused.next);
        unused.next += 1;
        Ok(id)
    }
}

impl Node {
    /// An identity for a producer: an id that no producer ever had, at its first epoch.
    pub async fn next_producer_id(
        self: &Arc<Self>,
    ) -> Result<(ProducerId, ProducerEpoch), Failure> {
        let reserve =
            async || self.quorum.submit(AllocateProducerIds).await.map(Committed::into_reply);
        let id = self.producer_ids.next(reserve).await?;
        Ok((id, ProducerEpoch(0)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;

    const BLOCK: i64 = 10;

    /// Reserves blocks one after the other, slowly enough for others to come meanwhile.
    async fn reserve(reserved: &Cell<i64>) -> Result<ProducerIdBlock, &'static str> {
        let first = ProducerId(reserved.get());
        reserved.set(first.0 + BLOCK);
        tokio::task::yield_now().await;
        Ok(ProducerIdBlock { first, count: BLOCK })
    }

    #[tokio::test]
    async fn ids_are_given_out_once_and_blocks_are_shared() {
        let (ids, reserved) = (ProducerIds::default(), Cell::new(0));
        let one_of_many = || async { ids.next(|| reserve(&reserved)).await };
        let mut seen = BTreeSet::new();
        for _ in 0..5 {
            let (a, b, c) = tokio::join!(one_of_many(), one_of_many(), one_of_many());
            seen.extend([a, b, c].map(|id| id.expect("there are ids").0));
        }
        assert_eq!(seen, (0..15).collect());
        assert_eq!(reserved.get(), 2 * BLOCK);
    }

    #[tokio::test]
    async fn a_failed_reservation_is_tried_again_by_the_next() {
        let (ids, reserved) = (ProducerIds::default(), Cell::new(0));
        let failed = ids.next(|| async { Err::<ProducerIdBlock, _>("no quorum") }).await;
        assert_eq!(failed, Err("no quorum"));
        assert_eq!(ids.next(|| reserve(&reserved)).await, Ok(ProducerId(0)));
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_takes_no_id_of_another() {
        let (ids, reserved) = (ProducerIds::default(), Cell::new(0));
        tokio::select! {
            biased;
            _ = ids.next(|| reserve(&reserved)) => panic!("the reservation takes a while"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(ids.next(|| reserve(&reserved)).await, Ok(ProducerId(BLOCK)));
    }
}
