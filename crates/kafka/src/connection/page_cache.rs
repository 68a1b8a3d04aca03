//! Whether what is about to be sent is in memory.

use std::io::IoSliceMut;

use logway_log::FileRange;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// The kernel reads ahead in windows of this size at least, so one probe speaks for as much.
pub(super) const CLOSE_STEP_BYTES: u64 = 128 * 1024;

/// Between the probes of a connection whose last ranges were all in memory. The kernel takes memory back
/// from what was not read for longest, which is one end of a range more often than its middle.
const WIDE_STEP_BYTES: u64 = 512 * 1024;

/// A connection looks closely at so many ranges before it trusts the page cache, at first and after
/// each one that was not in memory.
const CLOSE_RANGES: u32 = 64;

/// What a connection has learnt of the page cache from the ranges that it has sent.
///
/// A probe is a system call, and eight for each MiB were half of those of a fetch.
pub(super) struct PageCacheProbes {
    /// So many ranges are looked at closely.
    close_ranges: u32,
}

impl PageCacheProbes {
    pub(super) fn new() -> PageCacheProbes {
        PageCacheProbes { close_ranges: CLOSE_RANGES }
    }

    /// Whether `sendfile` would find a range in the page cache, as far as a few probes can tell.
    ///
    /// A wrong yes costs a network thread one disk read; a wrong no costs a hop to another thread.
    pub(super) fn find(&mut self, range: &FileRange) -> bool {
        let step_bytes = if self.close_ranges > 0 { CLOSE_STEP_BYTES } else { WIDE_STEP_BYTES };
        let is_found = is_found(range, step_bytes);
        self.close_ranges =
            if is_found { self.close_ranges.saturating_sub(1) } else { CLOSE_RANGES };
        is_found
    }
}

fn is_found(range: &FileRange, step_bytes: u64) -> bool {
    let Some(file) = range.file.fd() else { return true };
    let last = range.position + range.len_bytes - 1;
    let mut probe = range.position;
    loop {
        let mut byte = [0];
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], probe, ReadWriteFlags::NOWAIT) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return false,
            // A file system without NOWAIT: nothing to be learnt, so let `sendfile` wait.
            Err(_) => return true,
        }
        if probe == last {
            return true;
        }
        probe = last.min(probe + step_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    use logway_log::fs::{Fs, OpenMode, RealFs};
    use rustix::fs::{Advice, fadvise};

    use super::*;

    fn range(path: &Path, position: u64, len_bytes: u64) -> FileRange {
        let file = RealFs.open(path, OpenMode::Read).expect("it is there");
        FileRange { file, position, len_bytes }
    }

    #[test]
    fn a_range_that_is_not_in_memory_is_missed_and_has_the_next_ones_looked_at_closely() {
        // Beside the test, which is on a disk: of a file that is not, nothing is ever dropped from memory.
        let test = std::env::current_exe().expect("it has a path");
        let dir = tempfile::tempdir_in(test.parent().expect("a directory")).expect("is made");
        let path = dir.path().join("segment");
        let mut file = File::create(&path).expect("is created");
        for _ in 0..64 {
            // In one write it could be one block, which is dropped as a whole or not at all.
            file.write_all(&[1; 32 << 10]).expect("is written");
        }
        file.sync_all().expect("is synced");
        let mut probes = PageCacheProbes::new();
        let (all, first, second) =
            (range(&path, 0, 2 << 20), range(&path, 0, 1 << 20), range(&path, 1 << 20, 1 << 20));
        assert!(probes.find(&all));
        assert_eq!(probes.close_ranges, CLOSE_RANGES - 1);
        for _ in 0..CLOSE_RANGES {
            assert!(probes.find(&all));
        }
        assert_eq!(probes.close_ranges, 0);

        // Less than a close step, and more than one: only close looks see the latter.
        let hole = std::num::NonZeroU64::new(256 << 10);
        fadvise(&file, (1 << 20) + (128 << 10), hole, Advice::DontNeed).expect("is dropped");
        assert!(probes.find(&second), "the probes are too wide for it");
        let whole = std::num::NonZeroU64::new(1 << 20);
        fadvise(&file, 0, whole, Advice::DontNeed).expect("is dropped");
        assert!(!probes.find(&first));
        assert_eq!(probes.close_ranges, CLOSE_RANGES);
        assert!(!probes.find(&second), "now the hole is seen");
    }
}
