//! What comes of deleting settings: brokers say the same of one that was set, of one that was not, and of
//! one that does not exist.

use logway_client::{Client, ConfigChange, ConfigEntry, ConfigKind, ConfigResource, ConfigSource};

/// The settings that were to be deleted, and of which there was nothing to delete.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Deletions {
    /// They had their defaults.
    pub(super) not_set: Vec<String>,
    /// They are no settings of the resource.
    pub(super) unknown: Vec<String>,
}

impl Deletions {
    /// Looks, before `changes` are made, what there is to delete. Who may not look at the settings is told
    /// nothing.
    pub(super) async fn look(
        client: &Client,
        resource: &ConfigResource,
        changes: &[ConfigChange],
    ) -> Deletions {
        let names: Vec<&str> = changes.iter().filter_map(deleted).collect();
        if names.is_empty() {
            return Deletions::default();
        }
        match client.describe_configs(resource).await {
            Ok(entries) => Deletions::new(resource, &entries, &names),
            Err(_) => Deletions::default(),
        }
    }

    fn new(resource: &ConfigResource, entries: &[ConfigEntry], names: &[&str]) -> Deletions {
        let mut deletions = Deletions::default();
        for &name in names {
            match entries.iter().find(|entry| entry.name == name) {
                Some(entry) if entry.source == own_source(resource) => {}
                None if lists_all(resource) => deletions.unknown.push(name.to_owned()),
                Some(_) | None => deletions.not_set.push(name.to_owned()),
            }
        }
        deletions
    }

    /// Whether `changes` change anything.
    pub(super) fn leave_any_of(&self, changes: &[ConfigChange]) -> bool {
        changes.len() > self.not_set.len() + self.unknown.len()
    }

    /// Says which settings there was nothing to delete of.
    pub(super) fn warn(&self, resource: &ConfigResource) {
        for name in &self.not_set {
            eprintln!("warning: {name} is not set for {resource}: there is nothing to delete");
        }
        for name in &self.unknown {
            eprintln!("warning: {name} is no setting of {resource}: there is nothing to delete");
        }
    }
}

fn deleted(change: &ConfigChange) -> Option<&str> {
    match change {
        ConfigChange::Delete { name } => Some(name),
        ConfigChange::Set { .. } | ConfigChange::Append { .. } | ConfigChange::Subtract { .. } => {
            None
        }
    }
}

/// Where a value comes from that was set for the resource itself.
fn own_source(resource: &ConfigResource) -> ConfigSource {
    match resource.kind {
        ConfigKind::Topic => ConfigSource::Topic,
        ConfigKind::Broker if resource.name.is_empty() => ConfigSource::AllBrokers,
        ConfigKind::Broker => ConfigSource::Broker,
        ConfigKind::Group => ConfigSource::Group,
        ConfigKind::ClientMetrics => ConfigSource::ClientMetrics,
    }
}

/// Whether a broker describes all settings of the resource, and not only those that are set.
fn lists_all(resource: &ConfigResource) -> bool {
    match resource.kind {
        ConfigKind::Topic => true,
        ConfigKind::Broker => !resource.name.is_empty(),
        ConfigKind::Group | ConfigKind::ClientMetrics => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_set_is_told_from_what_does_not_exist() {
        let entry = |name: &str, source| ConfigEntry {
            name: name.to_owned(),
            value: None,
            source,
            is_sensitive: false,
            is_read_only: false,
            documentation: None,
        };
        let entries = [
            entry("own", ConfigSource::Broker),
            entry("shared", ConfigSource::AllBrokers),
            entry("usual", ConfigSource::Default),
        ];
        let names = ["own", "shared", "usual", "other"];
        let deletions = |name: &str| {
            let resource = ConfigResource { kind: ConfigKind::Broker, name: name.to_owned() };
            let Deletions { not_set, unknown } = Deletions::new(&resource, &entries, &names);
            (not_set.join(" "), unknown.join(" "))
        };
        assert_eq!(deletions("1"), ("shared usual".to_owned(), "other".to_owned()));
        assert_eq!(deletions(""), ("own usual other".to_owned(), String::new()));
    }

    #[test]
    fn a_change_that_changes_nothing_is_noticed() {
        let delete = |name: &str| ConfigChange::Delete { name: name.to_owned() };
        let set = ConfigChange::Set { name: "c".to_owned(), value: "1".to_owned() };
        let deletions = Deletions { not_set: vec!["a".to_owned()], unknown: vec!["b".to_owned()] };
        assert!(!deletions.leave_any_of(&[delete("a"), delete("b")]));
        assert!(deletions.leave_any_of(&[delete("a"), delete("b"), set]));
    }
}
