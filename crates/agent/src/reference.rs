//! The reference of components, from their declarations.

use crate::declaration::{Declaration, Fallback, Kind, Role};
use crate::registry;

/// A page of all components.
pub fn render_reference() -> String {
    let mut page = String::from(
        "# Components of agents\n\nMade from the declarations in the code, by `cargo xtask reference`. How to use them: \
         [AGENTS.md](../AGENTS.md).\n\nA `type` is the name here, in any case, or one of the names behind it, which are \
         Flume's. In TOML, keys may have dashes in place of capitals.\n",
    );
    for (role, title) in [
        (Role::Source, "Sources"),
        (Role::Channel, "Channels"),
        (Role::Sink, "Sinks"),
        (Role::Interceptor, "Interceptors"),
        (Role::Selector, "Channel selectors"),
        (Role::Processor, "Sink processors"),
    ] {
        page += &format!("\n## {title}\n");
        page += match role {
            Role::Source => {
                "\nEvery source has `channels`, `selector.type` with the keys of the selector, and `interceptors`.\n"
            }
            Role::Sink => {
                "\nEvery sink has `channel`, and may have `dead-letter`: a channel for events that cannot be delivered, with \
                           the headers `deadletter.reason` and `deadletter.sink`.\n"
            }
            _ => "",
        };
        for declaration in registry::all().filter(|declaration| declaration.role == role) {
            page += &component(declaration);
        }
    }
    page
}

fn component(declaration: &Declaration) -> String {
    let mut text = format!("\n### `{}`\n\n{}\n", declaration.name, declaration.doc);
    if !declaration.aliases.is_empty() {
        let names: Vec<String> =
            declaration.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        text += &format!("\nAlso {}.\n", names.join(", "));
    }
    if declaration.all_keys().next().is_some() {
        text += "\n| key | takes | default | |\n|---|---|---|---|\n";
    }
    for key in declaration.all_keys() {
        let fallback = match key.fallback {
            Fallback::Required => "required".to_owned(),
            Fallback::Nothing => String::new(),
            Fallback::Is("") => "empty".to_owned(),
            Fallback::Is(value) => format!("`{}`", value.replace('|', "\\|")),
        };
        let mut doc = key.doc.to_owned();
        match key.kind {
            Kind::Only(_, why) => doc += &format!(" Nothing else: {why}."),
            Kind::Ignored(why) => doc = format!("Ignored: {why}. {doc}"),
            _ => {}
        }
        text += &format!("| `{}` | {} | {fallback} | {doc} |\n", key.name, key.kind.text());
    }
    text
}
