//! Settings, as several commands print and read them.

use logway_client::{Client, ClientError, ConfigChange, ConfigEntry, ConfigResource, ConfigSource};
use logway_metadata::settings::NO_EFFECT;
use schemars::JsonSchema;
use serde::Serialize;

use super::deletion::Deletions;
use super::output::Table;

/// A setting.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Setting {
    pub(super) name: String,
    /// `null` if it has none, or if it is a secret
    pub(super) value: Option<String>,
    /// Where the value comes from: `topic`, `broker`, `all-brokers`, `static`, `default`,
    /// `client-metrics`, `group` or `other`
    pub(super) source: &'static str,
    /// Whether it cannot be changed while the broker runs
    pub(super) read_only: bool,
    pub(super) sensitive: bool,
}

impl Setting {
    /// Settings by name.
    pub(super) fn sorted(entries: Vec<ConfigEntry>) -> Vec<Setting> {
        let mut settings: Vec<Setting> = entries.into_iter().map(Setting::from).collect();
        settings.sort_by(|a, b| a.name.cmp(&b.name));
        settings
    }

    /// Whether somebody gave it its value.
    pub(super) fn is_set(&self) -> bool {
        self.source != ConfigSource::Default.name()
    }
}

impl From<ConfigEntry> for Setting {
    fn from(entry: ConfigEntry) -> Setting {
        Setting {
            name: entry.name,
            value: entry.value,
            source: entry.source.name(),
            read_only: entry.is_read_only,
            sensitive: entry.is_sensitive,
        }
    }
}

/// A line for each setting.
pub(super) fn table<'a>(settings: impl IntoIterator<Item = &'a Setting>) -> Table {
    let mut table = Table::new(&["SETTING", "VALUE", "SOURCE"]);
    for setting in settings {
        let value = match (&setting.value, setting.sensitive) {
            (None, true) => "(hidden)".to_owned(),
            (value, _) => value.clone().unwrap_or_default(),
        };
        table.row([setting.name.clone(), value, setting.source.to_owned()]);
    }
    table
}

/// Changes settings, all of them or none, and says of which there was nothing to delete.
pub(super) async fn alter(
    client: &Client,
    resource: &ConfigResource,
    changes: &[ConfigChange],
    dry_run: bool,
) -> Result<Deletions, ClientError> {
    let deletions = Deletions::look(client, resource, changes).await;
    let altered = client.alter_configs(resource, changes, dry_run).await;
    // Brokers take the changes of a resource together (KIP-339), and complain of the first that cannot
    // be: nobody should have to look whether the others were made.
    if let Err(ClientError::Refused { .. }) = &altered {
        eprintln!("nothing was changed in the settings of {resource}");
    }
    altered?;
    deletions.warn(resource);
    if !dry_run {
        match deletions.leave_any_of(changes) {
            true => eprintln!("changed the settings of {resource}"),
            false => eprintln!("nothing was changed in the settings of {resource}"),
        }
    }
    Ok(deletions)
}

/// Warns of settings that were just given values which do nothing, where the broker says so.
pub(super) async fn warn_without_effect<'a>(
    client: &Client,
    resource: &ConfigResource,
    names: impl IntoIterator<Item = &'a str>,
) {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() {
        return;
    }
    // What was asked for is done: whoever may not look at the settings goes without the warning.
    for entry in client.explain_configs(resource, &names).await.unwrap_or_default() {
        let documentation = entry.documentation.unwrap_or_default();
        if let Some((_, reason)) = documentation.split_once(NO_EFFECT) {
            eprintln!("warning: {} has no effect here: {reason}", entry.name);
        }
    }
}

/// Reads `KEY=VALUE`; the value may be empty and may contain `=`.
pub(super) fn parse_assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_need_a_key() {
        assert_eq!(parse_assignment("a = b=c"), Ok(("a".to_owned(), " b=c".to_owned())));
        assert_eq!(parse_assignment("a="), Ok(("a".to_owned(), String::new())));
        assert!(parse_assignment("a").is_err() && parse_assignment("=b").is_err());
    }

    #[test]
    fn a_secret_is_shown_as_one() {
        let setting = |name: &str, sensitive| Setting {
            name: name.to_owned(),
            value: None,
            source: "static",
            read_only: true,
            sensitive,
        };
        let settings = [setting("ssl.key", true), setting("rack", false)];
        let expected = "\
SETTING  VALUE     SOURCE
ssl.key  (hidden)  static
rack     -         static
";
        assert_eq!(table(&settings).render(), expected);
    }
}
