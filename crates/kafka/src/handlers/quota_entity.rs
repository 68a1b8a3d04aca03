//! Whom quotas bind, as the protocol names them.

use std::net::IpAddr;

use logway_metadata::quota::{QuotaEntity, QuotaName};
use logway_model::ErrorCode;
use logway_wire::WireString;

use logway_node::failure::Failure;

pub(super) const USER: &str = "user";
pub(super) const CLIENT_ID: &str = "client-id";
pub(super) const IP: &str = "ip";

/// The entity of its parts: types with names, no name standing for the default.
///
/// Fails with `INVALID_REQUEST` for what quotas cannot be about.
pub(super) fn from_parts<'a>(
    parts: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<QuotaEntity, Failure> {
    let (mut user, mut client_id, mut ip) = (None, None, None);
    for (entity_type, name) in parts {
        let part = match entity_type {
            USER => &mut user,
            CLIENT_ID => &mut client_id,
            IP => &mut ip,
            _ => return invalid("quotas are about a 'user', a 'client-id' or an 'ip'"),
        };
        let name = match name {
            Some("") => return invalid("the entity of a quota has no empty name"),
            Some(name) if entity_type == IP => match address_name(name) {
                Some(name) => name,
                None => return invalid("an 'ip' of a quota is an IP address, not a host name"),
            },
            Some(name) => QuotaName::Named(name.to_owned()),
            None => QuotaName::Default,
        };
        if part.replace(name).is_some() {
            return invalid("the entity of a quota has one user, client id or ip at most");
        }
    }
    match (user, client_id, ip) {
        (Some(user), Some(client_id), None) => Ok(QuotaEntity::UserClient { user, client_id }),
        (Some(user), None, None) => Ok(QuotaEntity::User(user)),
        (None, Some(client_id), None) => Ok(QuotaEntity::ClientId(client_id)),
        (None, None, Some(ip)) => Ok(QuotaEntity::Ip(ip)),
        (None, None, None) => invalid("the entity of a quota has neither user, client id nor ip"),
        (_, _, Some(_)) => invalid("quotas of an 'ip' have neither a user nor a client id"),
    }
}

/// The name of an address, however it is written; `None` if it is no address.
pub(super) fn address_name(text: &str) -> Option<QuotaName> {
    let address: IpAddr = text.parse().ok()?;
    Some(QuotaName::Named(address.to_canonical().to_string()))
}

/// The parts of an entity.
pub(super) fn parts(entity: &QuotaEntity) -> Vec<(&'static str, &QuotaName)> {
    let user = entity.user().map(|name| (USER, name));
    let client_id = entity.client_id().map(|name| (CLIENT_ID, name));
    let ip = entity.ip().map(|name| (IP, name));
    user.into_iter().chain(client_id).chain(ip).collect()
}

/// A name as the protocol has it.
pub(super) fn wire_name(name: &QuotaName) -> Option<WireString> {
    match name {
        QuotaName::Named(name) => Some(WireString::copy_of(name)),
        QuotaName::Default => None,
    }
}

fn invalid(message: &str) -> Result<QuotaEntity, Failure> {
    Err(Failure::new(ErrorCode::InvalidRequest, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_come_from_their_parts() {
        let entity = |parts: &[(&'static str, Option<&'static str>)]| {
            from_parts(parts.iter().copied()).map_err(|failure| failure.code)
        };
        let alice = QuotaName::Named("alice".to_owned());
        assert_eq!(entity(&[(USER, Some("alice"))]), Ok(QuotaEntity::User(alice.clone())));
        assert_eq!(entity(&[(CLIENT_ID, None)]), Ok(QuotaEntity::ClientId(QuotaName::Default)));
        let both = QuotaEntity::UserClient { user: alice, client_id: QuotaName::Default };
        assert_eq!(entity(&[(CLIENT_ID, None), (USER, Some("alice"))]), Ok(both));
        let address = QuotaName::Named("::1".to_owned());
        assert_eq!(entity(&[(IP, Some("0:0:0:0:0:0:0:1"))]), Ok(QuotaEntity::Ip(address)));
        assert_eq!(entity(&[(IP, None)]), Ok(QuotaEntity::Ip(QuotaName::Default)));
        for refused in [
            &[] as &[_],
            &[(USER, Some(""))],
            &[(USER, None), (USER, None)],
            &[(IP, Some("localhost"))],
            &[(IP, None), (USER, None)],
            &[("group", None)],
        ] {
            assert_eq!(entity(refused), Err(ErrorCode::InvalidRequest), "{refused:?}");
        }
    }
}
