//! The offsets of groups, as promised.

use std::collections::BTreeMap;

use logway_model::{TopicId, TopicPartition};

use crate::violation::{Violation, ensure};

/// Whose offset of what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommitKey {
    pub(crate) group: String,
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: TopicId,
}

/// What each group has committed.
#[derive(Debug, Default)]
pub(crate) struct Commits(BTreeMap<CommitKey, History>);

/// The offsets that were sent for one partition by one group: each is greater than those before it.
#[derive(Debug, Default)]
struct History {
    sent: Vec<i64>,
    /// How many of them are known to be in the log.
    acknowledged: usize,
}

impl Commits {
    /// The next offset that the group commits, which is sent now.
    pub(crate) fn send(&mut self, key: &CommitKey, advance: i64) -> i64 {
        let history = self.0.entry(key.clone()).or_default();
        let offset = history.sent.last().unwrap_or(&0) + advance;
        history.sent.push(offset);
        offset
    }

    /// The commit of an offset was acknowledged.
    pub(crate) fn acknowledge(&mut self, key: &CommitKey, offset: i64) {
        // A topic that was deleted meanwhile has none any more.
        let Some(history) = self.0.get_mut(key) else { return };
        let index = history.sent.iter().position(|&sent| sent == offset);
        history.acknowledged = history.acknowledged.max(index.map_or(0, |index| index + 1));
    }

    /// Forgets what was committed for a topic.
    pub(crate) fn forget(&mut self, topic_id: TopicId) {
        self.0.retain(|key, _| key.topic_id != topic_id);
    }

    /// Whose offsets there are.
    pub(crate) fn keys(&self) -> Vec<CommitKey> {
        self.0.keys().cloned().collect()
    }

    /// The world has started again, and tells an offset, or -1 for none.
    pub(crate) fn recovered(&mut self, key: &CommitKey, found: i64) -> Result<(), Violation> {
        let history = self.0.get_mut(key).expect("only what was committed is asked for");
        let place = history.sent.iter().position(|&sent| sent == found);
        let known = place.map_or(0, |index| index + 1);
        ensure(place.is_some() || found == -1, || {
            format!("{key:?}: nobody has ever committed {found}")
        })?;
        ensure(known >= history.acknowledged, || {
            let acknowledged = history.sent[history.acknowledged - 1];
            format!("{key:?}: {acknowledged} was acknowledged, and now it is {found}")
        })?;
        history.sent.truncate(known);
        history.acknowledged = known;
        Ok(())
    }
}
