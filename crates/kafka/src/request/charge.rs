//! What one request uses up of its client's quotas.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logway_metadata::MetadataImage;
use logway_metadata::quota::QuotaKey;
use logway_model::ErrorCode;
use logway_node::quotas::{QuotaClient, QuotaUse};
use logway_node::{Failure, Node};
use logway_wire::{ApiKey, WireString};

use super::connection_info::ConnectionInfo;
use super::error::RequestError;
use super::reply::{Reply, ReplyFuture};
use super::timer::{RequestTimer, Timed};

/// What becomes of partitions that a client's quota does not allow (KIP-599).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverQuota {
    /// They are made or deleted, and the client waits: it does not know the code of the refusal.
    Waits,
    /// They are refused, and the client waits.
    RefusedAndWaits,
    /// They are refused, and the client goes on: its request is about something else.
    Refused,
}

impl OverQuota {
    /// Of a request at a version, in an API whose refusals have their code from `refuses_from` on.
    pub(crate) fn at_version(version: i16, refuses_from: i16) -> OverQuota {
        match version >= refuses_from {
            true => OverQuota::RefusedAndWaits,
            false => OverQuota::Waits,
        }
    }
}

/// What one request uses up, while any client has a quota.
///
/// A Produce is charged as it comes, before anything more is read from its connection; a Fetch, and
/// the time that any request took, when the answer is there. What is charged is never taken back: a
/// client gets the records that it waits for afterwards.
pub(crate) struct RequestCharge {
    node: Arc<Node>,
    connection: Arc<ConnectionInfo>,
    image: Arc<MetadataImage>,
    client_id: Option<WireString>,
    produce_wait: Duration,
    mutation_wait_ms: AtomicU64,
    timer: RequestTimer,
}

impl AsRef<RequestTimer> for Arc<RequestCharge> {
    fn as_ref(&self) -> &RequestTimer {
        &self.timer
    }
}

impl RequestCharge {
    /// Begins to count what a request of `frame_bytes` uses; `None` while nobody has a quota.
    pub(crate) fn begin(
        node: &Arc<Node>,
        connection: &Arc<ConnectionInfo>,
        api_key: ApiKey,
        client_id: Option<&WireString>,
        frame_bytes: usize,
    ) -> Option<Arc<RequestCharge>> {
        let image = node.image();
        if !image.client_quotas().bind_clients() {
            return None;
        }
        let mut charge = RequestCharge {
            node: Arc::clone(node),
            connection: Arc::clone(connection),
            image,
            // A slice of the frame would keep all of it.
            client_id: client_id.map(WireString::detached),
            produce_wait: Duration::ZERO,
            mutation_wait_ms: AtomicU64::new(0),
            timer: RequestTimer::new(),
        };
        if api_key == ApiKey::Produce {
            charge.produce_wait = charge.take(QuotaKey::ProducerByteRate, frame_bytes as f64);
            connection.mute.extend(charge.produce_wait);
        }
        Some(Arc::new(charge))
    }

    /// Counts the time of a piece of work on the request.
    pub(crate) fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        self.timer.time(work)
    }

    /// Runs a handler and counts its time, and that of what it leaves to be done later.
    pub(crate) async fn run(
        self: Arc<Self>,
        start: impl FnOnce() -> ReplyFuture + Send,
    ) -> Result<Reply, RequestError> {
        let work = self.timer.time(start);
        let reply = Timed { work, timer: Arc::clone(&self) }.await?;
        Ok(match reply {
            Reply::Ready(encoded) => Reply::Ready(encoded),
            Reply::Later(work) => Reply::Later(Box::pin(Timed { work, timer: self })),
            Reply::Parked(work) => Reply::Parked(Box::pin(Timed { work, timer: self })),
        })
    }

    /// The most that the answer to a Fetch may take; `None` without a quota.
    pub(crate) fn fetch_max_bytes(&self) -> Option<u64> {
        let key = QuotaKey::ConsumerByteRate;
        let max = self.used().saved_max(&self.image, self.client(), key)?;
        Some(max as u64)
    }

    /// Takes partitions that the request makes or deletes from its client's quota (KIP-599).
    ///
    /// What is to be refused fails with `THROTTLING_QUOTA_EXCEEDED` if more was taken before than there
    /// was. Anything else is done, and its client waits afterwards, as
    /// [`RequestCharge::settle_mutations`] finds out.
    pub(crate) fn take_mutations(&self, partitions: u32, over: OverQuota) -> Result<(), Failure> {
        const KEY: QuotaKey = QuotaKey::ControllerMutationRate;
        let amount = f64::from(partitions);
        if over == OverQuota::Waits {
            self.used().charge(&self.image, self.client(), KEY, amount);
            return Ok(());
        }
        let taken = self.used().charge_unless_spent(&self.image, self.client(), KEY, amount);
        taken.map_err(|wait| {
            self.node.metrics.quotas.throttled(KEY, wait);
            if over == OverQuota::RefusedAndWaits {
                self.hold_up_after_mutations(wait);
            }
            let message = format!("{} is exceeded; try again in {wait:.1?}", KEY.name());
            Failure::new(ErrorCode::ThrottlingQuotaExceeded, message)
        })
    }

    /// Gives back what was taken for partitions that were not made or deleted after all. A client
    /// that could not be refused waits if it has overdrawn its quota.
    pub(crate) fn settle_mutations(&self, undone_partitions: u32, over: OverQuota) {
        const KEY: QuotaKey = QuotaKey::ControllerMutationRate;
        let amount = -f64::from(undone_partitions);
        match over {
            OverQuota::RefusedAndWaits | OverQuota::Refused => {
                _ = self.used().charge(&self.image, self.client(), KEY, amount);
            }
            OverQuota::Waits => self.hold_up_after_mutations(self.take(KEY, amount)),
        }
    }

    fn hold_up_after_mutations(&self, wait: Duration) {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.mutation_wait_ms.fetch_max(wait_ms, Ordering::Relaxed);
    }

    /// Takes what the answer uses, and says for how many milliseconds the client has to wait. Its
    /// connection is not read until then.
    pub(crate) fn settle(&self, api_key: ApiKey, reply_bytes: u64) -> i32 {
        let spent = self.timer.spent().as_secs_f64();
        let mut wait = self.produce_wait.max(self.take(QuotaKey::RequestPercentage, spent));
        if api_key == ApiKey::Fetch {
            wait = wait.max(self.take(QuotaKey::ConsumerByteRate, reply_bytes as f64));
        }
        let mutation_wait_ms = self.mutation_wait_ms.load(Ordering::Relaxed);
        wait = wait.max(Duration::from_millis(mutation_wait_ms));
        self.connection.mute.extend(wait);
        i32::try_from(wait.as_millis()).unwrap_or(i32::MAX)
    }

    fn take(&self, key: QuotaKey, amount: f64) -> Duration {
        let wait = self.used().charge(&self.image, self.client(), key, amount);
        if !wait.is_zero() {
            self.node.metrics.quotas.throttled(key, wait);
        }
        wait
    }

    fn client(&self) -> QuotaClient<'_> {
        let client_id = self.client_id.as_deref().unwrap_or_default();
        QuotaClient::of(self.connection.principal(), client_id)
    }

    fn used(&self) -> &QuotaUse {
        &self.node.quota_use
    }
}
