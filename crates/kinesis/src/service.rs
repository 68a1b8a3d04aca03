//! What all requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logway_model::{PartitionId, TopicId};
use logway_node::Node;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::names::Account;

/// A node as Kinesis clients see it, and what the front door itself remembers of them.
pub(crate) struct Service {
    /// What is served.
    pub(crate) node: Arc<Node>,
    /// The names in it.
    pub(crate) account: Account,
    /// For how long changes of streams are seen, in ms.
    pub(crate) stream_delay_ms: i64,
    /// Who is subscribed to what.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Turns true when the front door closes.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// A consumer of a shard.
pub(crate) type Subscriber = (TopicId, String, PartitionId);

/// The subscriptions that are open here: one for each consumer and shard.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<Subscriber, Open>>);

#[derive(Debug)]
struct Open {
    since: Instant,
    number: u64,
    /// Dropped, it ends the subscription.
    _end: watch::Sender<()>,
}

impl Subscriptions {
    fn open(&self) -> MutexGuard<'_, HashMap<Subscriber, Open>> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes. One that was there before ends, unless it is so young that two are at odds; `None` then.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        subscriber: Subscriber,
        young: std::time::Duration,
    ) -> Option<Subscription> {
        let mut open = self.open();
        let before = open.get(&subscriber);
        if before.is_some_and(|before| before.since.elapsed() < young) {
            return None;
        }
        let number = before.map_or(0, |before| before.number + 1);
        let (end, ended) = watch::channel(());
        open.insert(subscriber.clone(), Open { since: Instant::now(), number, _end: end });
        Some(Subscription { of: Arc::clone(self), subscriber, number, ended })
    }
}

/// A subscription, as long as it lives.
pub(crate) struct Subscription {
    of: Arc<Subscriptions>,
    subscriber: Subscriber,
    number: u64,
    ended: watch::Receiver<()>,
}

impl Subscription {
    /// Ends when another one has taken its place.
    pub(crate) async fn displaced(&mut self) {
        while self.ended.changed().await.is_ok() {}
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut open = self.of.open();
        if open.get(&self.subscriber).is_some_and(|open| open.number == self.number) {
            open.remove(&self.subscriber);
        }
    }
}
