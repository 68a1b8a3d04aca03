//! What happens between consumers and a shard, told line by line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use logway_coordinator::{GroupRecord, GroupSettings, Reply, RequestBody, RequestToken};
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use logway_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use logway_wire::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, OffsetCommitRequest,
    SyncGroupRequest,
};

use crate::driver::{Driver, subscription};

/// The group that stories are about.
pub(crate) const GROUP: &str = "orders";

/// A story in the making.
pub(crate) struct Story {
    pub(crate) driver: Driver,
    consumers: BTreeMap<&'static str, Consumer>,
    /// Who sent a request, and what.
    senders: BTreeMap<RequestToken, &'static str>,
    text: String,
    /// Whether appends wait until the story says how they end.
    pub(crate) holds_appends: bool,
}

/// What a client knows.
#[derive(Clone)]
pub(crate) struct Consumer {
    pub(crate) member_id: String,
    pub(crate) generation: i32,
    pub(crate) instance_id: Option<&'static str>,
    pub(crate) protocols: Vec<(&'static str, Bytes)>,
    pub(crate) join_version: i16,
    pub(crate) session_timeout_ms: i32,
}

impl Default for Consumer {
    fn default() -> Consumer {
        Consumer {
            member_id: String::new(),
            generation: -1,
            instance_id: None,
            protocols: vec![("range", subscription(&["t"]))],
            join_version: 9,
            session_timeout_ms: 10_000,
        }
    }
}

impl Story {
    pub(crate) fn new() -> Story {
        Story::with(GroupSettings::default())
    }

    pub(crate) fn with(settings: GroupSettings) -> Story {
        Story {
            driver: Driver::new(settings),
            consumers: BTreeMap::new(),
            senders: BTreeMap::new(),
            text: String::new(),
            holds_appends: false,
        }
    }

    /// The story so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// A heading.
    pub(crate) fn note(&mut self, note: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        writeln!(self.text, "{gap}# {note}").expect("a string takes all");
    }

    pub(crate) fn consumer(&mut self, name: &'static str) -> &mut Consumer {
        self.consumers.entry(name).or_default()
    }

    pub(crate) fn join(&mut self, name: &'static str) -> RequestToken {
        let fresh_id = self.driver.fresh_id();
        let consumer = self.consumer(name).clone();
        let protocol = |(name, metadata): &(&'static str, Bytes)| JoinGroupRequestProtocol {
            name: WireString::from(*name),
            metadata: metadata.clone(),
            ..Default::default()
        };
        let request = JoinGroupRequest {
            group_id: GROUP.into(),
            session_timeout_ms: consumer.session_timeout_ms,
            rebalance_timeout_ms: 60_000,
            member_id: consumer.member_id.clone().into(),
            group_instance_id: consumer.instance_id.map(WireString::from),
            protocol_type: "consumer".into(),
            protocols: consumer.protocols.iter().map(protocol).collect(),
            ..Default::default()
        };
        let said = match consumer.member_id.as_str() {
            "" => "joins".to_owned(),
            member_id => format!("joins as {}", short(member_id)),
        };
        let body = RequestBody::JoinGroup { request, fresh_id };
        self.send(name, consumer.join_version, &said, body)
    }

    /// Joins twice, as a client of today does, to be given an id first.
    pub(crate) fn join_with_id(&mut self, name: &'static str) {
        self.join(name);
        self.join(name);
    }

    /// Syncs; the leader brings what it assigns, by the consumers' names.
    pub(crate) fn sync(&mut self, name: &'static str, assigned: &[(&'static str, &'static str)]) {
        let consumer = self.consumer(name).clone();
        let assignment = |&(to, what): &(&'static str, &'static str)| SyncGroupRequestAssignment {
            member_id: self.consumers[to].member_id.clone().into(),
            assignment: Bytes::from_static(what.as_bytes()),
            ..Default::default()
        };
        let request = SyncGroupRequest {
            group_id: GROUP.into(),
            generation_id: consumer.generation,
            member_id: consumer.member_id.clone().into(),
            group_instance_id: consumer.instance_id.map(WireString::from),
            assignments: assigned.iter().map(assignment).collect(),
            ..Default::default()
        };
        let all: Vec<_> = assigned.iter().map(|(to, what)| format!("{to}: {what}")).collect();
        let said = match all.is_empty() {
            true => "syncs".to_owned(),
            false => format!("syncs and assigns {}", all.join(", ")),
        };
        self.send(name, 5, &said, RequestBody::SyncGroup(request));
    }

