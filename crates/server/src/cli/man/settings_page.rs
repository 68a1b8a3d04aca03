//! The page of all settings, made from their tables.

use logway_metadata::settings::broker::{broker_settings, topic_setting_of_default};
use logway_metadata::settings::client_metrics::CLIENT_METRICS_SETTINGS;
use logway_metadata::settings::group::GROUP_SETTINGS;
use logway_metadata::settings::topic::TOPIC_SETTINGS;
use logway_metadata::settings::{Effect, Setting, Update};

use super::roff::Page;

const DESCRIPTION: &str = "\
`logway serve --config` reads a broker's settings from a file, as TOML. A setting's name may be written \
with dots, as in `log.retention.ms = 86400000`, or as tables. Flags win over the file. A name that does \
not exist, or a value that is not allowed, keeps the broker from starting.

Topics, groups and subscriptions to clients' metrics have settings of their own. `logway config` shows and \
changes them while the broker runs.";

/// The page logway.toml(5).
pub(super) fn render() -> String {
    let mut page = Page::new("logway.toml", 5, "settings of Logway's brokers, topics and groups");
    page.heading("Description");
    page.text(DESCRIPTION);
    let tables = [
        ("Broker settings", broker_settings()),
        ("Topic settings", TOPIC_SETTINGS),
        ("Group settings", GROUP_SETTINGS),
        ("Settings of subscriptions to clients' metrics", CLIENT_METRICS_SETTINGS),
    ];
    for (title, table) in tables {
        page.heading(title);
        let is_broker = title == "Broker settings";
        table.iter().for_each(|setting| page.item(setting.name, &meaning(setting, is_broker)));
    }
    page.heading("See also");
    page.text("`logway-serve`(1), `logway-config`(1)");
    page.into_text()
}

fn meaning(setting: &Setting, is_broker: bool) -> String {
    let of_topics = topic_setting_of_default(setting.name).filter(|_| is_broker);
    let doc = match of_topics {
        Some((topic, _)) => format!("The default of the topic setting `{}`.", topic.name),
        None => setting.doc.to_owned(),
    };
    let effect = match setting.effect {
        Effect::Now => String::new(),
        Effect::Nothing(reason) => format!("\n\nNo effect here: {reason}"),
        Effect::DefaultOnly(reason) => format!("\n\nDefault only: {reason}"),
    };
    let default = match setting.default {
        None => "not set".to_owned(),
        Some("") => "empty".to_owned(),
        // The formatter breaks a list only where there is space.
        Some(text) => format!("`{}`", text.replace(',', "`, `")),
    };
    let unit = Some(setting.unit).filter(|unit| !unit.is_empty()).map(|unit| format!(" {unit}"));
    let update = match setting.update {
        Update::Restart if is_broker => " Changes with a restart.",
        _ => " Changes at any time.",
    };
    let (kind, allowed) = (setting.kind.type_name(), setting.kind.allowed());
    let unit = unit.unwrap_or_default();
    format!("{doc}{effect}\n\nType: {kind} ({allowed}). Default: {default}{unit}.{update}")
}
