//! A look at the replicas themselves: each that may lead has all that was promised.

use std::time::Duration;

use logway_metadata::image::PartitionImage;
use logway_model::{BrokerId, Offset, PartitionId};
use tokio::time::{sleep, timeout};

use super::machine::Served;
use super::oracle::Place;
use super::producer::Clients;

/// Between two looks. A replica that has less than it should is often whole again some milliseconds later.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// A node says within this time what is committed, or another one is asked.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// Compares what each replica has with what was acknowledged or read, all the time.
///
/// A replica that is in sync, or eligible to lead, has all of it: on its disk if the topic is durable. If it has not, no
/// client notices before it leads. That needs a further fault at the right moment, which few worlds have.
pub(super) struct Watcher {
    /// The partitions whose promises can be kept, and whether they are durable.
    pub(super) places: Vec<(Place, bool)>,
    pub(super) clients: Clients,
}

/// A replica that has less than it should, as far as one look tells.
struct Suspect {
    place: Place,
    served: Served,
    partition_epoch: i32,
    end: Offset,
    promised: Offset,
}

impl Watcher {
    pub(super) async fn run(self) {
        while !self.clients.is_over() {
            sleep(LOOK_INTERVAL).await;
            for (place, is_durable) in &self.places {
                for suspect in self.look(*place, *is_durable) {
                    self.confirm(suspect).await;
                }
            }
        }
    }

    fn look(&self, place: Place, is_durable: bool) -> Vec<Suspect> {
        let serving = self.clients.serving.all();
        // In this order: who may lead before, has what was promised before its end is read.
        let Some(partition) = newest(&serving, place) else { return Vec::new() };
        let promised = self.clients.oracle.promised_end(place);
        let suspect = |served: Served| {
            let own = served.node.settings.node_id;
            let end = end_of(&served, place, is_durable).filter(|_| may_lead(&partition, own))?;
            let partition_epoch = partition.partition_epoch;
            (end < promised).then_some(Suspect { place, served, partition_epoch, end, promised })
        };
        serving.into_iter().filter_map(suspect).collect()
    }

    /// The metadata may have had something newer already when the replica was looked at. If it has nothing newer now, it
    /// had not.
    async fn confirm(&self, suspect: Suspect) {
        let Suspect { place, served, partition_epoch, end, promised } = suspect;
        for asked in self.clients.serving.all() {
            let current = timeout(ANSWER_MAX, asked.node.quorum.wait_until_current());
            if !matches!(current.await, Ok(Ok(_))) {
                continue;
            }
            let now = newest(&[asked], place).map(|partition| partition.partition_epoch);
            if now == Some(partition_epoch) && served.life.is_alive() {
                let own = served.node.settings.node_id;
                self.clients.oracle.violated(format!(
                    "{place}: node {own}, which may lead by partition epoch {partition_epoch}, has \
                     what is before {end}, and was to have all before {promised}"
                ));
            }
            return;
        }
    }
}

/// What is known of a partition by the node that knows the newest of it.
fn newest(serving: &[Served], place: Place) -> Option<PartitionImage> {
    let known = serving.iter().filter_map(|served| {
        let image = served.node.image();
        image.topic(place.topic)?.partition(PartitionId(place.partition)).cloned()
    });
    known.max_by_key(|partition| partition.partition_epoch)
}

fn may_lead(partition: &PartitionImage, broker: BrokerId) -> bool {
    partition.isr.contains(&broker) || partition.eligible.contains(&broker)
}

/// The end of what a replica has; on its disk, of a durable one. `None` where the node has opened none yet.
fn end_of(served: &Served, place: Place, is_durable: bool) -> Option<Offset> {
    let topics = served.node.topics();
    let log = topics.by_name(place.topic).ok()?.replica(PartitionId(place.partition))?.log();
    Some(if is_durable { log.flushed_offset() } else { log.log_end_offset() })
}
