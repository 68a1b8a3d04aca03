//! What the broker answers, one file for each API.
//!
//! A handler turns a request into commands and look-ups and their results into the response. It
//! keeps no state, and each topic, partition or resource in a request succeeds or fails by itself.

pub(crate) mod api_versions;

pub(crate) mod produce;

mod isolation;

pub(crate) mod fetch;
pub(crate) mod list_offsets;
pub(crate) mod offset_for_leader_epoch;

mod cluster_events;
mod cluster_view;
mod current_leaders;

pub(crate) mod describe_cluster;
pub(crate) mod describe_topic_partitions;
pub(crate) mod metadata;

mod batched_command;
mod building;
mod mutation_quota;

pub(crate) mod create_partitions;
pub(crate) mod create_topics;
pub(crate) mod delete_topics;

mod broker_loggers;
mod config_resource;

pub(crate) mod alter_configs;
pub(crate) mod describe_configs;
pub(crate) mod incremental_alter_configs;
pub(crate) mod list_config_resources;

pub(crate) mod delete_records;
pub(crate) mod describe_log_dirs;

mod quota_entity;

pub(crate) mod alter_client_quotas;
pub(crate) mod describe_client_quotas;

pub(crate) mod get_telemetry_subscriptions;
pub(crate) mod push_telemetry;

pub(crate) mod acls;
pub(crate) mod delegation_tokens;
pub(crate) mod describe_user_scram_credentials;
pub(crate) mod sasl;

pub(crate) mod alter_partition_reassignments;
pub(crate) mod elect_leaders;
pub(crate) mod list_partition_reassignments;

pub(crate) mod alter_replica_log_dirs;
pub(crate) mod alter_user_scram_credentials;
pub(crate) mod describe_producers;
pub(crate) mod describe_quorum;
pub(crate) mod raft_voters;
pub(crate) mod unregister_broker;
pub(crate) mod update_features;
pub(crate) mod write_txn_markers;

pub(crate) mod find_coordinator;
pub(crate) mod groups;
pub(crate) mod transactions;

mod measured;

mod authorized_operations;
mod repeats;
