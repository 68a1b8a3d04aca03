//! Who reads.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_log::AbortedTransaction;
use logway_log::fs::sim::Rng;
use logway_model::{LeaderEpoch, Offset, PartitionId};
use logway_node::Node;
use logway_node::read::{Found, Isolation, Patience, ReadBounds, ReadWish, Unread};
use logway_node::replica::ReadFrom;
use logway_record::{Batch, Batches};
use tokio::time::{Instant, sleep, timeout};

use super::machine::Served;
use super::oracle::{Place, Stored};
use super::producer::Clients;

/// A read takes no longer than a reader that waits for more has patience.
const PATIENCE: Duration = Duration::from_millis(100);

/// … but for a node that hangs.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Reads one partition from the start on, and now and then something once more: from its leader, or from who follows.
pub(super) struct Reader {
    pub(super) place: Place,
    pub(super) random: Rng,
    pub(super) clients: Clients,
    pub(super) position: Offset,
}

struct Wish(ReadWish);

impl AsRef<ReadWish> for Wish {
    fn as_ref(&self) -> &ReadWish {
        &self.0
    }
}

impl Reader {
    pub(super) async fn run(mut self) {
        while !self.clients.is_over() {
            sleep(Duration::from_millis(self.random.below(40) as u64)).await;
            let Reader { place, random, clients, position } = &mut self;
            let from = start(*position, 20, random);
            let found = read_somewhere(clients, random, *place, from, Isolation::Uncommitted).await;
            let Some(found) = found else { continue };
            let mut next = from;
            for stored in found.batches.iter().map(Stored::of) {
                if stored.base > next || stored.last < next {
                    let (base, last) = (stored.base, stored.last);
                    let what = format!("who asks for {next} gets {base} to {last}");
                    self.clients.oracle.violated(format!("{}: {what}", self.place));
                }
                next = stored.last.next();
                self.clients.oracle.seen(self.place, &stored);
            }
            self.position = self.position.max(next);
        }
    }
}

/// Where somebody reads who has read up to a position: now and then, once in so many times, something once more.
pub(super) fn start(position: Offset, once_in: usize, random: &mut Rng) -> Offset {
    let again = random.below(once_in) == 0 && position > Offset::ZERO;
    let end = usize::try_from(position.0).unwrap_or(1).max(1);
    match again {
        true => Offset(random.below(end) as i64),
        false => position,
    }
}

/// What there is from an offset on, as the leader tells or who follows; `None` where nobody says.
pub(super) async fn read_somewhere(
    clients: &Clients,
    random: &mut Rng,
    place: Place,
    from: Offset,
    isolation: Isolation,
) -> Option<Read> {
    let served = match random.coin() {
        true => clients.leader(place, random),
        false => clients.any_node(random),
    };
    let Served { node, runtime, .. } = served?;
    let reading = runtime.spawn(read(node, place, from, isolation));
    // A node that has ended says nothing.
    timeout(ANSWER_MAX, reading).await.ok()?.ok()?
}

/// What was read.
pub(super) struct Read {
    pub(super) batches: Vec<Batch>,
    /// For a committed read.
    pub(super) aborted: Vec<AbortedTransaction>,
    /// That of the node, behind the read.
    pub(super) high_watermark: Offset,
}

/// What there is from an offset on; `None` where the node does not say.
pub(super) async fn read(
    node: Arc<Node>,
    place: Place,
    offset: Offset,
    isolation: Isolation,
) -> Option<Read> {
    let wish = Wish(ReadWish {
        offset,
        max_bytes: 100_000,
        leader_epoch: LeaderEpoch::NONE,
        last_read_epoch: LeaderEpoch::NONE,
    });
    let find = |_: &Wish| {
        let topics = node.topics();
        let topic = topics.by_name(place.topic).map_err(Unread::Absent)?;
        let replica = topic.readable(PartitionId(place.partition), ReadFrom::AnyReplica);
        replica.cloned().map_err(Unread::Refused)
    };
    let bounds = ReadBounds { min_bytes: 1, max_bytes: 100_000 };
    let patience = Patience { deadline: Instant::now() + PATIENCE, hurry: pending() };
    let wishes = [wish];
    let outcome = node.read(&wishes, find, isolation, bounds, patience).await.pop()?;
    let Found { replica, slice, aborted } = outcome.ok()?;
    let high_watermark = replica.high_watermark().get();
    let batches = match slice.is_empty() {
        true => Vec::new(),
        false => batches_in(slice.read().ok()?).ok()?,
    };
    Some(Read { batches, aborted, high_watermark })
}

/// The batches in some bytes.
pub(super) fn batches_in(bytes: Bytes) -> Result<Vec<Batch>, String> {
    let batches = Batches::new(bytes).map(|batch| {
        let batch = batch.map_err(|error| error.to_string())?;
        batch.verify_crc().map_err(|error| error.to_string())?;
        Ok(batch)
    });
    batches.collect()
}
