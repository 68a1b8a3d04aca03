//! The table of the settings of a subscription to clients' metrics (KIP-714), and whom one selects.

use std::collections::BTreeMap;

use regex_lite::{Regex, RegexBuilder};

use super::definition::{Kind, Setting, look_up};
use super::value::Value;
use crate::error::MetadataError;
use crate::image::Overrides;

/// The setting of a name, or the error that says so and which name comes close.
pub fn client_metrics_setting(name: &str) -> Result<&'static Setting, MetadataError> {
    look_up(CLIENT_METRICS_SETTINGS, "client metrics", name)
}

const INTERVAL_MS: &str = "interval.ms";
const MATCH: &str = "match";
const METRICS: &str = "metrics";

/// Every setting of a subscription, by name.
pub static CLIENT_METRICS_SETTINGS: &[Setting] = &[
    Setting::dynamic(
        INTERVAL_MS,
        Kind::Int { min: 100, max: 3_600_000, special: None },
        "300000",
        "ms",
        "How often the clients push their metrics.",
    ),
    Setting::dynamic(
        MATCH,
        Kind::ClientMatches,
        "",
        "",
        "Which clients the subscription is for: those whose every named property is matched whole \
         by its pattern; without any, all. The properties are `client_instance_id`, `client_id`, \
         `client_software_name`, `client_software_version`, `client_source_address` and \
         `client_source_port`.",
    ),
    Setting::dynamic(
        METRICS,
        Kind::Texts,
        "",
        "",
        "The beginnings of the names of the metrics that the clients push; `*` is all of them.",
    ),
];

/// What a subscription can select clients by, in the order of [`ClientProperties`].
pub(super) const MATCH_NAMES: [&str; 6] = [
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// The memory that one compiled pattern may take.
const PATTERN_MAX_BYTES: usize = 64 << 10;

/// A client as subscriptions see it: its properties in the order of their names in `match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientProperties {
    /// The id that the client was given for its metrics.
    pub instance_id: String,
    /// What the client calls itself.
    pub client_id: String,
    /// The client library.
    pub software_name: String,
    /// The library's version.
    pub software_version: String,
    /// Where it connects from.
    pub source_address: String,
    /// The port there.
    pub source_port: String,
}

impl ClientProperties {
    fn get(&self, name: &str) -> &str {
        match MATCH_NAMES.iter().position(|known| *known == name) {
            Some(0) => &self.instance_id,
            Some(1) => &self.client_id,
            Some(2) => &self.software_name,
            Some(3) => &self.software_version,
            Some(4) => &self.source_address,
            Some(5) => &self.source_port,
            _ => unreachable!("'{name}' was checked"),
        }
    }
}

/// One subscription to clients' metrics.
#[derive(Debug)]
pub struct ClientMetricsSubscription {
    /// How often to push.
    pub interval_ms: i32,
    /// The beginnings of the metrics' names; `*` for all.
    pub metrics: Vec<String>,
    matches: BTreeMap<&'static str, Regex>,
}

impl ClientMetricsSubscription {
    /// The subscription of these settings.
    ///
    /// Fails with [`MetadataError::InvalidSetting`] if one is not valid; what is stored is.
    pub fn resolve(overrides: &Overrides) -> Result<ClientMetricsSubscription, MetadataError> {
        let value = |name: &str| {
            let setting = client_metrics_setting(name)?;
            let text = overrides.get(name).map(String::as_str).or(setting.default);
            setting.parse(text.unwrap_or_default())
        };
        let Value::Int(interval_ms) = value(INTERVAL_MS)? else {
            unreachable!("the setting's type is int")
        };
        let matches = value(MATCH)?;
        let compiled = matches.items().iter().map(|item| {
            let invalid = |reason| client_metrics_setting(MATCH).map(|s| s.invalid(item, reason));
            match parse_match(item) {
                Ok(compiled) => Ok(compiled),
                Err(reason) => Err(invalid(reason)?),
            }
        });
        Ok(ClientMetricsSubscription {
            interval_ms,
            metrics: value(METRICS)?.items().to_vec(),
            matches: compiled.collect::<Result<_, MetadataError>>()?,
        })
    }

    /// Whether the subscription is for a client.
    pub fn selects(&self, client: &ClientProperties) -> bool {
        self.matches.iter().all(|(name, pattern)| pattern.is_match(client.get(name)))
    }
}

/// Reads `name=pattern`; the error is what it has to be.
pub(super) fn parse_match(text: &str) -> Result<(&'static str, Regex), String> {
    let (name, pattern) = text.split_once('=').ok_or("it must be name=pattern")?;
    let known = MATCH_NAMES.iter().find(|known| **known == name.trim());
    let name = known.ok_or_else(|| format!("clients are matched by {}", MATCH_NAMES.join(", ")))?;
    let pattern = format!("^(?:{})$", pattern.trim());
    let pattern = RegexBuilder::new(&pattern).size_limit(PATTERN_MAX_BYTES).build();
    let pattern = pattern.map_err(|error| format!("the pattern is not valid: {error}"))?;
    Ok((name, pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> ClientProperties {
        ClientProperties {
            instance_id: "mHXhSmZmSNiVcUPAqvxVGg".to_owned(),
            client_id: "orders-1".to_owned(),
            software_name: "apache-kafka-java".to_owned(),
            software_version: "4.3.0".to_owned(),
            source_address: "127.0.0.1".to_owned(),
            source_port: "50000".to_owned(),
        }
    }

    fn subscription(settings: &[(&str, &str)]) -> Result<ClientMetricsSubscription, MetadataError> {
        let overrides = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        ClientMetricsSubscription::resolve(&overrides.collect())
    }

    #[test]
    fn a_subscription_selects_by_whole_properties() {
        let selects =
            |matches| subscription(&[("match", matches)]).expect("is valid").selects(&client());
        assert!(selects(""));
        assert!(selects("client_id=orders-.*"));
        assert!(!selects("client_id=orders"));
        assert!(selects("client_software_name=apache.*, client_software_version=4\\.[0-9.]+"));
        assert!(!selects("client_software_name=apache.*,client_software_version=2.*"));
        assert!(selects("client_source_address=127\\.0\\.0\\.1,client_source_port=5.*"));
        assert!(selects("client_instance_id=mHX.*"));
    }

    #[test]
    fn defaults_are_kafkas() {
        let subscription = subscription(&[("metrics", "org.a., org.b")]).expect("is valid");
        assert_eq!(subscription.interval_ms, 300_000);
        assert_eq!(subscription.metrics, ["org.a.", "org.b"]);
    }

    #[test]
    fn what_selects_nobody_is_refused() {
        for matches in ["client_id", "name=x", "client_id=(", "client_id=a{1000}{1000}"] {
            assert!(subscription(&[("match", matches)]).is_err(), "{matches}");
        }
        assert!(subscription(&[("interval.ms", "99")]).is_err());
    }
}
