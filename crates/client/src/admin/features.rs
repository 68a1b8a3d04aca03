//! Levels of the cluster's features (KIP-584).

use std::collections::BTreeMap;
use std::time::Duration;

use logway_wire::WireString;
use logway_wire::messages::update_features_request::FeatureUpdateKey;
use logway_wire::messages::{ApiVersionsResponse, UpdateFeaturesRequest};
use tokio::time::timeout;

use super::CHANGE_TIMEOUT_MS;
use crate::error::check;
use crate::raw_connection::own_software;
use crate::{BrokerAddress, Client, ClientError};

/// What one broker tells of a feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeatureLevels {
    /// The newest level that the broker knows.
    pub newest: i16,
    /// The level that the cluster has agreed on; 0 where it has not.
    pub finalized: i16,
}

impl Client {
    /// The features that the broker at an address knows, by name; `None` if it does not answer within `patience`.
    pub async fn describe_features(
        &self,
        address: &BrokerAddress,
        patience: Duration,
    ) -> Option<BTreeMap<String, FeatureLevels>> {
        let ask = async { self.connect(address).await?.call(&own_software()).await };
        timeout(patience, ask).await.ok()?.ok().map(levels)
    }

    /// Raises the level of a feature, or only asks whether that can be done.
    ///
    /// # Errors
    ///
    /// As of any call; `INVALID_UPDATE_VERSION`, with the reason, for a level that the cluster cannot have.
    pub async fn raise_feature(
        &self,
        name: &str,
        level: i16,
        validate_only: bool,
    ) -> Result<(), ClientError> {
        let (feature, max_version_level) = (WireString::copy_of(name), level);
        let update = FeatureUpdateKey { feature, max_version_level, ..Default::default() };
        let request = UpdateFeaturesRequest {
            feature_updates: vec![update],
            validate_only,
            timeout_ms: CHANGE_TIMEOUT_MS,
            ..Default::default()
        };
        let response = self.change(&request, |response| vec![response.error_code]).await?;
        let what = || format!("bring the feature {name} to level {level}");
        check(what, response.error_code, response.error_message.as_ref())
    }
}

fn levels(response: ApiVersionsResponse) -> BTreeMap<String, FeatureLevels> {
    let known = response.supported_features.into_iter().map(|feature| {
        let newest = feature.max_version;
        (String::from(feature.name), FeatureLevels { newest, finalized: 0 })
    });
    let mut known: BTreeMap<_, _> = known.collect();
    for feature in response.finalized_features {
        let levels = known.entry(String::from(feature.name)).or_default();
        levels.finalized = feature.max_version_level;
    }
    known
}

#[cfg(test)]
mod tests {
    use logway_wire::messages::api_versions_response::{FinalizedFeatureKey, SupportedFeatureKey};

    use super::*;

    #[test]
    fn a_feature_has_what_the_broker_knows_and_what_is_finalised() {
        let supported = |name: &'static str, max_version| SupportedFeatureKey {
            name: name.into(),
            max_version,
            ..Default::default()
        };
        let finalized =
            FinalizedFeatureKey { name: "a".into(), max_version_level: 1, ..Default::default() };
        let response = ApiVersionsResponse {
            supported_features: vec![supported("a", 2), supported("b", 3)],
            finalized_features: vec![finalized],
            ..Default::default()
        };
        let known = levels(response);
        assert_eq!(known["a"], FeatureLevels { newest: 2, finalized: 1 });
        assert_eq!(known["b"], FeatureLevels { newest: 3, finalized: 0 });
    }
}
