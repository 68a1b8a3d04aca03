//! UpdateFeatures: raises or lowers the levels of the cluster's features (KIP-584, KIP-778).
//!
//! The level of the one feature that is announced never changes: there are no older brokers to agree with. So whatever
//! is asked for, but for the level that there is, is refused as Kafka refuses a feature that it does not know.

use logway_model::ErrorCode;
use logway_wire::messages::update_features_request::FeatureUpdateKey;
use logway_wire::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};

use super::api_versions::{TRANSACTION_LEVEL, TRANSACTION_VERSION};
use crate::request::{RequestContext, refusal_text};
use logway_node::access::{Operation, Resource};

/// How much of a feature's name is repeated to the client that sent it.
const NAME_CHARS_SHOWN: usize = 80;

/// The answer is one refusal.
pub(crate) fn built_bytes(_context: &RequestContext, _request: &UpdateFeaturesRequest) -> usize {
    0
}

pub(crate) async fn handle(
    context: RequestContext,
    request: UpdateFeaturesRequest,
) -> UpdateFeaturesResponse {
    let refusal = match context.check(Operation::Alter, Resource::Cluster) {
        // One feature that cannot be updated fails them all.
        Ok(()) => request.feature_updates.iter().find(|update| !is_so(update)).map(refusal),
        Err(code) => Some((code, refusal_text(code).to_owned())),
    };
    UpdateFeaturesResponse {
        error_code: refusal.as_ref().map_or(ErrorCode::None, |(code, _)| *code).code(),
        error_message: refusal.map(|(_, message)| message.into()),
        ..Default::default()
    }
}

/// Whether the feature has that level already.
fn is_so(update: &FeatureUpdateKey) -> bool {
    update.feature.as_str() == TRANSACTION_VERSION && update.max_version_level == TRANSACTION_LEVEL
}

fn refusal(update: &FeatureUpdateKey) -> (ErrorCode, String) {
    let name: String = update.feature.chars().take(NAME_CHARS_SHOWN).collect();
    let level = update.max_version_level;
    let message = format!(
        "feature '{name}' cannot be set to level {level}: this broker has no feature with a level that \
         can be changed"
    );
    (ErrorCode::InvalidUpdateVersion, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_feature_and_not_more() {
        let update = |name: String| FeatureUpdateKey {
            feature: name.into(),
            max_version_level: 7,
            ..Default::default()
        };
        let (code, message) = refusal(&update("metadata.version".to_owned()));
        assert_eq!(code, ErrorCode::InvalidUpdateVersion);
        assert!(message.contains("'metadata.version'") && message.contains('7'), "{message}");
        let (_, message) = refusal(&update("x".repeat(30_000)));
        assert!(message.len() < 300, "{}", message.len());
    }
}
