//! The batches of one partition.

use std::collections::{BTreeMap, VecDeque};

use logway_model::PartitionId;
use logway_record::{Compression, RecordError};
use tokio::time::Instant;

use super::NewRecord;
use super::batch::Batch;
use super::fate::{Fate, Unacknowledged};
use crate::ClientError;
use crate::retry::pause_after;

/// A record's share of a batch beyond its key, value and headers: its lengths, at most.
const RECORD_OVERHEAD_BYTES: usize = 30;

/// The batches of one partition, in the order of their records.
///
/// A batch is open, then ready, then in flight, then gone; or back again: a batch that has to be
/// sent again is *returned*, and then nothing more is sent until all that are in flight have come
/// back, so that those returned can be sent again in order.
///
/// The first batch travels alone: a broker takes any sequence from a producer that it does not
/// know, so if it refused the first batch, because it was not yet the leader for one, it might
/// take the second, and the first never more.
#[derive(Debug)]
pub(super) struct PartitionQueue {
    partition: PartitionId,
    compression: Compression,
    open: Option<OpenBatch>,
    ready: VecDeque<Batch>,
    /// Those in flight, by their first records.
    in_flight: BTreeMap<u64, InFlight>,
    returned: Vec<Batch>,
    /// Why the first one that is not stored was sent in vain: later ones fail because of it.
    obstacle: Option<ClientError>,
    next_record: u64,
    /// Whether the broker knows the producer, because it has stored a batch.
    is_known: bool,
    retry_at: Option<Instant>,
    batch_bytes: usize,
}

/// What must be known of a batch while the sender has it.
#[derive(Debug)]
struct InFlight {
    record_count: u32,
    fate: Fate,
}

#[derive(Debug)]
struct OpenBatch {
    batch: Batch,
    /// When it is sent even if it is small.
    due: Instant,
}

/// What an append has brought about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Appended {
    /// The sender does not know of it: there is a batch to send, or a time to send one at.
    pub(super) is_news: bool,
    /// By how much the buffered bytes grew.
    pub(super) grown_bytes: usize,
}

impl PartitionQueue {
    pub(super) fn new(
        partition: PartitionId,
        compression: Compression,
        batch_bytes: usize,
    ) -> PartitionQueue {
        PartitionQueue {
            partition,
            compression,
            open: None,
            ready: VecDeque::new(),
            in_flight: BTreeMap::new(),
            returned: Vec::new(),
            obstacle: None,
            next_record: 0,
            is_known: false,
            retry_at: None,
            batch_bytes,
        }
    }

    /// Adds a record; a batch that it opens is due at `due` and given up at `deadline`.
    pub(super) fn append(
        &mut self,
        record: &NewRecord<'_>,
        due: Instant,
        deadline: Instant,
    ) -> Result<Appended, RecordError> {
        if !self.has_batch_for(record) {
            self.close();
        }
        let is_new = self.open.is_none();
        let open = self.open.get_or_insert_with(|| {
            let batch = Batch::new(self.partition, self.next_record, self.compression, deadline);
            OpenBatch { batch, due }
        });
        let before_bytes = open.batch.plain_bytes;
        if let Err(error) = open.batch.append(record) {
            if is_new {
                self.open = None;
            }
            return Err(error);
        }
        let grown_bytes = open.batch.plain_bytes - before_bytes;
        self.next_record += 1;
        let is_full = open.batch.plain_bytes >= self.batch_bytes;
        if is_full {
            self.close();
        }
        // A batch that was closed to make room is news, too, but then there is a new one.
        Ok(Appended { is_news: is_new || is_full, grown_bytes })
    }

    /// Whether there is a batch that the record fits into.
    pub(super) fn has_batch_for(&self, record: &NewRecord<'_>) -> bool {
        let plain_bytes = self.open.as_ref().map(|open| open.batch.plain_bytes);
        plain_bytes.is_some_and(|bytes| bytes + record_bytes(record) <= self.batch_bytes)
    }

    fn close(&mut self) {
        self.ready.extend(self.open.take().map(|open| open.batch));
    }

    /// The next batch that may be sent now. It is in flight from then on.
    ///
    /// `is_pressed` means that incomplete batches do not wait for more records.
    pub(super) fn take_sendable(
        &mut self,
        now: Instant,
        in_flight_max: usize,
        is_pressed: bool,
    ) -> Option<Batch> {
        if !self.may_send(in_flight_max) || self.retry_at.is_some_and(|at| at > now) {
            return None;
        }
        self.retry_at = None;
        self.returned.sort_by_key(|batch| batch.first_record);
        for batch in self.returned.drain(..).rev() {
            self.ready.push_front(batch);
        }
        let is_due = |open: &OpenBatch| is_pressed || open.due <= now;
        if self.ready.is_empty() && self.open.as_ref().is_some_and(is_due) {
            self.close();
        }
        let batch = self.ready.pop_front()?;
        let in_flight = InFlight { record_count: batch.record_count, fate: batch.fate };
        self.in_flight.insert(batch.first_record, in_flight);
        Some(batch)
    }

