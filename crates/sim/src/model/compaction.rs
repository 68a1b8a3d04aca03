//! What compaction may take away.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use logway_log::LogConfig;
use logway_model::{Offset, TimestampMs, TopicPartition};
use logway_record::{Batch, Record};

use super::kept::Kept;
use crate::violation::{Violation, ensure};

/// What compaction has taken from a log, as far as somebody has seen it.
///
/// Of each key the newest record stays, unless it is a tombstone whose time was over; what is gone
/// stays gone; what is there is as it was sent; and the record before the end of the log is there.
#[derive(Debug)]
pub(crate) struct Compaction {
    min_lag_ms: i64,
    tombstones_ms: i64,
    /// What the cleaner was last at work on lies before.
    reach: Offset,
    /// It may be at work.
    is_under_way: bool,
    /// The records that were seen to be gone.
    gone: BTreeSet<Offset>,
    gone_count: u64,
    /// The batches of which nothing was left: their first offsets.
    dropped: BTreeSet<Offset>,
}

impl Compaction {
    /// That of a log with these settings.
    pub(super) fn new(config: &LogConfig) -> Compaction {
        let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        Compaction {
            min_lag_ms: ms(config.min_compaction_lag_ms),
            tombstones_ms: ms(config.delete_retention_ms),
            reach: Offset::ZERO,
            is_under_way: false,
            gone: BTreeSet::new(),
            gone_count: 0,
            dropped: BTreeSet::new(),
        }
    }

    /// The cleaner begins to work.
    pub(super) fn begin(&mut self) {
        self.is_under_way = true;
    }

    /// The cleaner has ended its work, of a log that ends at `end`.
    pub(super) fn end(&mut self, end: Offset) {
        if std::mem::take(&mut self.is_under_way) {
            self.reach = end;
        }
    }

    /// How many records were seen to be gone for the first time since this was last asked.
    pub(super) fn take_gone_count(&mut self) -> u64 {
        std::mem::take(&mut self.gone_count)
    }

    /// Whether a record is there, for all that is known.
    pub(super) fn has_record(&self, offset: Offset) -> bool {
        !self.gone.contains(&offset)
    }

    /// Whether anything of a batch is there, be it without records.
    pub(super) fn has_batch(&self, kept: &Kept) -> bool {
        !self.dropped.contains(&kept.base)
    }

    /// Forgets what lies before a log start.
    pub(super) fn move_start(&mut self, start: Offset) {
        self.gone = self.gone.split_off(&start);
    }

    /// Compares the batches that a log has had with those that were found, from the log start on.
    pub(super) fn compare(
        &mut self,
        name: &TopicPartition,
        kept: &VecDeque<Kept>,
        found: &[Batch],
        start: Offset,
        now: TimestampMs,
    ) -> Result<(), Violation> {
        let mut found = found.iter().peekable();
        let mut there = BTreeSet::new();
        self.dropped.clear();
        for kept in kept {
            let Some(batch) = found.next_if(|batch| batch.base_offset() == kept.base) else {
                self.dropped.insert(kept.base);
                continue;
            };
            let left = kept.left_in(batch);
            let left = left.ok_or_else(|| {
                Violation::new(format!("{name}: {:?} is where {kept:?} was", batch.header()))
            })?;
            there.extend(left.iter().map(|record| record.offset));
        }
        let stranger = found.next().map(Batch::header);
        ensure(stranger.is_none(), || format!("{name}: nobody has sent {stranger:?}"))?;
        let last = kept.back().map(|kept| kept.last).filter(|last| *last >= start);
        ensure(last.is_none_or(|last| there.contains(&last)), || {
            format!("{name}: the last record of the log, {last:?}, is missing")
        })?;
        let records: Vec<Record> = kept.iter().flat_map(Kept::records).collect();
        let newest = self.newest_of_each_key(kept, &records);
        let mut older = BTreeMap::new();
        for record in records.iter().filter(|record| record.offset >= start) {
            if there.contains(&record.offset) {
                ensure(self.has_record(record.offset), || {
                    format!("{name}: {record:?} was gone, and is back")
                })?;
                older.insert(&record.key, record.offset);
                continue;
            }
            let newest = newest.get(&record.key).copied();
            self.check_gone(record, newest, older.get(&record.key), now)
                .map_err(|why| Violation::new(format!("{name}: {why}: {record:?} is missing")))?;
            self.gone_count += u64::from(self.gone.insert(record.offset));
        }
        Ok(())
    }

    /// The newest record of each key that the cleaner may have come to.
    fn newest_of_each_key(
        &self,
        kept: &VecDeque<Kept>,
        records: &[Record],
    ) -> BTreeMap<Option<Bytes>, Offset> {
        let end = kept.back().map_or(Offset::ZERO, |last| last.last.next());
        let reach = if self.is_under_way { end } else { self.reach };
        let in_reach = records.iter().take_while(|record| record.offset < reach);
        in_reach.map(|record| (record.key.clone(), record.offset)).collect()
    }

    /// Says why a record should be there that is gone, if it should. Of its key, there is the newest
    /// record and the last one before it that is still there.
    fn check_gone(
        &self,
        record: &Record,
        newest: Option<Offset>,
        older: Option<&Offset>,
        now: TimestampMs,
    ) -> Result<(), String> {
        let Some(newest) = newest else { return Err("compaction was never there".to_owned()) };
        if let Some(older) = older {
            return Err(format!("the record at {older} is back instead of it"));
        }
        let age_ms = now.0 - record.timestamp.0;
        if age_ms < self.min_lag_ms {
            return Err("it is too young to be compacted".to_owned());
        }
        let is_expired = record.value.is_none() && age_ms >= self.tombstones_ms;
        match newest > record.offset || is_expired {
            true => Ok(()),
            false => Err("no newer record has its key".to_owned()),
        }
    }
}
