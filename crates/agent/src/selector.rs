//! Which channels an event goes to.

use std::collections::HashMap;

use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::event::Event;
use crate::settings::Settings;

const OPTIONAL: &str = "Channels that may fail without a word to the source, which does not wait for room in them. Each failure is counted.";

pub(crate) const REPLICATING: Declaration = Declaration {
    role: Role::Selector,
    name: "replicating",
    aliases: &["org.apache.flume.channel.ReplicatingChannelSelector"],
    doc: "Each event goes to all channels of the source.",
    keys: &[key("optional", Kind::Names, Fallback::Nothing, OPTIONAL)],
    shared: &[],
};

pub(crate) const MULTIPLEXING: Declaration = Declaration {
    role: Role::Selector,
    name: "multiplexing",
    aliases: &["org.apache.flume.channel.MultiplexingChannelSelector"],
    doc: "The value of a header says to which channels an event goes.",
    keys: &[
        key("header", Kind::Text, Fallback::Is("flume.selector.header"), "The header."),
        key("mapping.*", Kind::Names, Fallback::Nothing, "The channels of a value."),
        key(
            "default",
            Kind::Names,
            Fallback::Nothing,
            "The channels of all other values. Without them such events are dropped, and counted as unmapped.",
        ),
        key("optional.*", Kind::Names, Fallback::Nothing, OPTIONAL),
    ],
    shared: &[],
};

/// Chooses among the channels of a source, by their places in its list.
#[derive(Debug)]
pub(crate) enum Selector {
    Replicating(Choice),
    Multiplexing { header: String, mapping: HashMap<String, Choice>, otherwise: Choice },
}

/// Channels for an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) required: Vec<usize>,
    pub(crate) optional: Vec<usize>,
}

impl Selector {
    /// # Errors
    ///
    /// A channel that the source does not have.
    pub(crate) fn new(settings: &Settings, channels: &[String]) -> Result<Selector, String> {
        let places = |names: &str| -> Result<Vec<usize>, String> {
            let place = |name: &str| {
                let found = channels.iter().position(|channel| channel == name);
                found.ok_or_else(|| {
                    format!("the selector names channel '{name}', which the source does not have")
                })
            };
            names.split_whitespace().map(place).collect()
        };
        if settings.declaration.name == "replicating" {
            let optional = places(settings.text("optional").unwrap_or_default())?;
            let required = (0..channels.len()).filter(|place| !optional.contains(place)).collect();
            return Ok(Selector::Replicating(Choice { required, optional }));
        }
        let otherwise = places(settings.text("default").unwrap_or_default())?;
        let mut mapping: HashMap<String, Choice> = HashMap::new();
        for (value, names) in settings.below("mapping.") {
            mapping.entry(value.to_owned()).or_default().required = places(names)?;
        }
        for (value, names) in settings.below("optional.") {
            // As in Flume: a value that is only optional has the default channels too.
            let choice = mapping
                .entry(value.to_owned())
                .or_insert_with(|| Choice { required: otherwise.clone(), optional: Vec::new() });
            choice.optional = places(names)?;
            choice.optional.retain(|place| !choice.required.contains(place));
        }
        let header = settings.required("header").to_owned();
        let otherwise = Choice { required: otherwise, optional: Vec::new() };
        Ok(Selector::Multiplexing { header, mapping, otherwise })
    }

    pub(crate) fn choose(&self, event: &Event) -> &Choice {
        match self {
            Selector::Replicating(choice) => choice,
            Selector::Multiplexing { header, mapping, otherwise } => {
                let value = event.headers.get(header).filter(|value| !value.trim().is_empty());
                value.and_then(|value| mapping.get(value)).unwrap_or(otherwise)
            }
        }
    }
}
