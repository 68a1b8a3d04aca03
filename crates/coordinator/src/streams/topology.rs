//! What a stream-processing application is made of.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::StreamsGroupTopologyValue;
use logway_wire::messages::streams_group_describe_response as described;
use logway_wire::messages::streams_group_heartbeat_request as asked;
use logway_wire::messages::streams_group_topology_value::{
    CopartitionGroup, Subtopology, TopicConfig, TopicInfo,
};

use crate::consumer::Refusal;
use crate::ids::excerpt;

use super::configured::LastSeen;

/// A topology: its subtopologies, ordered by their ids. It keeps the form that it has in the log, with texts of its own.
#[derive(Debug)]
pub struct Topology {
    value: StreamsGroupTopologyValue,
    /// Of each subtopology, in their order.
    sources: Vec<SourcesSize>,
    /// The place of the subtopology that reads a topic; of several, the first.
    readers: HashMap<WireString, usize>,
    last_seen: LastSeen,
}

/// How much the sources of a subtopology are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SourcesSize {
    pub(super) count: usize,
    /// Of their names.
    pub(super) bytes: usize,
}

/// What one subtopology, topic, setting or index takes beside its texts, with what is remembered of it.
const SUBTOPOLOGY_BYTES: usize = 320;
const TOPIC_BYTES: usize = 224;
const TEXT_BYTES: usize = 80;

/// What the reader of one topic takes.
const READER_BYTES: usize = 96;

/// What an index counts: more than it takes, because each is looked up whenever the cluster has changed.
const INDEX_BYTES: usize = 16;

/// How much of a client's words a message repeats.
const SHOWN_BYTES_MAX: usize = 300;

impl Topology {
    /// A topology as a member says it.
    ///
    /// # Errors
    ///
    /// STREAMS_INVALID_TOPOLOGY for one that cannot be, POLICY_VIOLATION for one that would take more than `bytes_max`.
    pub(super) fn from_request(
        topology: &asked::Topology,
        subtopologies_max: usize,
        bytes_max: usize,
    ) -> Result<Topology, Refusal> {
        if topology.subtopologies.len() > subtopologies_max {
            return invalid(format!("There are more than {subtopologies_max} subtopologies."));
        }
        // Before it is copied.
        if topology.subtopologies.iter().map(asked_bytes).sum::<usize>() > bytes_max {
            let message = format!("The topology takes more than {bytes_max} bytes.");
            return Err(Refusal::new(ErrorCode::PolicyViolation, message));
        }
        let subtopologies = topology.subtopologies.iter().map(subtopology_from_request);
        let topology = Topology::new(StreamsGroupTopologyValue {
            epoch: topology.epoch,
            subtopologies: subtopologies.collect(),
            ..Default::default()
        });
        topology.check().map(|()| topology)
    }

    /// A topology of the log.
    pub(super) fn from_record(value: &StreamsGroupTopologyValue) -> Topology {
        Topology::new(StreamsGroupTopologyValue {
            epoch: value.epoch,
            subtopologies: value.subtopologies.iter().map(own_subtopology).collect(),
            ..Default::default()
        })
    }

    fn new(mut value: StreamsGroupTopologyValue) -> Topology {
        value.subtopologies.sort_by(|one, other| one.subtopology_id.cmp(&other.subtopology_id));
        let size = |it: &Subtopology| SourcesSize {
            count: sources(it).count(),
            bytes: sources(it).map(|topic| topic.len()).sum(),
        };
        let sizes = value.subtopologies.iter().map(size).collect();
        let mut readers = HashMap::new();
        for (place, subtopology) in value.subtopologies.iter().enumerate() {
            for topic in sources(subtopology) {
                readers.entry(topic.clone()).or_insert(place);
            }
        }
        Topology { value, sources: sizes, readers, last_seen: LastSeen::default() }
    }

    pub(super) fn last_seen(&self) -> &LastSeen {
        &self.last_seen
    }

    /// As it is in the log.
    pub(super) fn to_record(&self) -> StreamsGroupTopologyValue {
        self.value.clone()
    }

