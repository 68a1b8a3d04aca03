//! The leader epochs of a log as its batches tell them.

use logway_model::{LeaderEpoch, Offset};

use super::{PlacedBatch, Problem, SegmentFile};
use crate::checkpoint::LeaderEpochCache;
use crate::file_names::{LOG_EXTENSION, file_path};

/// Batches in a row that one leader has written in one epoch, from epoch to epoch.
///
/// Epochs never go down along a log. No checksum covers the epoch of a batch: where it goes down, the
/// one before is dropped, so that of neighbours that contradict each other the later counts.
#[derive(Debug, Default)]
pub(super) struct EpochRuns {
    /// Their epochs increase.
    runs: Vec<EpochRun>,
    are_contradictory: bool,
}

#[derive(Debug, Clone, Copy)]
struct EpochRun {
    epoch: LeaderEpoch,
    /// The first offset of the first batch.
    first: Offset,
    /// The last offset of the last batch.
    last: Offset,
    /// The first batch: its segment and its place in there.
    segment: Offset,
    position: u64,
}

/// Something in a leader epoch checkpoint that the batches contradict.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disagreement {
    /// Which of its entries, from 0.
    pub(super) entry: usize,
    /// The offset that it is about.
    pub(super) offset: Offset,
    /// What contradicts what.
    pub(super) reason: String,
}

impl EpochRuns {
    /// Notes the next batch; the problem is one of the records' file.
    pub(super) fn note(&mut self, segment: &SegmentFile, placed: &PlacedBatch) -> Option<Problem> {
        let header = placed.batch.header();
        let epoch = header.leader_epoch;
        if epoch < LeaderEpoch::NONE {
            let reason = format!("its leader epoch is {epoch}, which none can be");
            return Some(Problem::new(&segment.path, placed.position, reason));
        }
        if epoch == LeaderEpoch::NONE {
            return None;
        }
        let mut contradicted = None;
        while let Some(run) = self.runs.pop_if(|run| run.epoch > epoch) {
            contradicted = Some(run);
        }
        match self.runs.last_mut() {
            Some(run) if run.epoch == epoch => run.last = header.last_offset(),
            _ => self.runs.push(EpochRun {
                epoch,
                first: header.base_offset,
                last: header.last_offset(),
                segment: segment.base_offset,
                position: placed.position,
            }),
        }
        let run = contradicted?;
        self.are_contradictory = true;
        let dir = segment.path.parent()?;
        let path = file_path(dir, run.segment, LOG_EXTENSION);
        let reason = format!(
            "the batch has leader epoch {}, but that of offset {} behind it has {epoch}",
            run.epoch, header.base_offset
        );
        Some(Problem::new(path, run.position, reason))
    }

    /// Whether no epoch contradicts another.
    pub(super) fn are_sound(&self) -> bool {
        !self.are_contradictory
    }

    /// The checkpoint that the batches make, of a log that begins at `log_start`.
    pub(super) fn to_cache(&self, log_start: Offset) -> LeaderEpochCache {
        let mut cache = LeaderEpochCache::default();
        for run in &self.runs {
            cache.assign(run.epoch, run.first);
        }
        cache.truncate_from_start(log_start);
        cache
    }

