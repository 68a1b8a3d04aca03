//! What happens between members of a consumer group and a shard, told line by line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use logway_coordinator::{
    ConsumerRecord, GroupRecord, GroupSettings, OwnedPartitions, Partitions, Reply, RequestBody,
    RequestToken, TopicSight,
};
use logway_model::{ErrorCode, TopicId};
use logway_wire::WireString;
use logway_wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use logway_wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, ConsumerProtocolAssignment,
    OffsetCommitRequest,
};
use logway_wire::{Decoder, Message};

use crate::cluster::TestCluster;
use crate::driver::Driver;
use crate::story::error;

/// The group that stories are about.
pub(crate) const GROUP: &str = "orders";

/// A story in the making.
pub(crate) struct Story {
    pub(crate) driver: Driver,
    members: BTreeMap<&'static str, Client>,
    /// Who sent a request.
    senders: BTreeMap<RequestToken, &'static str>,
    text: String,
    /// Whether appends wait until the story says how they end.
    pub(crate) holds_appends: bool,
}

/// What a client knows and wants.
#[derive(Clone, Default)]
pub(crate) struct Client {
    pub(crate) epoch: i32,
    /// What it reads now.
    pub(crate) owned: Partitions,
    pub(crate) instance: Option<&'static str>,
    /// Its id, if it is not its name.
    pub(crate) id: Option<String>,
    pub(crate) topics: Option<Vec<&'static str>>,
    pub(crate) pattern: Option<&'static str>,
    pub(crate) assignor: Option<&'static str>,
    pub(crate) rebalance_timeout_ms: i32,
    /// The topics that it may not know of.
    pub(crate) hidden: Vec<&'static str>,
}

impl Story {
    /// With a topic `t` of three partitions, and no delay between assignments.
    pub(crate) fn new() -> Story {
        let mut settings = GroupSettings::default();
        settings.consumer.assignment_interval.default_ms = 0;
        Story::with(settings)
    }

    pub(crate) fn with(settings: GroupSettings) -> Story {
        let mut driver = Driver::new(settings);
        driver.change_cluster(|cluster| cluster.set_topic("t", 3));
        Story {
            driver,
            members: BTreeMap::new(),
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
        self.line(&format!("{gap}# {note}"));
    }

    fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a string takes all");
    }

    pub(crate) fn member(&mut self, name: &'static str) -> &mut Client {
        self.members.entry(name).or_insert_with(|| Client {
            topics: Some(vec!["t"]),
            rebalance_timeout_ms: 60_000,
            ..Client::default()
        })
    }

    /// The id that a client of the classic protocol was given; empty for none.
    pub(crate) fn classic_id(&mut self, name: &'static str) -> String {
        self.member(name).id.clone().unwrap_or_default()
    }

    /// Joins, or joins again, with nothing.
    pub(crate) fn join(&mut self, name: &'static str) {
        let member = self.member(name);
        member.epoch = 0;
        member.owned.clear();
        let topics = member.topics.iter().flatten().copied();
        let wants: Vec<_> = topics.chain(member.pattern).collect();
        let said = format!("joins for {}", wants.join(", "));
        self.send_heartbeat(name, &said, true);
    }

    /// Says that it lives, and what it has.
    pub(crate) fn heartbeat(&mut self, name: &'static str) {
        let Client { epoch, owned, .. } = self.member(name).clone();
        let said = format!("is at {epoch} with [{}]", self.partitions(&owned));
        self.send_heartbeat(name, &said, false);
    }

