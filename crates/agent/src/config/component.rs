//! One component of a configuration: its keys, taken out one by one until none is left that nobody knows.

use std::collections::{BTreeMap, BTreeSet};

use super::Property;
use super::substitute::substitute;
use crate::declaration::{Declaration, Fallback, Kind, Role, nearest};
use crate::kafka_cluster::BROKERS;
use crate::registry;
use crate::settings::Settings;

/// Where problems go.
pub(super) type Say<'a> = &'a mut dyn FnMut(usize, String);

/// What form a configuration has, and where it is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form<'a> {
    /// That of Flume's properties; or else ours.
    pub(super) is_flume: bool,
    /// In a broker's process, components that name no brokers speak to that one.
    pub(super) broker: Option<&'a str>,
}

/// The lines of one component, by their keys behind its name.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) by_key: BTreeMap<String, Property>,
    /// The first line of them, whatever was taken out since.
    begin: usize,
}

impl Lines {
    pub(super) fn take(&mut self, key: &str) -> Option<Property> {
        self.by_key.remove(key)
    }

    /// Takes all below a name, without the name.
    pub(super) fn take_below(&mut self, name: &str) -> Lines {
        let prefix = format!("{name}.");
        let keys: Vec<String> =
            self.by_key.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
        let mut below = Lines::default();
        for key in keys {
            let property = self.by_key.remove(&key).expect("it was there");
            below.add(key[prefix.len()..].to_owned(), property);
        }
        below
    }

    pub(super) fn add(&mut self, key: String, property: Property) {
        let line = property.line;
        self.begin = if self.by_key.is_empty() { line } else { self.begin.min(line) };
        self.by_key.insert(key, property);
    }

    /// Puts into all values what they refer to. What refers to nothing is left out, and said.
    pub(super) fn substitute(&mut self, component: &str, say: Say<'_>) {
        self.by_key.retain(|key, property| {
            let substituted = substituted(&property.value);
            let problem = substituted.map(|value| property.value = value).err();
            if let Some(problem) = &problem {
                say(property.line, format!("{component}: {key} {problem}"));
            }
            problem.is_none()
        });
    }

    /// The first line of them.
    pub(super) fn line(&self) -> usize {
        self.begin
    }
}

/// A value with what it refers to in the environment.
pub(super) fn substituted(value: &str) -> Result<String, String> {
    substitute(value, |name| std::env::var(name).ok())
}

/// The declaration that `type` names.
pub(super) fn declaration(
    role: Role,
    component: &str,
    kind: Option<&Property>,
    line: usize,
    say: Say<'_>,
) -> Option<&'static Declaration> {
    let Some(kind) = kind else {
        say(line, format!("{component} has no type"));
        return None;
    };
    let found = registry::find(role, &kind.value);
    if found.is_none() {
        let known = registry::all().filter(|known| known.role == role);
        let names = known.flat_map(|known| known.aliases.iter().copied().chain([known.name]));
        let near = nearest(&kind.value, names);
        let near = match near {
            Some(near) => format!("the nearest is '{near}'"),
            None => {
                let known = registry::all().filter(|known| known.role == role);
                let names: Vec<&str> = known.map(|known| known.name).collect();
                format!("there are {}", names.join(", "))
            }
        };
        let word = role.word();
        say(kind.line, format!("{component}: '{}' is no {word} that is known; {near}", kind.value));
    }
    found
}

/// Judges what is left of a component's lines. In our own form keys may be written with dashes, and in any
/// case.
pub(super) fn settings(
    declaration: &'static Declaration,
    component: String,
    name: &str,
    lines: Lines,
    form: Form<'_>,
    say: Say<'_>,
) -> Settings {
    let begin = lines.begin;
    let (mut values, mut lines_of, mut refused) =
        (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for (written, mut property) in lines.by_key {
        // Flume does so when the environment is in the value.
        if form.is_flume {
            property.value = property.value.trim().to_owned();
        }
        let Some((key, kind)) = known(declaration, &written, form) else {
            let names = declaration.all_keys().map(|key| key.name);
            let near = nearest(&written, names).map(|near| format!("; the nearest is '{near}'"));
            let near = near.unwrap_or_default();
            say(
                property.line,
                format!("{component} ({}) has no key '{written}'{near}", declaration.name),
            );
            continue;
        };
        match kind.check(&property.value) {
            Ok(()) => {
                lines_of.insert(key.clone(), property.line);
                values.insert(key, property.value);
            }
            Err(problem) => {
                say(property.line, format!("{component}: {written} {problem}"));
                refused.insert(key);
            }
        }
    }
    if let Some(broker) = form.broker
        && declaration.key(BROKERS).is_some_and(|key| key.name == BROKERS)
    {
        values.entry(BROKERS.to_owned()).or_insert_with(|| broker.to_owned());
    }
    for key in declaration.all_keys() {
        let is_given = values.contains_key(key.name) || refused.contains(key.name);
        if matches!(key.fallback, Fallback::Required) && !is_given {
            say(begin, format!("{component} ({}) needs '{}'", declaration.name, key.name));
        }
    }
    Settings { component, name: name.to_owned(), declaration, values, line: begin, lines: lines_of }
}

/// The key that is meant, as it is declared.
fn known(
    declaration: &'static Declaration,
    written: &str,
    form: Form<'_>,
) -> Option<(String, Kind)> {
    if let Some(key) = declaration.key(written) {
        return Some((written.to_owned(), key.kind));
    }
    if form.is_flume {
        return None;
    }
    let normal = |name: &str| name.replace(['-', '_'], "").to_lowercase();
    let wanted = normal(written);
    let key = declaration.all_keys().find(|key| normal(key.name) == wanted)?;
    Some((key.name.to_owned(), key.kind))
}
