//! What all requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logway_model::{PartitionId, TopicId};
use logway_node::access::{AccessMemory, Operation, Requester, Resource};
use logway_node::{Node, audit};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::monitoring::gauges::Gauges;
use crate::names::Account;
use crate::stream_metrics::StreamMetrics;
use crate::tables::Tables;

/// A node as Kinesis clients see it, and what the front door itself remembers of them.
pub(crate) struct Service {
    /// What is served.
    pub(crate) node: Arc<Node>,
    /// The names in it.
    pub(crate) account: Account,
    /// For how long changes of streams are seen, in ms.
    pub(crate) stream_delay_ms: i64,
    /// Whether a request is somebody's who has shown it, or anybody's.
    pub(crate) checks_signatures: bool,
    /// Who is subscribed to what.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// The tables of DynamoDB's clients.
    pub(crate) tables: Tables,
    /// What clients have told of themselves.
    pub(crate) gauges: Gauges,
    /// What is counted of streams.
    pub(crate) stream_metrics: StreamMetrics,
    /// Turns true when the front door closes.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Service {
    /// Whether somebody may do something; of administration, the audit log is told.
    pub(crate) fn allows(
        &self,
        requester: &Requester<'_>,
        permission: Operation,
        resource: Resource<'_>,
        memory: &AccessMemory,
    ) -> bool {
        let is_allowed = self.node.allows(requester, permission, resource, memory);
        if permission.is_administration() {
            audit::authorization(requester, "", permission, resource, is_allowed);
        }
        is_allowed
    }
}

/// Subscriptions that may be open here. Each may wait for another node, which lets more than twice as many wait.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 2_000;

/// A consumer of a shard.
pub(crate) type Subscriber = (TopicId, String, PartitionId);

/// The subscriptions that are open here: one for each consumer and shard.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<OpenSubscriptions>);

#[derive(Debug, Default)]
struct OpenSubscriptions {
    by_subscriber: HashMap<Subscriber, Open>,
    /// Only rises: one that ends late must not take another one for itself.
    next_number: u64,
}

#[derive(Debug)]
struct Open {
    since: Instant,
    number: u64,
    /// Dropped, it ends the subscription.
    _end: watch::Sender<()>,
}

impl Subscriptions {
    fn open(&self) -> MutexGuard<'_, OpenSubscriptions> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes. One that was there before ends, unless it is so young that two are at odds.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        subscriber: Subscriber,
        young: std::time::Duration,
    ) -> Result<Subscription, Unsubscribed> {
        let mut open = self.open();
        let before = open.by_subscriber.get(&subscriber);
        if before.is_some_and(|before| before.since.elapsed() < young) {
            return Err(Unsubscribed::AtOdds);
        }
        if before.is_none() && open.by_subscriber.len() >= SUBSCRIPTIONS_MAX {
            return Err(Unsubscribed::TooMany);
        }
        let number = open.next_number;
        open.next_number += 1;
        let (end, ended) = watch::channel(());
        let since = Instant::now();
        open.by_subscriber.insert(subscriber.clone(), Open { since, number, _end: end });
        Ok(Subscription { of: Arc::clone(self), subscriber, number, ended })
    }
}

/// Why somebody is not subscribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsubscribed {
    /// Another one has subscribed just now.
    AtOdds,
    /// There are [`SUBSCRIPTIONS_MAX`].
    TooMany,
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
        let open = &mut self.of.open().by_subscriber;
        if open.get(&self.subscriber).is_some_and(|open| open.number == self.number) {
            open.remove(&self.subscriber);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use logway_model::Uuid;

    use super::*;

    #[test]
    fn one_that_ends_late_does_not_end_another() {
        let subscriptions = Arc::new(Subscriptions::default());
        let subscriber = || (TopicId(Uuid([1; 16])), "app".to_owned(), PartitionId(0));
        let subscribe = |young| subscriptions.subscribe(subscriber(), young);
        let first = subscribe(Duration::ZERO).expect("nobody is there");
        let second = subscribe(Duration::ZERO).expect("the first is displaced");
        drop(second);
        let third = subscribe(Duration::ZERO).expect("nobody is there");
        drop(first);
        let at_odds = subscribe(Duration::from_secs(60)).err();
        assert_eq!(at_odds, Some(Unsubscribed::AtOdds), "the third is there");
        drop(third);
        assert!(subscribe(Duration::from_secs(60)).is_ok());
    }

    #[test]
    fn there_are_no_more_than_there_may_be() {
        let subscriptions = Arc::new(Subscriptions::default());
        let subscribe = |number: usize| {
            let subscriber = (TopicId(Uuid([1; 16])), number.to_string(), PartitionId(0));
            subscriptions.subscribe(subscriber, Duration::ZERO)
        };
        let mut open: Vec<_> = (0..SUBSCRIPTIONS_MAX).map(subscribe).collect();
        assert!(open.iter().all(Result::is_ok));
        assert_eq!(subscribe(SUBSCRIPTIONS_MAX).err(), Some(Unsubscribed::TooMany));
        assert!(subscribe(0).is_ok(), "it takes the place of another");
        open.pop();
        assert!(subscribe(SUBSCRIPTIONS_MAX).is_ok());
    }
}
