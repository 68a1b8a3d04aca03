//! How many partitions the topics of an application have.
//!
//! The partitions of its internal topics follow from those of its sources, as Kafka's `InternalTopicManager` decides them:
//! a repartition topic has as many as the largest source of the subtopologies that write to it, topics that are joined have
//! as many as each other, and a changelog has as many as its subtopology has tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::streams_group_heartbeat_response::Status;
use logway_wire::messages::streams_group_topology_value::{Subtopology, TopicInfo};

use crate::cluster_view::ClusterView;
use crate::consumer::{Refusal, hash_of_topics};

use super::topology::{Topology, copartitioned, sources};

/// A topic that an application needs for itself, and that there is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InternalTopic {
    /// Its name.
    pub name: WireString,
    /// How many partitions it has to have.
    pub partitions: i32,
    /// How many replicas it shall have; -1 for what is usual.
    pub replication_factor: i16,
    /// Names and values of its settings.
    pub configs: Vec<(WireString, WireString)>,
}

/// A topology with the numbers of its partitions.
#[derive(Debug)]
pub(super) struct Configured {
    /// How many tasks each subtopology has.
    pub(super) task_counts: BTreeMap<WireString, i32>,
    /// The internal topics that there are not, ordered by their names.
    pub(super) missing: Vec<InternalTopic>,
}

/// What a topology comes to in the cluster as it is at one moment.
#[derive(Debug)]
pub(super) struct Seen {
    version: i64,
    tasks_max: usize,
    /// The numbers of its partitions, or why there are none.
    pub(super) configured: Result<Configured, Problem>,
    /// The hash of its topics.
    pub(super) topics_hash: i64,
}

/// The last of them: members look at each other's topics at every heartbeat, and the cluster changes rarely.
#[derive(Debug, Default)]
pub(super) struct LastSeen(Mutex<Option<Arc<Seen>>>);

/// Why an application cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// There is a source that there is not.
    MissingSources(String),
    /// Topics do not fit each other.
    IncorrectlyPartitioned(String),
    /// The topology itself cannot be.
    Invalid(String),
}

/// What a member is told of the state of its application (KIP-1071). The numbers are those of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusCode {
    StaleTopology = 0,
    MissingSourceTopics = 1,
    IncorrectlyPartitionedTopics = 2,
    MissingInternalTopics = 3,
    ShutdownApplication = 4,
    AssignmentDelayed = 5,
}

/// How many topics a message names.
const NAMED_MAX: usize = 3;

pub(super) fn status(code: StatusCode, detail: impl Into<WireString>) -> Status {
    Status { status_code: code as i8, status_detail: detail.into(), ..Status::default() }
}

impl Seen {
    /// Whether all that is needed is there, as it has to be.
    pub(super) fn is_ready(&self) -> bool {
        self.configured.as_ref().is_ok_and(Configured::is_ready)
    }
}

impl Configured {
    /// Whether all that is needed is there.
    pub(super) fn is_ready(&self) -> bool {
        self.missing.is_empty()
    }

    /// What members are told meanwhile.
    pub(super) fn missing_status(&self) -> Option<Status> {
        let names = self.missing.iter().map(|topic| topic.name.as_str());
        let detail = format!("Internal topics are missing: {}", summary(names));
        (!self.is_ready()).then(|| status(StatusCode::MissingInternalTopics, detail))
    }
}

impl Problem {
    /// What members are told.
    pub(super) fn status(self) -> Result<Status, Refusal> {
        match self {
            Problem::MissingSources(detail) => Ok(status(StatusCode::MissingSourceTopics, detail)),
            Problem::IncorrectlyPartitioned(detail) => {
                Ok(status(StatusCode::IncorrectlyPartitionedTopics, detail))
            }
            Problem::Invalid(message) => {
                Err(Refusal::new(ErrorCode::StreamsInvalidTopology, message))
            }
        }
    }
}

impl Topology {
    /// How many partitions each topic has, as the cluster is now. Decided once for each version of the metadata.
    pub(super) fn configure(&self, view: &dyn ClusterView, tasks_max: usize) -> Arc<Seen> {
        let version = view.version();
        let mut last = self.last_seen().0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |seen: &&Arc<Seen>| seen.version == version && seen.tasks_max == tasks_max;
        if let Some(seen) = last.as_ref().filter(is_same) {
            return Arc::clone(seen);
        }
        let configured = self.decide(view, tasks_max);
        let topics_hash = hash_of_topics(self.topics().into_iter(), view);
        let seen = Arc::new(Seen { version, tasks_max, configured, topics_hash });
        *last = Some(Arc::clone(&seen));
        seen
    }

