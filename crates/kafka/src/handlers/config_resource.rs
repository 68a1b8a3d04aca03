//! The resources that have settings, as the protocol names them.

use logway_metadata::ConfigResource;
use logway_model::{BrokerId, ErrorCode, TopicName};

use crate::request::{RequestContext, refusal};
use logway_node::access::{Operation, Resource};
use logway_node::failure::Failure;

pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const BROKER_LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// The last changes of the cluster as the asked node has seen them, which are no settings. Kafka has no such type: each of its
/// own is a power of two, and this is none.
pub(super) const CLUSTER_EVENTS: i8 = 100;

/// What a permission about the settings of a resource is about. Fails with `INVALID_REQUEST` for a type that has none.
pub(super) fn guarded_by(resource_type: i8, name: &str) -> Result<Resource<'_>, Failure> {
    match resource_type {
        TOPIC => Ok(Resource::Topic(name)),
        GROUP => Ok(Resource::Group(name)),
        BROKER | BROKER_LOGGER | CLIENT_METRICS => Ok(Resource::Cluster),
        _ => Err(unknown_type(resource_type)),
    }
}

/// Checks whether the requester may change the settings of a resource that are part of the metadata.
pub(super) fn check_alteration(
    context: &RequestContext,
    resource_type: i8,
    name: &str,
) -> Result<(), Failure> {
    if resource_type == BROKER_LOGGER {
        return Err(unknown_type(resource_type));
    }
    let resource = guarded_by(resource_type, name)?;
    context.check(Operation::AlterConfigs, resource).map_err(refusal)
}

/// Checks that the loggers are meant that a broker has; they are no part of the metadata.
///
/// Fails with `INVALID_REQUEST`.
pub(super) fn check_loggers(name: &str, own_id: BrokerId) -> Result<(), Failure> {
    let message = match name.parse().map(BrokerId) {
        Ok(id) if id == own_id => return Ok(()),
        Ok(id) => format!("this is broker {own_id}, not broker {id}"),
        Err(_) => "loggers are those of a broker, which is named by its number".to_owned(),
    };
    Err(Failure::new(ErrorCode::InvalidRequest, message))
}

/// The resource of a type and a name, as asked of the broker `own_id`.
///
/// A broker answers for itself (by its number) and for the defaults of all (by an empty name);
/// clients send what is about another broker to that one. Fails with `INVALID_TOPIC_EXCEPTION` or
/// `INVALID_REQUEST`.
pub(super) fn resolve(
    resource_type: i8,
    name: &str,
    own_id: BrokerId,
) -> Result<ConfigResource, Failure> {
    match resource_type {
        TOPIC => match TopicName::new(name) {
            Ok(name) => Ok(ConfigResource::Topic(name)),
            Err(error) => Err(Failure::new(ErrorCode::InvalidTopicException, error.to_string())),
        },
        BROKER if name.is_empty() => Ok(ConfigResource::BrokerDefault),
        BROKER => match name.parse().map(BrokerId) {
            Ok(id) if id == own_id => Ok(ConfigResource::Broker(id)),
            Ok(id) => invalid(format!("this is broker {own_id}, not broker {id}")),
            Err(_) => invalid("a broker is named by its number, or by nothing for all".to_owned()),
        },
        CLIENT_METRICS | GROUP if name.is_empty() => invalid("the resource has no name".to_owned()),
        CLIENT_METRICS => Ok(ConfigResource::ClientMetrics(name.to_owned())),
        GROUP => Ok(ConfigResource::Group(name.to_owned())),
        _ => Err(unknown_type(resource_type)),
    }
}

fn unknown_type(resource_type: i8) -> Failure {
    Failure::new(ErrorCode::InvalidRequest, format!("unknown resource type {resource_type}"))
}

fn invalid(message: String) -> Result<ConfigResource, Failure> {
    Err(Failure::new(ErrorCode::InvalidRequest, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_topics_brokers_groups_and_subscriptions() {
        let found = |resource_type, name| {
            resolve(resource_type, name, BrokerId(1)).map_err(|failure| failure.code)
        };
        let topic = ConfigResource::Topic(TopicName::new("a").expect("a legal name"));
        assert_eq!(found(TOPIC, "a"), Ok(topic));
        assert_eq!(found(BROKER, "1"), Ok(ConfigResource::Broker(BrokerId(1))));
        assert_eq!(found(BROKER, ""), Ok(ConfigResource::BrokerDefault));
        assert_eq!(found(GROUP, "g"), Ok(ConfigResource::Group("g".to_owned())));
        let subscription = ConfigResource::ClientMetrics("s".to_owned());
        assert_eq!(found(CLIENT_METRICS, "s"), Ok(subscription));
        assert_eq!(found(TOPIC, ""), Err(ErrorCode::InvalidTopicException));
        for (resource_type, name) in
            [(BROKER, "2"), (BROKER, "one"), (BROKER_LOGGER, "1"), (GROUP, ""), (0, ""), (-1, "x")]
        {
            assert_eq!(
                found(resource_type, name),
                Err(ErrorCode::InvalidRequest),
                "{resource_type}"
            );
        }
    }
}
