//! Which metadata levels the nodes of the cluster know, and how the cluster comes to the next one (KIP-584).
//!
//! Nobody keeps what the nodes know: a level is finalised once, and each node is asked when somebody wants that. A node
//! that does not answer may be of any version, so the level stays.
//!
//! The question has no bytes. The answer:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 1 | layout | 0 |
//! | 2 | newest | the newest level that the node knows, big-endian |

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Buf, BufMut};
use logway_metadata::MetadataLevel;
use logway_metadata::controller::FinalizeMetadataLevel;
use logway_metadata::settings::broker::AUTO_FINALIZE_SETTING;
use logway_model::BrokerId;
use logway_peers::{Kind, Lane};
use logway_quorum::MemberStatus;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::controller::now_ms;
use crate::Node;

const LAYOUT: u8 = 0;

const BYTES: usize = 3;

/// A node tells within this time which level it knows.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The controller looks so often whether a level is to be finalised.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// What a node of this version answers.
pub(super) fn encode_newest() -> Vec<u8> {
    let mut out = Vec::with_capacity(BYTES);
    out.put_u8(LAYOUT);
    out.put_i16(MetadataLevel::NEWEST.0);
    out
}

/// Reads an answer; `None` for bytes that are none, or of another version.
fn decode(mut bytes: &[u8]) -> Option<MetadataLevel> {
    let is_known = bytes.len() == BYTES && bytes.get_u8() == LAYOUT;
    is_known.then(|| MetadataLevel(bytes.get_i16()))
}

/// Why a level of the metadata cannot be finalised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LevelRefusal {
    /// This version does not know it.
    #[error("this node knows the levels 0 to {}", MetadataLevel::NEWEST)]
    Unknown,
    /// Records of the level that is finalised may be there, and nodes that know less stop at them.
    #[error("level {0} is finalised, and there is no way back from it")]
    Lower(MetadataLevel),
    /// A node does not tell: it is away, or of a version that has no such question.
    #[error("node {0} does not tell which levels it knows; it is away, or of an older version")]
    Silent(BrokerId),
    /// A node would stop.
    #[error("node {id} knows the levels 0 to {newest}; upgrade it first")]
    Older {
        /// Which node.
        id: BrokerId,
        /// The newest level that it knows.
        newest: MetadataLevel,
    },
    /// It listens for no other nodes.
    #[error("this node listens for no other nodes and stays alone, so it needs no level")]
    Alone,
}

impl Node {
    /// Whether the cluster can go to a level: each of its nodes answers, and knows it. The level that is finalised is allowed.
    pub async fn check_metadata_level(
        self: &Arc<Self>,
        level: MetadataLevel,
    ) -> Result<(), LevelRefusal> {
        let finalized = self.image().metadata_level();
        if level < finalized {
            return Err(LevelRefusal::Lower(finalized));
        }
        if level > MetadataLevel::NEWEST {
            return Err(LevelRefusal::Unknown);
        }
        if level == finalized {
            return Ok(());
        }
        if self.cluster.is_none() {
            return Err(LevelRefusal::Alone);
        }
        let known = self.newest_levels().await;
        known.into_iter().try_for_each(|(id, newest)| check_node(id, newest, level))
    }

    /// The newest level that each node of the cluster knows; `None` of those that do not tell.
    async fn newest_levels(self: &Arc<Self>) -> BTreeMap<BrokerId, Option<MetadataLevel>> {
        let mut asked = JoinSet::new();
        for MemberStatus { id, address, .. } in self.quorum.members() {
            let node = Arc::clone(self);
            asked.spawn(async move { (id, node.newest_level_of(id, &address).await) });
        }
        asked.join_all().await.into_iter().collect()
    }

    async fn newest_level_of(&self, id: BrokerId, address: &str) -> Option<MetadataLevel> {
        if id == self.settings.node_id {
            return Some(MetadataLevel::NEWEST);
        }
        let carrier = &self.cluster.as_ref()?.carrier;
        let asked = carrier.request(address, Lane::Control, Kind::Levels, Vec::new(), ANSWER_MAX);
        decode(&asked.await.ok()?)
    }
}

fn check_node(
    id: BrokerId,
    newest: Option<MetadataLevel>,
    level: MetadataLevel,
) -> Result<(), LevelRefusal> {
    match newest {
        None => Err(LevelRefusal::Silent(id)),
        Some(newest) if newest < level => Err(LevelRefusal::Older { id, newest }),
        Some(_) => Ok(()),
    }
}

/// Since when each node knows a level, as a controller has seen it. Another controller begins to count anew.
#[derive(Debug, Default)]
struct Upgraded {
    since_ms: BTreeMap<BrokerId, u64>,
}