    fn decide(&self, view: &dyn ClusterView, tasks_max: usize) -> Result<Configured, Problem> {
        let repartition = self.subtopologies().iter().flat_map(|it| &it.repartition_source_topics);
        // The first counts if several name one.
        let said = repartition.rev().map(|topic| (topic.name.as_str(), topic.partitions)).collect();
        let mut counts = Counts { view, said, decided: BTreeMap::new() };
        self.check_sources(&counts)?;
        self.decide_repartition(&mut counts)?;
        for subtopology in self.subtopologies() {
            for group in &subtopology.copartition_groups {
                counts.enforce_copartition(&copartitioned(subtopology, group))?;
            }
        }
        let mut task_counts = BTreeMap::new();
        for subtopology in self.subtopologies() {
            let count = counts.task_count(subtopology)?;
            for changelog in &subtopology.state_changelog_topics {
                counts.decided.insert(&changelog.name, count);
            }
            task_counts.insert(subtopology.subtopology_id.clone(), count);
        }
        let tasks: usize =
            task_counts.values().map(|count| usize::try_from(*count).unwrap_or(0)).sum();
        if tasks > tasks_max {
            let detail =
                format!("The topology has {tasks} tasks, and at most {tasks_max} are served.");
            return Err(Problem::IncorrectlyPartitioned(detail));
        }
        Ok(Configured { task_counts, missing: self.missing_internal(&counts)? })
    }

