//! A world that is made for one rule, which those of seeds hardly ever put to the test.
//!
//! A leader remembers how far each follower was. Where nothing is written, a follower that was cut from its leader has
//! everything, as far as that knows. If the follower's machine loses its power meanwhile, and with it what was not
//! synced, then the follower is back in another life: active, as the controller knows, and unheard by its leader. So the
//! leader proposes that it is in sync, of its last life, and the controller refuses that (KIP-903).

use std::time::Duration;

use logway_log::fs::sim::Rng;
use logway_model::{ProducerId, Sequence};

use super::{STEP_MAX, TRIES};
use crate::cluster::life::End;
use crate::cluster::oracle::Place;
use crate::cluster::patience::Patience;
use crate::cluster::producer::Producer;
use crate::cluster::report::ClusterReport;
use crate::cluster::world::{World, node_number};
use crate::violation::{Violation, ensure};

/// A leader looks several times in this while whether somebody could be in sync.
const WATCHED_FOR: Duration = Duration::from_millis(1_500);

/// Who plays which part, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    leader: usize,
    follower: usize,
}

impl World {
    /// Lives it until it has come to what it is made for.
    pub(in crate::cluster) async fn return_in_another_life(
        &mut self,
    ) -> Result<ClusterReport, Violation> {
        self.found().await?;
        self.create_topics().await?;
        self.begin_watching();
        let place = self.places()[0];
        let id = ProducerId(i64::try_from(self.clients.number()).unwrap_or(0));
        let mut sequence = Sequence(0);
        let mut was_to_the_point = false;
        for _ in 0..TRIES {
            let parts = self.cast(place).await?;
            self.write_some(place, id, &mut sequence).await?;
            self.until("all are in sync", STEP_MAX, |world| world.are_all_in_sync()).await?;
            was_to_the_point = self.return_unheard(place, parts).await?;
            self.surroundings.network.heal();
            self.until("all are in sync", STEP_MAX, |world| world.are_all_in_sync()).await?;
            if was_to_the_point {
                break;
            }
        }
        ensure(was_to_the_point, || format!("in {TRIES} tries nobody came back with less"))?;
        self.end().await?;
        Ok(self.clients.oracle.report())
    }

    /// Has a node lead that does not control the cluster. The follower is the one that does not either.
    async fn cast(&mut self, place: Place) -> Result<Parts, Violation> {
        let controller = self.controller().ok_or_else(|| Violation::new("nobody controls"))?;
        let mut others = (1..=self.plan.nodes).filter(|number| *number != controller);
        let (Some(leader), Some(follower)) = (others.next(), others.next()) else {
            return Err(Violation::new("there are too few nodes"));
        };
        self.have_lead(leader, place).await?;
        Ok(Parts { leader, follower })
    }

    async fn write_some(
        &mut self,
        place: Place,
        id: ProducerId,
        sequence: &mut Sequence,
    ) -> Result<(), Violation> {
        let (clients, is_careful) = (self.clients.clone(), true);
        let random = Rng::new(self.random.next_u64());
        let mut producer = Producer { place, random, clients, is_careful, pause_max_ms: 0 };
        for _ in 0..10 {
            let written = producer.write_once(id, *sequence).await;
            let records = written.ok_or_else(|| Violation::new("what was acknowledged is lost"))?;
            *sequence = Sequence(sequence.0 + records);
        }
        Ok(())
    }

    /// Whether the follower was back with less than it had while its leader did not hear it. Then it must not be in sync.
    async fn return_unheard(&mut self, place: Place, parts: Parts) -> Result<bool, Violation> {
        let Parts { leader, follower } = parts;
        let promised = self.clients.oracle.promised_end(place);
        self.surroundings.network.cut(leader, follower);
        self.surroundings.network.cut(follower, leader);
        self.machines[follower - 1].end(&self.surroundings, End::PowerCut);
        self.clients.oracle.count(|report| report.power_cuts += 1);
        self.until("the follower is out", STEP_MAX, |world| world.is_out(place, parts)).await?;
        self.machines[follower - 1].start(&self.surroundings)?;
        let mut patience = Patience::new(STEP_MAX);
        while !self.is_back(parts) {
            self.clients.oracle.check()?;
            if self.controller() == Some(leader) || !patience.wait().await {
                tracing::info!("the follower cannot be back: the controller does not hear it");
                return Ok(false);
            }
        }
        if self.end_of(follower, place).is_none_or(|end| end >= promised) {
            tracing::info!("the follower has lost nothing");
            return Ok(false);
        }
        // If it became in sync, the watcher would tell.
        let mut patience = Patience::new(WATCHED_FOR);
        while patience.wait().await {
            self.clients.oracle.check()?;
        }
        Ok(true)
    }

    fn is_out(&self, place: Place, parts: Parts) -> Result<(), String> {
        let follower = node_number(parts.follower);
        let partition = self.partition(parts.leader, place).ok_or("the leader does not serve")?;
        let serves = self.clients.serving.get(parts.leader);
        let is_active = serves.is_some_and(|it| it.node.image().is_active(follower));
        match is_active || partition.isr.contains(&follower) {
            true => Err(format!("in sync are {:?}, active: {is_active}", partition.isr)),
            false => Ok(()),
        }
    }

    /// Whether the follower serves, and its leader knows that.
    fn is_back(&self, parts: Parts) -> bool {
        let serves = |number| self.clients.serving.get(number);
        let (Some(leader), Some(_)) = (serves(parts.leader), serves(parts.follower)) else {
            return false;
        };
        leader.node.image().is_active(node_number(parts.follower))
    }
}
