//! The end of a world: all is well again, so all must become in sync, and then be equal.

use std::sync::atomic::Ordering;
use std::time::Duration;

use logway_model::PartitionId;
use tokio::time::sleep;

use super::life::End;
use super::machine::Served;
use super::oracle::Place;
use super::patience::Patience;
use super::replicas::{self, Copy};
use super::world::World;
use crate::violation::Violation;

/// All that is well again is in order within this time.
const HEALED_WITHIN: Duration = Duration::from_secs(40);

/// Clients go on for so long then.
const GO_ON: Duration = Duration::from_millis(300);

impl World {
    pub(super) async fn end(&mut self) -> Result<(), Violation> {
        tracing::info!("the end begins: all is well from now on");
        self.surroundings.network.calm();
        for machine in &mut self.machines {
            if machine.is_faulty() {
                machine.end(&self.surroundings, End::PowerCut);
            }
            machine.disk().release_syncs();
        }
        self.clients.oracle.let_disks_fail(false);
        self.start_all(HEALED_WITHIN).await?;
        self.until("all serve", HEALED_WITHIN, |world| world.are_all_members()).await?;
        sleep(GO_ON).await;
        self.clients.is_over.store(true, Ordering::SeqCst);
        self.end_clients().await?;
        if self.plan.has_transactions {
            self.settle_transactions().await?;
        }
        self.until_all_are_in_sync().await?;
        for place in self.all_places() {
            self.compare(place)?;
        }
        if self.plan.has_transactions {
            self.check_transactions().await?;
        }
        Ok(())
    }

    /// Waits until each client has had its last answer.
    async fn end_clients(&mut self) -> Result<(), Violation> {
        let mut patience = Patience::new(HEALED_WITHIN);
        loop {
            while self.tasks.try_join_next().is_some() {}
            if self.tasks.is_empty() {
                return Ok(());
            }
            self.clients.oracle.check()?;
            if !patience.wait().await {
                let what = "a producer waits for ever, though all nodes serve";
                let missing = self.are_all_in_sync().err().unwrap_or_default();
                return Err(self.waited_too_long(&format!("{what} {missing}")));
            }
        }
    }

    /// Waits for as long as replicas get more than they ever had together: in some worlds an answer has one batch, and a follower
    /// many to copy. No client writes any more, so there is an end to that.
    async fn until_all_are_in_sync(&self) -> Result<(), Violation> {
        let mut patience = Patience::new(HEALED_WITHIN);
        let mut most = 0;
        while let Err(missing) = self.are_all_in_sync() {
            self.clients.oracle.check()?;
            let ends = self.ends_of_all_replicas();
            if ends > most {
                most = ends;
                patience = Patience::new(HEALED_WITHIN);
            }
            if !patience.wait().await {
                let what =
                    format!("no replica gets on in {HEALED_WITHIN:?}, and not all are in sync");
                return Err(self.waited_too_long(&format!("{what}: {missing}")));
            }
        }
        self.clients.oracle.check()
    }

    fn ends_of_all_replicas(&self) -> i64 {
        let ends_on = |served: Served| {
            let topics = served.node.topics();
            let end = |place: Place| {
                let topic = topics.by_name(place.topic).ok()?;
                let replica = topic.replica(PartitionId(place.partition))?;
                Some(replica.log().log_end_offset().0)
            };
            self.all_places().into_iter().filter_map(end).sum::<i64>()
        };
        self.clients.serving.all().into_iter().map(ends_on).sum()
    }

    /// Whether all replicas of all partitions are in sync, have the same end, and show all of it.
    pub(super) fn are_all_in_sync(&self) -> Result<(), String> {
        for place in self.all_places() {
            self.is_in_sync(place).map_err(|missing| format!("{place}: {missing}"))?;
        }
        Ok(())
    }

