//! What there is to say about a group, gathered from its coordinator and the leaders of what it
//! reads.

use std::collections::{BTreeMap, BTreeSet};

use logway_client::{
    Client, ClientError, CommittedOffset, GroupDescription, GroupMember, ListedOffset,
    MissingTopic, OffsetAt, TopicSelection, UnreadAge,
};
use logway_model::{BrokerId, GroupType, Offset, TimestampMs, TopicName, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;

use super::partition_lag::{PartitionLag, Standing};
use crate::cli::timestamp;

/// A group, its members and its lag.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli::group) struct GroupLag {
    pub(super) group: String,
    pub(super) state: String,
    #[serde(rename = "type")]
    pub(super) group_type: &'static str,
    pub(super) protocol_type: String,
    pub(super) assignor: String,
    /// How often what assignments go by has changed; `null` for a classic group
    pub(super) group_epoch: Option<i32>,
    /// That of the newest assignment; `null` for a classic group
    pub(super) assignment_epoch: Option<i32>,
    /// That of the application of a streams group; `null` for others
    pub(super) topology_epoch: Option<i32>,
    #[schemars(with = "i32")]
    pub(super) coordinator: BrokerId,
    /// As HOST:PORT
    pub(super) coordinator_address: String,
    /// The sum over the partitions whose lag is known; `null` if there is none
    pub(super) lag: Option<u64>,
    /// The age of the oldest unread record of all partitions; `null` if it is not known
    pub(super) lag_seconds: Option<f64>,
    pub(super) members: Vec<Member>,
    /// The parts of the application of a streams group
    pub(super) subtopologies: Vec<Subtopology>,
    pub(super) partitions: Vec<PartitionLag>,
    /// What is odd, for people.
    #[serde(skip)]
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Member {
    pub(super) member_id: String,
    /// `group.instance.id` of a static member
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) host: String,
    /// Partitions that it reads
    pub(super) partition_count: usize,
    /// Partitions that it is to read in the end; `null` in groups that are no consumer groups
    pub(super) target_partition_count: Option<usize>,
    pub(super) rack: Option<String>,
    /// The assignment epoch that it has come to; `null` in a classic group
    pub(super) member_epoch: Option<i32>,
    /// Which protocol it speaks: `classic`, `consumer` or `streams`
    pub(super) protocol: &'static str,
    /// Topics that it has named, as a member of a consumer group
    pub(super) subscribed_topics: Vec<String>,
    /// The regular expression that it has given, as a member of a consumer group
    pub(super) subscribed_pattern: Option<String>,
    /// What it processes, as a member of a streams group; `null` in others
    pub(super) processing: Option<Processing>,
}

/// Tasks have the names of Kafka Streams, such as `0_3`: the subtopology and the partition.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Processing {
    /// The process that the member is a thread of
    pub(super) process_id: String,
    /// Tasks that it runs
    pub(super) active: Vec<String>,
    /// Tasks whose state it copies
    pub(super) standby: Vec<String>,
    /// Tasks whose state it catches up with, to run them then
    pub(super) warmup: Vec<String>,
    /// Tasks that it is to run in the end
    pub(super) target_active: Vec<String>,
    /// Tasks whose state it is to copy in the end
    pub(super) target_standby: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Subtopology {
    pub(super) subtopology: String,
    /// Topics that it reads
    pub(super) source_topics: Vec<String>,
    /// Topics that it reads, and that other subtopologies write
    pub(super) repartition_source_topics: Vec<String>,
    /// Topics that it writes, and that other subtopologies read
    pub(super) repartition_sink_topics: Vec<String>,
    /// Topics with the changes of its state
    pub(super) changelog_topics: Vec<String>,
}

/// What partitions hold, of those that exist and have a leader.
#[derive(Debug, Default)]
struct Held {
    starts: BTreeMap<TopicPartition, ListedOffset>,
    ends: BTreeMap<TopicPartition, ListedOffset>,
}

