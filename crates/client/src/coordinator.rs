//! The broker that a group, or a transactional id, belongs to.

use std::fmt;

use logway_model::{BrokerId, ErrorCode};
use logway_wire::messages::find_coordinator_response::Coordinator as WireCoordinator;
use logway_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use logway_wire::{Request, WireString};

use crate::error::{check, error_code};
use crate::{BrokerAddress, Client, ClientError, Connection};

/// What a coordinator is looked for by: `CoordinatorType` (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoordinatorKey<'a> {
    /// A group.
    Group(&'a str),
    /// A transactional id.
    TransactionalId(&'a str),
}

impl CoordinatorKey<'_> {
    fn kind(self) -> i8 {
        match self {
            CoordinatorKey::Group(_) => 0,
            CoordinatorKey::TransactionalId(_) => 1,
        }
    }

    fn name(self) -> WireString {
        match self {
            CoordinatorKey::Group(name) | CoordinatorKey::TransactionalId(name) => {
                WireString::copy_of(name)
            }
        }
    }
}

impl fmt::Display for CoordinatorKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoordinatorKey::Group(name) => write!(f, "group '{name}'"),
            CoordinatorKey::TransactionalId(name) => write!(f, "transactional id '{name}'"),
        }
    }
}

/// The version that asks for several groups at once (KIP-699).
const FIRST_VERSION_WITH_KEYS: i16 = 4;

/// The broker that coordinates a group, or a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinator {
    /// Its number.
    pub id: BrokerId,
    /// Where clients are to connect.
    pub address: BrokerAddress,
}

/// Whether to ask again when the connection broke, and with it the knowledge of what was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterBreak {
    /// To carry it out twice does no harm.
    Repeat,
    /// It may not be carried out twice.
    GiveUp,
}

impl Client {
    /// Finds a group's coordinator, waiting for one within the client's patience.
    pub async fn find_coordinator(&self, group: &str) -> Result<Coordinator, ClientError> {
        self.find(CoordinatorKey::Group(group)).await
    }

    /// The same of a transactional id.
    pub async fn find_transaction_coordinator(&self, id: &str) -> Result<Coordinator, ClientError> {
        self.find(CoordinatorKey::TransactionalId(id)).await
    }

    async fn find(&self, key: CoordinatorKey<'_>) -> Result<Coordinator, ClientError> {
        self.ask_any(|connection| async move { ask_for_coordinator(&connection, key).await }).await
    }

    /// Asks a coordinator, and asks again while it is moving, starting or unreachable, or while a transaction has not
    /// ended in all of its partitions.
    ///
    /// `request` makes the request for a version up to `version_max`; `code` finds what the
    /// response says about the group or transactional id as a whole, and thus about its coordinator.
    pub(crate) async fn call_coordinator<R: Request>(
        &self,
        key: CoordinatorKey<'_>,
        version_max: i16,
        after_break: AfterBreak,
        request: impl Fn(i16) -> R,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, ClientError> {
        let mut backoff = self.backoff();
        loop {
            let coordinator = self.find(key).await?;
            let asked = self.call_at(&coordinator, key, version_max, &request, &code).await;
            let error = match asked {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let is_broken = matches!(error, ClientError::Connection { .. });
            let is_final = is_broken && after_break == AfterBreak::GiveUp;
            if is_final || !error.is_retriable() || !backoff.pause(&error).await {
                return Err(error);
            }
        }
    }

    async fn call_at<R: Request>(
        &self,
        coordinator: &Coordinator,
        key: CoordinatorKey<'_>,
        version_max: i16,
        request: &impl Fn(i16) -> R,
        code: &impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, ClientError> {
        let connection = self.connect(&coordinator.address).await?;
        let version = connection.version_for::<R>(version_max)?;
        let response = connection.send(&request(version), version).await?.response().await?;
        match code(&response) {
            unsettled if comes_again(error_code(unsettled)) => {
                let what = || format!("ask the coordinator of {key}");
                check(what, unsettled, None).map(|()| response)
            }
            // The caller knows better than we what to say about other codes.
            _ => Ok(response),
        }
    }
}

async fn ask_for_coordinator(
    connection: &Connection,
    key: CoordinatorKey<'_>,
) -> Result<Coordinator, ClientError> {
    let version = connection.version_for::<FindCoordinatorRequest>(i16::MAX)?;
    let mut request = FindCoordinatorRequest { key_type: key.kind(), ..Default::default() };
    match version >= FIRST_VERSION_WITH_KEYS {
        true => request.coordinator_keys = vec![key.name()],
        false => request.key = key.name(),
    }
    let response = connection.send(&request, version).await?.response().await?;
    let found = the_one(response, version).ok_or_else(|| ClientError::UnexpectedResponse {
        address: connection.address().clone(),
        api: FindCoordinatorRequest::API_KEY.name(),
        problem: "no coordinator".to_owned(),
    })?;
    let what = || format!("find the coordinator of {key}");
    check(what, found.error_code, found.error_message.as_ref())?;
    let id = BrokerId(found.node_id);
    // A port that cannot be means what it means in metadata: nobody is there.
    let port = u16::try_from(found.port).map_err(|_| ClientError::UnknownBroker { id })?;
    Ok(Coordinator { id, address: BrokerAddress::new(found.host.as_str(), port) })
}

/// Whether a later attempt will have another answer.
fn comes_again(code: ErrorCode) -> bool {
    is_unsettled(code) || code == ErrorCode::ConcurrentTransactions
}

/// Whether a code says that the coordinator is another broker, or not ready.
pub(crate) fn is_unsettled(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
    )
}

/// The answer about the only group that was asked for.
fn the_one(response: FindCoordinatorResponse, version: i16) -> Option<WireCoordinator> {
    if version >= FIRST_VERSION_WITH_KEYS {
        return response.coordinators.into_iter().next();
    }
    Some(WireCoordinator {
        node_id: response.node_id,
        host: response.host,
        port: response.port,
        error_code: response.error_code,
        error_message: response.error_message,
        ..WireCoordinator::default()
    })
}
