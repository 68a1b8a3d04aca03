//! AlterClientQuotas.

use logway_model::ErrorCode;

use super::alter_configs::decide;
use super::{Command, ControllerError, Decision, TopicReference, duplicates};
use crate::image::MetadataImage;
use crate::quota::{QuotaEntity, QuotaKey, QuotaLimit};
use crate::record::{ClientQuotaRecord, MetadataRecord};
use crate::settings::BrokerSettings;

/// The most entities that can have quotas: each client's quota is looked for among them.
pub const QUOTA_ENTITIES_MAX: usize = 20_000;

/// Changes quotas of clients, each entity by itself (KIP-546).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterClientQuotas {
    /// The entities; none twice.
    pub entities: Vec<QuotaAlteration>,
    /// Only say what would happen.
    pub validate_only: bool,
}

/// The changes of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaAlteration {
    /// Whose quotas.
    pub entity: QuotaEntity,
    /// The new limits, `None` where one ends; no key twice.
    pub limits: Vec<(QuotaKey, Option<QuotaLimit>)>,
}

impl Command for AlterClientQuotas {
    type Reply = Vec<Result<(), ControllerError>>;

    fn topics(&self) -> Option<Vec<TopicReference>> {
        Some(Vec::new())
    }

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let asked_twice = duplicates(self.entities.iter().map(|change| &change.entity));
        let mut entity_count = image.client_quotas().entity_count();
        let plans = self.entities.iter().map(|change| {
            let entity = &change.entity;
            if asked_twice.contains(entity) {
                let message = format!("The request has the entity {entity} twice.");
                return Err(ControllerError::new(ErrorCode::InvalidRequest, message));
            }
            let records = records(change, image)?;
            if image.client_quotas().limits(entity).is_none() && !records.is_empty() {
                entity_count += 1;
                check_count(entity_count)?;
            }
            Ok(records)
        });
        Ok(decide(plans, self.validate_only))
    }
}

fn records(
    change: &QuotaAlteration,
    image: &MetadataImage,
) -> Result<Vec<MetadataRecord>, ControllerError> {
    if let Some(key) = duplicates(change.limits.iter().map(|(key, _)| key)).first() {
        let message = format!("The request has the quota '{}' twice.", key.name());
        return Err(ControllerError::new(ErrorCode::InvalidRequest, message));
    }
    let present = image.client_quotas().limits(&change.entity);
    let is_new = |&&(key, limit): &&(QuotaKey, Option<QuotaLimit>)| {
        present.and_then(|limits| limits.get(&key)).copied() != limit
    };
    let record = |&(key, limit): &(QuotaKey, Option<QuotaLimit>)| {
        let entity = change.entity.clone();
        MetadataRecord::ClientQuota(ClientQuotaRecord { entity, key, limit })
    };
    Ok(change.limits.iter().filter(is_new).map(record).collect())
}

fn check_count(entity_count: usize) -> Result<(), ControllerError> {
    if entity_count <= QUOTA_ENTITIES_MAX {
        return Ok(());
    }
    let message = format!(
        "No more than {QUOTA_ENTITIES_MAX} entities can have quotas; give a default quota instead."
    );
    Err(ControllerError::new(ErrorCode::PolicyViolation, message))
}