    /// Something has not come about. With what there is to know of the partitions that are not in sync, or whose transactions
    /// have not ended: a world that fails once in thousands of runs has to tell why by itself.
    pub(super) fn waited_too_long(&self, what: &str) -> Violation {
        let mut lines = what.to_owned();
        for place in self.all_places() {
            if self.is_in_sync(place).is_err() || self.has_ended(place).is_err() {
                self.tell_all(place, &mut lines);
            }
        }
        Violation::new(lines)
    }

    /// What each node knows and has of a partition, a line each.
    fn tell_all(&self, place: Place, lines: &mut String) {
        let partition = PartitionId(place.partition);
        for served in self.clients.serving.all() {
            let (own, image) = (served.node.settings.node_id, served.node.image());
            let known = image.topic(place.topic).and_then(|topic| topic.partition(partition));
            let topics = served.node.topics();
            let topic = topics.by_name(place.topic).ok();
            let replica = topic.as_ref().and_then(|topic| topic.replica(partition));
            let producers = replica.map(|replica| replica.log().producers().wait());
            *lines += &format!(
                "\n  {place}: node {own} knows {known:?}, has {replica:?}, with the producers {producers:?}"
            );
        }
    }

    fn is_in_sync(&self, place: Place) -> Result<(), String> {
        let serving = self.clients.serving.all();
        let asked = serving.first().ok_or("nobody serves")?;
        let image = asked.node.image();
        let topic = image.topic(place.topic).ok_or("the topic is not known")?;
        let partition = topic.partition(PartitionId(place.partition)).ok_or("it does not exist")?;
        let leader = partition.leader.ok_or("nobody leads")?;
        if let Some(reassignment) = &partition.reassignment {
            return Err(format!(
                "it is on its way: {reassignment:?}, in sync are {:?}",
                partition.isr
            ));
        }
        if partition.isr.len() < partition.replicas.len() {
            return Err(format!("in sync are {:?}, led by {leader}", partition.isr));
        }
        let mut ends = Vec::new();
        for served in &serving {
            let node = &served.node;
            let own = node.settings.node_id;
            let topics = node.topics();
            let topic = topics.by_name(place.topic).map_err(|code| format!("{own}: {code:?}"))?;
            let replica = topic.replica(PartitionId(place.partition));
            if !partition.replicas.contains(&own) {
                match replica {
                    None => continue,
                    Some(_) => return Err(format!("node {own} has what was moved away")),
                }
            }
            let replica = replica.ok_or(format!("node {own} has none"))?;
            let (end, shown) = (replica.log().log_end_offset(), replica.high_watermark().get());
            if own == leader && shown < end {
                return Err(format!("node {own} leads up to {end} and shows {shown}"));
            }
            ends.push((own, end));
        }
        match ends.iter().all(|(_, end)| *end == ends[0].1) {
            true => Ok(()),
            false => Err(format!("replicas end at {ends:?}")),
        }
    }

    /// Compares the replicas of a partition with each other, and with what was promised.
    fn compare(&self, place: Place) -> Result<(), Violation> {
        let mut copies = Vec::new();
        let mut epochs = 0;
        for served in self.clients.serving.all() {
            let own = served.node.settings.node_id;
            let topics = served.node.topics();
            let topic = topics.by_name(place.topic).ok();
            let Some(replica) = topic.and_then(|it| it.replica(PartitionId(place.partition)))
            else {
                continue;
            };
            epochs = u64::try_from(replica.leader_epoch().0).unwrap_or(0) + 1;
            let copy = Copy::of(&replica.log()).map_err(|error| {
                Violation::new(format!("{place}: node {own} cannot read its log: {error}"))
            })?;
            copies.push((own, copy));
        }
        self.clients.oracle.count(|report| report.epochs += epochs);
        replicas::check(place, &copies)?;
        match copies.first() {
            Some((_, copy)) => self.clients.oracle.check_log(place, &copy.stored),
            None => Ok(()),
        }
    }
}