    fn check_sources(&self, counts: &Counts) -> Result<(), Problem> {
        let all = self.subtopologies().iter().flat_map(|it| &it.source_topics);
        let missing: BTreeSet<&str> =
            all.map(WireString::as_str).filter(|topic| counts.present(topic).is_none()).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => {
                let detail = format!("Source topics {} are missing.", summary(missing.into_iter()));
                Err(Problem::MissingSources(detail))
            }
        }
    }

    /// Those whose number the application says, then those that subtopologies write to whose own sources are known.
    fn decide_repartition<'a>(&'a self, counts: &mut Counts<'a>) -> Result<(), Problem> {
        let fixed = self.subtopologies().iter().flat_map(|it| &it.repartition_source_topics);
        for topic in fixed.filter(|topic| topic.partitions != 0) {
            counts.decided.insert(&topic.name, topic.partitions);
        }
        let mut readers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, subtopology) in self.subtopologies().iter().enumerate() {
            for topic in &subtopology.repartition_source_topics {
                readers.entry(&topic.name).or_default().push(place);
            }
        }
        // Each is looked at once, when one of its sources is known: in rounds, and in a round in their order.
        let mut due: BTreeSet<(usize, usize)> =
            (0..self.subtopologies().len()).map(|place| (0, place)).collect();
        let mut open: BTreeSet<usize> = (0..self.subtopologies().len()).collect();
        while let Some((round, place)) = due.pop_first() {
            if !open.contains(&place) {
                continue;
            }
            let subtopology = &self.subtopologies()[place];
            let Some(count) = counts.largest_source(subtopology) else { continue };
            open.remove(&place);
            for sink in &subtopology.repartition_sink_topics {
                if counts.decided.contains_key(sink.as_str()) {
                    continue;
                }
                counts.decided.insert(sink, count);
                let readers = readers.get(sink.as_str()).into_iter().flatten();
                due.extend(
                    readers
                        .filter(|reader| open.contains(*reader))
                        .map(|&reader| (round + usize::from(reader < place), reader)),
                );
            }
        }
        let mut sinks =
            open.iter().flat_map(|&place| &self.subtopologies()[place].repartition_sink_topics);
        match sinks.all(|sink| counts.decided.contains_key(sink.as_str())) {
            true => Ok(()),
            false => {
                let message = "Failed to compute number of partitions for all repartition topics. There may be loops \
                               in the topology that cannot be resolved.";
                Err(Problem::Invalid(message.to_owned()))
            }
        }
    }

    fn missing_internal(&self, counts: &Counts) -> Result<Vec<InternalTopic>, Problem> {
        let mut missing = BTreeMap::new();
        for subtopology in self.subtopologies() {
            let repartition = subtopology.repartition_source_topics.iter();
            for topic in repartition.chain(&subtopology.state_changelog_topics) {
                let expected = counts.expected(topic)?;
                match counts.present(&topic.name) {
                    None => {
                        missing.insert(topic.name.as_str(), internal_topic(topic, expected));
                    }
                    Some(found) if found != expected => {
                        return Err(Problem::IncorrectlyPartitioned(format!(
                            "Existing topic {} has different number of partitions: expected {expected}, found {found}",
                            topic.name.as_str()
                        )));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(missing.into_values().collect())
    }
}

/// What is known of the partitions of topics.
struct Counts<'a> {
    view: &'a dyn ClusterView,
    /// What the application says of its repartition topics; 0 where it leaves it open.
    said: BTreeMap<&'a str, i32>,
    /// Of internal topics.
    decided: BTreeMap<&'a str, i32>,
}

impl<'a> Counts<'a> {
    /// How many partitions a topic has, if there is such a topic.
    fn present(&self, topic: &str) -> Option<i32> {
        self.view.topic(topic).map(|topic| topic.partition_count)
    }

    /// How many it has, or will have.
    fn get(&self, topic: &str) -> Result<i32, Problem> {
        let known = self.present(topic).or_else(|| self.decided.get(topic).copied());
        known.ok_or_else(|| {
            Problem::Invalid(format!("Number of partitions is not set for topic: {topic}"))
        })
    }

    /// How many an internal topic has to have.
    fn expected(&self, topic: &TopicInfo) -> Result<i32, Problem> {
        match topic.partitions {
            0 => self.decided.get(topic.name.as_str()).copied().ok_or_else(|| {
                let name = topic.name.as_str();
                Problem::Invalid(format!("Number of partitions must be set for topic {name}"))
            }),
            fixed => Ok(fixed),
        }
    }

    /// The most partitions of a source of a subtopology, of those that are known.
    fn largest_source(&self, subtopology: &Subtopology) -> Option<i32> {
        let repartition = subtopology.repartition_source_topics.iter();
        let repartition =
            repartition.filter_map(|topic| self.decided.get(topic.name.as_str()).copied());
        let given = subtopology.source_topics.iter().filter_map(|topic| self.present(topic));
        repartition.chain(given).max()
    }

    fn task_count(&self, subtopology: &Subtopology) -> Result<i32, Problem> {
        let mut most = 0;
        for topic in sources(subtopology) {
            most = most.max(self.get(topic)?);
        }
        Ok(most)
    }

    /// Topics that are read together have the same number of partitions: that of those that are given, or else that of the
    /// largest.
    fn enforce_copartition(&mut self, topics: &BTreeSet<&'a str>) -> Result<(), Problem> {
        let mut given = BTreeMap::new();
        let mut repartition = BTreeMap::new();
        let mut fixed = BTreeMap::new();
        for &topic in topics {
            let count = self.get(topic)?;
            match self.said.get(topic).copied() {
                None => given.insert(topic, count),
                Some(0) => repartition.insert(topic, count),
                Some(said) => {
                    fixed.insert(topic, said);
                    repartition.insert(topic, said)
                }
            };
        }
        let deciding = [&given, &fixed].into_iter().find(|of| !of.is_empty());
        let count = match deciding {
            Some(of) => same_count(of)?,
            None => repartition.values().copied().max().unwrap_or(0),
        };
        if let Some((topic, said)) = fixed.iter().find(|(_, said)| **said != count) {
            return Err(Problem::IncorrectlyPartitioned(format!(
                "Number of partitions [{said}] of repartition topic [{topic}] doesn't match number of partitions \
                 [{count}] of the source topic."
            )));
        }
        self.decided.extend(repartition.into_keys().map(|topic| (topic, count)));
        Ok(())
    }
}

fn same_count(topics: &BTreeMap<&str, i32>) -> Result<i32, Problem> {
    let counts: BTreeSet<i32> = topics.values().copied().collect();
    match counts.len() {
        0 | 1 => Ok(counts.first().copied().unwrap_or(0)),
        _ => {
            let told =
                topics.iter().take(NAMED_MAX).map(|(topic, count)| format!("{topic}={count}"));
            let told: Vec<_> = told.collect();
            Err(Problem::IncorrectlyPartitioned(format!(
                "Following topics do not have the same number of partitions: [{{{}}}]",
                told.join(", ")
            )))
        }
    }
}

fn internal_topic(topic: &TopicInfo, partitions: i32) -> InternalTopic {
    let configs = topic.topic_configs.iter().map(|it| (it.key.clone(), it.value.clone()));
    InternalTopic {
        name: topic.name.clone(),
        partitions,
        replication_factor: if topic.replication_factor == 0 {
            -1
        } else {
            topic.replication_factor
        },
        configs: configs.collect(),
    }
}

fn summary<'a>(topics: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = topics.len().saturating_sub(NAMED_MAX);
    let named: Vec<&str> = topics.take(NAMED_MAX).collect();
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} additional topics", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use logway_model::TopicId;
    use logway_wire::messages::StreamsGroupTopologyValue;
    use logway_wire::messages::streams_group_topology_value::CopartitionGroup;

    use crate::cluster_view::{ConsumerOverrides, StreamsOverrides, TopicView};

    use super::*;

    /// A cluster with a topic `given` of three partitions, which counts how often it is asked for topics.
    #[derive(Debug, Default)]
    struct Counting {
        version: i64,
        questions: AtomicUsize,
    }

    impl ClusterView for Counting {
        fn topic(&self, name: &str) -> Option<TopicView> {
            self.questions.fetch_add(1, Ordering::Relaxed);
            (name == "given").then(|| TopicView { id: TopicId::default(), partition_count: 3 })
        }

        fn topic_name(&self, _id: TopicId) -> Option<Arc<str>> {
            None
        }

        fn visit_topic_names(&self, _visit: &mut dyn FnMut(&str)) {}

        fn version(&self) -> i64 {
            self.version
        }

        fn racks(&self, _topic: &str) -> Vec<Vec<Arc<str>>> {
            Vec::new()
        }

        fn overrides(&self, _group: &str) -> ConsumerOverrides {
            ConsumerOverrides::default()
        }

        fn streams_overrides(&self, _group: &str) -> StreamsOverrides {
            StreamsOverrides::default()
        }
    }

    fn repartition(name: &str) -> TopicInfo {
        TopicInfo { name: WireString::copy_of(name), ..TopicInfo::default() }
    }

    /// Subtopologies one behind the other. The last one in their order comes first.
    fn chain(length: usize) -> StreamsGroupTopologyValue {
        let subtopologies = (0..length).map(|place| Subtopology {
            subtopology_id: format!("{place:05}").into(),
            source_topics: if place + 1 == length { vec!["given".into()] } else { Vec::new() },
            repartition_source_topics: match place + 1 == length {
                true => Vec::new(),
                false => vec![repartition(&format!("t{place}"))],
            },
            repartition_sink_topics: match place {
                0 => Vec::new(),
                _ => vec![format!("t{}", place - 1).into()],
            },
            ..Subtopology::default()
        });
        StreamsGroupTopologyValue {
            subtopologies: subtopologies.collect(),
            ..StreamsGroupTopologyValue::default()
        }
    }

    #[test]
    fn a_chain_is_followed_to_its_end_whatever_its_order() {
        const LENGTH: usize = 1_000;
        let topology = Topology::from_record(&chain(LENGTH));
        let seen = topology.configure(&Counting::default(), 10_000);
        let configured = seen.configured.as_ref().expect("it can be decided");
        assert_eq!(configured.missing.len(), LENGTH - 1);
        assert!(configured.missing.iter().all(|topic| topic.partitions == 3));
        assert_eq!(configured.task_counts.len(), LENGTH);
    }

    #[test]
    fn a_loop_cannot_be_decided() {
        let mut value = chain(3);
        value.subtopologies[2].source_topics.clear();
        value.subtopologies[2].repartition_source_topics = vec![repartition("t0")];
        let seen = Topology::from_record(&value).configure(&Counting::default(), 10_000);
        assert!(matches!(seen.configured, Err(Problem::Invalid(_))), "{:?}", seen.configured);
    }

    #[test]
    fn topics_that_are_read_together_follow_the_one_whose_number_is_said() {
        let mut value = chain(2);
        let first = &mut value.subtopologies[0];
        first.repartition_source_topics.push(TopicInfo { partitions: 7, ..repartition("said") });
        first.copartition_groups = vec![CopartitionGroup {
            repartition_source_topics: vec![0, 1],
            ..CopartitionGroup::default()
        }];
        let seen = Topology::from_record(&value).configure(&Counting::default(), 10_000);
        let configured = seen.configured.as_ref().expect("it can be decided");
        assert!(configured.missing.iter().all(|topic| topic.partitions == 7));
    }

    #[test]
    fn a_topology_is_looked_at_once_for_each_version_of_the_metadata() {
        let topology = Topology::from_record(&chain(10));
        let mut view = Counting::default();
        topology.configure(&view, 100);
        let once = view.questions.load(Ordering::Relaxed);
        assert!(topology.configure(&view, 100).configured.is_ok());
        assert_eq!(view.questions.load(Ordering::Relaxed), once, "it is remembered");
        assert!(topology.configure(&view, 5).configured.is_err(), "there are more than 5 tasks");
        view.version += 1;
        let before = view.questions.load(Ordering::Relaxed);
        topology.configure(&view, 5);
        assert!(view.questions.load(Ordering::Relaxed) > before);
    }
}
