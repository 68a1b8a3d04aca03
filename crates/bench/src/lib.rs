//! Load generators and experiments against any broker that speaks Kafka's protocol.
