//! What happens between the threads of an application and a shard, told line by line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use logway_coordinator::{
    GroupRecord, GroupSettings, InternalTopic, OwnedTasks, Reply, RequestBody, RequestToken,
    StreamsRecord, Tasks,
};
use logway_model::{ErrorCode, PartitionId};
use logway_wire::WireString;
use logway_wire::messages::StreamsGroupHeartbeatRequest;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::streams_group_heartbeat_request::{
    Subtopology, TaskIds, TopicInfo, Topology,
};
use logway_wire::messages::streams_group_heartbeat_response::TaskIds as Told;
use logway_wire::messages::{OffsetCommitRequest, StreamsGroupHeartbeatResponse};

use crate::driver::Driver;
use crate::story::error;

/// The group that stories are about.
pub(crate) const GROUP: &str = "words";

/// A story in the making.
pub(crate) struct Story {
    pub(crate) driver: Driver,
    members: BTreeMap<&'static str, Thread>,
    senders: BTreeMap<RequestToken, &'static str>,
    text: String,
    /// The internal topics that the last heartbeat missed, with their partitions.
    pub(crate) missing: Vec<(String, i32)>,
}

/// What a thread knows.
#[derive(Clone)]
pub(crate) struct Thread {
    pub(crate) epoch: i32,
    pub(crate) active: Tasks,
    pub(crate) standby: Tasks,
    pub(crate) process: &'static str,
    pub(crate) topology: Topology,
    pub(crate) shuts_down: bool,
}

/// A word count: lines are split and repartitioned by word, and words are counted.
pub(crate) fn word_count() -> Topology {
    let text = |text: &str| WireString::copy_of(text);
    let topic = |name: &str| TopicInfo { name: text(name), ..Default::default() };
    let split = Subtopology {
        subtopology_id: text("0"),
        source_topics: vec![text("lines")],
        repartition_sink_topics: vec![text("by-word")],
        ..Default::default()
    };
    let count = Subtopology {
        subtopology_id: text("1"),
        repartition_source_topics: vec![topic("by-word")],
        state_changelog_topics: vec![topic("counts")],
        ..Default::default()
    };
    Topology { epoch: 0, subtopologies: vec![split, count], ..Default::default() }
}

/// The first heartbeat of a thread, of a process of its own.
pub(crate) fn joining(member: &str) -> StreamsGroupHeartbeatRequest {
    StreamsGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member.to_owned().into(),
        rebalance_timeout_ms: 60_000,
        topology: Some(word_count()),
        process_id: Some(member.to_owned().into()),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..Default::default()
    }
}

/// A heartbeat that says nothing new.
pub(crate) fn staying(member: &str, epoch: i32) -> StreamsGroupHeartbeatRequest {
    StreamsGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member.to_owned().into(),
        member_epoch: epoch,
        rebalance_timeout_ms: -1,
        ..Default::default()
    }
}

/// What a heartbeat is answered, and the internal topics that are to be made.
pub(crate) fn ask(
    driver: &mut Driver,
    request: StreamsGroupHeartbeatRequest,
) -> (StreamsGroupHeartbeatResponse, Vec<InternalTopic>) {
    match driver.ask("c", 0, RequestBody::StreamsGroupHeartbeat(request)) {
        Reply::StreamsGroupHeartbeat { response, missing } => (*response, missing),
        other => panic!("{other:?}"),
    }
}

impl Story {
    /// With two lines partitions, all topics, and no delays.
    pub(crate) fn new() -> Story {
        let mut story = Story::with(Story::settings());
        story.make_topics(&[("lines", 2), ("by-word", 2), ("counts", 2)]);
        story
    }

    pub(crate) fn settings() -> GroupSettings {
        let mut settings = GroupSettings::default();
        settings.streams.assignment_interval.default_ms = 0;
        settings.streams.initial_rebalance_delay_ms = 0;
        settings
    }

    pub(crate) fn with(settings: GroupSettings) -> Story {
        Story {
            driver: Driver::new(settings),
            members: BTreeMap::new(),
            senders: BTreeMap::new(),
            text: String::new(),
            missing: Vec::new(),
        }
    }

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

    pub(crate) fn make_topics(&mut self, topics: &[(&str, i32)]) {
        for (name, count) in topics {
            self.line(&format!("  there is {name} with {count} partitions"));
            self.driver.change_cluster(|cluster| cluster.set_topic(name, *count));
        }
        self.tell();
    }

    /// A thread, of a process of its own unless it is said.
    pub(crate) fn thread(&mut self, name: &'static str) -> &mut Thread {
        self.members.entry(name).or_insert_with(|| Thread {
            epoch: 0,
            active: Tasks::new(),
            standby: Tasks::new(),
            process: name,
            topology: word_count(),
            shuts_down: false,
        })
    }

