//! What people are told of changes of the cluster: one line for each kind of change in a commit.
//!
//! A commit may be about ten thousand partitions. So it makes one line for each broker and kind of change, which says how
//! many partitions it is about and names the first. What a topic is made with is no change.

use std::collections::BTreeMap;

use logway_model::{BrokerId, PartitionId, TopicName};

use crate::error::beginning;
use crate::image::{Duty, MetadataImage, PartitionImage};
use crate::record::{
    BrokerSessionRecord, BrokerState, ConfigRecord, ConfigResource, FeatureRecord, MetadataRecord,
    PartitionRecord,
};
use crate::settings::broker::{AUTO_BALANCE_LAST_SETTING, NODE_DUTY_SETTING};

/// So many partitions are named in a line.
const NAMED_MAX: usize = 3;

/// A longer name of a topic is cut off in a line.
const NAME_MAX_CHARS: usize = 60;

/// A longer reason is cut off. What the controller notes is shorter, but anybody can write into a setting.
const REASON_MAX_CHARS: usize = 100;

/// A line has no more bytes.
pub const EVENT_TEXT_MAX_BYTES: usize = 512;

/// A change of the cluster, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterEvent {
    /// A word for programs.
    pub kind: EventKind,
    /// The line; [`EVENT_TEXT_MAX_BYTES`] at most.
    pub text: String,
}

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $variant:ident = $word:literal;)+) => {
        /// What has happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum EventKind {
            $($(#[$doc])* $variant,)+
        }

        impl EventKind {
            /// The word that programs know it by.
            pub const fn word(self) -> &'static str {
                match self {
                    $(EventKind::$variant => $word,)+
                }
            }
        }
    };
}

event_kinds! {
    /// A node is new to the cluster.
    NodeJoined = "node_joined";
    /// A node's process has started.
    NodeStarted = "node_started";
    /// A node serves.
    NodeServes = "node_serves";
    /// A node is kept from serving, because nobody hears it.
    NodeFenced = "node_fenced";
    /// A node is about to stop.
    NodeStops = "node_stops";
    /// A node has left for good.
    NodeLeft = "node_left";
    /// What a node is there for has changed.
    NodeDuty = "node_duty";
    /// Partitions have another leader.
    LeadersElected = "leaders_elected";
    /// Partitions have no leader any more.
    LeadersLost = "leaders_lost";
    /// Replicas are in sync that were not.
    ReplicasInSync = "replicas_in_sync";
    /// Replicas are not in sync any more.
    ReplicasOutOfSync = "replicas_out_of_sync";
    /// Partitions are on their way to other nodes.
    MovesBegun = "moves_begun";
    /// The cluster moves partitions that nobody has asked it to move.
    BalanceBegun = "balance_begun";
    /// They have arrived.
    MovesDone = "moves_done";
    /// They stay where they were.
    MovesCancelled = "moves_cancelled";
    /// Other nodes vote.
    VotersChanged = "voters_changed";
    /// A feature has another level.
    FeatureFinalised = "feature_finalised";
}

impl ClusterEvent {
    fn new(kind: EventKind, text: String) -> ClusterEvent {
        debug_assert!(text.len() <= EVENT_TEXT_MAX_BYTES, "{text}");
        ClusterEvent { kind, text }
    }

    /// Other nodes vote. These are all.
    pub fn voters_changed(voters: impl IntoIterator<Item = BrokerId>) -> ClusterEvent {
        let ids: Vec<String> = voters.into_iter().map(|id| id.to_string()).collect();
        let text = match &ids[..] {
            [only] => format!("node {only} alone votes"),
            ids => format!("the voters are nodes {}", ids.join(", ")),
        };
        ClusterEvent::new(EventKind::VotersChanged, text)
    }
}

/// What records change, of which one commit consists, in the order in which people want to know.
pub fn events_of(before: &MetadataImage, records: &[MetadataRecord]) -> Vec<ClusterEvent> {
    let mut events = Vec::new();
    let mut partitions = Partitions::default();
    let is_removed = |id: BrokerId| {
        let is_its = |record: &MetadataRecord| matches!(record, MetadataRecord::RemoveBroker(it) if it.id == id);
        records.iter().any(is_its)
    };
    for record in records {
        match record {
            // A number without a node has no duty: what was set of it goes with the node.
            MetadataRecord::Config(ConfigRecord {
                resource: ConfigResource::Broker(id), ..
            }) if is_removed(*id) => {}
            MetadataRecord::Broker(broker) if before.broker(broker.id).is_none() => {
                let text = format!("node {} has joined the cluster", broker.id);
                events.push(ClusterEvent::new(EventKind::NodeJoined, text));
            }
            MetadataRecord::BrokerSession(session) => events.extend(of_session(before, session)),
            MetadataRecord::RemoveBroker(removed) => {
                let text = format!("node {} has left the cluster for good", removed.id);
                events.push(ClusterEvent::new(EventKind::NodeLeft, text));
            }
            MetadataRecord::Config(config) => events.extend(of_config(before, config)),
            MetadataRecord::Feature(feature) => events.extend(of_feature(before, feature)),
            MetadataRecord::Partition(record)
            | MetadataRecord::PartitionWithEligible(record)
            | MetadataRecord::PartitionReassigned(record) => partitions.note(before, record),
            _ => {}
        }
    }
    events.extend(partitions.events());
    events
}

