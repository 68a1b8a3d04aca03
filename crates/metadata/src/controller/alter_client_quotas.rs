//! AlterClientQuotas.

use logway_model::ErrorCode;
use serde::{Deserialize, Serialize};

use super::alter_configs::decide;
use super::{Command, ControllerError, Decision, duplicates};
use crate::image::MetadataImage;
use crate::quota::{QuotaEntity, QuotaKey, QuotaLimit};
use crate::record::{ClientQuotaRecord, MetadataRecord};
use crate::settings::BrokerSettings;

/// The most entities that can have quotas: each client's quota is looked for among them.
pub const QUOTA_ENTITIES_MAX: usize = 20_000;

/// The longest name of an entity that can have quotas.
pub const QUOTA_NAME_MAX_BYTES: usize = 1_024;

/// What the names of all entities that have quotas come to at most: each is in memory, and in a
/// record for each of its quotas.
pub const QUOTA_NAMES_MAX_BYTES: usize = 4 << 20;

/// Changes quotas of clients, each entity by itself (KIP-546).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterClientQuotas {
    /// The entities; none twice.
    pub entities: Vec<QuotaAlteration>,
    /// Only say what would happen.
    pub validate_only: bool,
}

/// The changes of one entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaAlteration {
    /// Whose quotas.
    pub entity: QuotaEntity,
    /// The new limits, `None` where one ends; no key twice.
    pub limits: Vec<(QuotaKey, Option<QuotaLimit>)>,
}

impl Command for AlterClientQuotas {
    type Reply = Vec<Result<(), ControllerError>>;

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let asked_twice = duplicates(self.entities.iter().map(|change| &change.entity));
        let mut room = RoomForEntities::of(image);
        let plans = self.entities.iter().map(|change| {
            let entity = &change.entity;
            if asked_twice.contains(entity) {
                let message = format!("The request has the entity {entity} twice.");
                return Err(ControllerError::new(ErrorCode::InvalidRequest, message));
            }
            let records = records(change, image)?;
            if image.client_quotas().limits(entity).is_none() && !records.is_empty() {
                room.take(entity)?;
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

/// What is left, while one command is judged, of the room for entities that have quotas.
struct RoomForEntities {
    entities: usize,
    name_bytes: usize,
}

impl RoomForEntities {
    fn of(image: &MetadataImage) -> RoomForEntities {
        let quotas = image.client_quotas();
        let used_bytes = quotas.iter().map(|(entity, _)| entity.name_bytes()).sum();
        RoomForEntities {
            entities: QUOTA_ENTITIES_MAX.saturating_sub(quotas.entity_count()),
            name_bytes: QUOTA_NAMES_MAX_BYTES.saturating_sub(used_bytes),
        }
    }

    /// Takes room for one more entity.
    fn take(&mut self, entity: &QuotaEntity) -> Result<(), ControllerError> {
        let refuse = |code, message| Err(ControllerError::new(code, message));
        if entity.names().any(|name| name.bytes() > QUOTA_NAME_MAX_BYTES) {
            let message =
                format!("The names of a quota's entity have {QUOTA_NAME_MAX_BYTES} bytes at most.");
            return refuse(ErrorCode::InvalidRequest, message);
        }
        let Some(entities) = self.entities.checked_sub(1) else {
            let message = format!(
                "No more than {QUOTA_ENTITIES_MAX} entities can have quotas; give a default quota \
                 instead."
            );
            return refuse(ErrorCode::PolicyViolation, message);
        };
        let Some(name_bytes) = self.name_bytes.checked_sub(entity.name_bytes()) else {
            let message = format!(
                "The names of all entities that have quotas come to {QUOTA_NAMES_MAX_BYTES} bytes \
                 at most; give a default quota instead."
            );
            return refuse(ErrorCode::PolicyViolation, message);
        };
        *self = RoomForEntities { entities, name_bytes };
        Ok(())
    }
}
