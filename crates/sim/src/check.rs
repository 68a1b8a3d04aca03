//! What must hold when the world has started.

use logway_coordinator::{Reply, RequestBody};
use logway_log::{Log, ReadRequest};
use logway_model::{LeaderEpoch, Offset, TimestampMs, TopicPartition};
use logway_record::{Batch, Batches, DecodeLimit};
use logway_wire::WireString;
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};

use crate::model::{CommitKey, Found, Partition};
use crate::violation::{Violation, ensure};
use crate::world::World;

/// How often an offset or a time is looked up in each log.
const LOOK_UPS: usize = 4;

impl World {
    /// Compares all logs with what was promised.
    pub(crate) fn check_partitions(&mut self) -> Result<(), Violation> {
        let may_skip = self.plan.is_disk_failing;
        let names: Vec<TopicPartition> = self.model.partitions.keys().cloned().collect();
        let now = self.now();
        for name in names {
            self.turns.pause();
            let log = self.broker.as_ref().expect("the world lives").log(&name);
            let partition = self.model.partition(&name);
            partition.recovered(&find(&log)?, may_skip, now)?;
            self.report.compacted += partition.take_gone_count();
            check_epochs(partition, &log)?;
            check_producers(partition, &log)?;
            for _ in 0..LOOK_UPS {
                let chance = self.random.next_u64();
                check_look_up(self.model.partition(&name), &log, chance)?;
            }
        }
        Ok(())
    }

    /// Compares the offsets of groups with what was promised.
    pub(crate) fn check_commits(&mut self) -> Result<(), Violation> {
        for key in self.model.commits.keys() {
            let found = self.committed(&key)?;
            self.model.commits.recovered(&key, found)?;
        }
        Ok(())
    }

    /// What the shard says that a group has committed, or -1.
    fn committed(&mut self, key: &CommitKey) -> Result<i64, Violation> {
        let CommitKey { group, partition, topic_id } = key;
        let topic = OffsetFetchRequestTopics {
            name: WireString::copy_of(partition.topic.as_str()),
            topic_id: topic_id.0,
            partition_indexes: vec![partition.partition.0],
            ..OffsetFetchRequestTopics::default()
        };
        let request = OffsetFetchRequestGroup {
            group_id: WireString::copy_of(group),
            topics: Some(vec![topic]),
            ..OffsetFetchRequestGroup::default()
        };
        let token = self.ask(RequestBody::OffsetFetch(request));
        let place = self.replies.iter().position(|(of, _)| *of == token);
        let reply = place.map(|place| self.replies.swap_remove(place).1);
        let offset = match &reply {
            Some(Reply::OffsetFetch(response)) => response
                .topics
                .first()
                .and_then(|topic| topic.partitions.first())
                .map(|partition| partition.committed_offset),
            _ => None,
        };
        offset.ok_or_else(|| Violation::new(format!("{key:?} is answered with {reply:?}")))
    }
}

/// What a log has.
pub(crate) fn find(log: &Log) -> Result<Found, Violation> {
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    let (flushed, high_watermark) = (log.flushed_offset(), log.high_watermark());
    Ok(Found { start, end, flushed, high_watermark, batches: read_all(log)? })
}

/// All batches from the log start on.
pub(crate) fn read_all(log: &Log) -> Result<Vec<Batch>, Violation> {
    read(log, log.log_start_offset(), u64::MAX)
}

fn read(log: &Log, offset: Offset, max_bytes: u64) -> Result<Vec<Batch>, Violation> {
    let name = log.topic_partition();
    let upper_bound = Offset(i64::MAX);
    let request = ReadRequest { offset, max_bytes, upper_bound, at_least_one_batch: true };
    let slice = log.read(request);
    let slice = slice.map_err(|error| Violation::new(format!("{name} at {offset}: {error}")))?;
    let bytes = slice.read();
    let bytes = bytes.map_err(|error| Violation::new(format!("{name} at {offset}: {error}")))?;
    let batches: Result<Vec<Batch>, _> = Batches::new(bytes).collect();
    batches.map_err(|error| Violation::new(format!("{name} from {offset} on: {error}")))
}

pub(crate) fn check_epochs(partition: &Partition, log: &Log) -> Result<(), Violation> {
    for kept in partition.kept() {
        let found = log.epoch_at(kept.last);
        let is_forgotten = found == LeaderEpoch::NONE && partition.may_forget_epoch(kept);
        ensure(found == kept.epoch || is_forgotten, || {
            format!("{}: {kept:?} is said to be of epoch {found}", partition.name)
        })?;
    }
    Ok(())
}

/// Each producer whose batches are there is known with the last of them.
pub(crate) fn check_producers(partition: &Partition, log: &Log) -> Result<(), Violation> {
    let known = log.producers().wait();
    let known = known.map_err(|error| Violation::new(format!("{}: {error}", partition.name)))?;
    for kept in partition.kept() {
        let header = kept.batch.header();
        if !header.producer_id.is_some() {
            continue;
        }
        let last = partition
            .kept()
            .iter()
            .rfind(|other| other.batch.header().producer_id == header.producer_id)
            .expect("there is at least this one");
        let found = known.iter().find(|(id, _)| *id == header.producer_id);
        let found = found.and_then(|(_, state)| state.last_batch());
        ensure(found.is_some_and(|found| found.last_offset == last.last), || {
            format!("{}: of the producer of {last:?} is known {found:?}", partition.name)
        })?;
    }
    Ok(())
}

/// Finds a batch by an offset in it, and one by a time, as consumers do.
fn check_look_up(partition: &Partition, log: &Log, chance: u64) -> Result<(), Violation> {
    let kept = partition.kept();
    let Some(place) = (chance as usize).checked_rem(kept.len()) else { return Ok(()) };
    let wanted = &kept[place];
    let found = read(log, wanted.last, 1)?;
    let expected = partition.batch_at(wanted.last);
    ensure(found.first().map(Batch::base_offset) == expected, || {
        let found = found.first().map(Batch::header);
        let name = &partition.name;
        format!("{name}: {wanted:?} is looked up, and found {found:?} instead of {expected:?}")
    })?;

    if wanted.batch.header().record_count == 0 {
        return Ok(());
    }
    let timestamp = TimestampMs(wanted.batch.header().max_timestamp.0 - (chance >> 32) as i64 % 3);
    let found = log.offset_for_timestamp(timestamp, Offset(i64::MAX), DecodeLimit::DEFAULT);
    let found = found.map_err(|error| Violation::new(format!("{}: {error}", partition.name)))?;
    let found = found.found.map(|found| found.offset);
    let expected = partition.offset_at(timestamp);
    ensure(found == expected, || {
        let name = &partition.name;
        format!("{name}: {timestamp} is looked up, and found {found:?} instead of {expected:?}")
    })
}
