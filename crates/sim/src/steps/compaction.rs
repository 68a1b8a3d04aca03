//! The cleaner at work, beside all else.

use crate::broker::Broker;
use crate::check::find;
use crate::model::Partition;
use crate::violation::{Violation, ensure};
use crate::world::World;

/// A life ends at the latest at this change of the disk, if it is to end while the cleaner is at work.
const CHANGES_MAX: usize = 50;

impl World {
    /// Has the cleaner begin, unless it is at work.
    pub(super) fn clean(&mut self) {
        if self.broker.as_ref().is_some_and(Broker::is_cleaning) {
            return;
        }
        // Segments can be cleaned when the checkpoint behind their sealing is written.
        self.advance_ms(2_000);
        if self.random.coin() {
            self.turns.rest();
        }
        if self.random.below(3) == 0 {
            let last_change = 1 + self.random.below(CHANGES_MAX);
            self.fs.crash_at_change(last_change as u64);
        }
        self.model.partitions.values_mut().for_each(Partition::begin_cleaning);
        self.broker.as_mut().expect("the world lives").clean();
        self.report.cleanings += 1;
        self.turns.pause();
    }

    /// Takes note of a cleaner that has ended its work.
    pub(super) fn note_cleaned(&mut self) -> Result<(), Violation> {
        let broker = self.broker.as_ref().expect("the world lives");
        if broker.is_cleaning() {
            return Ok(());
        }
        self.model.partitions.values_mut().for_each(Partition::end_cleaning);
        let metrics = &broker.cleaner_metrics;
        let failed = (metrics.failed_rounds.get(), metrics.uncleanable_partitions());
        let may_fail = self.plan.is_disk_failing || self.fs.has_crashed();
        ensure(may_fail || failed == (0, 0), || {
            format!("{} rounds of the cleaner fail, {} logs cannot be cleaned", failed.0, failed.1)
        })
    }

    /// Reads a compacted log as it is now. What is seen to be gone must stay gone, whatever comes.
    pub(super) fn look_at_compacted(&mut self) -> Result<(), Violation> {
        // Of a disk that fails, a read may.
        if self.plan.is_disk_failing {
            return Ok(());
        }
        let now = self.now();
        let broker = self.broker.as_ref().expect("the world lives");
        for partition in self.model.partitions.values_mut() {
            if !partition.kind.is_compacted() {
                continue;
            }
            match find(&broker.log(&partition.name)) {
                // To read is to open files, at which the machine may stop, too.
                Err(_) if self.fs.has_crashed() => return Ok(()),
                found => partition.observe(&found?, now)?,
            }
        }
        Ok(())
    }
}