    /// When [`PartitionQueue::take_sendable`] should be asked again if nothing else happens.
    pub(super) fn next_due(&self, in_flight_max: usize) -> Option<Instant> {
        if !self.may_send(in_flight_max) {
            return None;
        }
        let open = self.open.as_ref().map(|open| open.due);
        self.retry_at.or(open)
    }

    fn may_send(&self, in_flight_max: usize) -> bool {
        match self.is_known && self.returned.is_empty() {
            true => self.in_flight.len() < in_flight_max,
            false => self.in_flight.is_empty(),
        }
    }

    /// Takes note that a batch is being written to a connection.
    pub(super) fn sent(&mut self, batch: &Batch) {
        if let Some(in_flight) = self.in_flight.get_mut(&batch.first_record) {
            in_flight.fate = Fate::Unanswered;
        }
    }

    /// Takes note that a batch has been stored.
    pub(super) fn stored(&mut self, batch: &Batch) {
        self.in_flight.remove(&batch.first_record);
        self.is_known = true;
        self.obstacle = None;
    }

    /// Counts from 0 again: the producer has another epoch, and nothing of the one before is left.
    pub(super) fn restart(&mut self) {
        assert!(!self.has_waiting() && !self.is_in_flight(), "records belong to one epoch");
        self.next_record = 0;
        self.is_known = false;
        self.obstacle = None;
    }

    /// Takes note that a batch will never be stored.
    pub(super) fn lost(&mut self, first_record: u64) {
        self.in_flight.remove(&first_record);
    }

    /// Takes a batch back that has to be sent again, after a pause.
    pub(super) fn give_back(&mut self, batch: Batch) {
        self.in_flight.remove(&batch.first_record);
        if batch.last_error.is_some() && !self.waits_for_earlier(batch.first_record) {
            self.obstacle.clone_from(&batch.last_error);
        }
        self.retry_at = Some(Instant::now() + pause_after(batch.failures));
        self.returned.push(batch);
    }

    /// Takes the halves of a batch back that was too large, and builds smaller ones from now on.
    pub(super) fn give_back_halves(&mut self, halves: [Batch; 2]) {
        // The first half has the place of the whole.
        self.in_flight.remove(&halves[0].first_record);
        let half_bytes = halves.iter().map(|half| half.plain_bytes).max().unwrap_or(0);
        self.batch_bytes = self.batch_bytes.min(half_bytes);
        self.returned.extend(halves);
    }

    /// Whether a batch with earlier records is still to be stored: then the broker must refuse
    /// later ones as out of order.
    pub(super) fn waits_for_earlier(&self, first_record: u64) -> bool {
        self.in_flight.keys().next().is_some_and(|&earliest| earliest < first_record)
            || self.returned.iter().any(|batch| batch.first_record < first_record)
    }

    /// Whether a batch waits to be sent.
    pub(super) fn has_waiting(&self) -> bool {
        self.open.is_some() || !self.ready.is_empty() || !self.returned.is_empty()
    }

    /// Whether the sender has a batch.
    pub(super) fn is_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// The first batch that waits and whose time is over, and why it was not stored, if that is known.
    pub(super) fn expired(&self, now: Instant) -> Option<(&Batch, Option<&ClientError>)> {
        let batch = self.waiting().find(|batch| batch.deadline <= now)?;
        Some((batch, self.obstacle.as_ref().or(batch.last_error.as_ref())))
    }

    /// Counts the records that are not acknowledged, by what is known of them.
    pub(super) fn count(&self, counted: &mut Unacknowledged) {
        self.waiting().for_each(|batch| counted.add(batch.fate, batch.record_count));
        self.in_flight.values().for_each(|batch| counted.add(batch.fate, batch.record_count));
    }

    /// The batches that are not in flight.
    fn waiting(&self) -> impl Iterator<Item = &Batch> {
        let open = self.open.iter().map(|open| &open.batch);
        self.returned.iter().chain(&self.ready).chain(open)
    }
}

