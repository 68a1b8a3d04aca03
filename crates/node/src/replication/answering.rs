//! A leader answers a follower.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_log::ReadRequest;
use logway_model::{BrokerId, ErrorCode, Offset};
use logway_replication::message::{
    FetchFromLeader, FollowedPartition, LeaderReply, LedPartition, Wants,
};
use tokio::time::{Instant, timeout_at};

use super::pace::Bound;
use super::session::{FetchSession, Led, Marked};
use crate::Node;
use crate::cluster::Mutation;
use crate::failure::Failure;
use crate::replica::Replica;
use crate::tasks::off_thread;

/// A follower may not have a leader wait for longer than this.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The most that one partition has in an answer, so that the others come along.
const PARTITION_BYTES_MAX: u64 = 1 << 20;

/// A request of a follower that was taken.
pub(crate) enum TakenFetch {
    /// It was told something, and there is nothing to wait for.
    Answered(LeaderReply),
    /// It is answered when there is something to say.
    Waits(Arc<FetchSession>, Wants),
}

impl Node {
    /// Takes what a follower tells. `None` for bytes that are no request of this version, or of another broker.
    ///
    /// How far the follower is counts when its request is read, and not when it is answered: an acknowledgement
    /// that waited behind a parked answer would come half a second late. So this is called in the order in which
    /// requests come.
    pub(crate) fn take_fetch(&self, from: BrokerId, request: &Bytes) -> Option<TakenFetch> {
        let request = FetchFromLeader::decode(request).ok()?;
        // Nobody tells how far another broker is.
        if request.follower != from {
            return None;
        }
        let cluster = self.cluster.as_ref()?;
        let led = Led {
            find: &|followed| self.led(followed),
            counts_diverging: self.breaks(Mutation::CountsDiverging),
        };
        let Some(taken) = cluster.fetch_sessions.take(&led, &request) else {
            return Some(TakenFetch::Answered(LeaderReply::OtherSession));
        };
        if taken.could_join {
            cluster.isr_due.notify_one();
        }
        Some(match request.wants {
            None => TakenFetch::Answered(LeaderReply::Taken(Vec::new())),
            Some(wants) => TakenFetch::Waits(taken.session, wants),
        })
    }

    /// The replica that a follower means, if it leads in the epoch that the follower believes in.
    fn led(&self, followed: FollowedPartition) -> Result<Arc<Replica>, ErrorCode> {
        let FollowedPartition { topic, partition, leader_epoch } = followed;
        let topics = self.topics();
        let replica = topics.by_id(topic)?.partition(partition)?;
        replica.check_leader_epoch(leader_epoch)?;
        let knows_start = replica.log().latest_epoch() >= leader_epoch;
        match knows_start || self.breaks(Mutation::AnswersBeforeItsEpoch) {
            true => Ok(Arc::clone(replica)),
            // The log does not know yet where the epoch starts, so it cannot tell where another parts from it.
            false => Err(ErrorCode::UnknownLeaderEpoch),
        }
    }

    /// Answers a follower, when there is something to say or it has waited for long enough.
    pub(crate) async fn answer_follower(&self, taken: TakenFetch) -> Vec<u8> {
        let (session, wants) = match taken {
            TakenFetch::Answered(reply) => return reply.encode(),
            TakenFetch::Waits(session, wants) => (session, wants),
        };
        let wait = Duration::from_millis(wants.max_wait_ms.into()).min(WAIT_MAX);
        let deadline = Instant::now() + wait;
        let max_bytes = wants.max_bytes.min(self.settings.cluster.fetch_max_bytes);
        let mut parts = Vec::new();
        let bound = |replica: &Replica, round| self.leaders_bound(replica.topic_partition(), round);
        loop {
            session.take_held_back();
            let free_at = say_what_is_due(&session, max_bytes.into(), &bound, &mut parts).await;
            let is_due = !parts.is_empty() || session.is_over() || Instant::now() >= deadline;
            if is_due {
                break;
            }
            // In time or not, there is something to look for.
            _ = timeout_at(free_at.unwrap_or(deadline).min(deadline), session.news()).await;
        }
        parts.extend(session.quiet_news());
        LeaderReply::Taken(parts).encode()
    }
}

