//! Topics that come and go.

use std::sync::Arc;

use logway_model::{TopicId, TopicName, TopicPartition};

use crate::broker::Broker;
use crate::violation::Violation;
use crate::world::World;

/// How many names of topics there are; few, so that they are used again.
const TOPICS: usize = 4;

impl World {
    /// Makes a topic, unless it exists.
    pub(super) fn create_topic(&mut self) -> Result<(), Violation> {
        let number = self.random.below(TOPICS);
        let name = World::topic_name(number);
        if self.partitions_of(&name).is_empty() {
            self.add_random_topic(number);
            self.create_logs(&name)?;
        }
        Ok(())
    }

    fn create_logs(&mut self, name: &TopicName) -> Result<(), Violation> {
        for (partition, topic_id) in self.partitions_of(name) {
            let model = self.model.partition(&partition);
            let dir = model.dir;
            let config = self.plan.config(model.kind);
            let broker = self.broker.as_mut().expect("the world lives");
            if broker.is_cleaning() {
                // The log may be the next that it looks at.
                model.begin_cleaning();
            }
            let created =
                broker.dirs[dir].create_log(partition.clone(), topic_id, Arc::new(config.clone()));
            match created {
                // What rests on names alone may be confirmed and lost then.
                Ok(_) if self.fs.has_stopped() => {
                    self.is_over = true;
                    return Ok(());
                }
                Ok(log) => {
                    broker.logs.insert(partition.clone(), log);
                    self.model.partition(&partition).is_created = true;
                }
                Err(error) => {
                    return self.forgive(&format!("{partition} cannot be made"), &error);
                }
            }
            self.turns.pause();
        }
        Ok(())
    }

    /// Deletes a topic, if it exists.
    pub(super) fn delete_topic(&mut self) -> Result<(), Violation> {
        let name = World::topic_name(self.random.below(TOPICS));
        let partitions = self.partitions_of(&name);
        let Some((_, topic_id)) = partitions.first().cloned() else { return Ok(()) };
        // A cleaner learns of it from the log that is closed, or is told to leave: which comes first is
        // up to the machine's scheduler.
        if self.broker.as_ref().is_some_and(Broker::is_cleaning) {
            self.turns.rest();
        }
        self.model.commits.forget(topic_id);
        let mut logs = Vec::new();
        for (partition, _) in partitions {
            let model = self.model.partitions.remove(&partition).expect("it was just listed");
            let broker = self.broker.as_mut().expect("the world lives");
            broker.logs.remove(&partition);
            logs.push((partition, model.dir));
        }
        // One after the other: of several at once the writer takes the first as soon as it comes, and
        // how many with it is up to the machine's scheduler.
        for (partition, dir) in logs {
            let broker = self.broker.as_ref().expect("the world lives");
            if let Err(error) = broker.dirs[dir].delete_log(&partition) {
                return self.forgive(&format!("{partition} cannot be deleted"), &error);
            }
            if self.fs.has_stopped() {
                // As above.
                self.is_over = true;
                return Ok(());
            }
            self.model.deleted.insert((partition, topic_id));
            self.turns.pause();
        }
        self.forget_topic(&name, topic_id)
    }

    fn partitions_of(&self, name: &TopicName) -> Vec<(TopicPartition, TopicId)> {
        let partitions = self.model.partitions.values();
        let of_topic = partitions.filter(|partition| partition.name.topic == *name);
        of_topic.map(|partition| (partition.name.clone(), partition.topic_id)).collect()
    }
}
