//! The clients' own metrics (KIP-714): who is asked for which, and what was pushed.
//!
//! A client is asked for metrics only where an administrator has made a subscription that selects
//! it. What it pushes is exposed with the broker's own metrics for as long as it pushes.
//!
//! | file | what it is about |
//! |---|---|
//! | `requested` | what the subscriptions want of a client |
//! | `instance` | one client and its numbers |
//! | `otlp` | the numbers within a push |
//! | `exposition` | the metrics that they become |

mod exposition;
mod instance;
mod otlp;
mod requested;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use bytes::Bytes;
use logway_metadata::MetadataImage;
use logway_metadata::settings::client_metrics::ClientProperties;
use logway_model::{ErrorCode, Uuid};
use logway_record::{Compression, DecodeLimit};

use crate::request::ConnectionInfo;
use instance::Instance;
use requested::{Requested, Subscriptions};

/// How many clients' metrics are kept.
const INSTANCES_MAX: usize = 1_000;

/// How many series all clients have together at most.
const ALL_SERIES_MAX: usize = 20_000;

/// How many times its compressed size a push may have. Metrics are repetitive.
const EXPANSION_MAX: usize = 4;

/// A client, as its request has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pusher<'a> {
    /// The connection that it came by.
    pub(crate) connection: &'a Arc<ConnectionInfo>,
    /// What it calls itself; empty if it does not.
    pub(crate) client_id: &'a str,
}

/// What a client is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscribed {
    /// Who the client is from now on.
    pub(crate) instance_id: Uuid,
    /// Names what it is asked for.
    pub(crate) subscription_id: i32,
    /// How often to push.
    pub(crate) interval_ms: i32,
    /// The beginnings of the metrics' names; `*` for all.
    pub(crate) metrics: Arc<[String]>,
}

/// What a client pushes.
#[derive(Debug)]
pub(crate) struct Push {
    /// Who it is.
    pub(crate) instance_id: Uuid,
    /// What it believes to be asked for.
    pub(crate) subscription_id: i32,
    /// Whether it ends.
    pub(crate) is_last: bool,
    /// How the metrics are compressed, by the number of the codec.
    pub(crate) compression: i8,
    /// The metrics.
    pub(crate) metrics: Bytes,
}

/// The metrics of all clients that were asked for theirs.
#[derive(Debug)]
pub(crate) struct ClientTelemetry {
    push_max_bytes: usize,
    subscriptions: ArcSwap<Subscriptions>,
    instances: Mutex<Instances>,
}

#[derive(Debug, Default)]
struct Instances {
    by_id: HashMap<Uuid, Instance>,
    /// Numbers that were not kept because there was no room.
    dropped: u64,
}

impl ClientTelemetry {
    /// Nobody was asked yet. A push may have so many bytes (`telemetry.max.bytes`).
    pub(crate) fn new(push_max_bytes: usize) -> ClientTelemetry {
        ClientTelemetry {
            push_max_bytes,
            subscriptions: ArcSwap::default(),
            instances: Mutex::default(),
        }
    }

    /// The most that a push may unpack to, in bytes.
    pub(crate) fn unpacked_max_bytes(&self) -> usize {
        self.push_max_bytes.saturating_mul(EXPANSION_MAX)
    }

    /// What a client is asked for.
    ///
    /// Fails with `THROTTLING_QUOTA_EXCEEDED` for a client that asked a moment ago.
    pub(crate) fn subscribe(
        &self,
        image: &MetadataImage,
        client: Pusher<'_>,
        instance_id: Uuid,
    ) -> Result<Subscribed, ErrorCode> {
        let now = Instant::now();
        let requested = self.requested(image, client, instance_id);
        let mut instances = self.instances();
        instances.seen(client, instance_id, requested.clone(), now).ask(now)?;
        let Requested { subscription_id, interval_ms, metrics } = requested;
        Ok(Subscribed { instance_id, subscription_id, interval_ms, metrics })
    }

