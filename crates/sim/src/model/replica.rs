//! What is promised of the log of a replica that follows.

use logway_log::FollowedEnd;
use logway_model::Offset;
use logway_record::Batch;

use super::kept::Kept;
use super::partition::{Found, Partition, Sent};
use crate::violation::{Violation, ensure};

/// What a truncation makes of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Truncated {
    pub(crate) start: Offset,
    pub(crate) end: Offset,
}

impl Partition {
    /// Batches of the leader are on their way to the log. What is missing before one is filled.
    pub(crate) fn send_led(&mut self, batches: &[Batch]) {
        let mut next = self.sent_end();
        for batch in batches {
            let epoch = batch.header().leader_epoch;
            let fillers = Batch::placeholders(next, batch.base_offset(), epoch);
            for batch in fillers.into_iter().chain([batch.clone()]) {
                next = batch.header().next_offset();
                self.led_epoch = epoch;
                self.unanswered.push(Sent { batch, epoch });
            }
        }
    }

    /// Where the log ends when it has taken what is on its way.
    pub(crate) fn sent_end(&self) -> Offset {
        self.unanswered.last().map_or(self.end, |sent| sent.batch.header().next_offset())
    }

    /// The log has taken all batches that were sent before `end`.
    pub(crate) fn acknowledge_led(&mut self, end: &FollowedEnd) -> Result<(), Violation> {
        let is_before = |sent: &Sent| sent.batch.header().next_offset() <= end.written;
        let taken = self.unanswered.iter().take_while(|sent| is_before(sent)).count();
        for Sent { batch, epoch } in self.unanswered.drain(..taken).collect::<Vec<_>>() {
            self.keep(Kept::at(batch.base_offset(), epoch, batch));
        }
        ensure(self.end == end.written, || {
            format!("{}: {end:?} is answered, and {} was sent", self.name, self.end)
        })?;
        ensure(!self.kind.is_durable() || end.flushed >= end.written, || {
            format!("{}: {end:?} is answered", self.name)
        })?;
        self.note_flushed(end.flushed.min(end.written));
        Ok(())
    }

    /// What a truncation to `to` makes of the log; `None` if nothing changes.
    pub(crate) fn truncated_to(&self, to: Offset) -> Option<Truncated> {
        if to >= self.end {
            return None;
        }
        if to < self.start {
            return Some(Truncated { start: to, end: to });
        }
        let holder = self.kept.iter().find(|kept| kept.last >= to);
        let end = holder.map_or(self.end, |kept| kept.base);
        Some(Truncated { start: self.start.min(end), end })
    }

    /// The log is to become this.
    pub(crate) fn ask_for_truncation(&mut self, truncated: Truncated) {
        self.truncation_in_doubt = Some(truncated);
    }

    /// The log has become that, for good.
    pub(crate) fn acknowledge_truncation(&mut self, end: Offset) -> Result<(), Violation> {
        let truncated =
            self.truncation_in_doubt.take().expect("only what was asked for is answered");
        ensure(truncated.end == end, || {
            format!("{}: {truncated:?} was asked for, and {end} is answered", self.name)
        })?;
        self.truncate(truncated);
        Ok(())
    }

    /// The world has started again, perhaps behind a truncation.
    pub(super) fn judge_truncation(&mut self, found: &Found) {
        let Some(truncated) = self.truncation_in_doubt.take() else { return };
        let Truncated { start, end } = truncated;
        if (found.start, found.end) == (start, end) {
            self.truncate(truncated);
        } else if start == end || found.end >= end {
            // A crash may leave a beginning of what goes, if that is the whole log. So may a start that finds a cut
            // half done, and is cut off itself.
            self.safe_end = self.safe_end.min(found.end);
            self.cached_end = self.cached_end.min(found.end);
            if let Some(high_watermark) = &mut self.high_watermark {
                *high_watermark = (*high_watermark).min(found.end);
            }
        }
    }

    fn truncate(&mut self, Truncated { start, end }: Truncated) {
        if start == end {
            self.kept.clear();
        }
        while self.kept.pop_back_if(|kept| kept.last >= end).is_some() {}
        (self.start, self.end) = (start, end);
        self.safe_end = if start == end { end } else { self.safe_end.min(end) };
        self.cached_end = Offset::ZERO;
        // A restart may be behind what was said.
        self.high_watermark = self.high_watermark.map(|known| known.min(end).max(start));
    }

    /// The high watermark of the log is said.
    pub(crate) fn say_high_watermark(&mut self, high_watermark: Offset) {
        self.high_watermark = Some(self.high_watermark.unwrap_or_default().max(high_watermark));
        self.is_bounded = true;
        self.bound = high_watermark;
    }

    /// A start goes on with a high watermark that was said, or with none.
    pub(super) fn check_high_watermark(&mut self, found: &Found) -> Result<(), Violation> {
        let said = self.high_watermark.unwrap_or_default().max(found.start);
        ensure(found.high_watermark <= said, || {
            format!(
                "{}: the high watermark is {}, of {said} at most",
                self.name, found.high_watermark
            )
        })?;
        self.is_bounded = false;
        Ok(())
    }

    /// Retention has moved the log start to `start`.
    pub(crate) fn check_retained(&self, start: Offset) -> Result<(), Violation> {
        ensure(!self.is_bounded || start <= self.bound.max(self.start), || {
            format!("{}: retention moved the start to {start}, behind {}", self.name, self.bound)
        })
    }
}
