//! The reference page of all settings, written out of the tables.

use std::fmt::Write as _;

use super::broker::{broker_settings, topic_setting_of_default};
use super::client_metrics::CLIENT_METRICS_SETTINGS;
use super::definition::{Effect, Setting, Update};
use super::group::GROUP_SETTINGS;
use super::topic::TOPIC_SETTINGS;

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask`; edit the tables in crates/metadata/src/settings instead. -->
# Settings

Names, types, defaults and bounds are those of Apache Kafka 4.3 unless the text says otherwise.
A topic's settings are changed with `logway topic alter` or Kafka's own tools while it is in use. A
broker's settings are given in its TOML file (`logway serve --config FILE`), where
`log.retention.ms = 86400000` may also be written `\"log.retention.ms\" = 86400000` or as `ms` in
the table `[log.retention]`.
";

/// The page, in Markdown.
pub fn render_reference() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## Topic settings\n");
    TOPIC_SETTINGS.iter().for_each(|setting| push_setting(&mut page, setting));
    page.push_str("\n## Broker settings\n");
    broker_settings().iter().for_each(|setting| push_broker_setting(&mut page, setting));
    page.push_str("\n## Group settings\n");
    GROUP_SETTINGS.iter().for_each(|setting| push_setting(&mut page, setting));
    page.push_str("\n## Settings of subscriptions to clients' metrics\n");
    CLIENT_METRICS_SETTINGS.iter().for_each(|setting| push_setting(&mut page, setting));
    page
}

fn push_setting(page: &mut String, setting: &Setting) {
    push_head(page, setting);
    let names: Vec<String> =
        setting.synonyms.iter().map(|synonym| format!("`{}`", synonym.name)).collect();
    if !names.is_empty() {
        push_item(page, "broker's default for it", &names.join(", "));
    }
    push_effect(page, setting.effect);
    push_paragraph(page, setting.doc);
}

fn push_broker_setting(page: &mut String, setting: &Setting) {
    push_head(page, setting);
    let update = match setting.update {
        Update::Restart => "with a restart",
        Update::Dynamic => "at any time",
    };
    push_item(page, "changes", update);
    push_effect(page, setting.effect);
    match topic_setting_of_default(setting.name) {
        Some((topic, _)) => {
            push_paragraph(page, &format!("The default of the topic setting `{}`.", topic.name));
        }
        None => push_paragraph(page, setting.doc),
    }
}

fn push_head(page: &mut String, setting: &Setting) {
    let default = match setting.default {
        None => "not set".to_owned(),
        Some("") => "empty".to_owned(),
        Some(text) => format!("`{text}`"),
    };
    push_line(page, &format!("\n### `{}`\n", setting.name));
    push_item(page, "type", setting.kind.type_name());
    push_item(page, "default", &default);
    push_item(page, "allowed", &setting.kind.allowed());
    if !setting.unit.is_empty() {
        push_item(page, "unit", setting.unit);
    }
}

fn push_effect(page: &mut String, effect: Effect) {
    match effect {
        Effect::Now => {}
        Effect::Nothing(reason) => push_item(page, "**no effect here**", reason),
        Effect::DefaultOnly(reason) => push_item(page, "**default only**", reason),
    }
}

fn push_item(page: &mut String, label: &str, text: &str) {
    push_line(page, &format!("- {label}: {text}"));
}

fn push_paragraph(page: &mut String, text: &str) {
    push_line(page, &format!("\n{text}"));
}

fn push_line(page: &mut String, line: &str) {
    writeln!(page, "{line}").expect("writing to a string cannot fail");
}