    /// Its version, which the application counts.
    pub fn epoch(&self) -> i32 {
        self.value.epoch
    }

    pub(super) fn subtopologies(&self) -> &[Subtopology] {
        &self.value.subtopologies
    }

    pub(super) fn subtopology(&self, id: &str) -> Option<&Subtopology> {
        self.place(id).map(|place| &self.value.subtopologies[place])
    }

    /// How much the sources of a subtopology are.
    pub(super) fn sources_size(&self, id: &str) -> SourcesSize {
        self.place(id).map(|place| self.sources[place]).unwrap_or_default()
    }

    fn place(&self, id: &str) -> Option<usize> {
        let of = &self.value.subtopologies;
        of.binary_search_by(|it| it.subtopology_id.as_str().cmp(id)).ok()
    }

    /// The subtopology that reads a topic.
    pub(super) fn reader_of(&self, topic: &str) -> Option<&Subtopology> {
        self.readers.get(topic).map(|&place| &self.value.subtopologies[place])
    }

    /// Whether it reads, or keeps state in, any of the topics that `is_meant` accepts.
    pub(super) fn needs_any(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        self.subtopologies().iter().flat_map(topics).any(|topic| is_meant(topic))
    }

    /// The names of all topics that it needs, each once, ordered.
    pub(super) fn topics(&self) -> BTreeSet<&str> {
        self.subtopologies().iter().flat_map(topics).map(WireString::as_str).collect()
    }

    /// The bytes that are kept for it, which are not less than it takes in the log.
    pub(super) fn held_bytes(&self) -> usize {
        self.subtopologies().iter().map(subtopology_bytes).sum()
    }

    /// Whether it can be.
    fn check(&self) -> Result<(), Refusal> {
        if self.value.epoch < 0 {
            return invalid("The topology's epoch is negative.".to_owned());
        }
        for pair in self.value.subtopologies.windows(2) {
            if pair[0].subtopology_id == pair[1].subtopology_id {
                let id = excerpt(&pair[0].subtopology_id, SHOWN_BYTES_MAX);
                return invalid(format!("Subtopology {id} is there twice."));
            }
        }
        let sinks: HashSet<&WireString> =
            self.subtopologies().iter().flat_map(|it| &it.repartition_sink_topics).collect();
        for subtopology in self.subtopologies() {
            check_subtopology(subtopology, &sinks)?;
        }
        Ok(())
    }

