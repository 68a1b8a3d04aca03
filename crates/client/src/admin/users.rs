//! Users and their passwords (KIP-554).

use std::collections::BTreeMap;

use logway_metadata::sasl::ScramMechanism;
use logway_security::scram::{DEFAULT_ITERATIONS, random_bytes, salted_password};
use logway_wire::WireString;
use logway_wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use logway_wire::messages::{
    AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest,
};

use crate::error::check;
use crate::{Client, ClientError};

/// The salt of a password, in bytes.
const SALT_BYTES: usize = 24;

/// A user that has a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedUser {
    /// The name.
    pub name: String,
    /// How often the password is hashed, for each mechanism that it can be told by.
    pub mechanisms: BTreeMap<ScramMechanism, u32>,
}

impl Client {
    /// Every user that has a password, by name.
    ///
    /// # Errors
    ///
    /// As of any call; `CLUSTER_AUTHORIZATION_FAILED` for who may not describe the cluster.
    pub async fn describe_users(&self) -> Result<Vec<DescribedUser>, ClientError> {
        let request = DescribeUserScramCredentialsRequest { users: None, ..Default::default() };
        let response = self.call_any(&request).await?;
        let what = || "list users".to_owned();
        check(what, response.error_code, response.error_message.as_ref())?;
        let mut users = Vec::new();
        for result in response.results {
            let infos = result.credential_infos.iter().filter_map(|info| {
                let mechanism = ScramMechanism::from_number(info.mechanism)?;
                Some((mechanism, u32::try_from(info.iterations).unwrap_or(0)))
            });
            users
                .push(DescribedUser { name: result.user.to_string(), mechanisms: infos.collect() });
        }
        users.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(users)
    }

    /// Gives a user a password, which can be told by each of the mechanisms. The password does not travel.
    ///
    /// # Errors
    ///
    /// As of any call; `CLUSTER_AUTHORIZATION_FAILED` for who may not alter the cluster.
    pub async fn set_password(
        &self,
        user: &str,
        password: &str,
        mechanisms: &[ScramMechanism],
    ) -> Result<(), ClientError> {
        for &mechanism in mechanisms {
            let salt = random_bytes::<SALT_BYTES>().map_err(|error| ClientError::Refused {
                what: format!("make a password of user '{user}'"),
                code: logway_model::ErrorCode::UnknownServerError,
                message: Some(error.to_string()),
            })?;
            let salted = salted_password(mechanism, password.as_bytes(), &salt, DEFAULT_ITERATIONS);
            let upsertion = ScramCredentialUpsertion {
                name: WireString::copy_of(user),
                mechanism: mechanism.number(),
                iterations: i32::try_from(DEFAULT_ITERATIONS).unwrap_or(i32::MAX),
                salt: salt.to_vec().into(),
                salted_password: salted.into(),
                ..Default::default()
            };
            // Kafka takes one change of a user with each request.
            let upsertions = vec![upsertion];
            let request = AlterUserScramCredentialsRequest { upsertions, ..Default::default() };
            self.alter_users(&request, || format!("set the password of user '{user}'")).await?;
        }
        Ok(())
    }

    /// Takes a user's password, for these mechanisms.
    ///
    /// # Errors
    ///
    /// As of any call; `RESOURCE_NOT_FOUND` if the user has none.
    pub async fn delete_password(
        &self,
        user: &str,
        mechanisms: &[ScramMechanism],
    ) -> Result<(), ClientError> {
        for mechanism in mechanisms {
            let deletions = vec![ScramCredentialDeletion {
                name: WireString::copy_of(user),
                mechanism: mechanism.number(),
                ..Default::default()
            }];
            let request = AlterUserScramCredentialsRequest { deletions, ..Default::default() };
            self.alter_users(&request, || format!("delete user '{user}'")).await?;
        }
        Ok(())
    }

    async fn alter_users(
        &self,
        request: &AlterUserScramCredentialsRequest,
        what: impl Fn() -> String,
    ) -> Result<(), ClientError> {
        let codes = |response: &logway_wire::messages::AlterUserScramCredentialsResponse| {
            response.results.iter().map(|result| result.error_code).collect()
        };
        for result in self.change(request, codes).await?.results {
            check(&what, result.error_code, result.error_message.as_ref())?;
        }
        Ok(())
    }
}
