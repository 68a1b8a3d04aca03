//! The shards of one topic that this node leads.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use logway_coordinator::StateMachine;
use logway_model::{DirectoryId, LeaderEpoch, PartitionId};
use logway_wire::WireString;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::driver::{Command, ShardDriver, ShardHandle};
use super::pending::{Measuring, Pending, Question};
use crate::replica::Replica;
use crate::topics::Topic;

/// How many shards load from a log directory at once, if there are not more cores than that. A load waits for the disk
/// and for threads, so a few more than there are cores make it faster; but each leaves memory behind
/// in the heap of the thread that read for it.
const LOADS_MAX_LEAST: usize = 8;

/// A shard for each partition that is led here, by its number.
pub(crate) struct ShardTable<M: StateMachine> {
    /// The partition that a name belongs to, among so many.
    partition_of: fn(&str, u32) -> u32,
    /// For each log directory, a permit for each shard that may load from it at once: a slow disk holds up no shards
    /// that are on another.
    loads: Mutex<HashMap<DirectoryId, Arc<Semaphore>>>,
    shards: ArcSwap<Vec<Option<ShardHandle<M>>>>,
    /// `None` once the shards are to end. Held while shards change: none begins or stays after that.
    drivers: Mutex<Option<JoinSet<()>>>,
}

impl<M: StateMachine> ShardTable<M> {
    /// Without shards, until [`ShardTable::follow`] is told of partitions.
    pub(crate) fn new(partition_of: fn(&str, u32) -> u32) -> ShardTable<M> {
        ShardTable {
            partition_of,
            loads: Mutex::default(),
            shards: ArcSwap::default(),
            drivers: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// The shards, by the number of their partition; `None` for partitions that are not led here.
    pub(crate) fn all(&self) -> Guard<Arc<Vec<Option<ShardHandle<M>>>>> {
        self.shards.load()
    }

    /// The index of the shard that a name belongs to, among these; `None` if there are none.
    fn place_among(&self, shards: &[Option<ShardHandle<M>>], name: &str) -> Option<usize> {
        let count = u32::try_from(shards.len()).ok().filter(|&count| count > 0)?;
        usize::try_from((self.partition_of)(name, count)).ok()
    }

    fn shard_of<'a>(
        &self,
        shards: &'a [Option<ShardHandle<M>>],
        name: &str,
    ) -> Option<&'a ShardHandle<M>> {
        shards[self.place_among(shards, name)?].as_ref()
    }

    /// The partition that a name belongs to; `None` if there are none.
    pub(crate) fn partition_of(&self, name: &str) -> Option<PartitionId> {
        let place = self.place_among(&self.all(), name)?;
        i32::try_from(place).ok().map(PartitionId)
    }

    /// Asks the shard of a name. The order of calls is the order in which the shard is asked; the answer is waited for
    /// afterwards.
    pub(crate) fn ask(&self, name: &str, question: Question<M>) -> Pending<M> {
        Pending::of(self.shard_of(&self.all(), name), question)
    }

    /// The leader epoch of the shard of a name, if it is here.
    pub(crate) fn epoch_of(&self, name: &str) -> Option<LeaderEpoch> {
        self.shard_of(&self.all(), name).map(ShardHandle::epoch)
    }

    /// Asks the shard of a partition.
    pub(crate) fn ask_partition(
        &self,
        partition: PartitionId,
        question: Question<M>,
    ) -> Pending<M> {
        let shards = self.all();
        let place = usize::try_from(partition.0).ok();
        Pending::of(place.and_then(|place| shards.get(place)?.as_ref()), question)
    }

    /// Asks the shards of several names, each once, with its names.
    pub(crate) fn ask_of_names(
        &self,
        names: Vec<WireString>,
        question: impl Fn(Vec<WireString>) -> Question<M>,
    ) -> Vec<(Vec<WireString>, Pending<M>)> {
        let shards = self.all();
        let mut by_place: HashMap<Option<usize>, Vec<WireString>> = HashMap::new();
        for name in names {
            by_place.entry(self.place_among(&shards, &name)).or_default().push(name);
        }
        let ask = |(place, names): (Option<usize>, Vec<WireString>)| {
            let shard = place.and_then(|place| shards[place].as_ref());
            (names.clone(), Pending::of(shard, question(names)))
        };
        by_place.into_iter().map(ask).collect()
    }

