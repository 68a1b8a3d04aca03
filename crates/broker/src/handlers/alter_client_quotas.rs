//! AlterClientQuotas: what clients may use (KIP-546).

use logway_metadata::controller::{AlterClientQuotas, QuotaAlteration};
use logway_metadata::quota::{QuotaKey, QuotaLimit};
use logway_model::ErrorCode;
use logway_wire::messages::alter_client_quotas_request::{EntryData, OpData};
use logway_wire::messages::alter_client_quotas_response;
use logway_wire::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};

use super::batched_command::submit_each;
use super::building::ENTRY_WITH_MESSAGE_BYTES;
use super::quota_entity;
use crate::dispatch::RequestContext;
use crate::failure::Failure;

/// How far a number may be from a whole one, as in Kafka: numbers travel as floating-point ones.
const WHOLE_WITHIN: f64 = 1e-6;

/// What Kafka can limit and this broker cannot.
const NOT_ENFORCED: [&str; 2] = ["controller_mutation_rate", "connection_creation_rate"];

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
    let changes = request.entries.iter().map(alteration).collect();
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
    let limits =
        entry.ops.iter().filter_map(|op| limit(op).transpose()).collect::<Result<_, _>>()?;
    Ok(QuotaAlteration { entity, limits })
}

/// What an operation does; nothing, where it ends a quota that cannot be, as in Kafka.
fn limit(op: &OpData) -> Result<Option<(QuotaKey, Option<QuotaLimit>)>, Failure> {
    let invalid = |message| Err(Failure::new(ErrorCode::InvalidRequest, message));
    let Some(key) = QuotaKey::from_name(&op.key) else {
        return match NOT_ENFORCED.iter().find(|name| **name == &*op.key) {
            _ if op.remove => Ok(None),
            Some(name) => invalid(format!("{name} is not enforced by this broker")),
            None => {
                let names = QuotaKey::ALL.map(QuotaKey::name).join(", ");
                invalid(format!("unknown quota; there are {names}"))
            }
        };
    };
    if op.remove {
        return Ok(Some((key, None)));
    }
    let whole = op.value.round();
    let value = match key.is_whole() {
        true if (op.value - whole).abs() > WHOLE_WITHIN => {
            return invalid(format!("{} must be a whole number", key.name()));
        }
        true => whole,
        false => op.value,
    };
    match QuotaLimit::new(value) {
        Some(limit) => Ok(Some((key, Some(limit)))),
        None => invalid(format!("{} must be a number, and not negative", key.name())),
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
    use super::*;

    fn op(key: &'static str, value: f64, remove: bool) -> OpData {
        OpData { key: key.into(), value, remove, ..Default::default() }
    }

    #[test]
    fn limits_are_checked() {
        let set = |key, value| limit(&op(key, value, false)).map_err(|failure| failure.code);
        let limit_of = |value| QuotaLimit::new(value).expect("is a limit");
        let expected = (QuotaKey::ProducerByteRate, Some(limit_of(5e6)));
        assert_eq!(set("producer_byte_rate", 5e6), Ok(Some(expected)));
        assert_eq!(set("producer_byte_rate", 5e6 + 1e-7), Ok(Some(expected)));
        let expected = (QuotaKey::RequestPercentage, Some(limit_of(12.5)));
        assert_eq!(set("request_percentage", 12.5), Ok(Some(expected)));
        for (key, value) in [
            ("producer_byte_rate", 1.5),
            ("producer_byte_rate", -1.0),
            ("consumer_byte_rate", f64::NAN),
            ("request_percentage", f64::INFINITY),
            ("controller_mutation_rate", 1.0),
            ("nonsense", 1.0),
        ] {
            assert_eq!(set(key, value), Err(ErrorCode::InvalidRequest), "{key} {value}");
        }
    }

    #[test]
    fn what_cannot_be_set_can_be_removed() {
        assert_eq!(limit(&op("controller_mutation_rate", 0.0, true)), Ok(None));
        let removed = (QuotaKey::ConsumerByteRate, None);
        assert_eq!(limit(&op("consumer_byte_rate", 7.0, true)), Ok(Some(removed)));
    }
}
