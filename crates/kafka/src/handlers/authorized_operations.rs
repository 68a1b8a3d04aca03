//! What a client may do, as bit fields (KIP-430).
//!
//! Bit *n* stands for the operation that Kafka's `AclOperation` numbers *n*. Without an authorizer
//! everybody may do all that makes sense with a resource.

/// The answer to a client that did not ask.
pub(super) const NOT_ASKED: i32 = i32::MIN;

const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

/// Everything that can be done with a topic.
pub(super) const TOPIC: i32 =
    READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;

/// Everything that can be done with a group.
pub(super) const GROUP: i32 = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;

/// Everything that can be done with the cluster.
pub(super) const CLUSTER: i32 = CREATE
    | ALTER
    | DESCRIBE
    | CLUSTER_ACTION
    | DESCRIBE_CONFIGS
    | ALTER_CONFIGS
    | IDEMPOTENT_WRITE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_that_kafka_sends_without_an_authorizer() {
        assert_eq!(TOPIC, 3_576);
        assert_eq!(GROUP, 3_400);
        assert_eq!(CLUSTER, 8_096);
    }
}
