//! What can still be read of a channel's log behind damage.
//!
//! The log gives nothing of a batch that is damaged, nor of one that is gone. Here its segments are walked from
//! outside, which finds the next good batch whatever is before it.

use std::path::{Path, PathBuf};

use logway_log::LogError;
use logway_log::fs::RealFs;
use logway_log::inspect::{SegmentFile, Walked, partition_dirs, segments};
use logway_model::Offset;
use logway_record::Batch;

use super::file::decode_batch;
use crate::event::Event;

/// A batch and its events.
type Readable = (Batch, Vec<(Offset, Event)>);

/// What was found from an offset on.
#[derive(Debug)]
pub(super) struct Behind {
    /// The first batch whose events can be read; `None` if there is none.
    pub(super) batch: Option<Readable>,
    /// Where the damage begins.
    pub(super) path: PathBuf,
    pub(super) position: u64,
    /// What is wrong there.
    pub(super) reason: String,
}

/// Looks in the log of a directory for the first batch that ends at `from` or later, and before `bound`. It reads the
/// segment from its beginning: damage is rare.
pub(super) fn find_behind(dir: &Path, from: Offset, bound: Offset) -> Result<Behind, LogError> {
    let mut walk = Walk { from, bound, place: None, damage: None };
    let mut batch = None;
    for partition in partition_dirs(&RealFs, dir)? {
        let files = segments(&RealFs, &partition)?;
        let first = files.partition_point(|file| file.base_offset <= from).saturating_sub(1);
        for file in &files[first..] {
            batch = walk.first_readable(file)?;
            if batch.is_some() {
                break;
            }
        }
    }
    let place = walk.place.unwrap_or_else(|| (dir.to_owned(), 0));
    let missing = || (place, "the events behind this are missing".to_owned());
    let ((path, position), reason) = walk.damage.unwrap_or_else(missing);
    Ok(Behind { batch, path, position, reason })
}

type Place = (PathBuf, u64);

/// A walk through segments, and what it came by.
struct Walk {
    from: Offset,
    bound: Offset,
    /// The end of the last good batch before `from`.
    place: Option<Place>,
    /// The first damage from there on.
    damage: Option<(Place, String)>,
}

impl Walk {
    fn first_readable(&mut self, file: &SegmentFile) -> Result<Option<Readable>, LogError> {
        for walked in file.batches(&RealFs)? {
            let placed = match walked? {
                Walked::Batch(placed) => placed,
                Walked::Damage(damage) if damage.lost.end.is_some_and(|end| end <= self.from) => {
                    continue;
                }
                Walked::Damage(damage) => {
                    self.note((file.path.clone(), damage.position), damage.reason);
                    continue;
                }
            };
            let batch = placed.batch;
            if batch.last_offset() < self.from {
                let end = placed.position + batch.size_bytes() as u64;
                self.place = Some((file.path.clone(), end));
                continue;
            }
            if batch.last_offset() >= self.bound {
                return Ok(None);
            }
            match decode_batch(&batch) {
                Ok(events) => return Ok(Some((batch, events))),
                Err(error) => self.note((file.path.clone(), placed.position), error.to_string()),
            }
        }
        Ok(None)
    }

    fn note(&mut self, place: Place, reason: String) {
        self.damage.get_or_insert((place, reason));
    }
}