    pub(crate) fn heartbeat(&mut self, name: &'static str) {
        let consumer = self.consumer(name).clone();
        let request = HeartbeatRequest {
            group_id: GROUP.into(),
            generation_id: consumer.generation,
            member_id: consumer.member_id.clone().into(),
            group_instance_id: consumer.instance_id.map(WireString::from),
            ..Default::default()
        };
        let said = format!("heartbeat of generation {}", consumer.generation);
        self.send(name, 4, &said, RequestBody::Heartbeat(request));
    }

    pub(crate) fn leave(&mut self, name: &'static str) {
        let consumer = self.consumer(name).clone();
        let identity = MemberIdentity {
            member_id: consumer.member_id.clone().into(),
            group_instance_id: consumer.instance_id.map(WireString::from),
            ..Default::default()
        };
        let request = LeaveGroupRequest {
            group_id: GROUP.into(),
            members: vec![identity],
            ..Default::default()
        };
        self.send(name, 5, "leaves", RequestBody::LeaveGroup(request));
    }

    /// Commits an offset of a partition of `t`.
    pub(crate) fn commit(&mut self, name: &'static str, partition: i32, offset: i64) {
        let consumer = self.consumer(name).clone();
        let request = OffsetCommitRequest {
            group_id: GROUP.into(),
            generation_id_or_member_epoch: consumer.generation,
            member_id: consumer.member_id.clone().into(),
            group_instance_id: consumer.instance_id.map(WireString::from),
            topics: vec![OffsetCommitRequestTopic {
                name: "t".into(),
                partitions: vec![OffsetCommitRequestPartition {
                    partition_index: partition,
                    committed_offset: offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let said = format!("commits t-{partition}: {offset}, generation {}", consumer.generation);
        self.send(name, 9, &said, RequestBody::OffsetCommit(request));
    }

    /// Asks for all offsets of the group.
    pub(crate) fn fetch(&mut self, name: &'static str) {
        let request =
            OffsetFetchRequestGroup { group_id: GROUP.into(), topics: None, ..Default::default() };
        self.send(name, 9, "asks for offsets", RequestBody::OffsetFetch(request));
    }

    pub(crate) fn describe(&mut self, name: &'static str) {
        let body = RequestBody::DescribeGroups { groups: vec![GROUP.into()] };
        self.send(name, 6, "describes the group", body);
    }

    fn send(
        &mut self,
        name: &'static str,
        version: i16,
        said: &str,
        body: RequestBody,
    ) -> RequestToken {
        writeln!(self.text, "{name} > {said}").expect("a string takes all");
        let token = self.driver.send(name, version, body);
        self.senders.insert(token, name);
        self.tell();
        token
    }

    /// Lets time pass; what happens on the way is told with its time.
    pub(crate) fn wait_ms(&mut self, delay_ms: u64) {
        let end = self.driver.elapsed_ms + delay_ms;
        loop {
            let next = self.driver.shard.next_deadline().map_or(end, |next| next.0.min(end));
            let step = next.saturating_sub(self.driver.elapsed_ms);
            self.driver.advance_ms(step, |_| {});
            let has_news = !self.driver.replies.is_empty() || !self.driver.in_flight.is_empty();
            if has_news && !self.holds_appends || next == end {
                writeln!(self.text, "  at {} ms", self.driver.elapsed_ms)
                    .expect("a string takes all");
                self.tell();
            }
            if next == end {
                return;
            }
        }
    }

    /// Ends the oldest append that is held.
    pub(crate) fn settle(&mut self, outcome: Result<(), ErrorCode>) {
        let (_, records) = self.driver.in_flight.front().expect("there is an append").clone();
        match outcome {
            Ok(()) => self.tell_append(&records),
            Err(code) => {
                writeln!(self.text, "  log refuses an append: {code}").expect("a string takes all");
            }
        }
        self.driver.settle(outcome);
        self.tell();
    }

    /// The broker dies with all that is on its way, and comes back.
    pub(crate) fn crash(&mut self) {
        writeln!(self.text, "  the broker dies, and a shard is loaded from its log")
            .expect("a string takes all");
        self.driver.crash(0);
        self.tell();
    }

    /// The partition moves away.
    pub(crate) fn unload(&mut self) {
        writeln!(self.text, "  the shard is unloaded").expect("a string takes all");
        self.driver.unload();
        self.tell();
    }

    /// Tells the replies that have come, and, unless they are held, ends the appends.
    fn tell(&mut self) {
        loop {
            while let Some((token, reply)) = self.driver.replies.pop_front() {
                self.tell_reply(token, &reply);
            }
            if self.holds_appends {
                return;
            }
            let Some((_, records)) = self.driver.in_flight.front().cloned() else { return };
            self.tell_append(&records);
            self.driver.settle(Ok(()));
        }
    }

    fn tell_append(&mut self, records: &[GroupRecord]) {
        for record in records {
            writeln!(self.text, "  log + {}", record_text(record)).expect("a string takes all");
        }
    }

    fn tell_reply(&mut self, token: RequestToken, reply: &Reply) {
        let name = self.senders[&token];
        if let Reply::JoinGroup(response) = reply {
            self.learn(name, response);
        }
        writeln!(self.text, "{name} < {}", reply_text(reply)).expect("a string takes all");
    }

    /// A client takes over what it is told.
    fn learn(&mut self, name: &'static str, response: &JoinGroupResponse) {
        let consumer = self.consumer(name);
        let code = error(response.error_code);
        if code == ErrorCode::None || code == ErrorCode::MemberIdRequired {
            consumer.member_id = response.member_id.as_str().to_owned();
            consumer.generation = response.generation_id;
        }
        if code == ErrorCode::UnknownMemberId {
            consumer.member_id.clear();
        }
    }
}

pub(crate) fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).expect("the code is Kafka's")
}

/// Ids without the zeros of the driver's counter.
fn short(id: &str) -> String {
    id.replace("-00000000-0000-0000-0000-0000000000", "#")
}

fn record_text(record: &GroupRecord) -> String {
    match record {
        GroupRecord::Offset { topic, partition, offset: Some(offset), .. } => {
            format!("offset of {topic}-{partition}: {}", offset.offset)
        }
        GroupRecord::Offset { topic, partition, offset: None, .. } => {
            format!("no offset of {topic}-{partition}")
        }
        GroupRecord::Metadata { metadata: Some(metadata), .. } => {
            let members: Vec<_> = metadata
                .members
                .iter()
                .map(|member| {
                    let assigned = String::from_utf8_lossy(&member.assignment);
                    format!("{}: {assigned}", short(member.member_id.as_str()))
                })
                .collect();
            format!("generation {} [{}]", metadata.generation, members.join(", "))
        }
        GroupRecord::Metadata { metadata: None, .. } => "no group".to_owned(),
        GroupRecord::Consumer { record, .. } => format!("{record:?}"),
        GroupRecord::Streams { record, .. } => format!("{record:?}"),
    }
}

fn reply_text(reply: &Reply) -> String {
    match reply {
        Reply::JoinGroup(response) => joined_text(response),
        Reply::SyncGroup(response) => match error(response.error_code) {
            ErrorCode::None => {
                format!("is assigned '{}'", String::from_utf8_lossy(&response.assignment))
            }
            code => code.to_string(),
        },
        Reply::Heartbeat(response) => error(response.error_code).to_string(),
        Reply::LeaveGroup(response) => {
            let codes = response.members.iter().map(|member| error(member.error_code).name());
            let codes: Vec<_> = codes.collect();
            format!("{} [{}]", error(response.error_code), codes.join(", "))
        }
        Reply::OffsetCommit(response) => {
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            let codes: Vec<_> = partitions.map(|each| error(each.error_code).name()).collect();
            codes.join(", ")
        }
        Reply::OffsetFetch(response) => {
            let topics = response.topics.iter().flat_map(|topic| {
                let partitions = topic.partitions.iter();
                partitions.map(|each| {
                    format!("{}-{}: {}", topic.name, each.partition_index, each.committed_offset)
                })
            });
            let offsets: Vec<_> = topics.collect();
            format!("{} [{}]", error(response.error_code), offsets.join(", "))
        }
        Reply::DescribeGroups(groups) => {
            let groups = groups.iter().map(|group| {
                let members: Vec<_> =
                    group.members.iter().map(|member| short(&member.member_id)).collect();
                let protocol = &group.protocol_data;
                format!("{} '{protocol}' [{}]", group.group_state, members.join(", "))
            });
            groups.collect::<Vec<_>>().join("; ")
        }
        other => format!("{other:?}"),
    }
}

fn joined_text(response: &JoinGroupResponse) -> String {
    let member_id = short(&response.member_id);
    match error(response.error_code) {
        ErrorCode::None => {}
        code if member_id.is_empty() => return code.to_string(),
        code => return format!("{code}, {member_id}"),
    }
    let role = match response.members.is_empty() {
        true => format!("led by {}", short(&response.leader)),
        false => {
            let members: Vec<_> =
                response.members.iter().map(|member| short(&member.member_id)).collect();
            let task = if response.skip_assignment { "knows" } else { "leads" };
            format!("{task} [{}]", members.join(", "))
        }
    };
    let protocol = response.protocol_name.as_deref().unwrap_or_default();
    format!("is {member_id} in generation {}, '{protocol}', {role}", response.generation_id)
}
