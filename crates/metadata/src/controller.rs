//! The controller: turns an admin command into records, or refuses it.
//!
//! A command is judged against one image and has no effect of its own. The quorum judges commands
//! one after the other, each against the image that the commands before it lead to, commits the
//! records, and only then lets the reply out. Random ids come in with the command, so that the
//! same command and image give the same records everywhere.

mod acls;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition;
mod alter_partition_reassignments;
mod assign_replicas_to_dirs;
mod broker_liveness;
mod broker_rules;
mod broker_session;
mod command;
mod config_change;
mod create_partitions;
mod create_topics;
mod delegation_tokens;
mod delete_topics;
mod elect_leaders;
mod features;
mod finalize_metadata_level;
mod node_keys;
mod partition_change;
mod placement;
mod producer_ids;
mod register_broker;
mod remove_broker;
mod room_for_names;
mod scram_credentials;
mod streams;

use std::collections::BTreeSet;

pub use acls::{ACL_TEXT_MAX_BYTES, ACLS_MAX, CreateAcls, DeleteAcls};
pub use alter_client_quotas::{
    AlterClientQuotas, QUOTA_ENTITIES_MAX, QUOTA_NAME_MAX_BYTES, QUOTA_NAMES_MAX_BYTES,
    QuotaAlteration,
};
pub use alter_configs::{
    AlterConfigs, ConfigOperation, IncrementalAlterConfigs, OperationKind, ResourceConfigs,
    ResourceOperations, resource_asked_twice,
};
pub use alter_partition::{AlterPartition, AlteredPartition, IsrChange};
pub use alter_partition_reassignments::{AlterPartitionReassignments, PartitionMove};
pub use assign_replicas_to_dirs::{AssignReplicasToDirs, ReplicaDirectory};
pub use broker_liveness::BrokerLiveness;
pub use broker_session::{SetBrokerState, StartBroker};
pub use command::{Command, ControllerCommand, ControllerReply, Decision};
pub use create_partitions::{CreatePartitions, PartitionsIncrease};
pub use create_topics::{CreateTopics, CreatedTopic, NewTopic, is_reserved};
pub use delegation_tokens::{
    ChangedToken, CreateDelegationToken, ExpireDelegationToken, RemoveExpiredTokens,
    RenewDelegationToken, TOKEN_NAMES_MAX_BYTES, TOKEN_RENEWERS_MAX, TOKENS_MAX,
    TOKENS_OF_OWNER_MAX, check_token_names,
};
pub use delete_topics::{
    DeleteTopics, DeletedTopic, TopicReference, unknown_topic, unknown_topic_id,
};
pub use elect_leaders::{ElectLeaders, Election};
pub use finalize_metadata_level::FinalizeMetadataLevel;
use logway_model::{ErrorCode, TopicName};
pub use node_keys::{AdmitNodeKey, FoundNodeKeys, NODE_KEYS_MAX, join_tokens, was_admitted};
pub use producer_ids::{AllocateProducerIds, PRODUCER_ID_BLOCK, ProducerIdBlock};
pub use register_broker::RegisterBroker;
pub use remove_broker::RemoveBroker;
pub use room_for_names::{GROUPS_WITH_SETTINGS_MAX, SUBSCRIPTIONS_MAX};
pub use scram_credentials::{
    AlterScramCredentials, SCRAM_ITERATIONS, ScramCredentialChange, USER_NAME_MAX_BYTES, USERS_MAX,
};
use serde::{Deserialize, Serialize};
pub use streams::{
    CONSUMERS_MAX, ChangeStream, ChangeStreamsAccount, CreateStream, EndShards, EndedShard,
    MakeSealingKey, Reshard, Resharding, StreamChange, TAGS_MAX,
};

use crate::error::{MetadataError, excerpt};
use crate::level::MetadataLevel;

/// The most records that one command may make: one commit must stay a commit of moderate size.
pub const COMMAND_RECORDS_MAX: usize = 10_000;

/// A command, or one thing in a command, that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{code}: {message}")]
pub struct ControllerError {
    /// Kafka's code for it.
    pub code: ErrorCode,
    /// The reason, naming the topic or the setting, for people.
    pub message: String,
}

impl ControllerError {
    fn new(code: ErrorCode, message: impl Into<String>) -> ControllerError {
        ControllerError { code, message: message.into() }
    }

    /// The refusal of records that an older node of the cluster could not read.
    pub fn unsupported_level(needed: MetadataLevel, finalized: MetadataLevel) -> ControllerError {
        let message = format!(
            "This needs metadata level {needed}, and the cluster has finalised level {finalized}."
        );
        ControllerError::new(ErrorCode::UnsupportedVersion, message)
    }

    /// The refusal of records of a feature that a cluster has not turned on.
    pub fn unsupported_feature(name: &str) -> ControllerError {
        let message = format!("This needs {name}, which the cluster has not turned on.");
        ControllerError::new(ErrorCode::UnsupportedVersion, message)
    }

    /// The same, naming the topic that it is about: a request may be about many.
    fn of_topic(self, name: &TopicName) -> ControllerError {
        let message = format!("topic '{name}': {}", self.message);
        ControllerError { message, ..self }
    }
}

impl From<MetadataError> for ControllerError {
    fn from(error: MetadataError) -> ControllerError {
        let code = match error {
            MetadataError::UnknownSetting { .. }
            | MetadataError::InvalidSetting { .. }
            | MetadataError::ReadOnlySetting { .. } => ErrorCode::InvalidConfig,
            _ => ErrorCode::UnknownServerError,
        };
        ControllerError::new(code, error.to_string())
    }
}

/// The values that come more than once.
fn duplicates<'a, T: Ord + Clone + 'a>(values: impl Iterator<Item = &'a T>) -> BTreeSet<T> {
    let mut seen = BTreeSet::new();
    values.filter(|&value| !seen.insert(value)).cloned().collect()
}

/// The refusal of a topic that a request has twice. Nothing of it is submitted: alone, one of the two would be done.
pub fn topic_asked_twice(name: &str) -> ControllerError {
    let message = format!("Topic '{}' is in the request twice.", excerpt(name));
    ControllerError::new(ErrorCode::InvalidRequest, message)
}

/// The refusal of more partitions at once than a command can make for any topic.
fn too_many_partitions(partitions_max: usize) -> ControllerError {
    let message = format!(
        "One request can make {partitions_max} partitions of a topic at most; more can be added with \
         further requests."
    );
    ControllerError::new(ErrorCode::PolicyViolation, message)
}

/// The refusal of a command that would commit too much at once.
fn too_many_records(records_max: usize) -> ControllerError {
    let message = format!(
        "Too much in one request: it would make more than {records_max} metadata records; split it."
    );
    ControllerError::new(ErrorCode::PolicyViolation, message)
}
