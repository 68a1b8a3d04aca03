//! ApiVersions: which APIs are served, at which versions.

use logway_metadata::{METADATA_FEATURE, MetadataLevel};
use logway_model::ErrorCode;
use logway_wire::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use logway_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};

use crate::request::{ClientSoftware, RequestContext};
use crate::routes::SERVED_APIS;

/// From this version on clients say what software they are (KIP-511).
const NAMED_SOFTWARE_FROM: i16 = 3;

/// Clients of earlier versions cannot take a feature whose least level is 0 (KIP-1022).
const LEAST_LEVEL_0_FROM: i16 = 4;

/// How much is kept of the name and of the version of a client's software.
const SOFTWARE_CHARS_MAX: usize = 100;

/// What of Kafka's features with levels is in force: its name, and the only level that there is (KIP-584). Clients and tools
/// look here for what a cluster can do.
pub(super) const FEATURES: &[(&str, i16)] = &[
    // The consumer group protocol (KIP-848).
    ("group.version", 1),
    // The protocol of streams groups (KIP-1071).
    ("streams.version", 1),
    // Clients raise their epoch with each transaction, and Produce adds partitions (KIP-890).
    (TRANSACTION_VERSION, TRANSACTION_LEVEL),
];

/// The answer is nearly always the same, and small.
pub(crate) fn built_bytes(_context: &RequestContext, _request: &ApiVersionsRequest) -> usize {
    0
}

pub(crate) async fn handle(
    context: RequestContext,
    request: ApiVersionsRequest,
) -> ApiVersionsResponse {
    if context.version >= NAMED_SOFTWARE_FROM
        && !(is_software_word(&request.client_software_name)
            && is_software_word(&request.client_software_version))
    {
        let error_code = ErrorCode::InvalidRequest.code();
        return ApiVersionsResponse { error_code, ..Default::default() };
    }
    if context.version >= NAMED_SOFTWARE_FROM {
        let word = |text: &str| text.chars().take(SOFTWARE_CHARS_MAX).collect();
        let (name, version) = (&request.client_software_name, &request.client_software_version);
        let software = ClientSoftware { name: word(name), version: word(version) };
        // What was said first counts.
        let _ = context.connection.software.set(software);
    }
    let mut response = announced();
    add_metadata_level(&context, &mut response);
    if context.version < LEAST_LEVEL_0_FROM {
        response.supported_features.retain(|feature| feature.min_version > 0);
    }
    response
}

/// Adds the feature whose level changes: that of the metadata. Level 0 is not told of, as in Kafka.
fn add_metadata_level(context: &RequestContext, response: &mut ApiVersionsResponse) {
    let (level, epoch) = context.metadata_level();
    response.finalized_features_epoch = i64::try_from(epoch.0).unwrap_or(i64::MAX);
    response.supported_features.push(SupportedFeatureKey {
        name: METADATA_FEATURE.into(),
        min_version: MetadataLevel::ONE_NODE.0,
        max_version: MetadataLevel::NEWEST.0,
        ..Default::default()
    });
    if level > MetadataLevel::ONE_NODE {
        response.finalized_features.push(FinalizedFeatureKey {
            name: METADATA_FEATURE.into(),
            min_version_level: level.0,
            max_version_level: level.0,
            ..Default::default()
        });
    }
}

/// Everything that is served, by key, and the features that the program alone decides.
pub(crate) fn announced() -> ApiVersionsResponse {
    let api_keys = SERVED_APIS.iter().map(|api| ApiVersion {
        api_key: api.key.id(),
        min_version: api.announced.min,
        max_version: api.announced.max,
        ..Default::default()
    });
    let supported = FEATURES.iter().map(|(name, level)| SupportedFeatureKey {
        name: (*name).into(),
        min_version: 0,
        max_version: *level,
        ..Default::default()
    });
    let finalized = FEATURES.iter().map(|(name, level)| FinalizedFeatureKey {
        name: (*name).into(),
        min_version_level: *level,
        max_version_level: *level,
        ..Default::default()
    });
    ApiVersionsResponse {
        api_keys: api_keys.collect(),
        supported_features: supported.collect(),
        finalized_features: finalized.collect(),
        ..Default::default()
    }
}

/// The feature that tells clients to raise their epoch with each transaction, and that Produce adds partitions (KIP-890).
pub(crate) const TRANSACTION_VERSION: &str = "transaction.version";

/// Its level.
pub(crate) const TRANSACTION_LEVEL: i16 = 2;

/// Letters, digits, `-` and `.`, with a letter or digit first and last: KIP-511 allows no other,
/// so that the words can be used in metrics.
fn is_software_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_words_are_kip_511s() {
        for good in ["apache-kafka-java", "4.3.0", "a", "v1.2-rc.3"] {
            assert!(is_software_word(good), "{good}");
        }
        for bad in ["", "-a", "a.", "a b", "ä", "a/b"] {
            assert!(!is_software_word(bad), "{bad}");
        }
    }

    #[test]
    fn each_api_is_announced_once_and_in_order() {
        let keys: Vec<i16> = announced().api_keys.iter().map(|api| api.api_key).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
    }
}