/// About what a record takes in a batch.
pub(super) fn record_bytes(record: &NewRecord<'_>) -> usize {
    let headers = record.headers.iter();
    let headers_bytes: usize = headers
        .map(|header| {
            header.key.len() + header.value.as_ref().map_or(0, |v| v.len()) + RECORD_OVERHEAD_BYTES
        })
        .sum();
    RECORD_OVERHEAD_BYTES
        + record.key.map_or(0, <[u8]>::len)
        + record.value.map_or(0, <[u8]>::len)
        + headers_bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use logway_model::TimestampMs;

    use super::*;

    fn queue_with(records: usize) -> PartitionQueue {
        // Each record closes its batch.
        let mut queue = PartitionQueue::new(PartitionId(0), Compression::None, 1);
        for _ in 0..records {
            append(&mut queue);
        }
        queue
    }

    fn append(queue: &mut PartitionQueue) -> Appended {
        let now = Instant::now();
        let record = NewRecord {
            partition: None,
            timestamp: TimestampMs(1),
            key: None,
            value: Some(b"v"),
            headers: &[],
        };
        queue.append(&record, now + Duration::from_secs(9), now).expect("a small record")
    }

    fn take(queue: &mut PartitionQueue) -> Option<Batch> {
        let later = Instant::now() + Duration::from_secs(5);
        queue.take_sendable(later, 5, false)
    }

    fn take_first_record(queue: &mut PartitionQueue) -> Option<u64> {
        take(queue).map(|batch| batch.first_record)
    }

    #[tokio::test]
    async fn the_first_batch_travels_alone_and_the_bound_holds_for_the_rest() {
        let mut queue = queue_with(8);
        let first = take(&mut queue).expect("eight are ready");
        assert_eq!(take_first_record(&mut queue), None);
        queue.stored(&first);
        let second = take(&mut queue).expect("seven are ready");
        let others = [(); 5].map(|()| take_first_record(&mut queue));
        assert_eq!(others, [Some(2), Some(3), Some(4), Some(5), None]);
        queue.stored(&second);
        assert_eq!(take_first_record(&mut queue), Some(6));
        assert_eq!(take_first_record(&mut queue), None);
    }

    #[tokio::test]
    async fn what_is_returned_is_sent_again_in_order_once_all_are_back() {
        let mut queue = queue_with(5);
        let first = take(&mut queue).expect("five are ready");
        queue.stored(&first);
        let [second, third, fourth] = [(); 3].map(|()| take(&mut queue).expect("four are ready"));
        queue.give_back(fourth);
        assert!(queue.waits_for_earlier(3) && !queue.waits_for_earlier(1));
        assert_eq!(take_first_record(&mut queue), None, "two are still in flight");
        queue.give_back(second);
        queue.stored(&third);
        assert!(queue.take_sendable(Instant::now(), 5, true).is_none(), "it pauses first");
        let again = [(); 3].map(|()| take_first_record(&mut queue));
        assert_eq!(again, [Some(1), Some(3), Some(4)]);
    }

    #[tokio::test]
    async fn the_reason_is_that_of_the_first_batch_that_is_not_stored() {
        let reason = |queue: &PartitionQueue| {
            let (batch, reason) = queue.expired(Instant::now()).expect("its time is over");
            (batch.first_record, reason.map(ToString::to_string))
        };
        let mut queue = queue_with(4);
        let first = take(&mut queue).expect("four are ready");
        queue.stored(&first);
        let [mut second, third] = [(); 2].map(|()| take(&mut queue).expect("three are ready"));
        let disk_full = ClientError::Stopped { task: "disk" };
        second.last_error = Some(disk_full.clone());
        queue.give_back(second);
        // Refused as out of order.
        queue.give_back(third);
        assert_eq!(reason(&queue), (1, Some(disk_full.to_string())));
        let second = take(&mut queue).expect("it is sent again");
        assert_eq!(reason(&queue), (2, Some(disk_full.to_string())), "the first is on its way");
        queue.stored(&second);
        assert_eq!(reason(&queue), (2, None), "that is over");
    }

    #[tokio::test]
    async fn small_batches_wait_unless_pressed() {
        let mut queue = PartitionQueue::new(PartitionId(0), Compression::None, 1 << 20);
        assert!(append(&mut queue).is_news);
        assert!(!append(&mut queue).is_news);
        let now = Instant::now();
        assert!(queue.take_sendable(now, 5, false).is_none());
        assert!(queue.next_due(5).is_some_and(|due| due > now));
        let batch = queue.take_sendable(now, 5, true).expect("pressed");
        assert_eq!((batch.record_count, batch.first_record), (2, 0));
        assert_eq!(queue.next_due(5), None);
    }
}
