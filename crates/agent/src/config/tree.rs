//! An agent drawn as a tree: what comes from where, and goes where.

use std::fmt::Write;

use super::{AgentConfig, SinkConfig, SourceConfig};

impl AgentConfig {
    /// What would run, drawn as a tree.
    pub fn tree(&self) -> String {
        let mut text = format!("agent {}\n", self.name);
        for source in &self.sources {
            let kind = source.settings.declaration.name;
            let _ = writeln!(text, "├─ source {} ({kind})", source.settings.name);
            for interceptor in &source.interceptors {
                let kind = interceptor.declaration.name;
                let _ = writeln!(text, "│    through {} ({kind})", interceptor.name);
            }
            let selector = source.selector.declaration.name;
            let _ = writeln!(text, "│    to {} ({selector})", source.channels.join(", "));
            choices(source).iter().for_each(|choice| text += &format!("│      {choice}\n"));
        }
        for (name, channel) in &self.channels {
            let _ = writeln!(text, "├─ channel {name} ({})", channel.declaration.name);
            for sink in self.sinks.iter().filter(|sink| sink.channel == *name) {
                let _ = writeln!(text, "│    to {}", self.branch(sink));
            }
        }
        text
    }

    fn branch(&self, sink: &SinkConfig) -> String {
        let kind = sink.settings.declaration.name;
        let group = self.groups.iter().find(|group| group.sinks.contains(&sink.settings.name));
        let group = group.map(|group| {
            let processor = &group.processor;
            format!(", group {} ({})", processor.name, processor.declaration.name)
        });
        let letters = sink.dead_letter.as_ref().map(|name| format!(", dead letters to {name}"));
        let (group, letters) = (group.unwrap_or_default(), letters.unwrap_or_default());
        format!("sink {} ({kind}{group}){letters}", sink.settings.name)
    }
}

/// Which events of a source go to which of its channels.
fn choices(source: &SourceConfig) -> Vec<String> {
    let selector = &source.selector;
    let listed = |names: &str| names.split_whitespace().collect::<Vec<_>>().join(", ");
    if selector.declaration.name == "replicating" {
        let optional =
            selector.text("optional").map(|names| format!("optional: {}", listed(names)));
        return Vec::from_iter(optional);
    }
    let header = selector.required("header");
    let mapped = selector
        .below("mapping.")
        .map(|(value, names)| format!("{header} = {value}: {}", listed(names)));
    let optional = selector
        .below("optional.")
        .map(|(value, names)| format!("{header} = {value}, optional: {}", listed(names)));
    let otherwise = selector.text("default").map_or("none".to_owned(), listed);
    mapped.chain(optional).chain([format!("others: {otherwise}")]).collect()
}
