//! What components are to each other: whether they fit together.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use super::assemble::Warnings;
use super::component::Say;
use super::{SinkConfig, SourceConfig};
use crate::channel::{directory, is_topic, transaction_default};
use crate::registry;
use crate::settings::Settings;

/// A batch above what a channel takes in one transaction would fail at the first full one.
pub(super) fn judge_batches(
    sources: &[SourceConfig],
    sinks: &[SinkConfig],
    channels: &BTreeMap<String, Settings>,
    say: Say<'_>,
) {
    let of_sources = sources
        .iter()
        .flat_map(|source| source.channels.iter().map(move |channel| (&source.settings, channel)));
    let of_sinks = sinks.iter().map(|sink| (&sink.settings, &sink.channel));
    for (settings, channel) in of_sources.chain(of_sinks) {
        let Some(channel) = channels.get(channel) else { continue };
        let (Some((key, batch)), Some(bound)) =
            (registry::batch(settings), transaction_bound(channel))
        else {
            continue;
        };
        if batch > bound {
            // A default is nowhere: then it is the first line of the component.
            let line = settings.lines.get(key).or_else(|| settings.lines.values().min());
            say(
                line.copied().unwrap_or(0),
                format!(
                    "{}: {key} is {batch}, above the transactionCapacity of {}, which is {bound}",
                    settings.component, channel.component
                ),
            );
        }
    }
}

pub(super) fn transaction_bound(channel: &Settings) -> Option<u64> {
    let declared = channel.declaration.key("transactionCapacity")?;
    Some(
        channel
            .limit(declared.name)
            .unwrap_or_else(|| transaction_default(channel.declaration.name)),
    )
}

/// An event that no sink on a round of dead letters can deliver would go round for ever.
pub(super) fn judge_dead_letters(sinks: &[SinkConfig], say: Say<'_>) {
    // Each round is told once, of its first sink.
    for first in 0..sinks.len() {
        let Some(round) = round_of(&sinks[first..]) else { continue };
        let way = round
            .iter()
            .map(|sink| format!("channel {}, sink {}", sink.channel, sink.settings.name));
        let way = way.collect::<Vec<_>>().join(", ");
        let Settings { component, line, .. } = &sinks[first].settings;
        let back = &sinks[first].channel;
        say(
            *line,
            format!(
                "{component}: what cannot be delivered would come round again: {way}, channel {back}"
            ),
        );
    }
}

/// The shortest way on which dead letters of the first sink come back to it, by others.
fn round_of(sinks: &[SinkConfig]) -> Option<Vec<&SinkConfig>> {
    let first = &sinks[0];
    let mut ways = VecDeque::from([vec![first]]);
    let mut seen: Vec<&String> = Vec::new();
    while let Some(way) = ways.pop_front() {
        let Some(next) = way.last().and_then(|sink| sink.dead_letter.as_ref()) else { continue };
        if *next == first.channel {
            return Some(way);
        }
        if seen.contains(&next) {
            continue;
        }
        seen.push(next);
        let takers = sinks.iter().filter(|sink| sink.channel == *next);
        ways.extend(takers.map(|sink| [&way[..], &[sink]].concat()));
    }
    None
}

/// Two that keep their own in one place would take it for theirs, or write over it.
pub(super) fn judge_places(
    sources: &[SourceConfig],
    channels: &BTreeMap<String, Settings>,
    say: Say<'_>,
) {
    let positions = sources.iter().map(|source| &source.settings).filter_map(|settings| {
        settings.declaration.key("positionFile")?;
        settings.text("positionFile")?;
        Some((settings, "positionFile", settings.path("positionFile")))
    });
    let directories =
        channels.values().filter_map(|channel| Some((channel, "dataDirs", directory(channel)?)));
    let mut seen: BTreeMap<PathBuf, &Settings> = BTreeMap::new();
    for (settings, key, path) in positions.chain(directories) {
        let Some(other) = seen.get(&path) else {
            seen.insert(path, settings);
            continue;
        };
        let line = settings.lines.get(key).copied().unwrap_or(settings.line);
        let default = if settings.is_set(key) { "" } else { ", its default" };
        say(
            line,
            format!(
                "{}: {key} is {}{default}, which {} has already",
                settings.component,
                path.display(),
                other.component
            ),
        );
    }
}

/// Channels that nobody empties become full. Others may empty a topic.
pub(super) fn judge_channels(
    sources: &[SourceConfig],
    sinks: &[SinkConfig],
    channels: &BTreeMap<String, Settings>,
    warnings: &mut Warnings,
) {
    for (name, channel) in channels {
        if is_topic(channel) || sinks.iter().any(|sink| sink.channel == *name) {
            continue;
        }
        let source = sources.iter().find(|source| source.channels.contains(name));
        let letters = sinks.iter().find(|sink| sink.dead_letter.as_ref() == Some(name));
        let putter = source.map(|source| &source.settings);
        let text = match (putter, letters) {
            (Some(putter), _) => {
                format!("no sink takes what {} puts into it: it will be full", putter.component)
            }
            (None, Some(sink)) => {
                format!(
                    "no sink takes the dead letters of {}: it will be full",
                    sink.settings.component
                )
            }
            (None, None) => "neither a source nor a sink has it".to_owned(),
        };
        warnings.push((channel.line, format!("{}: {text}", channel.component)));
    }
}
