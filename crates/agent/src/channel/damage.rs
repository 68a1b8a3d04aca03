//! What can still be read of a channel's log behind damage, when it is opened and when it is read.
//!
//! The log gives nothing of a batch that is damaged, nor of one that is gone. Here its segments are walked from
//! outside, which finds the next good batch whatever is before it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_log::LogError;
use logway_log::checkpoint::clean_shutdown::{self, CLEAN_SHUTDOWN_FILE};
use logway_log::checkpoint::offset_checkpoint::{self, RECOVERY_POINT_FILE};
use logway_log::fs::{Fs, OpenMode, RealFs};
use logway_log::inspect::{SegmentFile, Walked, partition_dirs, segments};
use logway_model::{Offset, TopicPartition};
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

/// Has the log keep what is good behind damage, before it is opened.
///
/// After a crash a log is cut off at the first bad batch behind its recovery point, with all that follows: a crash may
/// have torn what was written last. A channel syncs each put before it answers. So good batches behind bad ones say
/// that those were damaged, unless several puts shared the sync that a power cut came before, and nobody was
/// told of those. The recovery point is noted behind the last good batch: then what is damaged stays where it is,
/// is counted when it is come by, and what is behind it is read.
pub(super) fn vouch_for_what_is_behind_damage(dir: &Path) -> Result<(), LogError> {
    if !RealFs.exists(dir).map_err(failed("look for", dir))? {
        return Ok(());
    }
    // Where another process has it, opening the log says so.
    let Ok(_lock) = RealFs.lock(&dir.join(".lock")) else { return Ok(()) };
    if clean_shutdown::is_marked(&RealFs, &dir.join(CLEAN_SHUTDOWN_FILE))? {
        return Ok(());
    }
    let path = dir.join(RECOVERY_POINT_FILE);
    // Without recovery points nothing is cut off that good batches follow.
    let Ok(Some(mut points)) = offset_checkpoint::read(&RealFs, &path) else { return Ok(()) };
    let mut is_changed = false;
    for partition_dir in partition_dirs(&RealFs, dir)? {
        let name = partition_dir.file_name().and_then(|name| name.to_str());
        let Some(partition) = name.and_then(TopicPartition::from_dir_name) else { continue };
        let point = points.get(&partition).copied().unwrap_or(Offset::ZERO);
        if point < Offset::ZERO {
            continue;
        }
        if let Some(end) = end_behind_damage(&partition_dir, point)? {
            tracing::error!(path = %partition_dir.display(), from = point.0, to = end.0, "the log of a channel is damaged, and good behind that: what can be read is kept");
            points.insert(partition, end);
            is_changed = true;
        }
    }
    if is_changed { offset_checkpoint::write(&RealFs, &path, &points) } else { Ok(()) }
}

/// The end of the last good batch, if there is damage before it that is not before `point`. What is good is on stable
/// storage then.
fn end_behind_damage(dir: &Path, point: Offset) -> Result<Option<Offset>, LogError> {
    let files = segments(&RealFs, dir)?;
    let first = files.partition_point(|file| file.base_offset <= point).saturating_sub(1);
    let (mut end, mut is_damaged, mut found) = (None, false, None);
    for file in &files[first..] {
        for walked in file.batches(&RealFs)? {
            let next = end.unwrap_or(file.base_offset);
            let is_behind_point = next >= point;
            let Walked::Batch(placed) = walked? else {
                is_damaged |= is_behind_point;
                continue;
            };
            let (base, batch_end) = (placed.batch.base_offset(), placed.batch.last_offset() + 1);
            is_damaged |= is_behind_point && base != next;
            if base >= next {
                found = is_damaged.then_some(batch_end).or(found);
                end = Some(batch_end);
            }
        }
    }
    if found.is_some() {
        for file in &files[first..] {
            let opened = RealFs.open(&file.path, OpenMode::ReadWrite);
            let opened = opened.map_err(failed("open", &file.path))?;
            opened.sync_data().map_err(failed("sync", &file.path))?;
        }
    }
    Ok(found)
}

fn failed(op: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> LogError {
    move |source| LogError::Io { op, path: path.to_owned(), source: Arc::new(source) }
}