    /// For StreamsGroupDescribe. Of internal topics without a number of partitions, `partitions_of` knows what was decided.
    pub(super) fn describe(
        &self,
        partitions_of: impl Fn(&TopicInfo) -> i32,
    ) -> described::Topology {
        let sorted = |names: &[WireString]| {
            let mut names = names.to_vec();
            names.sort();
            names
        };
        let topic = |topic: &TopicInfo| described::TopicInfo {
            name: topic.name.clone(),
            partitions: partitions_of(topic),
            replication_factor: topic.replication_factor,
            topic_configs: topic
                .topic_configs
                .iter()
                .map(|it| described::KeyValue {
                    key: it.key.clone(),
                    value: it.value.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let topic_list = |topics: &[TopicInfo]| {
            let mut topics: Vec<_> = topics.iter().map(topic).collect();
            topics.sort_by(|one, other| one.name.cmp(&other.name));
            topics
        };
        let subtopologies = self.subtopologies().iter().map(|it| described::Subtopology {
            subtopology_id: it.subtopology_id.clone(),
            source_topics: sorted(&it.source_topics),
            repartition_sink_topics: sorted(&it.repartition_sink_topics),
            state_changelog_topics: topic_list(&it.state_changelog_topics),
            repartition_source_topics: topic_list(&it.repartition_source_topics),
            ..Default::default()
        });
        described::Topology {
            epoch: self.value.epoch,
            subtopologies: Some(subtopologies.collect()),
            ..Default::default()
        }
    }
}

impl PartialEq for Topology {
    fn eq(&self, other: &Topology) -> bool {
        self.value == other.value
    }
}

/// The topics that a subtopology reads.
pub(super) fn sources(subtopology: &Subtopology) -> impl Iterator<Item = &WireString> {
    let repartition = subtopology.repartition_source_topics.iter().map(|topic| &topic.name);
    subtopology.source_topics.iter().chain(repartition)
}

/// The topics that have to be there for a subtopology.
fn topics(subtopology: &Subtopology) -> impl Iterator<Item = &WireString> {
    sources(subtopology).chain(subtopology.state_changelog_topics.iter().map(|topic| &topic.name))
}

/// A set of topics that have to have the same number of partitions.
pub(super) fn copartitioned<'a>(
    subtopology: &'a Subtopology,
    group: &CopartitionGroup,
) -> BTreeSet<&'a str> {
    let at = |index: &i16| usize::try_from(*index).ok();
    let given = group.source_topics.iter().filter_map(at);
    let given = given.filter_map(|index| subtopology.source_topics.get(index));
    let repartition = group.repartition_source_topics.iter().filter_map(at);
    let repartition = repartition
        .filter_map(|index| subtopology.repartition_source_topics.get(index))
        .map(|topic| &topic.name);
    given.chain(repartition).map(WireString::as_str).collect()
}

fn invalid<T>(message: String) -> Result<T, Refusal> {
    Err(Refusal::new(ErrorCode::StreamsInvalidTopology, message))
}

fn check_subtopology(
    subtopology: &Subtopology,
    sinks: &HashSet<&WireString>,
) -> Result<(), Refusal> {
    let id = excerpt(&subtopology.subtopology_id, SHOWN_BYTES_MAX);
    if sources(subtopology).next().is_none() {
        return invalid(format!("No source topics found for subtopology {id}."));
    }
    let internal =
        subtopology.repartition_source_topics.iter().chain(&subtopology.state_changelog_topics);
    if internal.into_iter().any(|topic| topic.partitions < 0) {
        return invalid(format!(
            "An internal topic of subtopology {id} has a negative number of partitions."
        ));
    }
    if subtopology.state_changelog_topics.iter().any(|topic| topic.partitions != 0) {
        return invalid(format!(
            "A changelog topic of subtopology {id} has a number of partitions; it follows from the sources."
        ));
    }
    let mut repartition = subtopology.repartition_source_topics.iter();
    if !repartition.all(|topic| topic.partitions > 0 || sinks.contains(&topic.name)) {
        return invalid(format!(
            "A repartition source topic of subtopology {id} is never used as a sink topic."
        ));
    }
    let has = |indexes: &[i16], count: usize| {
        indexes.iter().all(|index| usize::try_from(*index).is_ok_and(|index| index < count))
    };
    let is_within = |group: &CopartitionGroup| {
        has(&group.source_topics, subtopology.source_topics.len())
            && has(&group.repartition_source_topics, subtopology.repartition_source_topics.len())
    };
    if !subtopology.copartition_groups.iter().all(is_within) {
        return invalid(format!(
            "A copartition group of subtopology {id} names a topic that is not there."
        ));
    }
    check_repetitions(subtopology, id)
}

/// Work on a topology is bounded by its names: none is twice in a list.
fn check_repetitions(subtopology: &Subtopology, id: &str) -> Result<(), Refusal> {
    let names = |topics: &[TopicInfo]| are_unique(topics.iter().map(|topic| &topic.name));
    if !are_unique(&subtopology.source_topics)
        || !are_unique(&subtopology.repartition_sink_topics)
        || !names(&subtopology.repartition_source_topics)
        || !names(&subtopology.state_changelog_topics)
    {
        return invalid(format!("Subtopology {id} names a topic twice."));
    }
    let is_repeating = |group: &CopartitionGroup| {
        !are_unique(&group.source_topics) || !are_unique(&group.repartition_source_topics)
    };
    match subtopology.copartition_groups.iter().any(is_repeating) {
        true => invalid(format!("A copartition group of subtopology {id} names a topic twice.")),
        false => Ok(()),
    }
}

fn are_unique<T: Eq + Hash>(all: impl IntoIterator<Item = T>) -> bool {
    let mut seen = HashSet::new();
    all.into_iter().all(|each| seen.insert(each))
}

fn own(text: &WireString) -> WireString {
    WireString::copy_of(text)
}

fn own_all(texts: &[WireString]) -> Vec<WireString> {
    texts.iter().map(own).collect()
}

fn subtopology_from_request(it: &asked::Subtopology) -> Subtopology {
    let topic = |topic: &asked::TopicInfo| TopicInfo {
        name: own(&topic.name),
        partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        topic_configs: topic
            .topic_configs
            .iter()
            .map(|it| TopicConfig {
                key: own(&it.key),
                value: own(&it.value),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let group = |group: &asked::CopartitionGroup| CopartitionGroup {
        source_topics: group.source_topics.clone(),
        source_topic_regex: group.source_topic_regex.clone(),
        repartition_source_topics: group.repartition_source_topics.clone(),
        ..Default::default()
    };
    Subtopology {
        subtopology_id: own(&it.subtopology_id),
        source_topics: own_all(&it.source_topics),
        source_topic_regex: own_all(&it.source_topic_regex),
        state_changelog_topics: it.state_changelog_topics.iter().map(topic).collect(),
        repartition_sink_topics: own_all(&it.repartition_sink_topics),
        repartition_source_topics: it.repartition_source_topics.iter().map(topic).collect(),
        copartition_groups: it.copartition_groups.iter().map(group).collect(),
        ..Default::default()
    }
}

fn own_subtopology(it: &Subtopology) -> Subtopology {
    let topic = |topic: &TopicInfo| TopicInfo {
        name: own(&topic.name),
        topic_configs: topic
            .topic_configs
            .iter()
            .map(|it| TopicConfig {
                key: own(&it.key),
                value: own(&it.value),
                ..Default::default()
            })
            .collect(),
        unknown_tagged_fields: Vec::new(),
        ..*topic
    };
    Subtopology {
        subtopology_id: own(&it.subtopology_id),
        source_topics: own_all(&it.source_topics),
        source_topic_regex: own_all(&it.source_topic_regex),
        state_changelog_topics: it.state_changelog_topics.iter().map(topic).collect(),
        repartition_sink_topics: own_all(&it.repartition_sink_topics),
        repartition_source_topics: it.repartition_source_topics.iter().map(topic).collect(),
        copartition_groups: it.copartition_groups.clone(),
        ..Default::default()
    }
}

/// The bytes of a subtopology, as it is in the log or in a request: the fields have the same names.
macro_rules! bytes_of {
    ($it:expr) => {{
        let it = $it;
        let text = |text: &WireString| TEXT_BYTES + text.len();
        let topics = it.state_changelog_topics.iter().chain(&it.repartition_source_topics);
        let topics = topics.map(|topic| {
            let configs = topic.topic_configs.iter().map(|it| text(&it.key) + text(&it.value));
            TOPIC_BYTES + topic.name.len() + configs.sum::<usize>()
        });
        let groups = it.copartition_groups.iter().map(|group| {
            let given = group.source_topics.len() + group.source_topic_regex.len();
            TOPIC_BYTES + (given + group.repartition_source_topics.len()) * INDEX_BYTES
        });
        let texts = it.source_topics.iter().chain(&it.source_topic_regex);
        let texts = texts.chain(&it.repartition_sink_topics).map(text);
        SUBTOPOLOGY_BYTES
            + it.subtopology_id.len()
            + texts.sum::<usize>()
            + topics.sum::<usize>()
            + groups.sum::<usize>()
            + (it.source_topics.len() + it.repartition_source_topics.len()) * READER_BYTES
    }};
}

fn subtopology_bytes(it: &Subtopology) -> usize {
    bytes_of!(it)
}

fn asked_bytes(it: &asked::Subtopology) -> usize {
    bytes_of!(it)
}
