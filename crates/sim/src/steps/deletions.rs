//! Records that go, and records that are put on stable storage.

use std::sync::Arc;

use logway_log::Log;
use logway_model::TopicPartition;

use crate::violation::Violation;
use crate::world::World;

impl World {
    /// Moves the start of a log.
    pub(super) fn delete_records(&mut self) -> Result<(), Violation> {
        let Some(name) = self.some_partition() else { return Ok(()) };
        let partition = self.model.partition(&name);
        let (start, end) = (partition.start(), partition.end());
        let records = usize::try_from(end - start).expect("a log starts before its end");
        let before = start + self.random.below(records + 1) as i64;
        self.model.partition(&name).ask_for_start(before);
        match self.log(&name).delete_records_before(before).wait() {
            Ok(start) => self.model.partition(&name).acknowledge_start(start),
            Err(error) => self.forgive(&format!("{name}: records cannot be deleted"), &error),
        }
    }

    /// Lets time go on, and deletes what is too old or too much.
    pub(super) fn enforce_retention(&mut self) -> Result<(), Violation> {
        let elapsed_ms = self.random.below(15_000) as u64;
        self.advance_ms(elapsed_ms);
        let number = self.random.below(self.plan.dirs.len());
        for partition in self.model.partitions.values_mut() {
            if partition.dir == number {
                partition.ask_for_retention();
            }
        }
        let broker = self.broker.as_ref().expect("the world lives");
        if let Err(error) = broker.dirs[number].enforce_retention().wait() {
            return self.forgive("retention fails", &error);
        }
        self.turns.pause();
        let broker = self.broker.as_ref().expect("the world lives");
        for partition in self.model.partitions.values_mut() {
            if partition.dir == number {
                let start = broker.log(&partition.name).log_start_offset();
                partition.check_retained(start)?;
                partition.acknowledge_start(start)?;
            }
        }
        Ok(())
    }

    /// Puts a log on stable storage.
    pub(super) fn flush(&mut self) -> Result<(), Violation> {
        let Some(name) = self.some_partition() else { return Ok(()) };
        match self.log(&name).flush().wait() {
            Ok(flushed) => {
                self.model.partition(&name).note_flushed(flushed);
                Ok(())
            }
            Err(error) => self.forgive(&format!("{name} cannot be flushed"), &error),
        }
    }

    fn log(&self, name: &TopicPartition) -> Arc<Log> {
        self.broker.as_ref().expect("the world lives").log(name)
    }
}
