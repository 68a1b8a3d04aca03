//! Which nodes a cluster knows, by their keys. Nodes talk by TLS where it knows any.

use logway_model::{DirectoryId, ErrorCode};
use serde::{Deserialize, Serialize};

use super::features::with_features;
use super::remove_broker::refuse_removed;
use super::{Command, ControllerError, Decision};
use crate::image::MetadataImage;
use crate::join_token::{Digest, JoinToken};
use crate::record::{ConfigRecord, ConfigResource, MetadataRecord, NodeKeyRecord};
use crate::settings::BrokerSettings;
use crate::settings::broker::{JOIN_TOKENS_SETTING, NODE_AUTHORITY_SETTING};

/// How many nodes a cluster can know by their keys.
pub const NODE_KEYS_MAX: usize = 1_000;

/// Makes the first node of a cluster known, which nobody has to admit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundNodeKeys {
    /// Its directory.
    pub directory: DirectoryId,
    /// Of its public key.
    pub key: Digest,
    /// Of the certificate of the authority, which join tokens name.
    pub authority: Digest,
}

impl Command for FoundNodeKeys {
    type Reply = ();

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let FoundNodeKeys { directory, key, authority } = self;
        let records = match image.node_key(directory) {
            Some(known) if known == key => Vec::new(),
            None if image.node_keys().next().is_none() => {
                let record = NodeKeyRecord { directory, key, token: None };
                let authority = ConfigRecord {
                    resource: ConfigResource::BrokerDefault,
                    name: NODE_AUTHORITY_SETTING.to_owned(),
                    value: Some(authority.to_string()),
                };
                vec![MetadataRecord::Config(authority), MetadataRecord::NodeKey(record)]
            }
            _ => {
                return Err(refused(
                    "The nodes of the cluster are known, and this is none of them.",
                ));
            }
        };
        Ok(with_features(Decision { records, reply: () }, image))
    }
}

/// Admits a node that has a join token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitNodeKey {
    /// Of the token's secret.
    pub secret: Digest,
    /// The node's directory.
    pub directory: DirectoryId,
    /// Of the node's public key.
    pub key: Digest,
    /// What the time is, in milliseconds since 1970.
    pub now_ms: i64,
}

impl Command for AdmitNodeKey {
    type Reply = ();

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        if was_admitted(image, &self) {
            return Ok(Decision { records: Vec::new(), reply: () });
        }
        let AdmitNodeKey { secret, directory, key, now_ms } = self;
        if image.node_keys().next().is_none() {
            return Err(refused("The nodes of the cluster do not talk by TLS."));
        }
        let mut tokens = join_tokens(image);
        let Some(token) = tokens.iter_mut().find(|token| token.secret == secret) else {
            return Err(refused(
                "The join token is not known: it was used, revoked, or is another cluster's.",
            ));
        };
        if token.expires_ms <= now_ms {
            return Err(refused("The join token has expired."));
        }
        refuse_removed(image, &[directory])?;
        // With its own key it may have lost what it was told.
        if image.node_key(directory).is_some_and(|known| known != key) {
            return Err(refused("The cluster knows the node of this directory by another key."));
        }
        if image.node_keys().count() >= NODE_KEYS_MAX {
            let message = format!("A cluster can have {NODE_KEYS_MAX} nodes at most.");
            return Err(ControllerError::new(ErrorCode::PolicyViolation, message));
        }
        let admitted_by = *token;
        token.uses -= 1;
        tokens.retain(|token| token.uses > 0 && token.expires_ms > now_ms);
        let left: Vec<String> = tokens.iter().map(JoinToken::to_string).collect();
        let tokens = ConfigRecord {
            resource: ConfigResource::BrokerDefault,
            name: JOIN_TOKENS_SETTING.to_owned(),
            value: Some(left.join(",")).filter(|left| !left.is_empty()),
        };
        let key = NodeKeyRecord { directory, key, token: Some(admitted_by) };
        let records = vec![MetadataRecord::Config(tokens), MetadataRecord::NodeKey(key)];
        Ok(with_features(Decision { records, reply: () }, image))
    }
}

/// Whether a node was admitted before, and the answer to that was lost. It has to show the same token, whose time has to last:
/// who a node is and by which key it is known is no secret.
pub fn was_admitted(image: &MetadataImage, request: &AdmitNodeKey) -> bool {
    let AdmitNodeKey { secret, directory, key, now_ms } = *request;
    image.node_admission(directory).is_some_and(|node| {
        let token = node.token.filter(|token| token.secret == secret && token.expires_ms > now_ms);
        node.key == key && token.is_some()
    })
}

/// The tokens that nodes can join by.
pub fn join_tokens(image: &MetadataImage) -> Vec<JoinToken> {
    let overrides = image.overrides(&ConfigResource::BrokerDefault);
    let text = overrides.and_then(|overrides| overrides.get(JOIN_TOKENS_SETTING));
    text.map(|text| JoinToken::parse_list(text)).unwrap_or_default()
}

fn refused(message: &str) -> ControllerError {
    ControllerError::new(ErrorCode::ClusterAuthorizationFailed, message)
}
