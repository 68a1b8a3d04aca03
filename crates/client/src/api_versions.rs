//! What a broker announces that it speaks.

use std::collections::HashMap;

use logway_wire::messages::ApiVersionsResponse;
use logway_wire::{ApiKey, Request, VersionRange};

/// The version range of each API, as one broker announced them.
#[derive(Debug, Clone, Default)]
pub struct ApiVersions {
    ranges: HashMap<i16, VersionRange>,
}

impl ApiVersions {
    /// Takes the ranges out of the broker's answer; APIs that we do not know do no harm.
    pub fn from_response(response: &ApiVersionsResponse) -> ApiVersions {
        let ranges = response
            .api_keys
            .iter()
            .map(|api| (api.api_key, VersionRange { min: api.min_version, max: api.max_version }))
            .collect();
        ApiVersions { ranges }
    }

    /// The versions announced for an API, or an empty range.
    pub fn announced(&self, api_key: ApiKey) -> VersionRange {
        self.ranges.get(&api_key.id()).copied().unwrap_or(VersionRange { min: 0, max: -1 })
    }

    /// The highest version that both sides speak and that is not above `version_max`.
    pub fn highest_common<R: Request>(&self, version_max: i16) -> Option<i16> {
        let theirs = self.announced(R::API_KEY);
        let version = theirs.max.min(R::VALID_VERSIONS.max).min(version_max);
        (version >= theirs.min && version >= R::VALID_VERSIONS.min).then_some(version)
    }
}

#[cfg(test)]
mod tests {
    use logway_wire::Message;
    use logway_wire::messages::FetchRequest;
    use logway_wire::messages::api_versions_response::ApiVersion;

    use super::*;

    fn announcing(min_version: i16, max_version: i16) -> ApiVersions {
        let api_key = ApiKey::Fetch.id();
        let api = ApiVersion { api_key, min_version, max_version, ..ApiVersion::default() };
        let response = ApiVersionsResponse { api_keys: vec![api], ..Default::default() };
        ApiVersions::from_response(&response)
    }

    #[test]
    fn the_highest_common_version_is_chosen() {
        let ours = FetchRequest::VALID_VERSIONS;
        let highest = |versions: ApiVersions, cap| versions.highest_common::<FetchRequest>(cap);
        assert_eq!(highest(announcing(0, 11), i16::MAX), Some(11));
        assert_eq!(highest(announcing(0, 99), i16::MAX), Some(ours.max));
        assert_eq!(highest(announcing(0, 99), 12), Some(12));
        assert_eq!(highest(announcing(13, 99), 12), None);
        assert_eq!(highest(announcing(0, ours.min - 1), i16::MAX), None);
        assert_eq!(highest(announcing(ours.max + 1, 99), i16::MAX), None);
        assert_eq!(highest(ApiVersions::default(), i16::MAX), None);
    }
}