    /// Takes what a client pushes.
    pub(crate) fn push(
        &self,
        image: &MetadataImage,
        client: Pusher<'_>,
        push: &Push,
    ) -> Result<(), ErrorCode> {
        let now = Instant::now();
        let requested = self.requested(image, client, push.instance_id);
        let is_known = requested.subscription_id == push.subscription_id;
        self.instances().seen(client, push.instance_id, requested, now).push(push.is_last, now)?;
        if !is_known {
            return Err(ErrorCode::UnknownSubscriptionId);
        }
        let codec =
            u8::try_from(push.compression).ok().and_then(|id| Compression::from_id(id).ok());
        let codec = codec.ok_or(ErrorCode::UnsupportedCompressionType)?;
        if push.metrics.len() > self.push_max_bytes {
            return Err(ErrorCode::TelemetryTooLarge);
        }
        let data = match (push.metrics.is_empty(), codec) {
            (true, _) | (_, Compression::None) => push.metrics.clone(),
            _ => {
                let limit = DecodeLimit::new(self.unpacked_max_bytes());
                let unpacked = codec.decompress(push.metrics.clone(), limit);
                unpacked.map_err(|_| ErrorCode::InvalidRecord)?
            }
        };
        self.instances().keep(push.instance_id, &data)
    }

    fn requested(&self, image: &MetadataImage, client: Pusher<'_>, id: Uuid) -> Requested {
        self.subscriptions(image).requested(id, &properties(client, id))
    }

    /// The subscriptions of an image; made anew only when they have changed.
    fn subscriptions(&self, image: &MetadataImage) -> Arc<Subscriptions> {
        let known = self.subscriptions.load_full();
        if known.are_of(image) {
            return known;
        }
        let new = Arc::new(Subscriptions::new(image));
        self.subscriptions.store(Arc::clone(&new));
        new
    }

    fn instances(&self) -> MutexGuard<'_, Instances> {
        // A push that is kept in part is no worse than one that is not.
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Instances {
    fn seen(
        &mut self,
        client: Pusher<'_>,
        id: Uuid,
        requested: Requested,
        now: Instant,
    ) -> &mut Instance {
        if !self.by_id.contains_key(&id) {
            self.make_room(now);
        }
        let Pusher { connection, client_id } = client;
        let new = || {
            let software = connection.software.get().map(|software| software.to_string());
            let software = instance::shortened(&software.unwrap_or_default());
            let connection = Arc::downgrade(connection);
            Instance::new(client_id, software, requested.clone(), connection, now)
        };
        let instance = self.by_id.entry(id).or_insert_with(new);
        instance.seen(requested, Arc::downgrade(connection), now);
        instance
    }

    fn keep(&mut self, id: Uuid, data: &[u8]) -> Result<(), ErrorCode> {
        let others = self.by_id.iter().filter(|(other, _)| **other != id);
        let others: usize = others.map(|(_, instance)| instance.series.len()).sum();
        let Some(instance) = self.by_id.get_mut(&id) else { return Ok(()) };
        instance.pushes += 1;
        let mut dropped = 0;
        let outcome = otlp::for_each_sample(data, |sample| {
            let room = ALL_SERIES_MAX.saturating_sub(others + instance.series.len());
            if !instance.keep(&sample, room) {
                dropped += 1;
            }
        });
        self.dropped += dropped;
        outcome.map_err(|_| ErrorCode::InvalidRecord)
    }

    /// Forgets those that have gone, or else the one that was silent for the longest.
    fn make_room(&mut self, now: Instant) {
        if self.by_id.len() < INSTANCES_MAX {
            return;
        }
        self.forget_gone(now);
        if self.by_id.len() < INSTANCES_MAX {
            return;
        }
        let oldest = self.by_id.iter().min_by_key(|(_, instance)| instance.last_seen);
        if let Some(id) = oldest.map(|(id, _)| *id) {
            self.by_id.remove(&id);
        }
    }

    fn forget_gone(&mut self, now: Instant) {
        self.by_id.retain(|_, instance| !instance.has_gone(now));
    }
}

fn properties(client: Pusher<'_>, instance_id: Uuid) -> ClientProperties {
    let software = client.connection.software.get();
    let peer = client.connection.peer;
    ClientProperties {
        instance_id: instance_id.to_string(),
        client_id: client.client_id.to_owned(),
        software_name: software.map(|software| software.name.clone()).unwrap_or_default(),
        software_version: software.map(|software| software.version.clone()).unwrap_or_default(),
        source_address: peer.ip().to_canonical().to_string(),
        source_port: peer.port().to_string(),
    }
}
