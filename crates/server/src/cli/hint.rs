//! What a user can do about an error.

use std::io;

use logway_client::{ClientError, ConnectionFailure};
use logway_model::{ErrorCode, Offset, PartitionId, TopicName};

/// Where to look when a partition has no leader.
pub(super) const LEADERLESS: &str =
    "the broker's log says why; 'logway cluster health' lists all such partitions";

/// What the command is about, where it is about one thing: hints name it.
#[derive(Debug, Default)]
pub(super) struct Subject {
    pub(super) topic: Option<String>,
    pub(super) group: Option<String>,
}

impl Subject {
    /// Puts names in the places of `TOPIC` and `GROUP`.
    fn fill(&self, hint: &str) -> String {
        let names = [("TOPIC", &self.topic), ("GROUP", &self.group)];
        let known = names.into_iter().filter_map(|(place, name)| Some((place, name.as_deref()?)));
        known.fold(hint.to_owned(), |hint, (place, name)| hint.replace(place, name))
    }
}

/// A next step for whoever sees the error, if there is one that helps.
pub(super) fn hint(error: &ClientError, subject: &Subject) -> Option<String> {
    match error {
        ClientError::NoSuchPartition { topic, .. } => Some(format!(
            "partitions count from 0; add some with 'logway topic alter {topic} -p COUNT'"
        )),
        ClientError::DamagedRecords { partition, next, .. }
        | ClientError::UnreadableRecords { partition, next, .. } => {
            next.map(|next| hint_for_damage(&partition.topic, partition.partition, next))
        }
        other => general(other).map(|hint| subject.fill(hint)),
    }
}

/// Those records are lost, unless another copy of the files has them.
fn hint_for_damage(topic: &TopicName, partition: PartitionId, next: Offset) -> String {
    format!(
        "go on behind them with 'logway consume {topic} -p {partition} -o {next}'; on the broker's \
         machine, 'logway log verify --while-running DIR' shows all that is damaged in a data directory"
    )
}

fn general(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::NoBroker { failures } => match failures.last() {
            Some(ClientError::Connect { source, was_reached: false, .. })
                if source.kind() == io::ErrorKind::ConnectionRefused =>
            {
                Some("start a broker with 'logway serve', or name another with -b HOST:PORT")
            }
            Some(ClientError::Connect { was_reached: false, .. }) => {
                Some("check the address in -b HOST:PORT, or in LOGWAY_BROKERS")
            }
            other => other.and_then(general),
        },
        ClientError::Connect { was_reached: true, .. } => Some(WENT_AWAY),
        ClientError::Connect { was_reached: false, .. } => {
            Some("the cluster advertises this address: it must be reachable from here")
        }
        ClientError::Connection { api: "ApiVersions", failure, .. } => hint_for_stranger(failure),
        ClientError::Connection { failure, .. } => hint_for_connection(failure),
        ClientError::Unsupported { .. } => {
            Some("the broker is too old or too new for this command")
        }
        ClientError::OffsetOutOfRange { .. } => Some(OUT_OF_RANGE),
        ClientError::UnknownBroker { .. } => Some("see the brokers with 'logway cluster info'"),
        ClientError::NoLeader { .. } => Some(LEADERLESS),
        ClientError::Refused { code, .. } => hint_for_code(*code),
        _ => None,
    }
}

pub(super) const OUT_OF_RANGE: &str =
    "read from the first record with '-o start', or only new ones with '-o end'";

/// The address is right: a broker has answered there.
const WENT_AWAY: &str =
    "the broker was there before: does it still run, and what does its log say?";

/// A broker that was there does not answer.
fn hint_for_connection(failure: &ConnectionFailure) -> Option<&'static str> {
    match failure {
        ConnectionFailure::Closed | ConnectionFailure::Io(_) => Some(WENT_AWAY),
        ConnectionFailure::TimedOut(_) => {
            Some("the broker is there but does not answer: its log or its disk may tell why")
        }
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
            Some("docs/reference/settings.md lists every setting with the values that it can have")
        }
        ErrorCode::InvalidReplicationFactor => {
            Some("there cannot be more replicas than brokers: try -r 1")
        }
        ErrorCode::InvalidRecord => Some(
            "a compacted topic takes only records with keys: see -k SEPARATOR, --key and --key-field; \
             the number counts within a batch, of which nothing was stored",
        ),
        ErrorCode::InvalidPartitions => Some("partitions can be added but not removed"),
        ErrorCode::GroupIdNotFound => Some("see the groups with 'logway group list'"),
        ErrorCode::TransactionalIdNotFound => {
            Some("see the transactional ids with 'logway txn list'")
        }
        ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch => Some(
            "another producer has taken the transactional id, or the transaction took longer than \
             --transaction-timeout",
        ),
        ErrorCode::InvalidTransactionTimeout => Some(
            "brokers take no more than their transaction.max.timeout.ms, by default 15 minutes",
        ),
        ErrorCode::NonEmptyGroup | ErrorCode::UnknownMemberId => Some(
            "stop the group's members first; see who they are with 'logway group describe GROUP'",
        ),
        ErrorCode::InconsistentGroupProtocol => Some(
            "its members are no consumers, or know neither of the assignors 'range' and \
             'roundrobin'",
        ),
        ErrorCode::DelegationTokenAuthDisabled => {
            Some("brokers that have tokens are started with delegation.token.secret.key")
        }
        ErrorCode::DelegationTokenRequestNotAllowed => Some(
            "log in with a password or a certificate: nobody gets tokens without one, or by a token",
        ),
        ErrorCode::DelegationTokenAuthorizationFailed => Some(
            "it takes a permission: 'logway acl create --allow USER --tokens-of OWNER --operation create-tokens'",
        ),
        ErrorCode::OffsetOutOfRange => {
            Some("see what a topic holds with 'logway topic describe TOPIC --partitions'")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use logway_client::BrokerAddress;

    use super::*;

    fn refused(code: ErrorCode) -> ClientError {
        ClientError::Refused { what: "test".to_owned(), code, message: None }
    }

    #[test]
    fn a_broker_that_went_away_is_not_told_to_advertise_otherwise() {
        let connect = |was_reached| ClientError::Connect {
            address: BrokerAddress::new("127.0.0.1", 9092),
            source: Arc::new(io::ErrorKind::ConnectionRefused.into()),
            was_reached,
        };
        let hint_for =
            |error: &ClientError| hint(error, &Subject::default()).expect("there is one");
        assert!(hint_for(&connect(false)).contains("advertises"));
        assert_eq!(hint_for(&connect(true)), WENT_AWAY);
        let none = |was_reached| ClientError::NoBroker { failures: vec![connect(was_reached)] };
        assert!(hint_for(&none(false)).contains("logway serve"));
        assert_eq!(hint_for(&none(true)), WENT_AWAY);
        let closed = ClientError::Connection {
            address: BrokerAddress::new("127.0.0.1", 9092),
            api: "Produce",
            failure: ConnectionFailure::Closed,
        };
        assert_eq!(hint_for(&closed), WENT_AWAY);
    }

    #[test]
    fn names_that_are_known_are_filled_in() {
        let error = refused(ErrorCode::MessageTooLarge);
        let known = Subject { topic: Some("orders".to_owned()), group: None };
        let hint_for = |subject| hint(&error, subject).expect("there is one");
        assert!(hint_for(&known).contains("topic alter orders -c max.message.bytes=BYTES"));
        assert!(hint_for(&Subject::default()).contains("topic alter TOPIC"));
    }
}