    /// Joins, or joins again, with nothing.
    pub(crate) fn join(&mut self, name: &'static str) {
        let thread = self.thread(name);
        thread.epoch = 0;
        thread.active.clear();
        thread.standby.clear();
        self.send_heartbeat(name, "joins");
    }

    /// Says that it lives, and what it has.
    pub(crate) fn heartbeat(&mut self, name: &'static str) {
        let Thread { epoch, active, standby, .. } = self.thread(name).clone();
        let said = format!("is at {epoch} with {}", tasks_text(&active, &standby));
        self.send_heartbeat(name, &said);
    }

    pub(crate) fn leave(&mut self, name: &'static str) {
        self.thread(name).epoch = -1;
        self.send_heartbeat(name, "leaves");
    }

    fn send_heartbeat(&mut self, name: &'static str, said: &str) {
        let thread = self.thread(name).clone();
        let is_joining = thread.epoch == 0;
        let tells = thread.epoch >= 0;
        let request = StreamsGroupHeartbeatRequest {
            group_id: GROUP.into(),
            member_id: name.into(),
            member_epoch: thread.epoch,
            rebalance_timeout_ms: if is_joining { 60_000 } else { -1 },
            topology: is_joining.then_some(thread.topology),
            process_id: is_joining.then(|| thread.process.into()),
            active_tasks: tells.then(|| task_ids(&thread.active)),
            standby_tasks: tells.then(|| task_ids(&thread.standby)),
            warmup_tasks: tells.then(Vec::new),
            shutdown_application: thread.shuts_down,
            ..Default::default()
        };
        self.send(name, 0, said, RequestBody::StreamsGroupHeartbeat(request));
    }

