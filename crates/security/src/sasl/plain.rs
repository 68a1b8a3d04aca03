//! PLAIN (RFC 4616): a name and a password, as they are.
//!
//! ```text
//! [authorisation identity] NUL name NUL password
//! ```
//!
//! The password is hashed with the salt of what SCRAM keeps of it, and compared.

use logway_metadata::sasl::ScramMechanism;

use super::{FindCredential, Known, Refusal, Step, Strangers};
use crate::scram::is_password;

/// The stronger hash first: a user may have either.
const STORED_AS: [ScramMechanism; 2] = [ScramMechanism::Sha512, ScramMechanism::Sha256];

pub(super) fn check(
    token: &[u8],
    find: &FindCredential<'_>,
    strangers: &Strangers,
) -> Result<Step, Refusal> {
    let text = std::str::from_utf8(token).map_err(|_| Refusal::new("the token is no UTF-8"))?;
    let parts: Vec<&str> = text.split('\0').collect();
    let [identity, user, password] = parts[..] else {
        return Err(Refusal::new("the token has not three parts"));
    };
    if user.is_empty() || password.is_empty() {
        return Err(Refusal::new("the name or the password is empty"));
    }
    let refuse = |reason| Refusal { user: Some(user.to_owned()), reason };
    if !identity.is_empty() && identity != user {
        return Err(refuse("it wants to act for another user"));
    }
    let stored = STORED_AS.into_iter().find_map(|it| Some((it, find(user, it)?)));
    let is_known = stored.is_some();
    let (mechanism, credential) =
        stored.unwrap_or_else(|| (STORED_AS[0], strangers.credential(user, STORED_AS[0])));
    // It is hashed for strangers, too, so that they take as long.
    match is_password(mechanism, password, &credential) && is_known {
        true => Ok(Step::Done { known: Known::by_password(user.to_owned()), token: Vec::new() }),
        false if is_known => Err(refuse("the password is wrong")),
        false => Err(refuse("there is no such user")),
    }
}
