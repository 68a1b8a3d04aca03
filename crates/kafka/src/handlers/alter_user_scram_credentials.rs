//! AlterUserScramCredentials: users get passwords, or lose them (KIP-554).
//!
//! Passwords do not travel: clients send them as they were hashed with their salt.

use std::collections::HashSet;

use logway_metadata::controller::{AlterScramCredentials, ScramCredentialChange};
use logway_metadata::sasl::ScramMechanism;
use logway_model::ErrorCode;
use logway_node::access::{Operation, Resource};
use logway_node::failure::Failure;
use logway_security::scram::credential_of;
use logway_wire::WireString;
use logway_wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use logway_wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use logway_wire::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};

use super::batched_command::submit_each;
use super::building::ENTRY_WITH_MESSAGE_BYTES;
use crate::request::{RequestContext, refusal};

/// The longest salt and hashed password; both are far shorter.
const BYTES_MAX: usize = 1_024;

/// One answer for each change.
pub(crate) fn built_bytes(
    _context: &RequestContext,
    request: &AlterUserScramCredentialsRequest,
) -> usize {
    (request.deletions.len() + request.upsertions.len()) * ENTRY_WITH_MESSAGE_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let may = context.check(Operation::Alter, Resource::Cluster).map_err(refusal);
    let (deletions, upsertions) = (&request.deletions, &request.upsertions);
    let names = deletions.iter().map(|it| &it.name).chain(upsertions.iter().map(|it| &it.name));
    let users: Vec<WireString> = names.cloned().collect();
    let deleted = deletions.iter().map(|deletion| {
        let mechanism = mechanism(&deletion.name, deletion.mechanism)?;
        let user = deletion.name.to_string();
        Ok(ScramCredentialChange { user, mechanism, credential: None })
    });
    let changes = deleted.chain(upsertions.iter().map(upserted));
    let changes = changes.map(|change| may.clone().and(change)).collect();
    let alter = |changes| AlterScramCredentials { changes };
    let outcomes: Vec<Result<(), Failure>> = submit_each(&context, None, changes, alter).await;

    // A user is told of once, with what went wrong if anything did.
    let mut told = HashSet::new();
    let pairs = || users.iter().zip(&outcomes);
    let first = users.iter().filter(|user| told.insert((*user).clone()));
    let result = |user: &WireString| {
        let failure =
            pairs().filter(|(name, _)| *name == user).find_map(|(_, it)| it.as_ref().err());
        AlterUserScramCredentialsResult {
            user: user.clone(),
            error_code: failure.map_or(ErrorCode::None, |failure| failure.code).code(),
            error_message: failure.map(|failure| failure.message.clone().into()),
            ..Default::default()
        }
    };
    AlterUserScramCredentialsResponse { results: first.map(result).collect(), ..Default::default() }
}

/// The mechanism of a number. As in Kafka, that there is no user is said first.
fn mechanism(user: &str, number: i8) -> Result<ScramMechanism, Failure> {
    if user.is_empty() {
        return Err(Failure::new(ErrorCode::UnacceptableCredential, "Username must not be empty"));
    }
    ScramMechanism::from_number(number)
        .ok_or_else(|| Failure::new(ErrorCode::UnsupportedSaslMechanism, "Unknown SCRAM mechanism"))
}

fn upserted(upsertion: &ScramCredentialUpsertion) -> Result<ScramCredentialChange, Failure> {
    let mechanism = mechanism(&upsertion.name, upsertion.mechanism)?;
    let unacceptable = |message| Err(Failure::new(ErrorCode::UnacceptableCredential, message));
    let (salt, salted) = (&upsertion.salt, &upsertion.salted_password);
    if salt.is_empty() || salted.is_empty() || salt.len().max(salted.len()) > BYTES_MAX {
        return unacceptable("The salt or the hashed password is empty or too long");
    }
    // Out of bounds, the controller refuses it.
    let iterations = u32::try_from(upsertion.iterations).unwrap_or(0);
    let credential = credential_of(mechanism, salted, salt.to_vec(), iterations);
    let user = upsertion.name.to_string();
    Ok(ScramCredentialChange { user, mechanism, credential: Some(credential) })
}
