//! A marker that only the leader has.
//!
//! Of five nodes one coordinates a transaction and another leads the partition that it has written to. The leader's
//! followers do not hear it when the transaction is committed, and the leader is killed while they still count as in sync. So
//! the next leader has no marker, and the coordinator has to know that. In worlds of seeds that is a matter of milliseconds.

use std::time::Duration;

use logway_log::fs::sim::Rng;

use super::{STEP_MAX, TRIES};
use crate::cluster::life::End;
use crate::cluster::oracle::Place;
use crate::cluster::patience::Patience;
use crate::cluster::report::ClusterReport;
use crate::cluster::transactions::TransactionalProducer;
use crate::cluster::transactions::topics::TOPIC;
use crate::cluster::world::{World, node_number};
use crate::violation::{Violation, ensure};

/// Who plays which part, by number.
const COORDINATOR: usize = 1;
const LEADER: usize = 2;
const FOLLOWERS: [usize; 2] = [3, 4];
const SPARE: usize = 5;

/// What the transaction writes to.
const PLACE: Place = Place { topic: TOPIC, partition: 0 };

/// Whose transaction it is.
const OWNER: usize = 0;

/// The leader has the marker in this time, or something is in its way.
const MARKED_WITHIN: Duration = Duration::from_millis(400);

/// A coordinator that takes the marker for written says so in this time.
const BELIEVED_WITHIN: Duration = Duration::from_millis(150);

/// The next leader has the marker, too, in this time.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

impl World {
    /// Lives it until it has come to what it is made for.
    pub(in crate::cluster) async fn lose_a_marker(&mut self) -> Result<ClusterReport, Violation> {
        self.found().await?;
        self.create_topics().await?;
        let [first, second] = FOLLOWERS;
        let written = [LEADER, first, second];
        self.create_transactional([COORDINATOR, SPARE, LEADER], written).await?;
        let mut was_to_the_point = false;
        for _ in 0..TRIES {
            self.have_lead(LEADER, PLACE).await?;
            self.until("all are in sync", STEP_MAX, |world| world.are_all_in_sync()).await?;
            was_to_the_point = self.commit_unheard().await?;
            self.machines[LEADER - 1].start(&self.surroundings)?;
            self.until("all are in sync", STEP_MAX, |world| world.are_all_in_sync()).await?;
            if was_to_the_point {
                break;
            }
        }
        ensure(was_to_the_point, || format!("in {TRIES} tries no marker was lost"))?;
        self.until("the transaction has ended", ENDED_WITHIN, World::have_all_ended).await?;
        self.end().await?;
        Ok(self.clients.oracle.report())
    }

    /// Whether the leader ended with a marker that nobody else has, while others were in sync.
    async fn commit_unheard(&mut self) -> Result<bool, Violation> {
        let random = Rng::new(self.random.next_u64());
        let mut producer = TransactionalProducer::new(OWNER, random, self.clients.clone());
        let Some(open) = producer.open(0, STEP_MAX).await else { return Ok(false) };
        let before = self.end_of(LEADER, PLACE);
        for follower in FOLLOWERS {
            self.surroundings.network.cut(LEADER, follower);
            self.surroundings.network.cut(follower, LEADER);
        }
        let is_committed = producer.commit(open).await.is_some();
        let mut patience = Patience::new(MARKED_WITHIN);
        while self.end_of(LEADER, PLACE) <= before && patience.wait().await {}
        let mut patience = Patience::new(BELIEVED_WITHIN);
        while !producer.is_at_rest().await && patience.wait().await {}
        let has_marker = self.end_of(LEADER, PLACE) > before;
        let lacks_it = |follower: &usize| self.end_of(*follower, PLACE) <= before;
        let are_without = FOLLOWERS.iter().all(lacks_it);
        self.machines[LEADER - 1].end(&self.surroundings, End::Process);
        self.clients.oracle.count(|report| report.kills += 1);
        let isr = self.partition(COORDINATOR, PLACE).map(|it| it.isr).unwrap_or_default();
        let are_in_sync = FOLLOWERS.iter().all(|follower| isr.contains(&node_number(*follower)));
        self.surroundings.network.heal();
        tracing::info!(is_committed, has_marker, are_without, are_in_sync, "the leader is killed");
        Ok(is_committed && has_marker && are_without && are_in_sync)
    }
}