    /// Commits an offset of a partition of `lines`.
    pub(crate) fn commit(&mut self, name: &'static str, epoch: i32, partition: i32) {
        let request = OffsetCommitRequest {
            group_id: GROUP.into(),
            generation_id_or_member_epoch: epoch,
            member_id: name.into(),
            topics: vec![OffsetCommitRequestTopic {
                name: "lines".into(),
                partitions: vec![OffsetCommitRequestPartition {
                    partition_index: partition,
                    committed_offset: 7,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let said = format!("commits lines-{partition}, epoch {epoch}");
        self.send(name, 9, &said, RequestBody::OffsetCommit(request));
    }

    pub(crate) fn describe(&mut self) {
        let body = RequestBody::StreamsGroupDescribe { groups: vec![GROUP.into()] };
        self.send("operator", 0, "describes the group", body);
    }

    pub(crate) fn send(&mut self, name: &'static str, version: i16, said: &str, body: RequestBody) {
        self.line(&format!("{name} > {said}"));
        let token = self.driver.send(name, version, body);
        self.senders.insert(token, name);
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
            if has_news || next == end {
                self.line(&format!("  at {} ms", self.driver.elapsed_ms));
                self.tell();
            }
            if next == end {
                return;
            }
        }
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
                let text = self.reply_text(name, reply);
                self.line(&format!("{name} < {text}"));
            }
            let Some((_, records)) = self.driver.in_flight.front().cloned() else { return };
            for record in &records {
                self.line(&format!("  log + {}", record_text(record)));
            }
            self.driver.settle(Ok(()));
        }
    }

    fn reply_text(&mut self, name: &'static str, reply: Reply) -> String {
        match reply {
            Reply::StreamsGroupHeartbeat { response, missing } => {
                let missing = missing.into_iter();
                self.missing =
                    missing.map(|it| (it.name.as_str().to_owned(), it.partitions)).collect();
                self.heartbeat_text(name, &response)
            }
            Reply::StreamsGroupDescribe(groups) => {
                let group = &groups[0];
                let members = group.members.iter().map(|member| {
                    let tasks = |of: &[_]| of.iter().map(described).collect::<Vec<_>>().join(" ");
                    format!(
                        "{} at {}: [{}] and follows [{}]",
                        member.member_id,
                        member.member_epoch,
                        tasks(&member.assignment.active_tasks),
                        tasks(&member.assignment.standby_tasks)
                    )
                });
                let topology = group.topology.as_ref().and_then(|it| it.subtopologies.as_ref());
                format!(
                    "{} {}, epochs {} and {}, {} subtopologies, {}",
                    error(group.error_code),
                    group.group_state,
                    group.group_epoch,
                    group.assignment_epoch,
                    topology.map_or(0, Vec::len),
                    members.collect::<Vec<_>>().join("; ")
                )
            }
            Reply::OffsetCommit(response) => {
                let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
                let codes: Vec<_> = partitions.map(|each| error(each.error_code).name()).collect();
                codes.join(", ")
            }
            Reply::DeleteGroups(results) => error(results[0].error_code).to_string(),
            other => format!("{other:?}"),
        }
    }

    /// Tells a reply, and lets the thread take over what it says.
    fn heartbeat_text(
        &mut self,
        name: &'static str,
        response: &StreamsGroupHeartbeatResponse,
    ) -> String {
        let code = error(response.error_code);
        if code != ErrorCode::None {
            let message = response.error_message.as_deref();
            return message.map_or_else(|| code.to_string(), |text| format!("{code}: {text}"));
        }
        let thread = self.thread(name);
        thread.epoch = response.member_epoch;
        let mut told = format!("epoch {}", response.member_epoch);
        if let (Some(active), Some(standby)) = (&response.active_tasks, &response.standby_tasks) {
            thread.active = tasks(active);
            thread.standby = tasks(standby);
            told.push_str(&format!(" has {}", tasks_text(&thread.active, &thread.standby)));
        }
        for status in response.status.iter().flatten() {
            told.push_str(&format!("; {}: {}", status.status_code, status.status_detail));
        }
        told
    }
}

fn described(tasks: &logway_wire::messages::streams_group_describe_response::TaskIds) -> String {
    let numbers = tasks.partitions.iter();
    let named = numbers.map(|number| format!("{}_{number}", tasks.subtopology_id));
    named.collect::<Vec<_>>().join(" ")
}

fn tasks(told: &[Told]) -> Tasks {
    let numbers = |of: &Told| of.partitions.iter().copied().map(PartitionId).collect();
    told.iter().map(|of| (Arc::from(of.subtopology_id.as_str()), numbers(of))).collect()
}

pub(crate) fn task_ids(tasks: &Tasks) -> Vec<TaskIds> {
    let of = tasks.iter().map(|(id, numbers)| TaskIds {
        subtopology_id: WireString::copy_of(id),
        partitions: numbers.iter().map(|number| number.0).collect(),
        ..Default::default()
    });
    of.collect()
}

fn named(tasks: &Tasks) -> String {
    let each = tasks.iter().flat_map(|(id, of)| of.iter().map(move |it| format!("{id}_{it}")));
    each.collect::<Vec<_>>().join(" ")
}

fn tasks_text(active: &Tasks, standby: &Tasks) -> String {
    match standby.is_empty() {
        true => format!("[{}]", named(active)),
        false => format!("[{}] and follows [{}]", named(active), named(standby)),
    }
}

fn owned_text(owned: &OwnedTasks) -> String {
    let active = owned.active.iter();
    let each = active.flat_map(|(id, of)| of.iter().map(move |(it, at)| format!("{id}_{it}@{at}")));
    let active = each.collect::<Vec<_>>().join(" ");
    match owned.standby.is_empty() {
        true => format!("[{active}]"),
        false => format!("[{active}] and follows [{}]", named(&owned.standby)),
    }
}

fn record_text(record: &GroupRecord) -> String {
    let GroupRecord::Streams { record, .. } = record else { return format!("{record:?}") };
    match record {
        StreamsRecord::Group(Some(version)) => {
            let validated = version.validated_topology;
            format!("group epoch {}, complete topology {validated:?}", version.epoch)
        }
        StreamsRecord::Group(None) => "no streams group".to_owned(),
        StreamsRecord::Topology(Some(topology)) => format!("topology {}", topology.epoch()),
        StreamsRecord::Topology(None) => "no topology".to_owned(),
        StreamsRecord::Member(id, Some(about)) => format!("member {id} of {}", about.process_id),
        StreamsRecord::Member(id, None) => format!("no member {id}"),
        StreamsRecord::Assignment(Some(version)) => format!("assignment epoch {}", version.epoch),
        StreamsRecord::Assignment(None) => "no assignment".to_owned(),
        StreamsRecord::Target(id, Some(target)) => {
            format!("target of {id}: {}", tasks_text(&target.active, &target.standby))
        }
        StreamsRecord::Target(id, None) => format!("no target of {id}"),
        StreamsRecord::Current(id, Some(current)) => {
            let gives_up = match current.revoking == OwnedTasks::default() {
                true => String::new(),
                false => format!(", gives up {}", owned_text(&current.revoking)),
            };
            let has = owned_text(&current.assigned);
            format!("{id} at {} {:?}: {has}{gives_up}", current.epoch, current.state)
        }
        StreamsRecord::Current(id, None) => format!("{id} has nothing"),
    }
}