fn of_session(before: &MetadataImage, session: &BrokerSessionRecord) -> Option<ClusterEvent> {
    let known = before.broker_session(session.id);
    let is_new_life = known.is_none_or(|known| known.epoch != session.epoch);
    if !is_new_life && known.is_some_and(|known| known.state == session.state) {
        return None;
    }
    let id = session.id;
    let (kind, text) = match (session.state, is_new_life) {
        (BrokerState::Fenced, true) => {
            (EventKind::NodeStarted, format!("node {id} has started, and does not serve yet"))
        }
        (BrokerState::Fenced, false) => (
            EventKind::NodeFenced,
            format!("node {id} is not heard any more: others lead what it led, where they can"),
        ),
        (BrokerState::Active, _) => (EventKind::NodeServes, format!("node {id} serves")),
        (BrokerState::ShuttingDown, _) => {
            (EventKind::NodeStops, format!("node {id} stops in good order"))
        }
    };
    Some(ClusterEvent::new(kind, text))
}

fn of_config(before: &MetadataImage, config: &ConfigRecord) -> Option<ClusterEvent> {
    if let (AUTO_BALANCE_LAST_SETTING, Some(why)) = (&*config.name, &config.value) {
        let why = beginning(why, REASON_MAX_CHARS);
        let text = format!("the cluster balances itself, because {why}");
        return Some(ClusterEvent::new(EventKind::BalanceBegun, text));
    }
    let ConfigResource::Broker(id) = config.resource else { return None };
    let duty = config.value.as_deref().map_or(Duty::All, Duty::of_word);
    if config.name != NODE_DUTY_SETTING || duty == before.duty(id) {
        return None;
    }
    let text = match duty {
        Duty::All => format!("node {id} may lead again, and get replicas"),
        Duty::Follow => format!("node {id} is drained: it is to lead nothing"),
        Duty::Leave => format!("node {id} is to leave: it leads nothing and gets no replicas"),
    };
    Some(ClusterEvent::new(EventKind::NodeDuty, text))
}

fn of_feature(before: &MetadataImage, feature: &FeatureRecord) -> Option<ClusterEvent> {
    let FeatureRecord { name, level } = feature;
    let known = before.features().find(|(known, _)| *known == *name).map_or(0, |known| known.1);
    if known == *level {
        return None;
    }
    let name = cut(name);
    let text = match *level {
        0 => format!("the feature {name} is off"),
        level => format!(
            "the feature {name} is finalised at level {level}: nodes that do not know it cannot follow"
        ),
    };
    Some(ClusterEvent::new(EventKind::FeatureFinalised, text))
}

/// What changes of partitions, by kind and by the broker that it is about.
#[derive(Default)]
struct Partitions(BTreeMap<(EventKind, Option<BrokerId>), Named>);

/// Some partitions, the first of them by name.
#[derive(Default)]
struct Named {
    count: usize,
    first: Vec<String>,
}

impl Partitions {
    fn note(&mut self, before: &MetadataImage, after: &PartitionRecord) {
        let Some(topic) = before.topic_by_id(after.topic_id) else { return };
        let Some(known) = topic.partition(after.partition) else { return };
        let mut add = |kind, broker| {
            self.0.entry((kind, broker)).or_default().add(&topic.name, after.partition);
        };
        if known.leader != after.leader {
            match after.leader {
                Some(leader) => add(EventKind::LeadersElected, Some(leader)),
                None => add(EventKind::LeadersLost, known.leader),
            }
        }
        for id in after.isr.iter().filter(|id| !known.isr.contains(id)) {
            add(EventKind::ReplicasInSync, Some(*id));
        }
        let is_left = |id: &&BrokerId| after.replicas.contains(id) && !after.isr.contains(id);
        for id in known.isr.iter().filter(is_left) {
            add(EventKind::ReplicasOutOfSync, Some(*id));
        }
        if let Some(kind) = of_move(known, after) {
            add(kind, None);
        }
    }

    fn events(self) -> impl Iterator<Item = ClusterEvent> {
        self.0.into_iter().map(|((kind, broker), named)| {
            let which = named.text();
            let node = broker.map_or_else(|| "no node".to_owned(), |id| format!("node {id}"));
            let text = match kind {
                EventKind::LeadersElected => format!("{node} was elected leader of {which}"),
                EventKind::LeadersLost => {
                    format!("{node} leads no more, and nobody else can lead, {which}")
                }
                EventKind::ReplicasInSync => format!("{node} is in sync with {which}"),
                EventKind::ReplicasOutOfSync => {
                    format!("{node} is not in sync any more with {which}")
                }
                EventKind::MovesBegun => format!("a move was begun of {which}"),
                EventKind::MovesDone => format!("a move has come to its end of {which}"),
                _ => format!("a move was cancelled of {which}"),
            };
            ClusterEvent::new(kind, text)
        })
    }
}

/// What has become of a partition that is on its way, or was.
fn of_move(before: &PartitionImage, after: &PartitionRecord) -> Option<EventKind> {
    match (&before.reassignment, &after.reassignment) {
        (was, Some(is)) if was.as_ref().map(|was| &was.target) != Some(&is.target) => {
            Some(EventKind::MovesBegun)
        }
        (Some(was), None) if after.replicas == was.target => Some(EventKind::MovesDone),
        (Some(_), None) => Some(EventKind::MovesCancelled),
        _ => None,
    }
}

impl Named {
    fn add(&mut self, topic: &TopicName, partition: PartitionId) {
        self.count += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push(format!("{}-{}", cut(topic.as_str()), partition.0));
        }
    }

    fn text(&self) -> String {
        let (count, names) = (self.count, self.first.join(" "));
        match count - self.first.len() {
            0 if count == 1 => format!("partition {names}"),
            0 => format!("{count} partitions: {names}"),
            more => format!("{count} partitions: {names} and {more} more"),
        }
    }
}

/// The beginning of a long name.
fn cut(name: &str) -> String {
    beginning(name, NAME_MAX_CHARS)
}
