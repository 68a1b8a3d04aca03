//! A broker's life, as the controller sees it.

use logway_model::{BrokerId, Uuid};
use serde::{Deserialize, Serialize};

use super::Endpoint;

/// One life of a broker of a cluster, from one start of its process to the next (KIP-500, KIP-841). A
/// cluster of one node has none: a broker without a session counts as active.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerSessionRecord {
    /// Which broker.
    pub id: BrokerId,
    /// This life, by a number that the broker has drawn at its start.
    pub incarnation: Uuid,
    /// The same in an order: each life of any broker has a greater one than all before it. What a
    /// broker asks for in an earlier life is refused by it.
    pub epoch: BrokerEpoch,
    /// Whether it may lead and be in sync.
    pub state: BrokerState,
    /// Where clients and other brokers reach it, by listener.
    pub listeners: Vec<Listener>,
}

/// The order of brokers' lives.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BrokerEpoch(pub i64);

/// What a broker may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrokerState {
    /// It has just started, or was not heard for too long: it leads nothing and joins no ISR.
    Fenced,
    /// It serves.
    Active,
    /// It is about to stop: it hands over what it leads and joins no ISR (KIP-841).
    ShuttingDown,
}

/// The name of the listener for other nodes, among those of a broker's session.
pub const NODE_LISTENER: &str = "NODE";

/// One way to a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Its name, as in the broker's settings.
    pub name: String,
    /// What it advertises there.
    pub endpoint: Endpoint,
}
