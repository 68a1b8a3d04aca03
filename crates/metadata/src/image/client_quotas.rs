//! The quotas of clients within the image.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::quota::{QuotaEntity, QuotaKey, QuotaLimit, QuotaName};
use crate::record::{ClientQuotaRecord, MetadataRecord};

/// The limits of one entity.
pub type QuotaLimits = BTreeMap<QuotaKey, QuotaLimit>;

/// The quotas of all clients. Copies share what does not differ.
///
/// Invariant: every entity has a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientQuotas {
    by_entity: RedBlackTreeMapSync<QuotaEntity, Arc<QuotaLimits>>,
}

/// The quota that binds a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplicableQuota {
    /// What the client may use together with those that it shares the quota with.
    pub limit: QuotaLimit,
    /// Who shares it.
    pub shared_by: QuotaSharers,
}

/// Who uses up one quota together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuotaSharers {
    /// The connections of one client id of one user.
    UserClient,
    /// All clients of one user.
    User,
    /// The clients of one id, whoever their users are.
    ClientId,
}

impl Default for ClientQuotas {
    fn default() -> ClientQuotas {
        ClientQuotas { by_entity: RedBlackTreeMapSync::new_sync() }
    }
}

impl ClientQuotas {
    /// Whether nobody has a quota.
    pub fn is_empty(&self) -> bool {
        self.by_entity.is_empty()
    }

    /// Whether any client may have a quota of its requests.
    pub fn bind_clients(&self) -> bool {
        self.by_entity.first().is_some_and(|(entity, _)| entity.ip().is_none())
    }

    /// Whether any address may have a quota of its connections.
    pub fn bind_addresses(&self) -> bool {
        self.by_entity.last().is_some_and(|(entity, _)| entity.ip().is_some())
    }

    /// How many entities have quotas.
    pub fn entity_count(&self) -> usize {
        self.by_entity.size()
    }

    /// The limits of an entity; none where it has no quota.
    pub fn limits(&self, entity: &QuotaEntity) -> Option<&QuotaLimits> {
        self.by_entity.get(entity).map(Arc::as_ref)
    }