    /// Wants to read something else.
    pub(crate) fn subscribe(&mut self, name: &'static str, topics: &[&'static str]) {
        self.member(name).topics = Some(topics.to_vec());
        let said = format!("wants {}", topics.join(", "));
        self.send_heartbeat(name, &said, true);
    }

    /// Leaves; a static member with -2 for now.
    pub(crate) fn leave(&mut self, name: &'static str, epoch: i32) {
        self.member(name).epoch = epoch;
        self.send_heartbeat(name, &format!("leaves with {epoch}"), false);
    }

    fn send_heartbeat(&mut self, name: &'static str, said: &str, tells_all: bool) {
        let member = self.member(name).clone();
        let text = |text: &str| WireString::copy_of(text);
        let topics = member.topics.map(|topics| topics.iter().map(|topic| text(topic)).collect());
        let request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP.into(),
            member_id: member.id.as_deref().unwrap_or(name).to_owned().into(),
            member_epoch: member.epoch,
            instance_id: member.instance.map(text),
            rebalance_timeout_ms: if tells_all { member.rebalance_timeout_ms } else { -1 },
            subscribed_topic_names: topics.filter(|_| tells_all),
            subscribed_topic_regex: member.pattern.filter(|_| tells_all).map(text),
            server_assignor: member.assignor.filter(|_| tells_all).map(text),
            topic_partitions: (member.epoch >= 0).then(|| reported(&member.owned)),
            ..Default::default()
        };
        let hidden = member.hidden;
        let sight = TopicSight::new(move |topic| !hidden.contains(&topic));
        let fresh_id = self.driver.fresh_id();
        let body = RequestBody::ConsumerGroupHeartbeat { request, fresh_id, sight };
        self.send(name, 1, said, body);
    }

    /// Commits an offset of a partition of `t`.
    pub(crate) fn commit(&mut self, name: &'static str, partition: i32, offset: i64) {
        let epoch = self.member(name).epoch;
        let topic_id = self.driver.cluster.topics["t"].id.0;
        let request = OffsetCommitRequest {
            group_id: GROUP.into(),
            generation_id_or_member_epoch: epoch,
            member_id: name.into(),
            topics: vec![OffsetCommitRequestTopic {
                name: "t".into(),
                topic_id,
                partitions: vec![OffsetCommitRequestPartition {
                    partition_index: partition,
                    committed_offset: offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let said = format!("commits t-{partition}: {offset}, epoch {epoch}");
        self.send(name, 9, &said, RequestBody::OffsetCommit(request));
    }

    /// Asks for all offsets of the group, as a member.
    pub(crate) fn fetch(&mut self, name: &'static str) {
        let epoch = self.member(name).epoch;
        let request = OffsetFetchRequestGroup {
            group_id: GROUP.into(),
            member_id: Some(name.into()),
            member_epoch: epoch,
            topics: None,
            ..Default::default()
        };
        let said = format!("asks for offsets, epoch {epoch}");
        self.send(name, 9, &said, RequestBody::OffsetFetch(request));
    }

    pub(crate) fn describe(&mut self) {
        let body = RequestBody::ConsumerGroupDescribe { groups: vec![GROUP.into()] };
        self.send("operator", 1, "describes the group", body);
    }

    pub(crate) fn send(&mut self, name: &'static str, version: i16, said: &str, body: RequestBody) {
        self.line(&format!("{name} > {said}"));
        let token = self.driver.send(name, version, body);
        self.senders.insert(token, name);
        self.tell();
    }

    /// The cluster's metadata changes.
    pub(crate) fn change_cluster(&mut self, said: &str, change: impl FnOnce(&mut TestCluster)) {
        self.line(&format!("  {said}"));
        self.driver.change_cluster(change);
        self.tell();
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
                self.line(&format!("  at {} ms", self.driver.elapsed_ms));
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
            Err(code) => self.line(&format!("  log refuses an append: {code}")),
        }
        self.driver.settle(outcome);
        self.tell();
    }

    /// The broker dies with all that is on its way, and comes back.
    pub(crate) fn crash(&mut self) {
        self.line("  the broker dies, and a shard is loaded from its log");
        self.driver.crash(0);
        self.tell();
    }

    fn tell(&mut self) {
        loop {
            while let Some((token, reply)) = self.driver.replies.pop_front() {
                let name = self.senders[&token];
                let text = self.reply_text(name, &reply);
                self.line(&format!("{name} < {text}"));
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
            let text = self.record_text(record);
            self.line(&format!("  log + {text}"));
        }
    }

    fn record_text(&self, record: &GroupRecord) -> String {
        match record {
            GroupRecord::Offset { topic, partition, offset, .. } => match offset {
                Some(offset) => format!("offset of {topic}-{partition}: {}", offset.offset),
                None => format!("no offset of {topic}-{partition}"),
            },
            GroupRecord::Metadata { metadata, .. } => match metadata {
                Some(metadata) => format!("classic group, generation {}", metadata.generation),
                None => "no classic group".to_owned(),
            },
            GroupRecord::Consumer { record, .. } => self.consumer_record_text(record),
            GroupRecord::Streams { record, .. } => format!("{record:?}"),
        }
    }

    fn consumer_record_text(&self, record: &ConsumerRecord) -> String {
        match record {
            ConsumerRecord::Group(Some(version)) => format!("group epoch {}", version.epoch),
            ConsumerRecord::Group(None) => "no consumer group".to_owned(),
            ConsumerRecord::FormerTopics(_) => "no topics of former times".to_owned(),
            ConsumerRecord::Member(id, Some(subscription)) => {
                let topics = subscription.topics.iter().map(|topic| topic.as_str());
                let pattern = subscription.pattern.as_deref().filter(|text| !text.is_empty());
                let wants: Vec<_> = topics.chain(pattern).collect();
                format!("member {id}: {}", wants.join(", "))
            }
            ConsumerRecord::Member(id, None) => format!("no member {id}"),
            ConsumerRecord::Assignment(Some(version)) => {
                format!("assignment epoch {}", version.epoch)
            }
            ConsumerRecord::Assignment(None) => "no assignment".to_owned(),
            ConsumerRecord::Target(id, Some(target)) => {
                format!("target of {id}: [{}]", self.partitions(target))
            }
            ConsumerRecord::Target(id, None) => format!("no target of {id}"),
            ConsumerRecord::Current(id, Some(current)) => {
                let revoking = match current.revoking.is_empty() {
                    true => String::new(),
                    false => format!(", gives up [{}]", self.owned(&current.revoking)),
                };
                let owned = self.owned(&current.assigned);
                format!("{id} at {} {:?}: [{owned}]{revoking}", current.epoch, current.state)
            }
            ConsumerRecord::Current(id, None) => format!("{id} has nothing"),
            ConsumerRecord::Pattern(pattern, Some(resolved)) => {
                let topics: Vec<_> = resolved.topics.iter().map(|topic| topic.as_str()).collect();
                format!("pattern {pattern}: [{}]", topics.join(" "))
            }
            ConsumerRecord::Pattern(pattern, None) => format!("no pattern {pattern}"),
        }
    }

    fn reply_text(&mut self, name: &'static str, reply: &Reply) -> String {
        match reply {
            Reply::ConsumerGroupHeartbeat(response) => self.heartbeat_text(name, response),
            Reply::ConsumerGroupDescribe(groups) => {
                let group = &groups[0];
                let members: Vec<_> = group
                    .members
                    .iter()
                    .map(|member| {
                        let topics = member.assignment.topic_partitions.iter();
                        let has: Vec<_> = topics
                            .flat_map(|topic| {
                                let of = topic.partitions.iter();
                                of.map(|number| format!("{}-{number}", topic.topic_name))
                            })
                            .collect();
                        format!(
                            "{} at {}: {}",
                            member.member_id,
                            member.member_epoch,
                            has.join(" ")
                        )
                    })
                    .collect();
                format!(
                    "{} {}, epochs {} and {}, '{}', {}",
                    error(group.error_code),
                    group.group_state,
                    group.group_epoch,
                    group.assignment_epoch,
                    group.assignor_name,
                    members.join("; ")
                )
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
                        format!(
                            "{}-{}: {}",
                            topic.name, each.partition_index, each.committed_offset
                        )
                    })
                });
                let offsets: Vec<_> = topics.collect();
                format!("{} [{}]", error(response.error_code), offsets.join(", "))
            }
            Reply::JoinGroup(response) => {
                let code = error(response.error_code);
                if matches!(code, ErrorCode::None | ErrorCode::MemberIdRequired) {
                    let member = self.member(name);
                    member.id = Some(response.member_id.as_str().to_owned());
                    member.epoch = response.generation_id;
                }
                format!("{code}, generation {}", response.generation_id)
            }
            Reply::SyncGroup(response) => {
                let code = error(response.error_code);
                if code != ErrorCode::None {
                    return code.to_string();
                }
                let mut from = Decoder::new(response.assignment.clone());
                let version = from.i16("version").expect("it has a version");
                let assignment = ConsumerProtocolAssignment::decode(&mut from, version);
                let assignment = assignment.expect("it is an assignment");
                let topics = assignment.assigned_partitions.iter().flat_map(|topic| {
                    topic.partitions.iter().map(|number| format!("{}-{number}", topic.topic))
                });
                format!("has [{}]", topics.collect::<Vec<_>>().join(" "))
            }
            Reply::Heartbeat(response) => format!("{}", error(response.error_code)),
            other => format!("{other:?}"),
        }
    }

    /// Tells a reply, and lets the client take over what it says: partitions that it is given and those that it gives up.
    fn heartbeat_text(
        &mut self,
        name: &'static str,
        response: &ConsumerGroupHeartbeatResponse,
    ) -> String {
        let code = error(response.error_code);
        if code != ErrorCode::None {
            let message = response.error_message.as_deref();
            return message.map_or_else(|| code.to_string(), |text| format!("{code}: {text}"));
        }
        let assigned = response.assignment.as_ref().map(|assignment| {
            let topics = assignment.topic_partitions.iter();
            let topics = topics.map(|topic| {
                let numbers = topic.partitions.iter().copied().map(logway_model::PartitionId);
                (TopicId(topic.topic_id), numbers.collect())
            });
            topics.collect::<Partitions>()
        });
        let told = assigned.as_ref().map(|assigned| self.partitions(assigned));
        let member = self.member(name);
        member.epoch = response.member_epoch;
        if let Some(assigned) = assigned {
            member.owned = assigned;
        }
        let has = told.map_or_else(String::new, |told| format!(" has [{told}]"));
        format!("epoch {}{has}", response.member_epoch)
    }

    fn partitions(&self, partitions: &Partitions) -> String {
        let named = partitions.iter().flat_map(|(topic, numbers)| {
            let name = self.driver.cluster.name_of(*topic);
            numbers.iter().map(move |number| format!("{name}-{number}"))
        });
        named.collect::<Vec<_>>().join(" ")
    }

    fn owned(&self, owned: &OwnedPartitions) -> String {
        let named = owned.iter().flat_map(|(topic, numbers)| {
            let name = self.driver.cluster.name_of(*topic);
            numbers.iter().map(move |(number, epoch)| format!("{name}-{number}@{epoch}"))
        });
        named.collect::<Vec<_>>().join(" ")
    }
}

/// What a member says that it has.
pub(crate) fn reported(owned: &Partitions) -> Vec<TopicPartitions> {
    let topics = owned.iter().map(|(topic, numbers)| TopicPartitions {
        topic_id: topic.0,
        partitions: numbers.iter().map(|number| number.0).collect(),
        ..Default::default()
    });
    topics.collect()
}
