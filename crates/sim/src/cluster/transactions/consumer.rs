//! Who reads what transactions write.

use std::time::Duration;

use logway_log::fs::sim::Rng;
use logway_model::Offset;
use logway_node::read::Isolation;
use tokio::time::sleep;

use super::invariants;
use super::ledger::CommittedRead;
use super::view::returned;
use crate::cluster::oracle::Place;
use crate::cluster::producer::Clients;
use crate::cluster::reader::{Read, read_somewhere, start};

/// Reads one partition as `read_committed` and `read_uncommitted` consumers do: from its leader, or from who follows.
pub(super) struct Consumer {
    pub(super) place: Place,
    pub(super) random: Rng,
    pub(super) clients: Clients,
    pub(super) position: Offset,
}

impl Consumer {
    pub(super) async fn run(mut self) {
        while !self.clients.is_over() {
            sleep(Duration::from_millis(self.random.below(30) as u64)).await;
            let isolation = match self.random.below(4) {
                0 => Isolation::Uncommitted,
                _ => Isolation::Committed,
            };
            let Consumer { place, random, clients, position } = &mut self;
            let from = start(*position, 10, random);
            if let Some(found) = read_somewhere(clients, random, *place, from, isolation).await {
                self.judge(from, isolation, &found);
            }
        }
    }

    fn judge(&mut self, from: Offset, isolation: Isolation, found: &Read) {
        let (place, ledger, oracle) = (self.place, &self.clients.ledger, &self.clients.oracle);
        let returned = returned(found, isolation);
        for batch in &returned {
            let known = ledger.transaction_of(batch);
            if let Err(broken) = invariants::isolation::check(known, isolation) {
                let at = batch.base_offset();
                oracle.violated(format!("{place}: at {at} {broken}"));
            }
        }
        let Some(last) = found.batches.last() else { return };
        if isolation == Isolation::Committed {
            let next = last.last_offset().next();
            self.position = self.position.max(next);
            let returned = returned.iter().map(|batch| batch.base_offset()).collect();
            let high_watermark = found.high_watermark;
            ledger.has_read(CommittedRead { place, from, next, high_watermark, returned });
        }
    }
}