/// Adds what there is to say of the partitions that were marked, in turn, until the answer is full. What a bound holds back
/// is left out; says when there may be more of it.
pub(super) async fn say_what_is_due<'a>(
    session: &FetchSession,
    max_bytes: u64,
    bound: &impl Fn(&Replica, u32) -> Bound<'a>,
    parts: &mut Vec<LedPartition>,
) -> Option<Instant> {
    let mut bytes: u64 = 0;
    let mut free_at = None;
    while let Some((slot, marked)) = session.next_marked() {
        match marked {
            Marked::Nothing => {}
            Marked::Says(part) => parts.push(part),
            Marked::Copies(..) if bytes > 0 && bytes >= max_bytes => {
                session.put_back(slot);
                return free_at;
            }
            Marked::Copies(replica, end, round) => {
                let bound = round.map(|round| bound(&replica, round));
                if let Some(at) = bound.and_then(|bound| bound.busy_until()) {
                    session.hold_back(slot);
                    free_at = Some(free_at.map_or(at, |known: Instant| known.min(at)));
                    continue;
                }
                let left = max_bytes.saturating_sub(bytes);
                let left = bound.map_or(left, |bound| left.min(bound.piece_bytes()));
                let read = records_behind(&replica, end, left, bytes).await;
                if read == Ok(Behind::DoesNotFit) {
                    // Read again, it would fit no better: with no answer, the follower would ask for nothing.
                    session.put_back(slot);
                    return free_at;
                }
                let read = read.map(Behind::records);
                let part = session.copied(slot, &replica, end, read);
                let copied = part.as_ref().map_or(0, |part| part.records.len() as u64);
                if let Some(bound) = bound {
                    bound.charge(copied);
                }
                bytes += copied;
                parts.extend(part);
            }
        }
    }
    free_at
}

/// What is behind an end.
#[derive(PartialEq, Eq)]
enum Behind {
    Nothing,
    Records(Bytes),
    /// The next batch is larger than what is left of the answer.
    DoesNotFit,
}

impl Behind {
    fn records(self) -> Bytes {
        match self {
            Behind::Records(records) => records,
            Behind::Nothing | Behind::DoesNotFit => Bytes::new(),
        }
    }
}

/// Reads what is behind an end: in an answer that has nothing yet, at least one batch.
async fn records_behind(
    replica: &Arc<Replica>,
    end: Offset,
    bytes_left: u64,
    bytes_before: u64,
) -> Result<Behind, ErrorCode> {
    let log_end = replica.log().log_end_offset();
    if log_end <= end {
        return Ok(Behind::Nothing);
    }
    let wanted = ReadRequest {
        offset: end,
        max_bytes: bytes_left.min(PARTITION_BYTES_MAX),
        upper_bound: log_end,
        at_least_one_batch: bytes_before == 0,
    };
    let records = read_records(replica, wanted).await?;
    Ok(if records.is_empty() { Behind::DoesNotFit } else { Behind::Records(records) })
}

/// Reads records into memory. What is not in the segment that grows may have to come from the disk.
async fn read_records(replica: &Arc<Replica>, wanted: ReadRequest) -> Result<Bytes, ErrorCode> {
    let (log, partition) = (replica.log(), replica.topic_partition().clone());
    let is_hot = log.is_hot(wanted.offset);
    let read = move || -> Result<Bytes, Failure> {
        let slice = log.read(wanted)?;
        match slice.is_empty() {
            true => Ok(Bytes::new()),
            false => slice.read().map_err(|error| Failure::of_reading(&partition, &error)),
        }
    };
    let read = if is_hot { read() } else { off_thread(read).await };
    read.map_err(|failure| {
        let partition = replica.topic_partition();
        tracing::warn!(%partition, reason = failure.message, "a follower cannot be answered");
        failure.code
    })
}
