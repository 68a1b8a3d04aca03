//! AddRaftVoter and RemoveRaftVoter: who votes in the metadata quorum (KIP-853).
//!
//! What Kafka looks at first is looked at first here: the cluster, then whether a voter is named, then the voters. Each
//! node of a cluster has a copy of the metadata and has told where it is reached, so the endpoints in a request have to be
//! there, and are not used. The answer to an addition always waits for its commit.

use logway_model::{BrokerId, DirectoryId, ErrorCode, Uuid};
use logway_node::access::Operation;
use logway_node::failure::Failure;
use logway_quorum::{MembersChange, VoterName};
use logway_wire::WireString;
use logway_wire::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, RemoveRaftVoterRequest, RemoveRaftVoterResponse,
};

use super::batched_command::time_max;
use crate::request::{RequestContext, refusal};

/// How much of a cluster's id is repeated to the client that sent it.
const ID_CHARS_SHOWN: usize = 80;

pub(crate) mod add {
    use super::*;

    /// The answer is one outcome.
    pub(crate) fn built_bytes(_context: &RequestContext, _request: &AddRaftVoterRequest) -> usize {
        0
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: AddRaftVoterRequest,
    ) -> AddRaftVoterResponse {
        let (error_code, error_message) = told(add(&context, request).await);
        AddRaftVoterResponse { error_code, error_message, ..Default::default() }
    }

    async fn add(context: &RequestContext, request: AddRaftVoterRequest) -> Result<(), Failure> {
        let cluster = context.cluster(Operation::Alter).map_err(refusal)?;
        check_cluster(context, request.cluster_id.as_ref())?;
        let voter = voter_of(request.voter_id, request.voter_directory_id);
        let voter =
            voter.ok_or_else(|| invalid("Add voter request didn't include a valid voter"))?;
        if request.listeners.is_empty() {
            return Err(invalid("Add voter request didn't include the endpoints of the voter"));
        }
        let change = MembersChange::AddVoter(voter);
        cluster.change_members(context, change, time_max(request.timeout_ms)).await
    }
}

pub(crate) mod remove {
    use super::*;

    /// The answer is one outcome.
    pub(crate) fn built_bytes(
        _context: &RequestContext,
        _request: &RemoveRaftVoterRequest,
    ) -> usize {
        0
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: RemoveRaftVoterRequest,
    ) -> RemoveRaftVoterResponse {
        let (error_code, error_message) = told(remove(&context, request).await);
        RemoveRaftVoterResponse { error_code, error_message, ..Default::default() }
    }

    async fn remove(
        context: &RequestContext,
        request: RemoveRaftVoterRequest,
    ) -> Result<(), Failure> {
        let cluster = context.cluster(Operation::Alter).map_err(refusal)?;
        check_cluster(context, request.cluster_id.as_ref())?;
        let voter = voter_of(request.voter_id, request.voter_directory_id);
        let voter =
            voter.ok_or_else(|| invalid("Remove voter request didn't include a valid voter"))?;
        cluster.change_members(context, MembersChange::RemoveVoter(voter), None).await
    }
}

/// A request that names no cluster is for any.
fn check_cluster(context: &RequestContext, named: Option<&WireString>) -> Result<(), Failure> {
    let own = context.cluster_id().to_string();
    match named.filter(|named| ***named != *own) {
        None => Ok(()),
        Some(named) => {
            let named: String = named.chars().take(ID_CHARS_SHOWN).collect();
            let message = format!("The id '{named}' is not that of this cluster, '{own}'.");
            Err(Failure::new(ErrorCode::InconsistentClusterId, message))
        }
    }
}

fn voter_of(id: i32, directory: Uuid) -> Option<VoterName> {
    let is_named = id >= 0 && !directory.is_zero();
    is_named.then_some(VoterName { id: BrokerId(id), directory: DirectoryId(directory) })
}

fn invalid(message: &str) -> Failure {
    Failure::new(ErrorCode::InvalidRequest, message)
}

fn told(outcome: Result<(), Failure>) -> (i16, Option<WireString>) {
    match outcome {
        Ok(()) => (ErrorCode::None.code(), None),
        Err(failure) => (failure.code.code(), Some(failure.message.into())),
    }
}
