//! AlterClientQuotas: what clients may use (KIP-546), and how many connections addresses may open
//! (KIP-612).

use logway_metadata::controller::{AlterClientQuotas, QuotaAlteration};
use logway_metadata::quota::{QuotaEntity, QuotaKey, QuotaLimit};
use logway_model::ErrorCode;
use logway_wire::messages::alter_client_quotas_request::{EntryData, OpData};
use logway_wire::messages::alter_client_quotas_response;
use logway_wire::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};

use super::batched_command::submit_each;
use super::building::ENTRY_WITH_MESSAGE_BYTES;
use super::quota_entity;
use crate::request::{RequestContext, refusal};
use logway_node::access::{Operation, Resource};
use logway_node::failure::Failure;

/// How far a number may be from a whole one, as in Kafka: numbers travel as floating-point ones.
const WHOLE_WITHIN: f64 = 1e-6;

/// One answer for each entity.
pub(crate) fn built_bytes(_context: &RequestContext, request: &AlterClientQuotasRequest) -> usize {
    let entry_bytes =
        |entry: &EntryData| (1 + entry.entity.len() + entry.ops.len()) * ENTRY_WITH_MESSAGE_BYTES;
    request.entries.iter().map(entry_bytes).sum()
}

pub(crate) async fn handle(
    context: RequestContext,
    request: AlterClientQuotasRequest,
) -> AlterClientQuotasResponse {
    let validate_only = request.validate_only;
    let may_alter = context.check(Operation::AlterConfigs, Resource::Cluster);
    let judged = |entry| may_alter.map_err(refusal).and_then(|()| alteration(entry));
    let changes = request.entries.iter().map(judged).collect();
    let alter = |entities| AlterClientQuotas { entities, validate_only };
    let results = submit_each(&context, None, changes, alter).await;
    let entries = request.entries.into_iter().zip(results);
    AlterClientQuotasResponse {
        entries: entries.map(|(entry, result)| response(entry, result)).collect(),
        ..Default::default()
    }
}

fn alteration(entry: &EntryData) -> Result<QuotaAlteration, Failure> {
    let parts = entry.entity.iter().map(|part| (&*part.entity_type, part.entity_name.as_deref()));
    let entity = quota_entity::from_parts(parts)?;
    let limits = entry.ops.iter().filter_map(|op| limit(&entity, op).transpose());
    let limits = limits.collect::<Result<_, _>>()?;
    Ok(QuotaAlteration { entity, limits })
}

/// What an operation does; nothing, where it ends a quota that cannot be, as in Kafka.
fn limit(
    entity: &QuotaEntity,
    op: &OpData,
) -> Result<Option<(QuotaKey, Option<QuotaLimit>)>, Failure> {
    let invalid = |message| Err(Failure::new(ErrorCode::InvalidRequest, message));
    let key = QuotaKey::from_name(&op.key).filter(|key| key.is_of(entity));
    let Some(key) = key else {
        if op.remove {
            return Ok(None);
        }
        let possible = QuotaKey::ALL.into_iter().filter(|key| key.is_of(entity));
        let names: Vec<&str> = possible.map(QuotaKey::name).collect();
        return invalid(format!("no such quota of {entity}; there is {}", names.join(", ")));
    };
    if op.remove {
        return Ok(Some((key, None)));
    }
    let whole = op.value.round();
    let value = match key.is_whole() {
        true if (op.value - whole).abs() > WHOLE_WITHIN => {
            return invalid(format!("{} must be a whole number", key.name()));
        }
        // The first that no whole number of 64 bits reaches.
        true if whole >= (1_u64 << 63) as f64 => {
            return invalid(format!("{} must be a number below 2^63", key.name()));
        }
        true => whole,
        false => op.value,
    };
    // As in Kafka, nobody is shut out by a quota of 0: records of old may still say so.
    match QuotaLimit::new(value).filter(|limit| limit.get() > 0.0) {
        Some(limit) => Ok(Some((key, Some(limit)))),
        None => invalid(format!("{} must be a number greater than 0", key.name())),
    }
}

fn response(
    entry: EntryData,
    result: Result<(), Failure>,
) -> alter_client_quotas_response::EntryData {
    let failure = result.err();
    let entity = entry.entity.into_iter().map(|part| alter_client_quotas_response::EntityData {
        entity_type: part.entity_type,
        entity_name: part.entity_name,
        ..Default::default()
    });
    alter_client_quotas_response::EntryData {
        error_code: failure.as_ref().map_or(ErrorCode::None, |failure| failure.code).code(),
        error_message: failure.map(|failure| failure.message.into()),
        entity: entity.collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use logway_metadata::quota::QuotaName;

    use super::*;

    const CLIENTS: QuotaEntity = QuotaEntity::ClientId(QuotaName::Default);

    fn op(key: &'static str, value: f64, remove: bool) -> OpData {
        OpData { key: key.into(), value, remove, ..Default::default() }
    }

    #[test]
    fn limits_are_checked() {
        let set = |key, value| limit(&CLIENTS, &op(key, value, false)).map_err(|e| e.code);
        let limit_of = |value| QuotaLimit::new(value).expect("is a limit");
        let expected = (QuotaKey::ProducerByteRate, Some(limit_of(5e6)));
        assert_eq!(set("producer_byte_rate", 5e6), Ok(Some(expected)));
        assert_eq!(set("producer_byte_rate", 5e6 + 1e-7), Ok(Some(expected)));
        let expected = (QuotaKey::RequestPercentage, Some(limit_of(12.5)));
        assert_eq!(set("request_percentage", 12.5), Ok(Some(expected)));
        let expected = (QuotaKey::ControllerMutationRate, Some(limit_of(0.5)));
        assert_eq!(set("controller_mutation_rate", 0.5), Ok(Some(expected)));
        for (key, value) in [
            ("producer_byte_rate", 1.5),
            ("producer_byte_rate", -1.0),
            ("producer_byte_rate", 1e300),
            ("consumer_byte_rate", f64::NAN),
            ("request_percentage", f64::INFINITY),
            ("connection_creation_rate", 1.0),
            ("nonsense", 1.0),
        ] {
            assert_eq!(set(key, value), Err(ErrorCode::InvalidRequest), "{key} {value}");
        }
    }

    #[test]
    fn what_cannot_be_set_can_be_removed() {
        assert_eq!(limit(&CLIENTS, &op("connection_creation_rate", 0.0, true)), Ok(None));
        let removed = (QuotaKey::ConsumerByteRate, None);
        assert_eq!(limit(&CLIENTS, &op("consumer_byte_rate", 7.0, true)), Ok(Some(removed)));
    }

    #[test]
    fn addresses_have_a_quota_of_connections_only() {
        let addresses = QuotaEntity::Ip(QuotaName::Default);
        let set = |key, value| limit(&addresses, &op(key, value, false)).map_err(|e| e.code);
        let expected = (QuotaKey::ConnectionCreationRate, QuotaLimit::new(5.0));
        assert_eq!(set("connection_creation_rate", 5.0), Ok(Some(expected)));
        assert_eq!(set("connection_creation_rate", 0.5), Err(ErrorCode::InvalidRequest));
        assert_eq!(set("producer_byte_rate", 5.0), Err(ErrorCode::InvalidRequest));
    }
}
