//! What happens in a life.

use logway_model::TopicPartition;

use crate::model::Kind;
use crate::violation::Violation;
use crate::world::{OFFSETS_TOPIC, World};

mod appends;
mod commits;
mod compaction;
mod deletions;
mod replicas;
mod topics;

impl World {
    /// Something, and what follows from it.
    pub(crate) fn step(&mut self) -> Result<(), Violation> {
        self.turns.pause();
        self.note_cleaned()?;
        match self.random.below(160) {
            0..48 => self.append_some(),
            48..56 => self.commit_some(),
            56..62 => self.append_again(),
            62..65 => self.leave_out_a_sequence(),
            65..71 => self.delete_records(),
            71..77 => self.enforce_retention(),
            77..80 => self.flush(),
            80..84 => self.delete_topic(),
            84..88 => self.create_topic(),
            88..92 => {
                self.advance_ms(2_000);
                Ok(())
            }
            92..106 if self.plan.compacts => {
                self.clean();
                Ok(())
            }
            106..110 => self.look_at_compacted(),
            118..140 => self.follow(),
            140..154 => self.truncate(),
            154..160 => {
                self.say_high_watermark();
                Ok(())
            }
            _ => {
                self.turns.rest();
                Ok(())
            }
        }
    }

    /// One of the partitions that clients write to; `None` if there is none.
    fn some_led_partition(&mut self) -> Option<TopicPartition> {
        let led = self.model.partitions.values().filter(|it| it.kind != Kind::Followed);
        let names: Vec<_> = led
            .map(|it| it.name.clone())
            .filter(|name| name.topic.as_str() != OFFSETS_TOPIC)
            .collect();
        let place = (!names.is_empty()).then(|| self.random.below(names.len()))?;
        Some(names[place].clone())
    }

    /// One of the partitions that clients know; `None` if there is none.
    fn some_partition(&mut self) -> Option<TopicPartition> {
        let names = self.model.partitions.keys();
        let names: Vec<_> = names.filter(|name| name.topic.as_str() != OFFSETS_TOPIC).collect();
        let place = (!names.is_empty()).then(|| self.random.below(names.len()))?;
        Some(names[place].clone())
    }
}
