//! What quotas are about: whom they bind, what they limit, and how much of it is allowed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whom a quota binds (KIP-546, KIP-612).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaEntity {
    /// A user, over all its clients.
    User(QuotaName),
    /// A client id, over all users.
    ClientId(QuotaName),
    /// A client id of a user.
    UserClient {
        /// The user.
        user: QuotaName,
        /// The client id.
        client_id: QuotaName,
    },
    /// An address that connections come from, in its shortest form. The last variant, so that the
    /// clients' quotas are before those of addresses.
    Ip(QuotaName),
}

impl QuotaEntity {
    /// The user that it names, if it is about users.
    pub fn user(&self) -> Option<&QuotaName> {
        match self {
            QuotaEntity::User(user) | QuotaEntity::UserClient { user, .. } => Some(user),
            QuotaEntity::ClientId(_) | QuotaEntity::Ip(_) => None,
        }
    }

    /// The client id that it names, if it is about client ids.
    pub fn client_id(&self) -> Option<&QuotaName> {
        match self {
            QuotaEntity::ClientId(id) | QuotaEntity::UserClient { client_id: id, .. } => Some(id),
            QuotaEntity::User(_) | QuotaEntity::Ip(_) => None,
        }
    }

    /// The address that it names, if it is about addresses.
    pub fn ip(&self) -> Option<&QuotaName> {
        match self {
            QuotaEntity::Ip(address) => Some(address),
            _ => None,
        }
    }

    /// Every name in it.
    pub fn names(&self) -> impl Iterator<Item = &QuotaName> {
        self.user().into_iter().chain(self.client_id()).chain(self.ip())
    }

    /// How long its names are.
    pub fn name_bytes(&self) -> usize {
        self.names().map(QuotaName::bytes).sum()
    }
}

impl fmt::Display for QuotaEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuotaEntity::User(user) => write!(f, "user {user}"),
            QuotaEntity::ClientId(client_id) => write!(f, "client-id {client_id}"),
            QuotaEntity::UserClient { user, client_id } => {
                write!(f, "user {user}, client-id {client_id}")
            }
            QuotaEntity::Ip(address) => write!(f, "ip {address}"),
        }
    }
}

/// One user, client id or address, or each that has no quota of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaName {
    /// This one.
    Named(String),
    /// Each that has none of its own; they do not share it.
    Default,
}

impl QuotaName {
    /// How long it is; the default has no length.
    pub fn bytes(&self) -> usize {
        match self {
            QuotaName::Named(name) => name.len(),
            QuotaName::Default => 0,
        }
    }
}

impl fmt::Display for QuotaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuotaName::Named(name) => write!(f, "'{}'", crate::error::excerpt(name)),
            QuotaName::Default => f.write_str("<default>"),
        }
    }
}

/// What a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaKey {
    /// The bytes of Produce requests per second.
    ProducerByteRate,
    /// The bytes of Fetch responses per second.
    ConsumerByteRate,
    /// The time that threads spend on requests, in percent of one thread.
    RequestPercentage,
    /// The partitions that are made and deleted per second (KIP-599).
    ControllerMutationRate,
    /// The connections that are opened per second, of an address (KIP-612).
    ConnectionCreationRate,
}

impl QuotaKey {
    /// Every key.
    pub const ALL: [QuotaKey; 5] = [
        QuotaKey::ProducerByteRate,
        QuotaKey::ConsumerByteRate,
        QuotaKey::RequestPercentage,
        QuotaKey::ControllerMutationRate,
        QuotaKey::ConnectionCreationRate,
    ];

    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        match self {
            QuotaKey::ProducerByteRate => "producer_byte_rate",
            QuotaKey::ConsumerByteRate => "consumer_byte_rate",
            QuotaKey::RequestPercentage => "request_percentage",
            QuotaKey::ControllerMutationRate => "controller_mutation_rate",
            QuotaKey::ConnectionCreationRate => "connection_creation_rate",
        }
    }

    /// The key of a name.
    pub fn from_name(name: &str) -> Option<QuotaKey> {
        QuotaKey::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Whether limits are whole numbers.
    pub fn is_whole(self) -> bool {
        !matches!(self, QuotaKey::RequestPercentage | QuotaKey::ControllerMutationRate)
    }

    /// Whether an entity can have a quota of this: addresses have one of connections and nothing
    /// else.
    pub fn is_of(self, entity: &QuotaEntity) -> bool {
        (self == QuotaKey::ConnectionCreationRate) == entity.ip().is_some()
    }
}

/// How much is allowed: finite and not negative.
///
/// Written as text, which is read back as exactly the same number.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QuotaLimit(f64);

// No limit is NaN.
impl Eq for QuotaLimit {}

impl QuotaLimit {
    /// A limit, if the number can be one.
    pub fn new(value: f64) -> Option<QuotaLimit> {
        (value.is_finite() && value >= 0.0).then_some(QuotaLimit(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<QuotaLimit> for String {
    fn from(limit: QuotaLimit) -> String {
        limit.0.to_string()
    }
}

impl TryFrom<String> for QuotaLimit {
    type Error = String;

    fn try_from(text: String) -> Result<QuotaLimit, String> {
        let limit = text.parse().ok().and_then(QuotaLimit::new);
        limit.ok_or_else(|| format!("'{}' is not a limit", crate::error::excerpt(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_their_names() {
        for key in QuotaKey::ALL {
            assert_eq!(QuotaKey::from_name(key.name()), Some(key));
        }
        assert_eq!(QuotaKey::from_name("nonsense"), None);
    }

    #[test]
    fn addresses_have_quotas_of_connections_and_clients_all_others() {
        let (client, address) =
            (QuotaEntity::ClientId(QuotaName::Default), QuotaEntity::Ip(QuotaName::Default));
        let keys_of = |entity: &QuotaEntity| QuotaKey::ALL.map(|key| key.is_of(entity));
        assert_eq!(keys_of(&client), [true, true, true, true, false]);
        assert_eq!(keys_of(&address), [false, false, false, false, true]);
    }

    #[test]
    fn limits_are_numbers_and_survive_as_text() {
        for refused in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(QuotaLimit::new(refused), None);
        }
        for value in [0.0, 0.1, 1.0 / 3.0, 5e6, f64::MAX, f64::MIN_POSITIVE] {
            let limit = QuotaLimit::new(value).expect("is a limit");
            assert_eq!(QuotaLimit::try_from(String::from(limit)), Ok(limit));
        }
        assert!(QuotaLimit::try_from("much".to_owned()).is_err());
    }
}