impl GroupLag {
    /// Asks everyone who knows something about the group.
    pub(super) async fn find(client: &Client, name: &str) -> Result<GroupLag, ClientError> {
        let description = client.describe_group(name).await?;
        // Ends are asked for after the commits, so that no group seems to be ahead of them.
        let committed = client.committed_offsets(name).await?;
        let mut partitions: BTreeSet<TopicPartition> = committed.keys().cloned().collect();
        let assigned = description.members.iter().flat_map(|member| &member.assignment);
        partitions.extend(assigned.cloned());
        let held = Held::find(client, &partitions).await?;
        let mut lags = BTreeMap::new();
        let mut warnings = Vec::new();
        for partition in &partitions {
            let (lag, warning) = lag(partition, committed.get(partition), &held);
            lags.insert(partition.clone(), lag);
            warnings.extend(warning);
        }
        add_ages(client, &mut lags, &committed).await;
        add_members(&mut lags, &description.members);
        Ok(GroupLag::new(description, lags.into_values().collect(), warnings))
    }

    fn new(
        group: GroupDescription,
        partitions: Vec<PartitionLag>,
        warnings: Vec<String>,
    ) -> GroupLag {
        let lags = partitions.iter().filter_map(|partition| partition.lag);
        let ages = partitions.iter().filter_map(|partition| partition.lag_seconds);
        let group_type = group.group_type.name();
        let members = group.members.into_iter().map(|member| Member::new(member, group_type));
        let topology_epoch = group.topology.as_ref().map(|topology| topology.epoch);
        let subtopologies = group.topology.into_iter().flat_map(|topology| topology.subtopologies);
        GroupLag {
            group: group.name,
            state: group.state,
            group_type,
            protocol_type: group.protocol_type,
            assignor: group.assignor,
            group_epoch: group.epochs.map(|epochs| epochs.group),
            assignment_epoch: group.epochs.map(|epochs| epochs.assignment),
            topology_epoch,
            coordinator: group.coordinator.id,
            coordinator_address: group.coordinator.address.to_string(),
            lag: lags.reduce(u64::saturating_add),
            lag_seconds: ages.reduce(f64::max),
            members: members.collect(),
            subtopologies: subtopologies.map(Subtopology::from).collect(),
            partitions,
            warnings,
        }
    }
}

impl Member {
    fn new(member: GroupMember, group_type: &'static str) -> Member {
        Member {
            member_id: member.id,
            instance_id: member.instance_id,
            client_id: member.client_id,
            host: member.host,
            partition_count: member.assignment.len(),
            target_partition_count: member.target.map(|target| target.len()),
            rack: member.rack,
            member_epoch: member.epoch,
            protocol: if member.is_classic { GroupType::Classic.name() } else { group_type },
            subscribed_topics: member.subscribed_topics,
            subscribed_pattern: member.subscribed_pattern,
            processing: member.processing.map(Processing::from),
        }
    }
}

impl From<logway_client::Processing> for Processing {
    fn from(told: logway_client::Processing) -> Processing {
        Processing {
            process_id: told.process_id,
            active: told.tasks.active,
            standby: told.tasks.standby,
            warmup: told.tasks.warmup,
            target_active: told.target.active,
            target_standby: told.target.standby,
        }
    }
}

impl From<logway_client::Subtopology> for Subtopology {
    fn from(told: logway_client::Subtopology) -> Subtopology {
        Subtopology {
            subtopology: told.id,
            source_topics: told.source_topics,
            repartition_source_topics: told.repartition_source_topics,
            repartition_sink_topics: told.repartition_sink_topics,
            changelog_topics: told.changelog_topics,
        }
    }
}

