//! UpdateFeatures: raises the levels of the cluster's features (KIP-584, KIP-778, KIP-1022).
//!
//! | feature | levels |
//! |---|---|
//! | `metadata` | rises when each node knows the new level, and never falls |
//! | Kafka's, as they are announced | the program decides; the one that there is can be asked for |
//!
//! One feature that cannot be updated fails them all, as in Kafka 4. Versions 0 and 1 name each feature that was updated.

use logway_metadata::controller::FinalizeMetadataLevel;
use logway_metadata::{METADATA_FEATURE, MetadataLevel};
use logway_model::ErrorCode;
use logway_node::access::Operation;
use logway_node::failure::Failure;
use logway_wire::messages::update_features_request::FeatureUpdateKey;
use logway_wire::messages::update_features_response::UpdatableFeatureResult;
use logway_wire::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};

use super::api_versions::FEATURES;
use super::batched_command::time_max;
use super::building::ENTRY_WITH_MESSAGE_BYTES;
use crate::request::{RequestContext, refusal};

/// How much of a feature's name is repeated to the client that sent it.
const NAME_CHARS_SHOWN: usize = 80;

/// From this version on an update says how far back it may go (KIP-778).
const UPGRADE_TYPE_FROM: i16 = 1;

/// Up to this version each feature that was updated is named.
const RESULTS_UP_TO: i16 = 1;

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

/// One outcome for each feature.
pub(crate) fn built_bytes(context: &RequestContext, request: &UpdateFeaturesRequest) -> usize {
    match context.version {
        ..=RESULTS_UP_TO => request.feature_updates.len() * ENTRY_WITH_MESSAGE_BYTES,
        _ => 0,
    }
}

pub(crate) async fn handle(
    context: RequestContext,
    request: UpdateFeaturesRequest,
) -> UpdateFeaturesResponse {
    match update(&context, &request).await {
        Ok(()) => {
            UpdateFeaturesResponse { results: results(&context, request), ..Default::default() }
        }
        Err(failure) => UpdateFeaturesResponse {
            error_code: failure.code.code(),
            error_message: Some(failure.message.into()),
            ..Default::default()
        },
    }
}

fn results(
    context: &RequestContext,
    request: UpdateFeaturesRequest,
) -> Vec<UpdatableFeatureResult> {
    if context.version > RESULTS_UP_TO {
        return Vec::new();
    }
    let result =
        |FeatureUpdateKey { feature, .. }| UpdatableFeatureResult { feature, ..Default::default() };
    request.feature_updates.into_iter().map(result).collect()
}

async fn update(context: &RequestContext, request: &UpdateFeaturesRequest) -> Result<(), Failure> {
    let cluster = context.cluster(Operation::Alter).map_err(refusal)?;
    let (finalized, _) = context.metadata_level();
    let mut wanted: Option<&FeatureUpdateKey> = None;
    for update in &request.feature_updates {
        check(update, context.version, finalized).map_err(|reason| invalid(update, &reason))?;
        let is_metadata = update.feature.as_str() == METADATA_FEATURE;
        let is_more = wanted.is_none_or(|it| it.max_version_level < update.max_version_level);
        if is_metadata && is_more {
            wanted = Some(update);
        }
    }
    let Some(wanted) = wanted else { return Ok(()) };
    let level = MetadataLevel(wanted.max_version_level);
    let checked = cluster.check_metadata_level(level).await;
    checked.map_err(|reason| invalid(wanted, &reason.to_string()))?;
    if request.validate_only {
        return Ok(());
    }
    context.submit(FinalizeMetadataLevel { level }, time_max(request.timeout_ms)).await
}

