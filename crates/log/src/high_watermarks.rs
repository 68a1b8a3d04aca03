//! The high watermarks that a log directory remembers of its logs, in Apache Kafka's own file.
//!
//! Who leads a partition again, or follows, begins with the high watermark that it knew: nothing
//! before it is ever taken back, so that retention and compaction may have it, and what a consumer has
//! seen is never hidden. It only falls behind: one that is older than need be, or lost, costs nothing
//! but the time until the next one is known.
//!
//! Whoever sets a high watermark pays for a flag. The writer looks at it every
//! [`high_watermark_interval`](crate::LogDirOptions::high_watermark_interval), and if any has changed the
//! background thread writes them all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use logway_model::{Offset, TopicPartition};

use crate::LogError;
use crate::checkpoint::offset_checkpoint::{self, HIGH_WATERMARK_FILE};
use crate::checkpoint::remove_file;
use crate::dir_syncs::DirSyncs;
use crate::fs::Fs;

/// The file, and whether it is behind.
#[derive(Debug)]
pub(crate) struct HighWatermarks {
    path: PathBuf,
    is_behind: AtomicBool,
    /// What is in the file; held while it is written.
    written: Mutex<BTreeMap<TopicPartition, Offset>>,
}

impl HighWatermarks {
    /// Reads the file of a log directory. A damaged one counts as none.
    pub(crate) fn read(fs: &dyn Fs, root: &Path) -> Result<HighWatermarks, LogError> {
        let path = root.join(HIGH_WATERMARK_FILE);
        let written = match offset_checkpoint::read(fs, &path) {
            Err(error @ LogError::Malformed { .. }) => {
                tracing::warn!(%error, "high watermarks begin at the starts of the logs");
                None
            }
            read => read?,
        };
        let written = Mutex::new(written.unwrap_or_default());
        Ok(HighWatermarks { path, is_behind: AtomicBool::new(false), written })
    }

    /// What the file says of a log.
    pub(crate) fn of(&self, partition: &TopicPartition) -> Option<Offset> {
        self.written().get(partition).copied().filter(|&offset| offset >= Offset::ZERO)
    }

    /// Takes note that a high watermark has changed.
    pub(crate) fn note_change(&self) {
        if !self.is_behind.load(Ordering::Relaxed) {
            self.is_behind.store(true, Ordering::Release);
        }
    }

    /// Whether any has changed since this was last asked.
    pub(crate) fn take_change(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed) && self.is_behind.swap(false, Ordering::AcqRel)
    }

    /// Writes these down, if they differ from what is in the file. Of logs that are not named, as those that could not be
    /// opened, it goes on to say what it says.
    pub(crate) fn write(
        &self,
        fs: &dyn Fs,
        syncs: &DirSyncs,
        said: impl Iterator<Item = (TopicPartition, Offset)>,
    ) -> Result<(), LogError> {
        let mut written = self.written();
        let mut new = written.clone();
        // Asked for under the lock: one that is deleted meanwhile is forgotten behind this.
        new.extend(said);
        if new == *written {
            return Ok(());
        }
        let put = syncs.work(|| offset_checkpoint::write(fs, &self.path, &new));
        match put {
            Ok(()) => *written = new,
            Err(_) => self.note_change(),
        }
        put
    }

    /// Has the file written without what it says of logs that go: another of that name has nothing of
    /// them.
    pub(crate) fn forget(
        &self,
        fs: &dyn Fs,
        syncs: &DirSyncs,
        partitions: &[TopicPartition],
    ) -> Result<(), LogError> {
        self.change(fs, syncs, |kept| {
            partitions.iter().for_each(|partition| _ = kept.remove(partition));
        })
    }

    /// Has it written without what it says of logs that are not there: one that is made under such a name
    /// has nothing of them.
    pub(crate) fn keep_only(
        &self,
        fs: &dyn Fs,
        syncs: &DirSyncs,
        is_known: impl Fn(&TopicPartition) -> bool,
    ) -> Result<(), LogError> {
        self.change(fs, syncs, |kept| kept.retain(|partition, _| is_known(partition)))
    }

    /// Has it say no more of logs than that they go up to these offsets.
    pub(crate) fn lower(
        &self,
        fs: &dyn Fs,
        syncs: &DirSyncs,
        ends: &[(TopicPartition, Offset)],
    ) -> Result<(), LogError> {
        self.change(fs, syncs, |kept| {
            for (partition, end) in ends {
                if let Some(offset) = kept.get_mut(partition) {
                    *offset = (*offset).min(*end);
                }
            }
        })
    }

    fn change(
        &self,
        fs: &dyn Fs,
        syncs: &DirSyncs,
        change: impl FnOnce(&mut BTreeMap<TopicPartition, Offset>),
    ) -> Result<(), LogError> {
        let mut written = self.written();
        let mut new = written.clone();
        change(&mut new);
        if new == *written {
            return Ok(());
        }
        match syncs.work(|| offset_checkpoint::write(fs, &self.path, &new)) {
            // To know nothing costs time, and needs no space.
            Err(error) if error.is_disk_full() => {
                syncs.work(|| remove_file(fs, &self.path))?;
                written.clear();
                self.note_change();
            }
            put => {
                put?;
                *written = new;
            }
        }
        Ok(())
    }

    fn written(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, Offset>> {
        // What it guards is right after each single step.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
