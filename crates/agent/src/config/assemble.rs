//! From lines to an agent: which components there are, what they were told, and whether they fit together.

use std::collections::{BTreeMap, BTreeSet};

use super::component::{Form, Lines, Say, declaration, settings, substituted};
use super::judge::{
    judge_batches, judge_channels, judge_dead_letters, judge_places, transaction_bound,
};
use super::{AgentConfig, GroupConfig, Property, SinkConfig, SourceConfig};
use crate::declaration::{Declaration, Key, Kind, Role, nearest};
use crate::registry;
use crate::selector::Selector;
use crate::settings::Settings;

/// Parts of an agent, in Flume's words.
const PARTS: &[&str] = &["sources", "channels", "sinks", "sinkgroups"];

/// What one of a part is called.
fn word(part: &str) -> &str {
    match part {
        "sinkgroups" => "sink group",
        _ => part.strip_suffix('s').unwrap_or(part),
    }
}

pub(super) type Warnings = Vec<(usize, String)>;

pub(super) fn assemble(
    name: String,
    properties: Vec<Property>,
    form: Form<'_>,
    say: Say<'_>,
) -> (AgentConfig, Warnings) {
    let mut warnings = Vec::new();
    let mut parts = Parts::sorted(properties, form, say, &mut warnings);
    let mut channels = BTreeMap::new();
    for (name, lines) in parts.take("channels") {
        channels.extend(channel(&name, lines, form, say).map(|channel| (name, channel)));
    }
    let sources = parts.take("sources").into_iter();
    let sources = sources.filter_map(|(name, lines)| source(&name, lines, &channels, form, say));
    let sources: Vec<SourceConfig> = sources.collect();
    let sinks = parts.take("sinks").into_iter();
    let sinks = sinks.filter_map(|(name, lines)| sink(&name, lines, &channels, form, say));
    let sinks: Vec<SinkConfig> = sinks.collect();
    let mut grouped = BTreeSet::new();
    let mut groups = Vec::new();
    for (name, lines) in parts.take("sinkgroups") {
        groups.extend(group(&name, lines, &sinks, &mut grouped, form, say));
    }
    if sources.is_empty() && sinks.is_empty() {
        say(0, format!("agent '{name}' has neither sources nor sinks"));
    }
    judge_batches(&sources, &sinks, &channels, say);
    judge_dead_letters(&sinks, say);
    judge_places(&sources, &channels, say);
    judge_channels(&sources, &sinks, &channels, &mut warnings);
    (AgentConfig { name, sources, channels, sinks, groups, warnings: Vec::new() }, warnings)
}

