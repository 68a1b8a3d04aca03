//! A coordinator that has been replaced, and has not heard of it.
//!
//! A client of the older protocol adds a partition to its transaction. Then the controller is not heard any more by the
//! coordinator and by the partition's leader, and another node becomes the coordinator. There the client aborts the transaction.
//! Its marker is written before the leader gets the first record, which is late. The leader asks the coordinator that it knows,
//! and that one knows the transaction as it was. In worlds of seeds that is a matter of milliseconds.

use std::time::Duration;

use logway_log::fs::sim::Rng;
use tokio::time::timeout;

use super::{STEP_MAX, TRIES};
use crate::cluster::oracle::Place;
use crate::cluster::report::ClusterReport;
use crate::cluster::transactions::topics::TOPIC;
use crate::cluster::transactions::{TransactionalProducer, coordinator_place};
use crate::cluster::world::{World, node_number};
use crate::violation::{Violation, ensure};

/// What the transaction writes to.
const PLACE: Place = Place { topic: TOPIC, partition: 0 };

/// Whose transaction it is.
const OWNER: usize = 0;

/// A transaction that has not ended in this time will not.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

/// Who plays which part, by number. Of the other two one controls the cluster, and one follows.
#[derive(Debug, Clone, Copy)]
struct Parts {
    coordinator: usize,
    leader: usize,
    successor: usize,
}

impl World {
    /// Lives it until it has come to what it is made for.
    pub(in crate::cluster) async fn ask_a_replaced(&mut self) -> Result<ClusterReport, Violation> {
        self.found().await?;
        self.create_topics().await?;
        let controller = self.controller().ok_or_else(|| Violation::new("nobody controls"))?;
        let others: Vec<usize> = (1..=self.plan.nodes).filter(|it| *it != controller).collect();
        let &[coordinator, leader, follower, successor] = &others[..] else {
            return Err(Violation::new("there are five nodes"));
        };
        let parts = Parts { coordinator, leader, successor };
        let written = [leader, follower, successor];
        self.create_transactional([coordinator, follower, successor], written).await?;
        let mut was_to_the_point = false;
        for _ in 0..TRIES {
            self.have_lead(leader, PLACE).await?;
            self.have_lead(coordinator, coordinator_place(OWNER)).await?;
            self.until("all are in sync", STEP_MAX, |world| world.are_all_in_sync()).await?;
            was_to_the_point = self.write_late(controller, parts).await?;
            self.surroundings.network.heal();
            self.until("all are in sync", STEP_MAX, |world| world.are_all_in_sync()).await?;
            if was_to_the_point {
                break;
            }
        }
        ensure(was_to_the_point, || format!("in {TRIES} tries nobody asked who was replaced"))?;
        self.until("the transaction has ended", ENDED_WITHIN, World::have_all_ended).await?;
        self.end().await?;
        Ok(self.clients.oracle.report())
    }

    /// Whether the leader got a record of a transaction that had ended, and could ask only who did not know that.
    async fn write_late(&mut self, controller: usize, parts: Parts) -> Result<bool, Violation> {
        let Parts { coordinator, leader, successor } = parts;
        let random = Rng::new(self.random.next_u64());
        let producer = TransactionalProducer::new(OWNER, random, self.clients.clone());
        let mut producer = producer.older();
        let Some((number, id)) = producer.open_unwritten(PLACE, STEP_MAX).await else {
            return Ok(false);
        };
        for unaware in [coordinator, leader] {
            self.surroundings.network.cut(controller, unaware);
        }
        let before = self.end_of(leader, PLACE);
        self.have_lead(successor, coordinator_place(OWNER)).await?;
        let mut producer = producer.asking(self.clients.of_node(successor));
        let is_aborted = timeout(STEP_MAX, producer.abort(id)).await.unwrap_or(false);
        let ended = self.until("the marker is written", STEP_MAX, |world| {
            match world.end_of(leader, PLACE) > before {
                true => Ok(()),
                false => Err("it is not".to_owned()),
            }
        });
        ended.await?;
        let mut producer = producer.asking(self.clients.of_node(leader));
        let is_written = producer.write(number, id, 0).await;
        let knows_old = |number: usize| {
            let known = self.partition(number, coordinator_place(OWNER)).and_then(|it| it.leader);
            known == Some(node_number(coordinator))
        };
        let are_unaware = knows_old(leader) && knows_old(coordinator);
        tracing::info!(is_aborted, is_written, are_unaware, "a record came late");
        Ok(is_aborted && are_unaware)
    }
}
