//! The end of a world with transactions: what was left open ends, and then all must hold.

use std::time::Duration;

use logway_model::PartitionId;

use super::calls::{self, Refusal};
use super::invariants;
use super::topics::{IDS, data_places, places};
use super::view::EndedLog;
use crate::cluster::machine::Served;
use crate::cluster::oracle::Place;
use crate::cluster::patience::Patience;
use crate::cluster::world::World;
use crate::violation::Violation;

/// Where all is well, a transaction ends within this time: also by its timeout.
const ENDED_WITHIN: Duration = Duration::from_secs(40);

/// How long the last producer of an id may take. It has no transaction.
const TIMEOUT_MS: i32 = 1_000;

impl World {
    /// Ends what producers have left open: by its timeout, or by another producer. Nothing is written behind that.
    pub(in crate::cluster) async fn settle_transactions(&mut self) -> Result<(), Violation> {
        for owner in 0..IDS {
            if self.random.coin() {
                self.until_at_rest(owner).await?;
            }
            self.replace_last(owner).await?;
        }
        self.until("all transactions have ended", ENDED_WITHIN, World::have_all_ended).await
    }

    async fn until_at_rest(&mut self, owner: usize) -> Result<(), Violation> {
        let mut patience = Patience::new(ENDED_WITHIN);
        loop {
            let told = calls::is_at_rest(&self.clients, &mut self.random, owner).await;
            match told {
                Ok(true) => return Ok(()),
                _ if patience.wait().await => {}
                told => {
                    let what = format!("the transaction of id {owner} does not end: {told:?}");
                    return Err(Violation::new(what));
                }
            }
        }
    }

    /// Another producer gets the id. That it is told so is committed: whatever was open has ended.
    async fn replace_last(&mut self, owner: usize) -> Result<(), Violation> {
        let mut patience = Patience::new(ENDED_WITHIN);
        loop {
            let begun =
                calls::begin_producer(&self.clients, &mut self.random, owner, TIMEOUT_MS).await;
            match begun {
                Ok(_) => return Ok(()),
                Err(Refusal::Again) if patience.wait().await => {}
                Err(refusal) => {
                    let what = format!("nobody becomes the producer of id {owner}: {refusal:?}");
                    return Err(Violation::new(what));
                }
            }
        }
    }

    /// Whether no transaction holds back `read_committed` readers, of any replica.
    pub(in crate::cluster) fn have_all_ended(&self) -> Result<(), String> {
        places().try_for_each(|place| self.has_ended(place))
    }

    /// The same of one partition.
    pub(in crate::cluster) fn has_ended(&self, place: Place) -> Result<(), String> {
        for served in self.clients.serving.all() {
            let topics = served.node.topics();
            let topic = topics.by_name(place.topic).map_err(|code| format!("{code:?}"))?;
            let Some(replica) = topic.replica(PartitionId(place.partition)) else { continue };
            let stable = replica.last_stable_offset().get();
            let end = replica.log().log_end_offset();
            if stable < end {
                let own = served.node.settings.node_id;
                return Err(format!("{place} of node {own} is stable to {stable} of {end}"));
            }
        }
        Ok(())
    }

    /// What must hold when all is well and nobody writes any more.
    pub(in crate::cluster) async fn check_transactions(&mut self) -> Result<(), Violation> {
        let ledger = self.clients.ledger.clone();
        let mut logs = Vec::new();
        for place in data_places() {
            let leader = self.until_somebody_leads(place).await?;
            let log = EndedLog::read(&leader, place).await?;
            invariants::fencing::check_log(&ledger, &log)?;
            invariants::stability::check(&ledger.reads(), &log)?;
            logs.push(log);
        }
        let present = invariants::atomicity::check(&ledger, &logs)?;
        for owner in 0..IDS {
            let committed = self.committed_offset(owner).await?;
            invariants::offsets::check_end(&ledger, owner, &present, committed)?;
        }
        Ok(())
    }

    async fn until_somebody_leads(&mut self, place: Place) -> Result<Served, Violation> {
        let mut patience = Patience::new(ENDED_WITHIN);
        loop {
            match self.clients.leader(place, &mut self.random) {
                Some(leader) => return Ok(leader),
                None if patience.wait().await => {}
                None => return Err(Violation::new(format!("nobody leads {place}"))),
            }
        }
    }

    /// What a group has committed, once no transaction can replace it any more.
    async fn committed_offset(&mut self, owner: usize) -> Result<Option<u64>, Violation> {
        let mut patience = Patience::new(ENDED_WITHIN);
        loop {
            let fetched = calls::fetch_offsets(&self.clients, &mut self.random, owner).await;
            match fetched {
                Ok((_, offsets)) => {
                    return invariants::offsets::check_whole(&offsets)
                        .map_err(|broken| Violation::new(format!("group {owner}: {broken}")));
                }
                Err(_) if patience.wait().await => {}
                Err(refusal) => {
                    let what = format!("group {owner} does not tell its offsets: {refusal:?}");
                    return Err(Violation::new(what));
                }
            }
        }
    }
}
