//! DescribeGroups and ListGroups.

use std::collections::BTreeSet;

use bytes::Bytes;
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::consumer_group_describe_response::DescribedGroup as DescribedConsumerGroup;
use logway_wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use logway_wire::messages::list_groups_response::ListedGroup;
use logway_wire::messages::streams_group_describe_response::DescribedGroup as DescribedStreamsGroup;
use logway_wire::messages::{ListGroupsRequest, ListGroupsResponse};

use crate::ids::{GroupId, InstanceId, ProtocolName};
use crate::member::Member;
use crate::membership::{GroupState, Membership};
use crate::turn::Turn;

use super::{Group, Groups};

/// From this version on, a group that there is not is an error (KIP-1043).
const GROUP_ID_NOT_FOUND_VERSION: i16 = 6;

/// The state of groups that there are not.
const DEAD: &str = "Dead";

impl Groups {
    /// DescribeGroups.
    pub(crate) fn describe(&self, version: i16, group_ids: &[WireString]) -> Vec<DescribedGroup> {
        group_ids.iter().map(|group_id| self.describe_one(version, group_id)).collect()
    }

    fn describe_one(&self, version: i16, group_id: &WireString) -> DescribedGroup {
        let unknown = DescribedGroup {
            group_id: group_id.clone(),
            group_state: DEAD.into(),
            ..DescribedGroup::default()
        };
        let group = self.by_id.get(group_id.as_str());
        match group {
            Some(group)
                if group.has_coordinator_assign() && version >= GROUP_ID_NOT_FOUND_VERSION =>
            {
                let message = format!("Group {} is not a classic group.", GroupId::from(group_id));
                DescribedGroup {
                    error_code: ErrorCode::GroupIdNotFound.code(),
                    error_message: Some(message.into()),
                    ..unknown
                }
            }
            Some(group) if group.has_coordinator_assign() => unknown,
            Some(group) => DescribedGroup {
                group_id: group_id.clone(),
                ..describe_membership(&group.membership)
            },
            None if version >= GROUP_ID_NOT_FOUND_VERSION => DescribedGroup {
                error_code: ErrorCode::GroupIdNotFound.code(),
                error_message: Some(format!("Group {} not found.", GroupId::from(group_id)).into()),
                ..unknown
            },
            None => unknown,
        }
    }

    /// ConsumerGroupDescribe.
    pub(crate) fn describe_consumers(
        &self,
        turn: &Turn,
        group_ids: &[WireString],
    ) -> Vec<DescribedConsumerGroup> {
        let describe = |group_id: &WireString| {
            let group = self.by_id.get(group_id.as_str());
            let message = match group.map(|group| &group.consumer) {
                Some(Some(consumer)) => {
                    let assignors = &turn.settings.consumer.assignors;
                    return consumer.describe(group_id.clone(), assignors, turn.view);
                }
                Some(None) => format!("Group {} is not a consumer group.", GroupId::from(group_id)),
                None => format!("Group {} not found.", GroupId::from(group_id)),
            };
            DescribedConsumerGroup {
                group_id: group_id.clone(),
                error_code: ErrorCode::GroupIdNotFound.code(),
                error_message: Some(message.into()),
                ..DescribedConsumerGroup::default()
            }
        };
        group_ids.iter().map(describe).collect()
    }

    /// StreamsGroupDescribe.
    pub(crate) fn describe_streams(
        &self,
        turn: &Turn,
        group_ids: &[WireString],
    ) -> Vec<DescribedStreamsGroup> {
        let describe = |group_id: &WireString| {
            let group = self.by_id.get(group_id.as_str());
            let message = match group.map(|group| &group.streams) {
                Some(Some(streams)) => return streams.describe(group_id.clone(), turn),
                Some(None) => format!("Group {} is not a streams group.", GroupId::from(group_id)),
                None => format!("Group {} not found.", GroupId::from(group_id)),
            };
            DescribedStreamsGroup {
                group_id: group_id.clone(),
                error_code: ErrorCode::GroupIdNotFound.code(),
                error_message: Some(message.into()),
                ..DescribedStreamsGroup::default()
            }
        };
        group_ids.iter().map(describe).collect()
    }

    /// ListGroups, with the states (KIP-518) and types (KIP-848) that are asked for; case does not count.
    pub(crate) fn list(&self, request: &ListGroupsRequest) -> ListGroupsResponse {
        let states: BTreeSet<String> =
            request.states_filter.iter().map(|state| state.trim().to_lowercase()).collect();
        let is_in_state = |group: &Group| {
            states.is_empty() || states.contains(&group.state_name().to_lowercase())
        };
        let types = &request.types_filter;
        let is_of_type = |group: &Group| {
            let name = group.group_type().name();
            types.is_empty() || types.iter().any(|asked| asked.eq_ignore_ascii_case(name))
        };
        let all = self.by_id.iter();
        let listed = all.filter(|(_, group)| is_of_type(group) && is_in_state(group));
        let groups = listed.map(|(group_id, group)| ListedGroup {
            group_id: group_id.to_wire(),
            protocol_type: WireString::copy_of(group.protocol_type()),
            group_state: group.state_name().into(),
            group_type: group.group_type().name().into(),
            ..ListedGroup::default()
        });
        ListGroupsResponse { groups: groups.collect(), ..ListGroupsResponse::default() }
    }
}

fn describe_membership(membership: &Membership) -> DescribedGroup {
    // Before that, what the members said may be about different protocols.
    let protocol = membership.protocol().filter(|_| membership.state() == GroupState::Stable);
    DescribedGroup {
        group_state: membership.state().name().into(),
        protocol_type: text(membership.protocol_type()),
        protocol_data: text(protocol),
        members: membership.members().map(|member| describe_member(member, protocol)).collect(),
        ..DescribedGroup::default()
    }
}

fn describe_member(member: &Member, protocol: Option<&ProtocolName>) -> DescribedGroupMember {
    let member_metadata = match protocol {
        Some(_) => member.protocols.metadata(protocol),
        None => Bytes::new(),
    };
    DescribedGroupMember {
        member_id: member.id.to_wire(),
        group_instance_id: member.instance_id.as_ref().map(InstanceId::to_wire),
        client_id: WireString::copy_of(&member.client_id),
        client_host: WireString::copy_of(&member.client_host),
        member_metadata,
        member_assignment: member.assignment.clone(),
        ..DescribedGroupMember::default()
    }
}

fn text(name: Option<&ProtocolName>) -> WireString {
    name.map(ProtocolName::to_wire).unwrap_or_default()
}