    /// Every entity with its limits, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&QuotaEntity, &QuotaLimits)> {
        self.by_entity.iter().map(|(entity, limits)| (entity, limits.as_ref()))
    }

    /// The quota that binds a client of a user: the most specific one in Kafka's order, in which a
    /// user counts more than a client id and a name more than the default.
    pub fn applicable(
        &self,
        user: &str,
        client_id: &str,
        key: QuotaKey,
    ) -> Option<ApplicableQuota> {
        use QuotaName::{Default, Named};
        let (user, client) = (Named(user.to_owned()), Named(client_id.to_owned()));
        let pair = |user: &QuotaName, client: &QuotaName| QuotaEntity::UserClient {
            user: user.clone(),
            client_id: client.clone(),
        };
        let candidates = [
            (pair(&user, &client), QuotaSharers::UserClient),
            (pair(&user, &Default), QuotaSharers::UserClient),
            (QuotaEntity::User(user), QuotaSharers::User),
            (pair(&Default, &client), QuotaSharers::UserClient),
            (pair(&Default, &Default), QuotaSharers::UserClient),
            (QuotaEntity::User(Default), QuotaSharers::User),
            (QuotaEntity::ClientId(client), QuotaSharers::ClientId),
            (QuotaEntity::ClientId(Default), QuotaSharers::ClientId),
        ];
        candidates.into_iter().find_map(|(entity, shared_by)| {
            let limit = *self.by_entity.get(&entity)?.get(&key)?;
            Some(ApplicableQuota { limit, shared_by })
        })
    }

    /// How many connections an address may open per second: its own quota, or the default.
    pub fn of_address(&self, address: IpAddr) -> Option<QuotaLimit> {
        let named = QuotaName::Named(address.to_canonical().to_string());
        [named, QuotaName::Default].into_iter().find_map(|name| {
            let limits = self.by_entity.get(&QuotaEntity::Ip(name))?;
            limits.get(&QuotaKey::ConnectionCreationRate).copied()
        })
    }

    pub(super) fn set(&mut self, record: &ClientQuotaRecord) {
        let ClientQuotaRecord { entity, key, limit } = record;
        let mut limits = self.by_entity.get(entity).cloned().unwrap_or_default();
        match limit {
            Some(limit) => drop(Arc::make_mut(&mut limits).insert(*key, *limit)),
            None => drop(Arc::make_mut(&mut limits).remove(key)),
        }
        match limits.is_empty() {
            true => drop(self.by_entity.remove_mut(entity)),
            false => self.by_entity.insert_mut(entity.clone(), limits),
        }
    }

    pub(super) fn push_records(&self, records: &mut Vec<MetadataRecord>) {
        for (entity, limits) in self.iter() {
            records.extend(limits.iter().map(|(&key, &limit)| {
                let entity = entity.clone();
                MetadataRecord::ClientQuota(ClientQuotaRecord { entity, key, limit: Some(limit) })
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> QuotaName {
        QuotaName::Named(name.to_owned())
    }

    /// Every level that can bind the client `c` of the user `u`, the strongest first.
    fn levels() -> [(QuotaEntity, QuotaSharers); 8] {
        use QuotaName::Default;
        let pair = |user, client_id| QuotaEntity::UserClient { user, client_id };
        [
            (pair(named("u"), named("c")), QuotaSharers::UserClient),
            (pair(named("u"), Default), QuotaSharers::UserClient),
            (QuotaEntity::User(named("u")), QuotaSharers::User),
            (pair(Default, named("c")), QuotaSharers::UserClient),
            (pair(Default, Default), QuotaSharers::UserClient),
            (QuotaEntity::User(Default), QuotaSharers::User),
            (QuotaEntity::ClientId(named("c")), QuotaSharers::ClientId),
            (QuotaEntity::ClientId(Default), QuotaSharers::ClientId),
        ]
    }

    #[test]
    fn the_most_specific_quota_binds() {
        const KEY: QuotaKey = QuotaKey::ProducerByteRate;
        let mut quotas = ClientQuotas::default();
        assert_eq!(quotas.applicable("u", "c", KEY), None);
        // From the weakest on, each next one takes over.
        for (level, (entity, shared_by)) in levels().into_iter().enumerate().rev() {
            let limit = QuotaLimit::new(level as f64);
            quotas.set(&ClientQuotaRecord { entity, key: KEY, limit });
            let limit = limit.expect("is a limit");
            let expected = Some(ApplicableQuota { limit, shared_by });
            assert_eq!(quotas.applicable("u", "c", KEY), expected);
        }
        assert_eq!(quotas.applicable("u", "c", QuotaKey::ConsumerByteRate), None);
        let other = quotas.applicable("other", "other", KEY).expect("the defaults bind it");
        assert_eq!(other.limit.get(), 4.0);
    }

    #[test]
    fn an_address_has_its_own_quota_or_the_default() {
        const KEY: QuotaKey = QuotaKey::ConnectionCreationRate;
        let mut quotas = ClientQuotas::default();
        let mut set = |name, limit| {
            let record =
                ClientQuotaRecord { entity: QuotaEntity::Ip(name), key: KEY, limit: Some(limit) };
            quotas.set(&record);
            quotas.clone()
        };
        let limit = |value| QuotaLimit::new(value).expect("is a limit");
        let [own, mapped, other] = ["10.0.0.1", "::ffff:10.0.0.1", "::1"]
            .map(|text| text.parse::<IpAddr>().expect("is an address"));
        let quotas = set(named("10.0.0.1"), limit(5.0));
        assert!(quotas.bind_addresses() && !quotas.bind_clients());
        assert_eq!(quotas.of_address(own), Some(limit(5.0)));
        assert_eq!(quotas.of_address(mapped), Some(limit(5.0)));
        assert_eq!(quotas.of_address(other), None);
        let mut quotas = set(QuotaName::Default, limit(1.0));
        assert_eq!(quotas.of_address(own), Some(limit(5.0)));
        assert_eq!(quotas.of_address(other), Some(limit(1.0)));
        quotas.set(&ClientQuotaRecord {
            entity: QuotaEntity::ClientId(QuotaName::Default),
            key: QuotaKey::ProducerByteRate,
            limit: Some(limit(1.0)),
        });
        assert!(quotas.bind_addresses() && quotas.bind_clients());
    }

    #[test]
    fn an_entity_without_limits_is_gone() {
        let mut quotas = ClientQuotas::default();
        let entity = QuotaEntity::User(QuotaName::Default);
        let key = QuotaKey::RequestPercentage;
        let mut set = |limit| {
            quotas.set(&ClientQuotaRecord { entity: entity.clone(), key, limit });
            quotas.clone()
        };
        assert_eq!(set(QuotaLimit::new(50.0)).entity_count(), 1);
        assert!(set(None).is_empty());
        assert!(set(None).is_empty());
    }
}
