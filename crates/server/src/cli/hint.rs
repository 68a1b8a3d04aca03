//! What a user can do about an error.

use std::io;

use logway_client::{ClientError, ConnectionFailure};
use logway_model::ErrorCode;

/// Where to look when a partition has no leader.
pub(super) const LEADERLESS: &str =
    "the broker's log says why; 'logway cluster health' lists all such partitions";

/// A next step for whoever sees the error, if there is one that helps.
pub(super) fn hint(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::NoBroker { last, .. } => match &**last {
            ClientError::Connect { source, .. }
                if source.kind() == io::ErrorKind::ConnectionRefused =>
            {
                Some("start a broker with 'logway serve', or name another with -b HOST:PORT")
            }
            ClientError::Connect { .. } => Some("name the broker with -b HOST:PORT"),
            other => hint(other),
        },
        ClientError::Connect { .. } => {
            Some("the cluster advertises this address: it must be reachable from here")
        }
        ClientError::Connection { api: "ApiVersions", failure, .. } => hint_for_stranger(failure),
        ClientError::Unsupported { .. } => {
            Some("the broker is too old or too new for this command")
        }
        ClientError::NoSuchPartition { .. } => {
            Some("partitions count from 0; add some with 'logway topic alter TOPIC -p COUNT'")
        }
        ClientError::OffsetOutOfRange { .. } => {
            Some("read from the first record with '-o start', or only new ones with '-o end'")
        }
        ClientError::NoLeader { .. } => Some(LEADERLESS),
        ClientError::Refused { code, .. } => hint_for_code(*code),
        _ => None,
    }
}

/// Something listens there, but does not answer the first question as a broker does.
fn hint_for_stranger(failure: &ConnectionFailure) -> Option<&'static str> {
    match failure {
        ConnectionFailure::Closed
        | ConnectionFailure::ResponseTooLarge { .. }
        | ConnectionFailure::ResponseTooShort
        | ConnectionFailure::UnexpectedCorrelationId { .. } => {
            Some("is this the port of a Kafka listener, without TLS?")
        }
        _ => None,
    }
}

fn hint_for_code(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::UnknownTopicOrPartition => Some(
            "see the topics with 'logway topic list', or create one with 'logway topic create'",
        ),
        ErrorCode::TopicAlreadyExists => {
            Some("change it with 'logway topic alter', or accept it with --if-not-exists")
        }
        ErrorCode::MessageTooLarge => {
            Some("raise the limit with 'logway topic alter TOPIC -c max.message.bytes=BYTES'")
        }
        ErrorCode::InvalidConfig => {
            Some("see what there is with 'logway config describe KIND NAME --all'")
        }
        ErrorCode::InvalidReplicationFactor => {
            Some("there cannot be more replicas than brokers: try -r 1")
        }
        ErrorCode::InvalidPartitions => Some("partitions can be added but not removed"),
        ErrorCode::GroupIdNotFound => Some("see the groups with 'logway group list'"),
        ErrorCode::NonEmptyGroup | ErrorCode::UnknownMemberId => Some(
            "stop the group's members first; see who they are with 'logway group describe GROUP'",
        ),
        ErrorCode::InconsistentGroupProtocol => Some(
            "its members are no consumers, or know neither of the assignors 'range' and \
             'roundrobin'",
        ),
        ErrorCode::OffsetOutOfRange => {
            Some("see what a topic holds with 'logway topic describe TOPIC --partitions'")
        }
        _ => None,
    }
}
