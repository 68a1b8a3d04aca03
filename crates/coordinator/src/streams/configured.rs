//! How many partitions the topics of an application have.
//!
//! The partitions of its internal topics follow from those of its sources, as Kafka's `InternalTopicManager` decides them:
//! a repartition topic has as many as the largest source of the subtopologies that write to it, topics that are joined have
//! as many as each other, and a changelog has as many as its subtopology has tasks.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::streams_group_heartbeat_response::Status;
use logway_wire::messages::streams_group_topology_value::{Subtopology, TopicInfo};

use crate::cluster_view::ClusterView;
use crate::consumer::Refusal;

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
pub(super) struct Configured<'a> {
    /// How many tasks each subtopology has.
    pub(super) task_counts: BTreeMap<&'a str, i32>,
    /// The internal topics that there are not.
    pub(super) missing: Vec<InternalTopic>,
}

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

impl Configured<'_> {
    /// Whether all that is needed is there.
    pub(super) fn is_ready(&self) -> bool {
        self.missing.is_empty()
    }

    /// What members are told meanwhile.
    pub(super) fn missing_status(&self) -> Option<Status> {
        let names: BTreeSet<&str> = self.missing.iter().map(|topic| topic.name.as_str()).collect();
        let detail = format!("Internal topics are missing: {}", summary(&names));
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
    /// Decides how many partitions each topic has, as the cluster is now.
    pub(super) fn configure(
        &self,
        view: &dyn ClusterView,
        tasks_max: usize,
    ) -> Result<Configured<'_>, Problem> {
        let mut counts = Counts { view, decided: BTreeMap::new() };
        self.check_sources(&counts)?;
        self.decide_repartition(&mut counts)?;
        for subtopology in self.subtopologies() {
            for group in &subtopology.copartition_groups {
                counts.enforce_copartition(self, &copartitioned(subtopology, group))?;
            }
        }
        let mut task_counts = BTreeMap::new();
        for subtopology in self.subtopologies() {
            let count = counts.task_count(subtopology)?;
            for changelog in &subtopology.state_changelog_topics {
                counts.decided.insert(&changelog.name, count);
            }
            task_counts.insert(subtopology.subtopology_id.as_str(), count);
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
                let detail = format!("Source topics {} are missing.", summary(&missing));
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
        let mut open: Vec<&Subtopology> = self.subtopologies().iter().collect();
        loop {
            let before = open.len();
            open.retain(|subtopology| {
                let mut undecided = subtopology
                    .repartition_sink_topics
                    .iter()
                    .filter(|topic| !counts.decided.contains_key(topic.as_str()))
                    .peekable();
                if undecided.peek().is_none() {
                    return false;
                }
                let repartition = subtopology.repartition_source_topics.iter();
                let repartition = repartition
                    .filter_map(|topic| counts.decided.get(topic.name.as_str()).copied());
                let given = subtopology.source_topics.iter();
                let given = given.filter_map(|topic| counts.present(topic));
                let Some(count) = repartition.chain(given).max() else { return true };
                let undecided: Vec<&str> = undecided.map(WireString::as_str).collect();
                counts.decided.extend(undecided.into_iter().map(|topic| (topic, count)));
                false
            });
            if open.is_empty() {
                return Ok(());
            }
            if open.len() == before {
                let message = "Failed to compute number of partitions for all repartition topics. There may be loops \
                               in the topology that cannot be resolved.";
                return Err(Problem::Invalid(message.to_owned()));
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

    fn task_count(&self, subtopology: &Subtopology) -> Result<i32, Problem> {
        let mut most = 0;
        for topic in sources(subtopology) {
            most = most.max(self.get(topic)?);
        }
        Ok(most)
    }

    /// Topics that are read together have the same number of partitions: that of those that are given, or else that of the
    /// largest.
    fn enforce_copartition(
        &mut self,
        topology: &'a Topology,
        topics: &BTreeSet<&'a str>,
    ) -> Result<(), Problem> {
        let fixed_of = |name: &str| {
            let mut all =
                topology.subtopologies().iter().flat_map(|it| &it.repartition_source_topics);
            all.find(|topic| topic.name == *name).map(|topic| topic.partitions)
        };
        let mut given = BTreeMap::new();
        let mut repartition = BTreeMap::new();
        let mut fixed = BTreeMap::new();
        for &topic in topics {
            let count = self.get(topic)?;
            match fixed_of(topic) {
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

fn summary(topics: &BTreeSet<&str>) -> String {
    let named: Vec<&str> = topics.iter().copied().take(NAMED_MAX).collect();
    match topics.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} additional topics", named.join(", ")),
    }
}
