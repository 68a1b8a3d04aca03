//! A small Kafka client for the command line and tests.