    /// Asks the shard of a name how large its answer would be.
    pub(crate) fn measure(&self, name: &str, question: Question<M>) -> Measuring<M> {
        Measuring::of(self.shard_of(&self.all(), name), question)
    }

    /// Asks every shard there is how large its answer would be.
    pub(crate) fn measure_all(&self, question: impl Fn() -> Question<M>) -> Vec<Measuring<M>> {
        let shards = self.all();
        shards.iter().flatten().map(|shard| Measuring::of(Some(shard), question())).collect()
    }

    /// What every shard there is has to show. One that goes meanwhile shows nothing.
    pub(crate) fn look_at_all<T: Send + 'static>(
        &self,
        look: fn(&M) -> T,
    ) -> Vec<oneshot::Receiver<T>> {
        let look_at = |shard: &ShardHandle<M>| {
            let (send, seen) = oneshot::channel();
            // Who asked may have gone.
            shard.send(Command::Look(Box::new(move |shard| _ = send.send(look(shard)))));
            seen
        };
        self.all().iter().flatten().map(look_at).collect()
    }

    /// Begins the shards of partitions that are led here now, by `start`, which is given what bounds the loads from its
    /// directory. Ends those of partitions that are not led any more. To be called in a runtime.
    pub(crate) fn follow(
        &self,
        topic: Option<&Arc<Topic>>,
        start: impl Fn(Arc<Replica>, Arc<Semaphore>) -> (ShardHandle<M>, ShardDriver<M>),
    ) {
        let mut drivers = self.drivers();
        let Some(drivers) = &mut *drivers else { return };
        let before = self.shards.load_full();
        let partitions = topic.map_or(&[][..], |topic| &topic.partitions);
        let running = |number: usize, partition: &Arc<Replica>| {
            let shard = before.get(number)?.as_ref()?;
            shard.drives(partition).then(|| shard.clone())
        };
        let led = |partition: &Option<Arc<Replica>>| {
            partition.clone().filter(|partition| partition.is_leading())
        };
        let partitions: Vec<Option<Arc<Replica>>> = partitions.iter().map(led).collect();
        let is_as_before = before.len() == partitions.len()
            && partitions.iter().enumerate().all(|(number, partition)| match partition {
                Some(partition) => running(number, partition).is_some(),
                None => before[number].is_none(),
            });
        if is_as_before {
            return;
        }
        // Those that have ended are forgotten here, or their results would pile up.
        while drivers.try_join_next().is_some() {}
        let mut begin = |partition: &Arc<Replica>| {
            let loads = self.loads_from(partition.directory());
            let (shard, driver) = start(Arc::clone(partition), loads);
            drivers.spawn(driver.run());
            shard
        };
        let shards = partitions.iter().enumerate().map(|(number, partition)| {
            let partition = partition.as_ref()?;
            running(number, partition).or_else(|| Some(begin(partition)))
        });
        self.shards.store(Arc::new(shards.collect()));
    }

    /// What bounds the shards that load from a log directory at once.
    fn loads_from(&self, directory: DirectoryId) -> Arc<Semaphore> {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let loads = loads.entry(directory).or_insert_with(|| {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            Arc::new(Semaphore::new(LOADS_MAX_LEAST.max(cores)))
        });
        Arc::clone(loads)
    }

    fn drivers(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        // What it guards is right after each step.
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all shards, and waits until what they have begun to write is written.
    pub(crate) async fn stop(&self) {
        let drivers = {
            let mut drivers = self.drivers();
            self.shards.store(Arc::default());
            drivers.take()
        };
        let Some(mut drivers) = drivers else { return };
        while drivers.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use logway_coordinator::{GroupShard, partition_of_group};
    use logway_model::Uuid;

    use super::*;

    #[test]
    fn shards_that_load_from_a_slow_disk_hold_up_none_that_load_from_another() {
        let shards = ShardTable::<GroupShard>::new(partition_of_group);
        let directory = |number| DirectoryId(Uuid([number; 16]));
        let slow = shards.loads_from(directory(1));
        slow.forget_permits(slow.available_permits());
        assert_eq!(shards.loads_from(directory(1)).available_permits(), 0);
        assert!(shards.loads_from(directory(2)).available_permits() >= LOADS_MAX_LEAST);
    }
}
