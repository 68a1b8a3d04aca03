//! Who asks what groups have committed.

use std::time::Duration;

use logway_log::fs::sim::Rng;
use tokio::time::sleep;

use super::topics::IDS;
use super::{calls, invariants};
use crate::cluster::life::Life;
use crate::cluster::producer::Clients;

/// Asks again and again.
pub(super) struct OffsetReader {
    pub(super) random: Rng,
    pub(super) clients: Clients,
    /// What each process has told last of each group. Another process may not know yet that it is none's coordinator.
    pub(super) seen: Vec<(Life, usize, Option<u64>)>,
}

impl OffsetReader {
    pub(super) async fn run(mut self) {
        while !self.clients.is_over() {
            sleep(Duration::from_millis(self.random.below(60) as u64)).await;
            let owner = self.random.below(IDS);
            let fetched = calls::fetch_offsets(&self.clients, &mut self.random, owner).await;
            let Ok((life, offsets)) = fetched else { continue };
            if let Err(broken) = self.judge(life, owner, &offsets) {
                self.clients.oracle.violated(format!("group {owner}: {broken}"));
            }
        }
    }

    fn judge(&mut self, life: Life, owner: usize, offsets: &[Option<u64>]) -> Result<(), String> {
        let ledger = &self.clients.ledger;
        let told = invariants::offsets::check_whole(offsets)?;
        if let Some(offset) = told {
            invariants::offsets::check_told(ledger.transaction(offset).as_ref(), owner, offset)?;
            ledger.tell_offset(owner, offset);
        }
        let known = self.seen.iter_mut().find(|(of, id, _)| of.is(&life) && *id == owner);
        match known {
            Some((_, _, before)) => {
                let before = std::mem::replace(before, told);
                invariants::offsets::check_order(before, told)
            }
            None => {
                self.seen.push((life, owner, told));
                Ok(())
            }
        }
    }
}
