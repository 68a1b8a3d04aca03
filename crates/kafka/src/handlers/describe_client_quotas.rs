//! DescribeClientQuotas: what clients may use (KIP-546).

use std::collections::BTreeMap;

use logway_metadata::image::QuotaLimits;
use logway_metadata::quota::{QuotaEntity, QuotaName};
use logway_model::ErrorCode;
use logway_wire::messages::describe_client_quotas_request::ComponentData;
use logway_wire::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use logway_wire::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};

use super::building::{ENTRY_WITH_MESSAGE_BYTES, with_all};
use super::quota_entity::{self, CLIENT_ID, IP, USER};
use crate::request::{RequestContext, refusal};
use logway_node::access::Operation;
use logway_node::failure::Failure;

/// Every entity that has quotas may be in the answer.
pub(crate) fn built_bytes(
    context: &RequestContext,
    _request: &DescribeClientQuotasRequest,
) -> usize {
    with_all(context, 0, context.sizes().quota_entity_count() * ENTRY_WITH_MESSAGE_BYTES)
}

pub(crate) async fn handle(
    context: RequestContext,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let cluster = match context.cluster(Operation::DescribeConfigs) {
        Ok(cluster) => cluster,
        Err(code) => return refused(refusal(code)),
    };
    let filter = match Filter::new(&request) {
        Ok(filter) => filter,
        Err(failure) => return refused(failure),
    };
    let image = cluster.metadata();
    let found = image.client_quotas().iter().filter(|(entity, _)| filter.takes(entity));
    DescribeClientQuotasResponse {
        error_message: None,
        entries: Some(found.map(|(entity, limits)| entry(entity, limits)).collect()),
        ..Default::default()
    }
}

fn refused(failure: Failure) -> DescribeClientQuotasResponse {
    DescribeClientQuotasResponse {
        error_code: failure.code.code(),
        error_message: Some(failure.message.into()),
        entries: None,
        ..Default::default()
    }
}

/// What one part of an entity has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Match {
    Exactly(QuotaName),
    AnyOfItsType,
}

/// Which entities a client asks for.
#[derive(Debug)]
struct Filter {
    parts: BTreeMap<&'static str, Match>,
    /// Whether an entity may have no other parts.
    is_strict: bool,
}

impl Filter {
    fn new(request: &DescribeClientQuotasRequest) -> Result<Filter, Failure> {
        let mut parts = BTreeMap::new();
        for component in &request.components {
            let entity_type = known_type(&component.entity_type)?;
            if parts.insert(entity_type, part_match(component)?).is_some() {
                return invalid("the filter has a type of entity more than once");
            }
        }
        if parts.contains_key(IP) && parts.len() > 1 {
            return invalid("quotas of IP addresses have neither users nor client ids");
        }
        Ok(Filter { parts, is_strict: request.strict })
    }

    fn takes(&self, entity: &QuotaEntity) -> bool {
        let parts = quota_entity::parts(entity);
        let has = |(entity_type, wanted): (&&str, &Match)| {
            let name = parts.iter().find(|(other, _)| other == entity_type).map(|(_, name)| *name);
            match wanted {
                Match::Exactly(wanted) => name == Some(wanted),
                Match::AnyOfItsType => name.is_some(),
            }
        };
        self.parts.iter().all(has) && !(self.is_strict && parts.len() != self.parts.len())
    }
}

fn known_type(name: &str) -> Result<&'static str, Failure> {
    match [USER, CLIENT_ID, IP].into_iter().find(|known| *known == name) {
        Some(known) => Ok(known),
        None if name.is_empty() => invalid("the filter has a type of entity without a name"),
        None => {
            let message = "quotas are about a 'user', a 'client-id' or an 'ip'";
            Err(Failure::new(ErrorCode::UnsupportedVersion, message))
        }
    }
}

