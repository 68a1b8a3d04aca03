//! What file and flags gave, and what of it must not be shown.

use std::collections::BTreeMap;
use std::fmt;

use super::broker::broker_setting;
use super::definition::HIDDEN;

/// The values that file and flags gave to settings, in canonical text. Those that are secret are not printed.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Given(BTreeMap<&'static str, String>);

impl Given {
    /// A later value of a setting wins.
    pub(super) fn insert(&mut self, name: &'static str, value: String) {
        self.0.insert(name, value);
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_secret = |name| broker_setting(name).is_ok_and(|setting| setting.is_secret());
        let shown = |name, value| if is_secret(name) { HIDDEN } else { value };
        f.debug_map()
            .entries(self.0.iter().map(|(name, value)| (name, shown(name, value))))
            .finish()
    }
}

/// A text that is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Of a text.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text, for who needs it and does not tell.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::{BrokerSettings, describe_broker};
    use crate::{MetadataError, MetadataImage};

    const KEY: &str = "delegation.token.secret.key";
    const SECRET: &str = "a-word-for-nobody";

    #[test]
    fn a_secret_is_known_and_never_shown() {
        let given = [(KEY, SECRET), ("num.partitions", "7")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = BrokerSettings::new(given).expect("are valid");
        let key = settings.delegation_tokens.secret_key.as_ref();
        assert_eq!(key.map(|key| key.reveal()), Some(SECRET));
        let printed = format!("{settings:?}");
        assert!(printed.contains(KEY) && printed.contains("\"7\""), "{printed}");
        let described = describe_broker(&MetadataImage::default(), &settings);
        let entry = described.iter().find(|entry| entry.name == KEY).expect("is a setting");
        assert!(entry.sensitive && entry.value.is_none() && entry.type_code == 9);
        assert!(!printed.contains(SECRET) && !format!("{described:?}").contains(SECRET));
    }

    #[test]
    fn a_secret_that_is_refused_is_not_repeated() {
        let long = SECRET.repeat(10_000);
        let refused = BrokerSettings::new([(KEY.to_owned(), long)]).expect_err("is too long");
        assert!(matches!(refused, MetadataError::InvalidSetting { name: KEY, .. }));
        assert!(!refused.to_string().contains(SECRET), "{refused}");
    }
}