impl Upgraded {
    /// Whether all nodes tell that they know the level, and the last of them has for so long. One that is away for a while keeps its
    /// time: it has only to be there at the end.
    fn is_over(
        &mut self,
        known: &BTreeMap<BrokerId, Option<MetadataLevel>>,
        level: MetadataLevel,
        after_ms: u64,
        now_ms: u64,
    ) -> bool {
        self.since_ms.retain(|id, _| known.contains_key(id));
        for (id, newest) in known {
            match newest {
                Some(newest) if *newest >= level => {
                    self.since_ms.entry(*id).or_insert(now_ms);
                }
                Some(_) => _ = self.since_ms.remove(id),
                None => {}
            }
        }
        let all_tell = known.values().all(|newest| newest.is_some_and(|newest| newest >= level));
        let is_long = |since: &u64| now_ms.saturating_sub(*since) >= after_ms;
        all_tell && self.since_ms.values().all(is_long)
    }
}

/// Finalises the newest level for as long as the node exists, while it is the active controller of several nodes and a setting
/// says after how long.
pub(crate) async fn finalize_unasked(node: Weak<Node>) {
    let mut upgraded = Upgraded::default();
    loop {
        sleep(LOOK_INTERVAL).await;
        let Some(node) = node.upgrade() else { return };
        let after_ms = node.changeable_setting::<i64>(AUTO_FINALIZE_SETTING);
        let after_ms = after_ms.and_then(|after_ms| u64::try_from(after_ms).ok());
        let finalized = node.image().metadata_level();
        let is_upgrade = (MetadataLevel::CLUSTER..MetadataLevel::NEWEST).contains(&finalized);
        let controls = node.quorum.status().leader == Some(node.settings.node_id);
        let Some(after_ms) = after_ms.filter(|_| is_upgrade && controls) else {
            upgraded = Upgraded::default();
            continue;
        };
        let (known, level) = (node.newest_levels().await, MetadataLevel::NEWEST);
        if !upgraded.is_over(&known, level, after_ms, now_ms()) {
            continue;
        }
        match node.quorum.submit_as_controller(FinalizeMetadataLevel { level }).await {
            Ok(_) => tracing::info!(%level, "all nodes know the metadata level: it is finalised"),
            Err(error) => tracing::warn!(%level, %error, "the metadata level is not finalised yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVEL: MetadataLevel = MetadataLevel::ELIGIBLE_REPLICAS;

    fn known(nodes: &[(i32, Option<i16>)]) -> BTreeMap<BrokerId, Option<MetadataLevel>> {
        nodes.iter().map(|(id, newest)| (BrokerId(*id), newest.map(MetadataLevel))).collect()
    }

    #[test]
    fn an_answer_is_read_as_it_was_written_and_nothing_else_is() {
        let bytes = encode_newest();
        assert_eq!(decode(&bytes), Some(MetadataLevel::NEWEST));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None);
        }
        assert_eq!(decode(&[1, 0, 2]), None, "of another layout");
    }

    #[test]
    fn who_does_not_tell_or_knows_less_is_named() {
        let check = |newest| check_node(BrokerId(3), newest, LEVEL).map_err(|it| it.to_string());
        assert_eq!(check(Some(LEVEL)), Ok(()));
        let older = "node 3 knows the levels 0 to 1; upgrade it first";
        assert_eq!(check(Some(MetadataLevel::CLUSTER)), Err(older.to_owned()));
        let silent =
            "node 3 does not tell which levels it knows; it is away, or of an older version";
        assert_eq!(check(None), Err(silent.to_owned()));
    }

    #[test]
    fn the_time_counts_from_the_last_node_that_was_upgraded() {
        let mut upgraded = Upgraded::default();
        let mut is_over = |nodes: &[_], now_ms| upgraded.is_over(&known(nodes), LEVEL, 100, now_ms);
        assert!(!is_over(&[(1, Some(2)), (2, Some(1))], 0));
        assert!(!is_over(&[(1, Some(2)), (2, Some(1))], 500), "one is older");
        assert!(!is_over(&[(1, Some(2)), (2, Some(2))], 600));
        assert!(!is_over(&[(1, Some(2)), (2, Some(2))], 699));
        assert!(!is_over(&[(1, None), (2, Some(2))], 700), "one is away");
        assert!(is_over(&[(1, Some(2)), (2, Some(2))], 701), "which does not begin it anew");
    }

    #[test]
    fn a_node_that_goes_back_or_joins_begins_the_time_anew() {
        let mut upgraded = Upgraded::default();
        let mut is_over = |nodes: &[_], now_ms| upgraded.is_over(&known(nodes), LEVEL, 100, now_ms);
        assert!(!is_over(&[(1, Some(2)), (2, Some(2))], 0));
        assert!(!is_over(&[(1, Some(2)), (2, Some(1))], 100), "it went back");
        assert!(!is_over(&[(1, Some(2)), (2, Some(2))], 150));
        assert!(!is_over(&[(1, Some(2)), (2, Some(2)), (3, Some(2))], 250), "one is new");
        assert!(is_over(&[(1, Some(2)), (2, Some(2))], 260), "and has left");
    }
}