/// The lines of an agent by part and component.
struct Parts(BTreeMap<&'static str, Vec<(String, Lines)>>);

impl Parts {
    /// Flume's form has a list of the components that count; in ours all that are there do.
    fn sorted(
        properties: Vec<Property>,
        form: Form<'_>,
        say: Say<'_>,
        warnings: &mut Warnings,
    ) -> Parts {
        let mut found: BTreeMap<&'static str, BTreeMap<String, Lines>> = BTreeMap::new();
        let mut listed: BTreeMap<&'static str, Property> = BTreeMap::new();
        for property in properties {
            let (part, rest) = match property.key.split_once('.') {
                Some((part, rest)) => (part, Some(rest.to_owned())),
                None => (property.key.as_str(), None),
            };
            let Some(part) = PARTS.iter().copied().find(|known| *known == part) else {
                let near = nearest(part, PARTS.iter().copied());
                let near =
                    near.map(|near| format!("; the nearest is '{near}'")).unwrap_or_default();
                say(property.line, format!("an agent has no '{part}' here{near}"));
                continue;
            };
            match rest.as_deref().map(|rest| rest.split_once('.')) {
                None => match substituted(&property.value) {
                    Ok(value) => drop(listed.insert(part, Property { value, ..property })),
                    Err(problem) => say(property.line, format!("{part} {problem}")),
                },
                Some(None) => {
                    say(property.line, format!("'{}' says nothing of a component", property.key))
                }
                Some(Some((component, key))) => {
                    let (component, key) = (component.to_owned(), key.to_owned());
                    let lines = found.entry(part).or_default().entry(component).or_default();
                    lines.add(key, property);
                }
            }
        }
        let mut parts = BTreeMap::new();
        for part in PARTS {
            let mut found = found.remove(part).unwrap_or_default();
            let mut active: Vec<(String, Lines)> = match listed.get(part) {
                Some(list) if form.is_flume => {
                    let mut seen = BTreeSet::new();
                    let names = list.value.split_whitespace().filter(|name| seen.insert(*name));
                    let take = |name: &str| {
                        let lines = found.remove(name);
                        if lines.is_none() {
                            say(
                                list.line,
                                format!("{part} names '{name}', and nothing else is said of it"),
                            );
                        }
                        lines.map(|lines| (name.to_owned(), lines))
                    };
                    names.filter_map(take).collect()
                }
                None if form.is_flume => Vec::new(),
                _ => std::mem::take(&mut found).into_iter().collect(),
            };
            for (name, lines) in &mut active {
                lines.substitute(&format!("{} {name}", word(part)), say);
            }
            for (name, lines) in found {
                let text = format!("{part}.{name} is not in the list of {part}, and not run");
                warnings.push((lines.line(), text));
            }
            parts.insert(*part, active);
        }
        Parts(parts)
    }

    fn take(&mut self, part: &str) -> Vec<(String, Lines)> {
        self.0.remove(part).unwrap_or_default()
    }
}

fn channel(name: &str, mut lines: Lines, form: Form<'_>, say: Say<'_>) -> Option<Settings> {
    let component = format!("channel {name}");
    let begin = lines.line();
    let kind = lines.take("type");
    let declared = declaration(Role::Channel, &component, kind.as_ref(), begin, say)?;
    let settings = settings(declared, component, name, lines, form, say);
    let is_number = |key: &&Key| matches!(key.kind, Kind::Number(..));
    let capacity = declared.key("capacity").filter(is_number);
    let capacity = capacity.and_then(|key| settings.limit(key.name));
    if let (Some(capacity), Some(bound)) = (capacity, transaction_bound(&settings))
        && bound > capacity
    {
        let text = format!(
            "{}: transactionCapacity {bound} is above capacity {capacity}",
            settings.component
        );
        say(begin, text);
    }
    Some(settings)
}

fn source(
    name: &str,
    mut lines: Lines,
    channels: &BTreeMap<String, Settings>,
    form: Form<'_>,
    say: Say<'_>,
) -> Option<SourceConfig> {
    let component = format!("source {name}");
    let begin = lines.line();
    let kind = lines.take("type");
    let interceptors = interceptors(&component, &mut lines, form, say);
    let selector_lines = lines.take_below("selector");
    let own_channels =
        existing(&component, lines.take("channels"), begin, "channels", channels, say);
    let selector = selector(&component, selector_lines, channels, form, say);
    if let (Some(selector), Some(own)) = (&selector, &own_channels)
        && let Err(why) = Selector::new(selector, own)
    {
        say(begin, format!("{component}: {why}"));
    }
    let declared = declaration(Role::Source, &component, kind.as_ref(), begin, say)?;
    let settings = settings(declared, component, name, lines, form, say);
    Some(SourceConfig { settings, channels: own_channels?, selector: selector?, interceptors })
}

/// The channels that a line names, if it names any, and all of them are there and named once.
fn existing(
    component: &str,
    line: Option<Property>,
    begin: usize,
    key: &str,
    channels: &BTreeMap<String, Settings>,
    say: Say<'_>,
) -> Option<Vec<String>> {
    let Some(line) = line.filter(|line| !line.value.trim().is_empty()) else {
        say(begin, format!("{component} has no {key}"));
        return None;
    };
    let names: Vec<String> = line.value.split_whitespace().map(str::to_owned).collect();
    let mut seen = BTreeSet::new();
    let mut all_exist = true;
    for name in names.iter().filter(|name| !seen.insert(*name)) {
        say(line.line, format!("{component}: channel '{name}' is there twice"));
        all_exist = false;
    }
    for name in names.iter().filter(|name| !channels.contains_key(*name)) {
        let near = nearest(name, channels.keys().map(String::as_str));
        let near = near.map(|near| format!("; the nearest is '{near}'")).unwrap_or_default();
        say(line.line, format!("{component}: there is no channel '{name}'{near}"));
        all_exist = false;
    }
    all_exist.then_some(names)
}

fn interceptors(component: &str, lines: &mut Lines, form: Form<'_>, say: Say<'_>) -> Vec<Settings> {
    let list = lines.take("interceptors");
    let mut below = lines.take_below("interceptors");
    let Some(list) = list else {
        if !below.by_key.is_empty() {
            say(below.line(), format!("{component} has interceptors and no list of them"));
        }
        return Vec::new();
    };
    let mut found = Vec::new();
    for name in list.value.split_whitespace() {
        let mut own = below.take_below(name);
        let component = format!("{component}, interceptor {name}");
        let kind = own.take("type");
        if let Some(declared) =
            declaration(Role::Interceptor, &component, kind.as_ref(), list.line, say)
        {
            found.push(settings(declared, component, name, own, form, say));
        }
    }
    found
}

fn selector(
    component: &str,
    mut lines: Lines,
    channels: &BTreeMap<String, Settings>,
    form: Form<'_>,
    say: Say<'_>,
) -> Option<Settings> {
    let component = format!("{component}, selector");
    let begin = lines.line();
    let kind = lines.take("type");
    let declared: &Declaration = match kind {
        None => registry::find(Role::Selector, "replicating").expect("is there"),
        Some(kind) => declaration(Role::Selector, &component, Some(&kind), begin, say)?,
    };
    let is_list = |key: &str| {
        key == "default"
            || key.starts_with("mapping.")
            || key == "optional"
            || key.starts_with("optional.")
    };
    for (_, property) in lines.by_key.iter().filter(|(key, _)| is_list(key)) {
        existing(&component, Some(property.clone()), begin, "channels", channels, say);
    }
    Some(settings(declared, component, "selector", lines, form, say))
}

fn sink(
    name: &str,
    mut lines: Lines,
    channels: &BTreeMap<String, Settings>,
    form: Form<'_>,
    say: Say<'_>,
) -> Option<SinkConfig> {
    let component = format!("sink {name}");
    let begin = lines.line();
    let kind = lines.take("type");
    let channel = existing(&component, lines.take("channel"), begin, "channel", channels, say);
    let dead_letter = lines.take("dead-letter");
    let dead_letter = dead_letter
        .and_then(|line| existing(&component, Some(line), begin, "channel", channels, say));
    let declared = declaration(Role::Sink, &component, kind.as_ref(), begin, say)?;
    let settings = settings(declared, component, name, lines, form, say);
    let mut channel = channel?;
    if channel.len() != 1 {
        say(begin, format!("{} takes from one channel", settings.component));
    }
    let channel = channel.remove(0);
    let dead_letter = dead_letter.and_then(|mut names| names.pop());
    Some(SinkConfig { settings, channel, dead_letter })
}

fn group(
    name: &str,
    mut lines: Lines,
    sinks: &[SinkConfig],
    grouped: &mut BTreeSet<String>,
    form: Form<'_>,
    say: Say<'_>,
) -> Option<GroupConfig> {
    let component = format!("sink group {name}");
    let begin = lines.line();
    let list = lines.take("sinks");
    let mut processor = lines.take_below("processor");
    for (key, property) in &lines.by_key {
        say(property.line, format!("{component} has no key '{key}'; it has sinks and processor.*"));
    }
    let kind = processor.take("type");
    let declared: &Declaration = match kind {
        None => registry::find(Role::Processor, "default").expect("is there"),
        Some(kind) => declaration(Role::Processor, &component, Some(&kind), begin, say)?,
    };
    let processor = settings(declared, component.clone(), name, processor, form, say);
    let Some(list) = list else {
        say(begin, format!("{component} has no sinks"));
        return None;
    };
    let names: Vec<String> = list.value.split_whitespace().map(str::to_owned).collect();
    for sink in &names {
        if !sinks.iter().any(|known| known.settings.name == *sink) {
            let near = nearest(sink, sinks.iter().map(|sink| sink.settings.name.as_str()));
            let near = near.map(|near| format!("; the nearest is '{near}'")).unwrap_or_default();
            say(list.line, format!("{component}: there is no sink '{sink}'{near}"));
        } else if !grouped.insert(sink.clone()) {
            say(list.line, format!("{component}: sink '{sink}' is in a group already"));
        }
    }
    if declared.name == "default" && names.len() != 1 {
        say(
            list.line,
            format!(
                "{component}: the default processor takes one sink, and there are {}",
                names.len()
            ),
        );
    }
    for (sink, _) in
        processor.below("priority.").filter(|(sink, _)| !names.iter().any(|n| n == sink))
    {
        say(list.line, format!("{component}: priority of '{sink}', which is not in the group"));
    }
    Some(GroupConfig { processor, sinks: names })
}