impl Held {
    async fn find(
        client: &Client,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<Held, ClientError> {
        let topics: BTreeSet<TopicName> = partitions.iter().map(|p| p.topic.clone()).collect();
        if topics.is_empty() {
            return Ok(Held::default());
        }
        let selection = TopicSelection::Named(&topics);
        let metadata = client.refresh_metadata(selection, MissingTopic::Refuse).await?;
        // Of a deleted topic's partitions nothing can be asked, and need not keep us from asking
        // about others.
        let led = partitions.iter().filter(|partition| metadata.leader(partition).is_some());
        let led: BTreeSet<TopicPartition> = led.cloned().collect();
        let starts = client.list_offsets(&led, OffsetAt::Start).await?;
        let ends = client.list_offsets(&led, OffsetAt::End).await?;
        Ok(Held { starts, ends })
    }

    /// The first offset of a partition and the one after the last.
    fn range(&self, partition: &TopicPartition) -> Option<(Offset, Offset)> {
        Some((self.starts.get(partition)?.offset?, self.ends.get(partition)?.offset?))
    }
}

/// The lag in records, and what is odd about it.
fn lag(
    partition: &TopicPartition,
    committed: Option<&CommittedOffset>,
    held: &Held,
) -> (PartitionLag, Option<String>) {
    let range = held.range(partition);
    let mut lag = PartitionLag {
        topic: partition.topic.to_string(),
        partition: partition.partition.0,
        committed_offset: committed.map(|committed| committed.offset.0),
        metadata: committed.map(|committed| committed.metadata.clone()).unwrap_or_default(),
        start_offset: range.map(|(start, _)| start.0),
        end_offset: range.map(|(_, end)| end.0),
        ..PartitionLag::default()
    };
    let Some((start, end)) = range else {
        return (lag, Some(format!("{partition} does not exist or has no leader")));
    };
    let Some(committed) = committed else { return (lag, None) };
    match Standing::new(committed.offset, start, end) {
        Standing::Behind { records, .. } => {
            lag.lag = Some(records);
            (lag, None)
        }
        Standing::BeyondTheEnd => {
            let offset = committed.offset;
            let warning = format!(
                "{partition}: the committed offset {offset} lies beyond the end, {end}: was the \
                 topic deleted and created anew?"
            );
            (lag, Some(warning))
        }
    }
}

/// Adds the lag in seconds: as the broker tells it, else by a look at the oldest unread records.
async fn add_ages(
    client: &Client,
    lags: &mut BTreeMap<TopicPartition, PartitionLag>,
    committed: &BTreeMap<TopicPartition, CommittedOffset>,
) {
    let mut wanted = BTreeMap::new();
    for (partition, lag) in &mut *lags {
        let Some(committed) = committed.get(partition) else { continue };
        match (lag.lag, committed.unread_age) {
            (Some(0), _) => lag.lag_seconds = Some(0.0),
            (Some(_), Some(UnreadAge::Ms(age_ms))) => lag.lag_seconds = Some(seconds(age_ms)),
            (Some(_), None) => {
                let start = Offset(lag.start_offset.unwrap_or_default());
                wanted.insert(partition.clone(), committed.offset.max(start));
            }
            (Some(_), Some(UnreadAge::Unknown)) | (None, _) => {}
        }
    }
    let timestamps = client.first_timestamps(&wanted).await;
    let TimestampMs(now_ms) = timestamp::now();
    for (partition, TimestampMs(timestamp_ms)) in timestamps {
        if let Some(lag) = lags.get_mut(&partition) {
            // A record may come from a clock that is ahead of ours.
            let age_ms = u64::try_from(now_ms.saturating_sub(timestamp_ms)).unwrap_or(0);
            lag.lag_seconds = Some(seconds(age_ms));
        }
    }
}

fn add_members(lags: &mut BTreeMap<TopicPartition, PartitionLag>, members: &[GroupMember]) {
    for member in members {
        for partition in &member.assignment {
            let Some(lag) = lags.get_mut(partition) else { continue };
            lag.client_id = Some(member.client_id.clone());
            lag.host = Some(member.host.clone());
            lag.member_id = Some(member.id.clone());
        }
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
