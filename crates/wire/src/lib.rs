//! Codec for Kafka's wire protocol.
