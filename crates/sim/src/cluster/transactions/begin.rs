//! Who begins when a world does.

use logway_log::fs::sim::Rng;
use logway_model::Offset;

use super::consumer::Consumer;
use super::offset_reader::OffsetReader;
use super::producer::TransactionalProducer;
use super::topics::{IDS, data_places};
use crate::cluster::world::World;

impl World {
    pub(in crate::cluster) fn begin_transactions(&mut self) {
        for owner in 0..IDS {
            for _ in 0..2 {
                let random = Rng::new(self.random.next_u64());
                let producer = TransactionalProducer::new(owner, random, self.clients.clone());
                let producer = producer.older_at_times(self.plan.has_older_clients);
                self.tasks.spawn(producer.run());
            }
        }
        for place in data_places() {
            let (random, clients) = (Rng::new(self.random.next_u64()), self.clients.clone());
            let consumer = Consumer { place, random, clients, position: Offset::ZERO };
            self.tasks.spawn(consumer.run());
        }
        let (random, clients) = (Rng::new(self.random.next_u64()), self.clients.clone());
        self.tasks.spawn(OffsetReader { random, clients, seen: Vec::new() }.run());
    }
}
