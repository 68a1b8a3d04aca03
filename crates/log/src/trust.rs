//! Which bytes of a segment can be sent without a look at them.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logway_model::TimestampMs;

use crate::fs::File;

/// What was written or checked is trusted for so long: later it comes from the disk, as a rule.
const TRUSTED_FOR: Duration = Duration::from_secs(60 * 60);

/// The file counts as written to by somebody else if that was so much later than the last write of this
/// process, whose time is that of the beginning of its round. If the round took longer, the file is checked
/// once more, and nothing else.
const ROUND_MS: i64 = 20;

/// So many parts are remembered as checked; then the oldest is forgotten, and checked again when it is read.
const PARTS_MAX: usize = 64;

/// What is known to be good of a segment's file: what this process wrote to it, and what it has checked.
/// Neither counts any more after a while, or when somebody else has written to the file.
///
/// Damage at rest reaches the page cache when the bytes are read from the disk. Whoever reads them a first
/// time after a start, or after an hour, may be the one that it reaches; the next readers are not.
#[derive(Debug)]
pub(crate) struct Trust {
    /// What lies before was found there.
    found_bytes: u64,
    last_write_ms: AtomicI64,
    checked: Mutex<Vec<CheckedPart>>,
}

/// A part of the file that was checked.
#[derive(Debug, Clone)]
struct CheckedPart {
    bytes: Range<u64>,
    /// When the file was last written to.
    modified: TimestampMs,
    at: Instant,
}

impl Trust {
    /// Of a file of which the first `found_bytes` are from somebody else.
    pub(crate) fn new(found_bytes: u64) -> Trust {
        let last_write_ms = AtomicI64::new(i64::MIN);
        Trust { found_bytes, last_write_ms, checked: Mutex::default() }
    }

    /// This process has begun a write to the end of the file at that time.
    pub(crate) fn note_write(&self, now: TimestampMs) {
        self.last_write_ms.store(now.0, Ordering::Relaxed);
    }

    /// Bytes of the file were checked, which was last written to at that time.
    pub(crate) fn note_checked(&self, bytes: Range<u64>, modified: TimestampMs) {
        let at = Instant::now();
        let mut checked = self.checked();
        checked.retain(|part| part.is_trusted(modified, at));
        // Who reads on makes one part of many.
        let joins =
            |part: &CheckedPart| part.bytes.end == bytes.start && at - part.at < TRUSTED_FOR / 2;
        if let Some(part) = checked.iter_mut().find(|part| joins(part)) {
            part.bytes.end = bytes.end;
            return;
        }
        if checked.len() >= PARTS_MAX {
            checked.remove(0);
        }
        checked.push(CheckedPart { bytes, modified, at });
    }

    /// Whether bytes of the file can be sent as they are.
    pub(crate) fn covers(&self, file: &dyn File, bytes: Range<u64>, now: TimestampMs) -> bool {
        let Ok(modified) = file.modified() else { return false };
        let last_write_ms = self.last_write_ms.load(Ordering::Relaxed);
        let is_untouched = modified.0 <= last_write_ms.saturating_add(ROUND_MS);
        let age_ms = now.0.saturating_sub(last_write_ms);
        let is_fresh = u128::try_from(age_ms).is_ok_and(|age_ms| age_ms < TRUSTED_FOR.as_millis());
        let is_own = is_untouched && is_fresh;
        if is_own && bytes.start >= self.found_bytes {
            return true;
        }
        // What is behind the bytes that were found was checked with them, or is its own.
        let end = if is_own { bytes.end.min(self.found_bytes) } else { bytes.end };
        let (checked, at) = (self.checked(), Instant::now());
        let covers = |part: &CheckedPart| {
            let is_same = part.is_trusted(modified, at) || (is_own && part.is_young(at));
            is_same && part.bytes.start <= bytes.start && end <= part.bytes.end
        };
        checked.iter().any(covers)
    }

    /// What it guards is right after each single step.
    fn checked(&self) -> MutexGuard<'_, Vec<CheckedPart>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckedPart {
    fn is_trusted(&self, modified: TimestampMs, now: Instant) -> bool {
        self.modified == modified && self.is_young(now)
    }

    fn is_young(&self, now: Instant) -> bool {
        now - self.at < TRUSTED_FOR
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::fs::{Fs, OpenMode, SimFs};

    const WRITTEN: TimestampMs = TimestampMs(1_000_000);

    fn file() -> Arc<dyn File> {
        let fs = SimFs::new(1);
        let file = fs.open(Path::new("segment"), OpenMode::CreateOrOpen).expect("is made");
        file.write_all_at(&[IoSlice::new(&[1; 1000])], 0).expect("is written");
        file.set_modified(WRITTEN).expect("is dated");
        file
    }

    fn later(elapsed_ms: i64) -> TimestampMs {
        TimestampMs(WRITTEN.0 + elapsed_ms)
    }

    #[test]
    fn what_was_found_is_trusted_once_it_was_checked_and_while_nobody_writes_to_it() {
        let (trust, file) = (Trust::new(1000), file());
        assert!(!trust.covers(&*file, 0..100, later(1)));
        trust.note_checked(0..100, WRITTEN);
        trust.note_checked(100..300, WRITTEN);
        assert!(trust.covers(&*file, 50..300, later(1)));
        assert!(!trust.covers(&*file, 50..301, later(1)));
        file.set_modified(later(1)).expect("is dated");
        assert!(!trust.covers(&*file, 0..100, later(2)));
    }

    #[test]
    fn what_this_process_wrote_is_trusted_for_an_hour_and_while_nobody_else_writes_to_it() {
        let (trust, file) = (Trust::new(0), file());
        trust.note_write(WRITTEN);
        assert!(trust.covers(&*file, 0..1000, later(1)));
        assert!(!trust.covers(&*file, 0..1000, later(60 * 60 * 1000)));
        file.set_modified(later(ROUND_MS + 1)).expect("is dated");
        assert!(!trust.covers(&*file, 0..1000, later(30)));
    }

    #[test]
    fn what_was_found_stays_checked_while_this_process_writes_behind_it() {
        let (trust, file) = (Trust::new(500), file());
        trust.note_checked(0..500, WRITTEN);
        trust.note_write(later(100));
        file.set_modified(later(101)).expect("is dated");
        assert!(trust.covers(&*file, 0..1000, later(200)));
        assert!(!Trust::new(500).covers(&*file, 0..1000, later(200)));
    }

    #[test]
    fn memory_has_a_bound() {
        let trust = Trust::new(1 << 40);
        for part in 0..10_000 {
            trust.note_checked(2 * part..2 * part + 1, WRITTEN);
        }
        assert_eq!(trust.checked().len(), PARTS_MAX);
    }
}
