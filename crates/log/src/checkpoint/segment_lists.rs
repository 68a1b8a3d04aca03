//! `segment-lists`: which segments each log of a log directory had, and how long they were.
//!
//! ```text
//! 0                                                           version
//! 9ae0daaf                                                    CRC-32C of all that follows
//! orders 0 ykSLSUUeSxCxXu2TE1BN2g 4711 0:1048576 3000:20480   a log: topic, partition, topic
//!                                                             id, log end, segments as
//!                                                             BASE_OFFSET:BYTES
//! ```
//!
//! The file is Logway's own; Apache Kafka passes it over. It is written when a log directory was
//! opened and when it is closed, and kept in between. What it says stays true as a lower bound:
//! all of it is on stable storage, full segments never change, the last one only grows, and what
//! is deleted lies before the log start, which is written down first. A log that is compacted, or whose
//! end is cut off, is taken out of it first. So a start can tell from
//! the lengths in a listing alone that a segment was lost or cut short, without opening one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::str::Split;

use crc_fast::crc32_iscsi;
use logway_model::{Offset, PartitionId, TopicId, TopicName, TopicPartition, Uuid};

use super::{entry_list, excerpt, malformed, read_text, replace_file};
use crate::LogError;
use crate::fs::Fs;

/// The name of the file in the log directory.
pub const SEGMENT_LISTS_FILE: &str = "segment-lists";

/// Millions of segments.
const FILE_MAX_BYTES: usize = 256 << 20;

const VERSION: &str = "0";

/// The segments that a log had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentList {
    /// The topic that the log belonged to; zero if it did not say.
    pub topic_id: TopicId,
    /// The log end.
    pub end: Offset,
    /// By base offset; the last one was the one that grew.
    pub segments: Vec<ListedSegment>,
}

/// A segment in a [`SegmentList`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedSegment {
    /// The offset that it begins with.
    pub base_offset: Offset,
    /// The length of its batches.
    pub size_bytes: u64,
}

/// The segments of the logs of a log directory.
pub type SegmentLists = BTreeMap<TopicPartition, SegmentList>;

impl SegmentList {
    /// What is known of the segment that begins with `base_offset`, and whether it was the last.
    pub(crate) fn find(&self, base_offset: Offset) -> Option<(ListedSegment, bool)> {
        let index = self.segments.binary_search_by_key(&base_offset, |s| s.base_offset).ok()?;
        Some((self.segments[index], index + 1 == self.segments.len()))
    }

    /// The segments that had records, each with the offset before which it ended.
    pub(crate) fn with_ends(&self) -> impl Iterator<Item = (ListedSegment, Offset)> {
        let ends = self.segments.iter().skip(1).map(|next| next.base_offset).chain([self.end]);
        self.segments.iter().copied().zip(ends).filter(|(segment, _)| segment.size_bytes > 0)
    }
}

/// Replaces the file at `path`; it is durable on return.
pub fn write(fs: &dyn Fs, path: &Path, lists: &SegmentLists) -> Result<(), LogError> {
    let mut lines = String::new();
    for (partition, list) in lists {
        let SegmentList { topic_id, end, segments } = list;
        let (topic, number) = (&partition.topic, partition.partition);
        write!(lines, "{topic} {number} {topic_id} {end}").expect("a String takes all text");
        for ListedSegment { base_offset, size_bytes } in segments {
            write!(lines, " {base_offset}:{size_bytes}").expect("a String takes all text");
        }
        lines.push('\n');
    }
    let crc = crc32_iscsi(lines.as_bytes());
    replace_file(fs, path, format!("{VERSION}\n{crc:08x}\n{lines}").as_bytes())
}

/// Reads the file at `path`; one that does not exist is empty.
pub fn read(fs: &dyn Fs, path: &Path) -> Result<SegmentLists, LogError> {
    let Some(text) = read_text(fs, path, FILE_MAX_BYTES)? else { return Ok(BTreeMap::new()) };
    let (version, rest) = text.split_once('\n').unwrap_or((&text, ""));
    if version != VERSION {
        return Err(malformed(path, 1, format!("unknown version {}", excerpt(version))));
    }
    let (crc, lines) = rest.split_once('\n').unwrap_or((rest, ""));
    let computed = format!("{:08x}", crc32_iscsi(lines.as_bytes()));
    if crc != computed {
        let reason = format!("the CRC is {}, that of the lists {computed}", excerpt(crc));
        return Err(malformed(path, 2, reason));
    }
    let mut lists = BTreeMap::new();
    for (number, line) in (3..).zip(lines.lines()) {
        let (partition, list) = parse_line(line)
            .map_err(|reason| malformed(path, number, format!("{reason}: {}", excerpt(line))))?;
        lists.insert(partition, list);
    }
    Ok(lists)
}

fn parse_line(line: &str) -> Result<(TopicPartition, SegmentList), String> {
    let mut fields = line.split(' ');
    let topic = TopicName::new(field(&mut fields)?).map_err(|error| error.to_string())?;
    let partition = PartitionId(entry_list::number(field(&mut fields)?, "partition")?);
    let topic_id: Uuid = field(&mut fields)?.parse().map_err(|error| format!("{error}"))?;
    let end = entry_list::offset(field(&mut fields)?, "log end")?;
    let mut segments: Vec<ListedSegment> = Vec::new();
    for segment in fields {
        let (base_offset, size_bytes) = segment.split_once(':').ok_or("no length is there")?;
        let base_offset = entry_list::offset(base_offset, "base offset")?;
        let size_bytes = entry_list::number(size_bytes, "length")?;
        if segments.last().is_some_and(|last| last.base_offset >= base_offset) {
            return Err("base offsets must increase".to_owned());
        }
        segments.push(ListedSegment { base_offset, size_bytes });
    }
    let list = SegmentList { topic_id: TopicId(topic_id), end, segments };
    Ok((TopicPartition::new(topic, partition), list))
}

fn field<'a>(fields: &mut Split<'a, char>) -> Result<&'a str, String> {
    fields.next().ok_or_else(|| "a field is missing".to_owned())
}
