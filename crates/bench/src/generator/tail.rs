//! A consumer at the end of a partition, which sees how old records are when they arrive.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use logway_record::BatchHeader;

use super::fetch::{FetchedHead, set_offset};
use super::{Asked, Observed, Pace, Payload, Timetable, Traffic};

/// The most that a consumer asks for at a time, and so the most that is looked through.
pub(crate) const TAIL_BYTES_MAX: i32 = 512 << 10;

/// The fields of an answer around its records.
const AROUND_RECORDS_BYTES: usize = 1 << 10;

/// Follows one partition to which one producer writes by a timetable, one record a request.
///
/// The record with offset `n` was due at the `n`-th moment of that timetable: nothing has to be
/// written into the records to know their age.
pub(crate) struct TailTraffic {
    offset_at: usize,
    version: i16,
    /// Of each record's value.
    value_bytes: u64,
    timetable: Arc<Timetable>,
    next_offset: u64,
}

impl TailTraffic {
    pub(crate) fn new(
        offset_at: usize,
        version: i16,
        value_bytes: u64,
        timetable: Arc<Timetable>,
    ) -> TailTraffic {
        TailTraffic { offset_at, version, value_bytes, timetable, next_offset: 0 }
    }
}

impl Traffic for TailTraffic {
    fn head_bytes_max(&self) -> usize {
        TAIL_BYTES_MAX as usize + AROUND_RECORDS_BYTES
    }

    fn prepare(&mut self, frame: &mut [u8]) {
        set_offset(frame, self.offset_at, self.next_offset);
    }

    fn answer(
        &mut self,
        head: &[u8],
        _frame_bytes: usize,
        asked: &mut Asked,
        now: Instant,
        observed: &mut Observed,
    ) -> anyhow::Result<()> {
        asked.answered(head)?;
        let fetched = FetchedHead::read(head, self.version)?;
        let records_bytes = usize::try_from(fetched.records_bytes)?;
        let mut records = fetched.records.slice(..records_bytes.min(fetched.records.len()));
        while let Ok(header) = BatchHeader::parse(&records) {
            if header.size_bytes() > records.len() {
                break;
            }
            for offset in header.base_offset.0..header.next_offset().0 {
                let offset = u64::try_from(offset)?;
                if offset < self.next_offset {
                    continue;
                }
                ensure!(offset == self.next_offset, "offset {} is missing", self.next_offset);
                self.next_offset += 1;
                let payload = Payload { records: 1, value_bytes: self.value_bytes };
                let due = self.timetable.moment(offset);
                observed.count_answer(Pace::Open, (due, now), payload);
            }
            let _ = records.split_to(header.size_bytes());
        }
        Ok(())
    }

    /// Until the last record has arrived.
    fn goes_on(&self, _now: Instant, _observed: &Observed) -> bool {
        self.next_offset < self.timetable.count()
    }
}