/// What can be said of an update without asking other nodes.
fn check(update: &FeatureUpdateKey, version: i16, finalized: MetadataLevel) -> Result<(), String> {
    let name = update.feature.as_str();
    let wanted = update.max_version_level;
    let upgrade_type = match (version < UPGRADE_TYPE_FROM, update.allow_downgrade) {
        (true, true) => SAFE_DOWNGRADE,
        (true, false) => UPGRADE,
        (false, _) => update.upgrade_type,
    };
    if !(UPGRADE..=UNSAFE_DOWNGRADE).contains(&upgrade_type) {
        return Err("The controller does not support the given upgrade type.".to_owned());
    }
    let known = FEATURES.iter().find(|(known, _)| *known == name).map(|(_, level)| *level);
    let is_metadata = name == METADATA_FEATURE;
    let Some(now) = known.or(is_metadata.then_some(finalized.0)) else {
        return Err("This node does not support this feature.".to_owned());
    };
    match wanted {
        ..0 => Err("A feature version cannot be less than 0.".to_owned()),
        _ if wanted == now => Ok(()),
        _ if wanted < now && upgrade_type == UPGRADE => Err("Can't downgrade the version of this \
            feature without setting the upgrade type to either safe or unsafe downgrade."
            .to_owned()),
        _ if wanted > now && upgrade_type != UPGRADE => {
            Err("Can't downgrade to a newer version.".to_owned())
        }
        // The nodes decide.
        _ if is_metadata => Ok(()),
        _ => Err(format!("This node supports level {now} alone.")),
    }
}

/// The refusal of everything, because of one feature; in the words of Kafka.
fn invalid(update: &FeatureUpdateKey, reason: &str) -> Failure {
    let name: String = update.feature.chars().take(NAME_CHARS_SHOWN).collect();
    let level = update.max_version_level;
    let message = format!(
        "The update failed for all features since the following feature had an error: Invalid update version {level} \
         for feature {name}. {reason}"
    );
    Failure::new(ErrorCode::InvalidUpdateVersion, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINALIZED: MetadataLevel = MetadataLevel::CLUSTER;

    fn update(feature: &str, level: i16, upgrade_type: i8) -> FeatureUpdateKey {
        let feature = feature.to_owned().into();
        FeatureUpdateKey { feature, max_version_level: level, upgrade_type, ..Default::default() }
    }

    fn refused(feature: &str, level: i16, upgrade_type: i8) -> Option<String> {
        check(&update(feature, level, upgrade_type), 1, FINALIZED).err()
    }

    #[test]
    fn a_refusal_names_the_feature_and_not_more() {
        let message = |name: &str| invalid(&update(name, 7, UPGRADE), "No.").message;
        let expected = "The update failed for all features since the following feature had an error: Invalid update \
                        version 7 for feature metadata.version. No.";
        assert_eq!(message("metadata.version"), expected);
        let long = message(&"x".repeat(30_000));
        assert!(long.len() < 300, "{}", long.len());
    }

    #[test]
    fn a_level_is_asked_for_in_the_direction_that_it_goes() {
        assert_eq!(refused("metadata", 2, UPGRADE), None);
        assert_eq!(refused("metadata", 1, UPGRADE), None, "it is so");
        assert_eq!(refused("metadata", 1, SAFE_DOWNGRADE), None, "it is so");
        let newer = "Can't downgrade to a newer version.";
        assert_eq!(refused("metadata", 2, SAFE_DOWNGRADE).as_deref(), Some(newer));
        let older = refused("metadata", 0, UPGRADE).expect("is older");
        assert!(
            older.starts_with("Can't downgrade the version of this feature without"),
            "{older}"
        );
        // Whether there is a way back is said with the rest.
        assert_eq!(refused("metadata", 0, UNSAFE_DOWNGRADE), None);
        let negative = "A feature version cannot be less than 0.";
        assert_eq!(refused("metadata", -1, UPGRADE).as_deref(), Some(negative));
        for unknown in [0, 4] {
            let said = refused("metadata", 2, unknown).expect("is unknown");
            assert_eq!(said, "The controller does not support the given upgrade type.");
        }
    }

    #[test]
    fn the_oldest_version_has_one_kind_of_downgrade() {
        let older =
            |allow_downgrade| FeatureUpdateKey { allow_downgrade, ..update("metadata", 0, 0) };
        assert_eq!(check(&older(true), 0, FINALIZED), Ok(()));
        check(&older(false), 0, FINALIZED).expect_err("it is older");
    }

    #[test]
    fn other_features_have_the_level_that_they_have() {
        assert_eq!(refused("transaction.version", 2, UPGRADE), None);
        let alone = "This node supports level 2 alone.";
        assert_eq!(refused("transaction.version", 1, SAFE_DOWNGRADE).as_deref(), Some(alone));
        assert_eq!(refused("transaction.version", 3, UPGRADE).as_deref(), Some(alone));
        let unknown = "This node does not support this feature.";
        assert_eq!(refused("metadata.version", 25, UPGRADE).as_deref(), Some(unknown));
    }
}
