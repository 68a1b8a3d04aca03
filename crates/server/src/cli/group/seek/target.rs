//! Where partitions are to be read on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use logway_client::{
    Client, ClientError, CommittedOffset, ListedOffset, MissingTopic, OffsetAt, StartAt,
    TopicSelection,
};
use logway_model::{Offset, PartitionId, TopicName, TopicPartition};

use super::seek_spec::SeekSpec;
use crate::cli::error::CliError;

/// What the user asked for.
#[derive(Debug)]
pub(super) enum Target {
    /// The same for all partitions.
    To(SeekSpec),
    /// So much further than what is committed.
    By(i64),
    /// An offset for each partition.
    Each(BTreeMap<TopicPartition, Offset>),
}

/// What a partition holds.
#[derive(Debug, Clone, Copy)]
struct Range {
    start: Offset,
    end: Offset,
    /// The answer to a look-up by timestamp, if there was one.
    at_timestamp: Option<Offset>,
}

impl Target {
    /// The offset to commit for each partition, within what it holds; partitions that do not
    /// exist are left out, with a warning.
    pub(super) async fn resolve(
        &self,
        client: &Client,
        partitions: &BTreeSet<TopicPartition>,
        committed: &BTreeMap<TopicPartition, CommittedOffset>,
    ) -> Result<BTreeMap<TopicPartition, Offset>, ClientError> {
        let existing = existing(client, partitions).await?;
        let starts = client.list_offsets(&existing, OffsetAt::Start).await?;
        let ends = client.list_offsets(&existing, OffsetAt::End).await?;
        let at_timestamps = match self {
            Target::To(SeekSpec::At(StartAt::Timestamp(timestamp))) => {
                client.list_offsets(&existing, OffsetAt::Timestamp(*timestamp)).await?
            }
            _ => BTreeMap::new(),
        };
        let offset = |listed: &BTreeMap<TopicPartition, ListedOffset>,
                      partition: &TopicPartition| {
            listed.get(partition).and_then(|listed| listed.offset)
        };
        let mut resolved = BTreeMap::new();
        for partition in existing {
            let range = Range {
                start: offset(&starts, &partition).unwrap_or(Offset::ZERO),
                end: offset(&ends, &partition).unwrap_or(Offset::ZERO),
                at_timestamp: offset(&at_timestamps, &partition),
            };
            let committed = committed.get(&partition).map(|committed| committed.offset);
            let Some(wanted) = self.wanted(&partition, range, committed) else { continue };
            let offset = wanted.clamp(range.start, range.end.max(range.start));
            if offset != wanted {
                eprintln!(
                    "warning: {partition} holds {} to {}: {offset} is meant, not {wanted}",
                    range.start, range.end
                );
            }
            resolved.insert(partition, offset);
        }
        Ok(resolved)
    }

    /// The offset that was asked for, whether or not the partition holds it.
    fn wanted(
        &self,
        partition: &TopicPartition,
        range: Range,
        committed: Option<Offset>,
    ) -> Option<Offset> {
        let before_end = |count| Offset(range.end.0.saturating_sub_unsigned(count));
        let after_start = |count| Offset(range.start.0.saturating_add_unsigned(count));
        let spec = match self {
            Target::Each(offsets) => return offsets.get(partition).copied(),
            Target::By(count) => {
                return Some(Offset(committed?.0.saturating_add(*count)));
            }
            Target::To(spec) => *spec,
        };
        Some(match spec {
            SeekSpec::AfterStart(count) => after_start(count).min(range.end),
            SeekSpec::At(StartAt::Start) => range.start,
            SeekSpec::At(StartAt::End) => range.end,
            SeekSpec::At(StartAt::Offset(offset)) => offset,
            SeekSpec::At(StartAt::BeforeEnd(count)) => before_end(count).max(range.start),
            // What comes next will be new enough.
            SeekSpec::At(StartAt::Timestamp(_)) => range.at_timestamp.unwrap_or(range.end),
        })
    }
}

async fn existing(
    client: &Client,
    partitions: &BTreeSet<TopicPartition>,
) -> Result<BTreeSet<TopicPartition>, ClientError> {
    let topics: BTreeSet<TopicName> = partitions.iter().map(|p| p.topic.clone()).collect();
    let selection = TopicSelection::Named(&topics);
    let metadata = client.refresh_metadata(selection, MissingTopic::Refuse).await?;
    let (existing, missing): (BTreeSet<_>, BTreeSet<_>) =
        partitions.iter().cloned().partition(|partition| metadata.partition(partition).is_some());
    for partition in missing {
        eprintln!("warning: {partition} does not exist; it is left out");
    }
    Ok(existing)
}

/// Reads lines of topic, partition and offset.
pub(super) fn read_file(path: &Path) -> Result<BTreeMap<TopicPartition, Offset>, CliError> {
    let text = fs::read_to_string(path)
        .map_err(|source| CliError::Io { what: format!("read {}", path.display()), source })?;
    let mut offsets = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (partition, offset) = parse_line(line).ok_or_else(|| {
            let (path, number) = (path.display(), index + 1);
            CliError::Input(format!("{path}:{number}: expected TOPIC PARTITION OFFSET"))
        })?;
        offsets.insert(partition, offset);
    }
    Ok(offsets)
}

fn parse_line(line: &str) -> Option<(TopicPartition, Offset)> {
    let mut words = line.split_whitespace();
    let topic = TopicName::new(words.next()?).ok()?;
    let partition = words.next()?.parse().ok().filter(|&number| number >= 0)?;
    let offset = words.next()?.parse().ok().filter(|&number| number >= 0)?;
    words.next().is_none().then_some(())?;
    Some((TopicPartition::new(topic, PartitionId(partition)), Offset(offset)))
}

#[cfg(test)]
mod tests {
    use logway_model::TimestampMs;

    use super::*;

    fn partition() -> TopicPartition {
        TopicPartition::new(TopicName::new("t").expect("a name"), PartitionId(3))
    }

    #[test]
    fn every_target_names_an_offset() {
        let range = Range { start: Offset(10), end: Offset(20), at_timestamp: None };
        let found = Range { at_timestamp: Some(Offset(15)), ..range };
        let at = |start_at| Target::To(SeekSpec::At(start_at));
        let each = |offset| Target::Each(BTreeMap::from([(partition(), Offset(offset))]));
        for (target, range, expected) in [
            (at(StartAt::Start), range, 10),
            (at(StartAt::End), range, 20),
            (at(StartAt::Offset(Offset(99))), range, 99),
            (at(StartAt::BeforeEnd(3)), range, 17),
            (at(StartAt::BeforeEnd(u64::MAX)), range, 10),
            (Target::To(SeekSpec::AfterStart(u64::MAX)), range, 20),
            (at(StartAt::Timestamp(TimestampMs(1))), found, 15),
            (at(StartAt::Timestamp(TimestampMs(1))), range, 20),
            (Target::To(SeekSpec::AfterStart(3)), range, 13),
            (Target::By(-2), range, 10),
            (Target::By(i64::MAX), range, i64::MAX),
            (each(14), range, 14),
        ] {
            let wanted = target.wanted(&partition(), range, Some(Offset(12)));
            assert_eq!(wanted, Some(Offset(expected)), "{target:?}");
        }
        assert_eq!(Target::By(1).wanted(&partition(), range, None), None);
    }

    #[test]
    fn lines_are_topic_partition_and_offset() {
        assert_eq!(parse_line(" t\t3  42 "), Some((partition(), Offset(42))));
        for line in ["t 3", "t 3 -1", "t -3 1", "t 3 1 1", "a/b 3 1", "t x 1"] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }
}