    /// What a checkpoint says that the batches from `log_start` to `end` do not, if anything.
    pub(super) fn disagreement(
        &self,
        cache: &LeaderEpochCache,
        log_start: Offset,
        end: Offset,
    ) -> Option<Disagreement> {
        let entries = cache.entries();
        let visible = self.runs.iter().filter(|run| run.last >= log_start);
        let places = visible
            .flat_map(|run| [run.first.max(log_start), run.last].map(|offset| (run.epoch, offset)));
        for (epoch, offset) in places {
            let said = cache.epoch_at(offset);
            if said == Some(epoch) {
                continue;
            }
            let entry = entries.partition_point(|entry| entry.start_offset <= offset);
            let reason = match said {
                Some(said) => {
                    format!("it has epoch {said} for offset {offset}, whose batch has {epoch}")
                }
                None => format!("it has no epoch for offset {offset}, whose batch has {epoch}"),
            };
            return Some(Disagreement { entry: entry.saturating_sub(1), offset, reason });
        }
        let latest = cache.latest().filter(|latest| latest.start_offset > end)?;
        let (epoch, offset) = (latest.epoch, latest.start_offset);
        let reason = format!("epoch {epoch} begins at {offset}, behind the log's end, {end}");
        Some(Disagreement { entry: entries.len() - 1, offset, reason })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use logway_model::TimestampMs;
    use logway_record::{Batch, BatchBuilder, Compression};

    use super::*;

    fn segment() -> SegmentFile {
        let path = PathBuf::from("/data/t-0/00000000000000000000.log");
        SegmentFile { path, base_offset: Offset(0), len_bytes: 1000 }
    }

    /// Notes a batch of two records.
    fn note(runs: &mut EpochRuns, base: i64, epoch: i32) -> Option<Problem> {
        let mut builder =
            BatchBuilder::new(Compression::None).with_assignment(Offset(base), LeaderEpoch(epoch));
        for _ in 0..2 {
            builder.append(TimestampMs(0), None, Some(b"v"), &[]).expect("small");
        }
        let batch = Batch::parse(builder.finish().expect("two records")).expect("a batch");
        runs.note(&segment(), &PlacedBatch { position: base as u64 * 10, batch })
    }

    fn runs_of(epochs: &[i32]) -> (EpochRuns, Vec<Problem>) {
        let mut runs = EpochRuns::default();
        let bases = (0..).step_by(2);
        let problems =
            bases.zip(epochs).filter_map(|(base, &epoch)| note(&mut runs, base, epoch)).collect();
        (runs, problems)
    }

    fn cache(entries: &[(i32, i64)]) -> LeaderEpochCache {
        let mut cache = LeaderEpochCache::default();
        for &(epoch, start) in entries {
            cache.assign(LeaderEpoch(epoch), Offset(start));
        }
        cache
    }

    #[test]
    fn a_checkpoint_is_compared_with_the_batches() {
        let (runs, problems) = runs_of(&[-1, 3, 3, 5]);
        assert_eq!(problems, []);
        assert_eq!(runs.to_cache(Offset(0)), cache(&[(3, 2), (5, 6)]));
        assert_eq!(runs.to_cache(Offset(4)), cache(&[(3, 4), (5, 6)]));
        let disagreement = |entries: &[(i32, i64)], log_start| {
            runs.disagreement(&cache(entries), Offset(log_start), Offset(8))
        };
        // A leader that wrote nothing, and epochs whose batches compaction has removed.
        for good in [&[(3, 2), (5, 6)][..], &[(3, 1), (5, 6)], &[(1, 0), (3, 2), (5, 6), (7, 8)]] {
            assert_eq!(disagreement(good, 0), None, "{good:?}");
        }
        assert_eq!(disagreement(&[(3, 4), (5, 6)], 4), None);
        for (bad, entry, offset) in [
            (&[][..], 0, 2),
            (&[(2, 2), (5, 6)], 0, 2),
            (&[(3, 3), (5, 6)], 0, 2),
            (&[(3, 2), (5, 5)], 1, 5),
            (&[(3, 2), (5, 7)], 0, 6),
            (&[(3, 2)], 0, 6),
            (&[(3, 2), (4, 3), (5, 6)], 1, 5),
            (&[(3, 2), (5, 6), (6, 9)], 2, 9),
        ] {
            let found = disagreement(bad, 0).unwrap_or_else(|| panic!("{bad:?} is wrong"));
            assert_eq!((found.entry, found.offset), (entry, Offset(offset)), "{bad:?}: {found:?}");
        }
    }

    #[test]
    fn a_batch_whose_epoch_its_neighbours_contradict_is_named() {
        let (runs, problems) = runs_of(&[3, 1000, 3, 5]);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!((problem.position, &problem.path), (20, &segment().path));
        assert!(!runs.are_sound());
        assert_eq!(runs.to_cache(Offset(0)), cache(&[(3, 0), (5, 6)]));
        let (runs, problems) = runs_of(&[3, i32::MIN, 3]);
        assert_eq!(problems.len(), 1);
        assert!(runs.are_sound());
    }
}
