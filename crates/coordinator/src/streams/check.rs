//! Whether a heartbeat is one that a member can make, whatever its group is like.

use logway_model::ErrorCode;
use logway_wire::messages::StreamsGroupHeartbeatRequest;

use crate::consumer::{GroupEpoch, Refusal};

use super::tasks::SaidTasks;

/// As long as a name of a host can be (RFC 1035). Every member is told it, with every answer.
const HOST_BYTES_MAX: usize = 255;

pub(super) fn check(request: &StreamsGroupHeartbeatRequest) -> Result<(), Refusal> {
    check_served(request)?;
    let is_blank = |text: &str| text.trim().is_empty();
    if is_blank(&request.member_id) {
        return invalid("MemberId can't be empty.");
    }
    if is_blank(&request.group_id) {
        return invalid("GroupId can't be empty.");
    }
    if request.rack_id.as_deref().is_some_and(is_blank) {
        return invalid("RackId can't be empty.");
    }
    if request.user_endpoint.as_ref().is_some_and(|it| it.host.len() > HOST_BYTES_MAX) {
        return invalid(&format!("The host of UserEndpoint has more than {HOST_BYTES_MAX} bytes."));
    }
    let epoch = GroupEpoch(request.member_epoch);
    if epoch == GroupEpoch::JOINING {
        check_joining(request)?;
    } else if epoch == GroupEpoch::LEAVING_FOR_NOW {
        return invalid("InstanceId can't be null.");
    } else if epoch < GroupEpoch::LEAVING_FOR_NOW {
        return invalid(&format!(
            "MemberEpoch is {epoch}, but must be greater than or equal to -2."
        ));
    } else if request.topology.is_some() {
        return invalid("Topology can only be provided when (re-)joining.");
    }
    let said = [&request.active_tasks, &request.standby_tasks, &request.warmup_tasks];
    let said = said.into_iter().filter(|tasks| tasks.is_some()).count();
    match said {
        0 | 3 => Ok(()),
        _ => invalid("If one task-type is non-null, all must be non-null."),
    }
}

/// What Kafka 4.3 does not serve yet.
fn check_served(request: &StreamsGroupHeartbeatRequest) -> Result<(), Refusal> {
    if request.instance_id.is_some() {
        return invalid("Static membership is not yet supported.");
    }
    if request.task_offsets.is_some() {
        return invalid("TaskOffsets are not supported yet.");
    }
    if request.task_end_offsets.is_some() {
        return invalid("TaskEndOffsets are not supported yet.");
    }
    if request.warmup_tasks.as_ref().is_some_and(|tasks| !tasks.is_empty()) {
        return invalid("WarmupTasks are not supported yet.");
    }
    let mut subtopologies = request.topology.iter().flat_map(|topology| &topology.subtopologies);
    match subtopologies.all(|subtopology| subtopology.source_topic_regex.is_empty()) {
        true => Ok(()),
        false => invalid("Regular expressions for source topics are not supported yet."),
    }
}

fn check_joining(request: &StreamsGroupHeartbeatRequest) -> Result<(), Refusal> {
    if request.rebalance_timeout_ms == -1 {
        return invalid("RebalanceTimeoutMs must be provided in first request.");
    }
    let has_none = |tasks: &Option<Vec<_>>| tasks.as_ref().is_some_and(Vec::is_empty);
    if !has_none(&request.active_tasks) {
        return invalid("ActiveTasks must be empty when (re-)joining.");
    }
    if !has_none(&request.standby_tasks) {
        return invalid("StandbyTasks must be empty when (re-)joining.");
    }
    if !has_none(&request.warmup_tasks) {
        return invalid("WarmupTasks must be empty when (re-)joining.");
    }
    match request.topology {
        Some(_) => Ok(()),
        None => invalid("Topology must be non-null when (re-)joining."),
    }
}

/// What a member says that it has; `None` where it says nothing.
pub(super) fn said(request: &StreamsGroupHeartbeatRequest) -> Option<SaidTasks<'_>> {
    Some(SaidTasks {
        active: request.active_tasks.as_deref()?,
        standby: request.standby_tasks.as_deref()?,
        warmup: request.warmup_tasks.as_deref()?,
    })
}

pub(super) fn invalid<T>(message: &str) -> Result<T, Refusal> {
    Err(Refusal::new(ErrorCode::InvalidRequest, message))
}