fn part_match(component: &ComponentData) -> Result<Match, Failure> {
    match (component.match_type, &component.match_) {
        (0, Some(name)) => {
            let address = Some(()).filter(|()| component.entity_type.as_str() == IP);
            let address = address.and_then(|()| quota_entity::address_name(name));
            Ok(Match::Exactly(address.unwrap_or_else(|| QuotaName::Named(name.to_string()))))
        }
        (1, None) => Ok(Match::Exactly(QuotaName::Default)),
        (2, None) => Ok(Match::AnyOfItsType),
        (0, None) => invalid("a filter for one name has none"),
        (1 | 2, Some(_)) => invalid("a filter for more than one name has a name"),
        (other, _) => invalid(format!("match type {other} is unknown")),
    }
}

fn invalid<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(ErrorCode::InvalidRequest, message))
}

fn entry(entity: &QuotaEntity, limits: &QuotaLimits) -> EntryData {
    let parts = quota_entity::parts(entity).into_iter().map(|(entity_type, name)| EntityData {
        entity_type: entity_type.into(),
        entity_name: quota_entity::wire_name(name),
        ..Default::default()
    });
    let values = limits.iter().map(|(key, limit)| ValueData {
        key: key.name().into(),
        value: limit.get(),
        ..Default::default()
    });
    EntryData { entity: parts.collect(), values: values.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(
        entity_type: &'static str,
        match_type: i8,
        name: Option<&'static str>,
    ) -> ComponentData {
        ComponentData {
            entity_type: entity_type.into(),
            match_type,
            match_: name.map(Into::into),
            ..Default::default()
        }
    }

    fn filter(components: Vec<ComponentData>, strict: bool) -> Result<Filter, ErrorCode> {
        let request = DescribeClientQuotasRequest { components, strict, ..Default::default() };
        Filter::new(&request).map_err(|failure| failure.code)
    }

    /// Which of these a filter takes: a user, the default user, a client id, a client of a user.
    fn taken(components: Vec<ComponentData>, strict: bool) -> [bool; 4] {
        let alice = QuotaName::Named("alice".to_owned());
        let entities = [
            QuotaEntity::User(alice.clone()),
            QuotaEntity::User(QuotaName::Default),
            QuotaEntity::ClientId(QuotaName::Named("app".to_owned())),
            QuotaEntity::UserClient { user: alice, client_id: QuotaName::Default },
        ];
        let filter = filter(components, strict).expect("is a filter");
        entities.map(|entity| filter.takes(&entity))
    }

    #[test]
    fn filters_take_what_kafkas_take() {
        let alice = || component(USER, 0, Some("alice"));
        assert_eq!(taken(vec![], false), [true, true, true, true]);
        assert_eq!(taken(vec![], true), [false, false, false, false]);
        assert_eq!(taken(vec![alice()], false), [true, false, false, true]);
        assert_eq!(taken(vec![alice()], true), [true, false, false, false]);
        assert_eq!(taken(vec![component(USER, 1, None)], false), [false, true, false, false]);
        assert_eq!(taken(vec![component(USER, 2, None)], false), [true, true, false, true]);
        assert_eq!(taken(vec![component(CLIENT_ID, 2, None)], true), [false, false, true, false]);
        let both = vec![alice(), component(CLIENT_ID, 2, None)];
        assert_eq!(taken(both, true), [false, false, false, true]);
        assert_eq!(taken(vec![component(IP, 2, None)], false), [false; 4]);
    }

    #[test]
    fn filters_that_make_no_sense_are_refused() {
        let invalid = Some(ErrorCode::InvalidRequest);
        for components in [
            vec![component(USER, 0, None)],
            vec![component(USER, 1, Some("a"))],
            vec![component(USER, 2, Some("a"))],
            vec![component(USER, 3, None)],
            vec![component("", 2, None)],
            vec![component(USER, 2, None), component(USER, 1, None)],
            vec![component(USER, 2, None), component(IP, 1, None)],
        ] {
            assert_eq!(filter(components.clone(), false).err(), invalid, "{components:?}");
        }
        let unknown = vec![component("group", 2, None)];
        assert_eq!(filter(unknown, false).err(), Some(ErrorCode::UnsupportedVersion));
    }
}
