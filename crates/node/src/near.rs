//! Which replica of a partition a reader is to be sent to (KIP-392).
//!
//! A leader serves everybody. A follower serves who knows that it may read there, up to the high watermark that its leader
//! has told it: so nobody is shown what could be taken back, and some are shown it later than others.

use logway_metadata::MetadataImage;
use logway_model::{BrokerId, Offset};
use logway_replication::ReadableFollower;

use crate::Node;
use crate::cluster::node_address;
use crate::replica::Replica;

/// By which address a reader goes to another node.
#[derive(Debug, Clone, Copy)]
pub enum ReachedBy<'a> {
    /// That of Kafka's listener of this name.
    Listener(&'a str),
    /// That of nodes: this one asks for the reader.
    Nodes,
}

impl ReachedBy<'_> {
    fn reaches(self, image: &MetadataImage, broker: BrokerId) -> bool {
        match self {
            ReachedBy::Listener(name) => image.endpoint(broker, name).is_some(),
            ReachedBy::Nodes => node_address(image, broker).is_some(),
        }
    }
}

impl Node {
    /// The follower in a reader's rack that has what is at an offset: of several the one that has most. `None` if there is
    /// none, if the leader itself is in the rack, or if this replica does not lead.
    ///
    /// It is Kafka's `RackAwareReplicaSelector`.
    pub fn replica_in_rack(
        &self,
        replica: &Replica,
        offset: Offset,
        rack: &str,
        by: ReachedBy<'_>,
    ) -> Option<BrokerId> {
        if rack.is_empty() {
            return None;
        }
        let image = self.image();
        let is_in_rack = |broker: BrokerId| {
            image.broker(broker).and_then(|known| known.rack.as_deref()) == Some(rack)
        };
        if is_in_rack(self.settings.node_id) {
            return None;
        }
        let followers = replica.readable_followers(offset).into_iter().filter(|follower| {
            let broker = follower.broker;
            is_in_rack(broker) && image.is_active(broker) && by.reaches(&image, broker)
        });
        most_caught_up(followers)
    }
}

/// The one that has most; of these the one that had all last, and then the one with the greatest number, so that all
/// readers of a rack are sent to the same one.
fn most_caught_up(followers: impl Iterator<Item = ReadableFollower>) -> Option<BrokerId> {
    let most = followers.max_by_key(|it| (it.end, it.caught_up_at, it.broker));
    most.map(|follower| follower.broker)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn readers_are_sent_to_who_has_most() {
        let follower = |broker, end, seconds| ReadableFollower {
            broker: BrokerId(broker),
            end: Offset(end),
            caught_up_at: Duration::from_secs(seconds),
        };
        let chosen = |followers: &[ReadableFollower]| {
            most_caught_up(followers.iter().copied()).map(|BrokerId(id)| id)
        };
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[follower(2, 7, 9), follower(3, 8, 1)]), Some(3));
        assert_eq!(chosen(&[follower(2, 8, 9), follower(3, 8, 1)]), Some(2));
        assert_eq!(chosen(&[follower(2, 8, 9), follower(3, 8, 9)]), Some(3));
    }
}
