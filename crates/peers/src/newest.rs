//! Of the connections by which a node calls for its clients, only the newest counts.
//!
//! Who has waited in vain for an answer calls again, by a new connection if the old one is silent. What it has sent by the
//! old one may still be on its way, or wait there behind other calls. It must not be begun behind the call that takes its
//! place: a transaction marker that comes so late would end the producer's next transaction. So from the moment when
//! a node has said hello once more, no call of its older connection is begun.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logway_model::DirectoryId;
use logway_quorum::Lane;
use tokio::sync::Notify;

/// The newest connection of each node that calls for its clients.
#[derive(Default)]
pub(crate) struct NewestConnections(Mutex<HashMap<DirectoryId, Arc<Standing>>>);

/// Whether a connection is still the newest.
#[derive(Default)]
struct Standing {
    is_replaced: Mutex<bool>,
    told: Notify,
}

/// A connection's place among those of its node.
pub(crate) struct Place(Option<Ranked>);

struct Ranked {
    all: Arc<NewestConnections>,
    node: DirectoryId,
    standing: Arc<Standing>,
}

impl NewestConnections {
    /// A connection has come, and takes the place of an older one. To be called before its caller is told that it may call.
    pub(crate) fn enter(self: &Arc<Self>, node: DirectoryId, lane: Lane) -> Place {
        if lane != Lane::Clients {
            return Place::alone();
        }
        let standing = Arc::<Standing>::default();
        let older = self.by_node().insert(node, Arc::clone(&standing));
        if let Some(older) = older {
            *older.is_replaced() = true;
            older.told.notify_one();
        }
        Place(Some(Ranked { all: Arc::clone(self), node, standing }))
    }

    fn by_node(&self) -> MutexGuard<'_, HashMap<DirectoryId, Arc<Standing>>> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    fn is_replaced(&self) -> MutexGuard<'_, bool> {
        self.is_replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// That of a connection which none replaces.
    pub(crate) fn alone() -> Place {
        Place(None)
    }

    /// Begins a call, unless the connection has been replaced; it is not replaced meanwhile.
    pub(crate) fn begin<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        let is_replaced = self.0.as_ref().map(|ranked| ranked.standing.is_replaced());
        (!is_replaced.as_deref().is_some_and(|is_replaced| *is_replaced)).then(call)
    }

    /// Ends when the connection has been replaced.
    pub(crate) async fn replaced(&self) {
        match &self.0 {
            Some(ranked) => ranked.standing.told.notified().await,
            None => pending().await,
        }
    }
}

impl Drop for Ranked {
    fn drop(&mut self) {
        let mut by_node = self.all.by_node();
        if by_node.get(&self.node).is_some_and(|newest| Arc::ptr_eq(newest, &self.standing)) {
            by_node.remove(&self.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use logway_model::Uuid;

    use super::*;

    const NODE: DirectoryId = DirectoryId(Uuid([7; 16]));
    const OTHER: DirectoryId = DirectoryId(Uuid([8; 16]));

    #[tokio::test]
    async fn a_newer_connection_of_the_same_node_and_lane_ends_the_older_one() {
        let all = Arc::<NewestConnections>::default();
        let older = all.enter(NODE, Lane::Clients);
        let (other, votes) = (all.enter(OTHER, Lane::Clients), all.enter(NODE, Lane::Control));
        assert_eq!(older.begin(|| 1), Some(1));
        let newer = all.enter(NODE, Lane::Clients);
        older.replaced().await;
        assert_eq!(older.begin(|| 1), None);
        for place in [&newer, &other, &votes] {
            assert_eq!(place.begin(|| 1), Some(1));
        }
        drop(older);
        assert_eq!(all.by_node().len(), 2, "the newer one stays when the older one ends");
        drop((newer, other, votes));
        assert!(all.by_node().is_empty());
    }
}
