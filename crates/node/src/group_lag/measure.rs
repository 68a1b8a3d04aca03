//! One measurement of all groups.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logway_coordinator::{Client, Reply, RequestBody};
use logway_model::{Offset, PartitionId};
use logway_wire::messages::ListGroupsRequest;
use logway_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use logway_wire::{UnreadAge, WireString};
use prometheus_client::encoding::EncodeLabelSet;

use crate::Node;
use crate::groups::{Question, UnreadAges, offset_counts};
use crate::replica::Replica;
use crate::tasks::{off_thread, wall_clock};

/// The longest name of a group or topic that is shown: what follows it could not be told apart.
const NAME_MAX_BYTES: usize = 255;

/// Partitions whose records are looked for at a time, and how long that may take.
const AGES_AT_ONCE: usize = 64;
const AGES_TIME_MAX: Duration = Duration::from_secs(1);

/// The versions of requests that the shards are asked as with.
const LIST_GROUPS_VERSION: i16 = 5;
const OFFSET_FETCH_VERSION: i16 = 9;

/// How far groups are behind.
#[derive(Debug)]
pub(super) struct Measurement {
    /// When it was finished.
    pub(super) at: Instant,
    /// By group, topic and partition.
    pub(super) lags: Vec<PartitionLag>,
    /// Groups that found no room.
    pub(super) groups_left_out: usize,
}

/// How far a group is behind in one partition.
#[derive(Debug)]
pub(super) struct PartitionLag {
    pub(super) labels: LagLabels,
    /// Offsets from the committed one to the end of what consumers see.
    pub(super) records: u64,
    /// The age of the oldest of them, where it can be told.
    pub(super) seconds: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LagLabels {
    group: String,
    topic: String,
    partition: i32,
}

impl Default for Measurement {
    fn default() -> Measurement {
        Measurement { at: Instant::now(), lags: Vec::new(), groups_left_out: 0 }
    }
}

impl Measurement {
    /// Asks for the offsets of groups as long as there is room for their partitions. A group is shown with all its
    /// partitions or not at all; those with few come first, so that no group keeps many others from being shown.
    pub(super) async fn take(node: &Arc<Node>, partitions_max: usize) -> Measurement {
        let Candidates { smallest, mut left_out, .. } = candidates(node, partitions_max).await;
        let mut lags = Vec::new();
        for (_, name) in smallest {
            let of_group = lags_of_group(node, &name).await;
            // It may have grown since it was counted.
            match lags.len() + of_group.len() <= partitions_max {
                true => lags.extend(of_group),
                false => left_out += 1,
            }
        }
        lags.sort_unstable_by(|a: &PartitionLag, b| a.labels.place().cmp(&b.labels.place()));
        Measurement { at: Instant::now(), lags, groups_left_out: left_out }
    }
}

/// The groups to show: those with the fewest partitions, as many as there is room for.
struct Candidates {
    /// With how many partitions they have offsets of.
    smallest: BTreeSet<(usize, WireString)>,
    partitions: usize,
    partitions_max: usize,
    left_out: usize,
}

impl Candidates {
    fn add(&mut self, name: WireString, partitions: usize) {
        // One without offsets takes no room, and is not shown either.
        if partitions == 0 {
            return;
        }
        self.partitions += partitions;
        self.smallest.insert((partitions, name));
        while self.partitions > self.partitions_max {
            let largest = self.smallest.pop_last();
            self.partitions -= largest.map_or(self.partitions, |(partitions, _)| partitions);
            self.left_out += 1;
        }
    }
}

async fn candidates(node: &Arc<Node>, partitions_max: usize) -> Candidates {
    let mut candidates =
        Candidates { smallest: BTreeSet::new(), partitions: 0, partitions_max, left_out: 0 };
    let all =
        || question(LIST_GROUPS_VERSION, RequestBody::ListGroups(ListGroupsRequest::default()));
    for measuring in node.groups.measure_all(all) {
        // A shard that is loading or has gone has no groups to show.
        let Ok(question) = measuring.measured().await else { continue };
        let _held = node.memory.building.take(question.answer_bytes()).await;
        for (name, partitions) in question.look(offset_counts).await.unwrap_or_default() {
            match name.len() <= NAME_MAX_BYTES {
                true => candidates.add(name, partitions),
                false => candidates.left_out += 1,
            }
        }
    }
    candidates
}

/// The partitions that a group has committed offsets of and that are served here.
async fn lags_of_group(node: &Arc<Node>, group: &WireString) -> Vec<PartitionLag> {
    let committed = committed_offsets(node, group).await;
    let mut lags = Vec::with_capacity(committed.len());
    for some in committed.chunks(AGES_AT_ONCE) {
        let (some, node) = (some.to_vec(), Arc::clone(node));
        let measure = move || -> Vec<PartitionLag> {
            let mut ages = UnreadAges::new(&node.age_unpacking, wall_clock(), AGES_TIME_MAX);
            let lags =
                some.into_iter().map(|(partition, offset)| lag(&partition, offset, &mut ages));
            lags.collect()
        };
        lags.extend(off_thread(measure).await);
    }
    for lag in &mut lags {
        lag.labels.group = group.to_string();
    }
    lags
}

async fn committed_offsets(node: &Arc<Node>, group: &WireString) -> Vec<(Arc<Replica>, Offset)> {
    let request = OffsetFetchRequestGroup {
        group_id: group.clone(),
        topics: None,
        ..OffsetFetchRequestGroup::default()
    };
    let body = RequestBody::OffsetFetch(request);
    let measuring = node.groups.measure(group, question(OFFSET_FETCH_VERSION, body));
    let Ok(question) = measuring.measured().await else { return Vec::new() };
    let held = Arc::new(node.memory.building.take(question.answer_bytes()).await);
    let answer = question.ask(Some(Arc::clone(&held))).reply().await;
    let Ok(Reply::OffsetFetch(fetched)) = answer else { return Vec::new() };
    let table = node.topics();
    let mut committed = Vec::new();
    for topic in &fetched.topics {
        let Ok(served) = table.by_name_or_id(&topic.name, topic.topic_id) else { continue };
        for partition in &topic.partitions {
            let id = PartitionId(partition.partition_index);
            if let (Ok(served), 0..) = (served.partition(id), partition.committed_offset) {
                committed.push((Arc::clone(served), Offset(partition.committed_offset)));
            }
        }
    }
    committed
}

/// The lag of a group that is named later. Waits for the disk.
fn lag(partition: &Replica, committed: Offset, ages: &mut UnreadAges<'_>) -> PartitionLag {
    let name = partition.topic_partition();
    let records = partition.high_watermark().get().0.saturating_sub(committed.0);
    let records = u64::try_from(records).unwrap_or(0);
    let seconds = match ages.of(partition, committed) {
        UnreadAge::Ms(ms) => Some(ms as f64 / 1_000.0),
        _ => None,
    };
    let labels = LagLabels {
        group: String::new(),
        topic: name.topic.to_string(),
        partition: name.partition.0,
    };
    PartitionLag { labels, records, seconds }
}

impl LagLabels {
    fn place(&self) -> (&str, &str, i32) {
        (&self.group, &self.topic, self.partition)
    }
}

/// A question that no client asks.
fn question(version: i16, body: RequestBody) -> Question {
    let client = Client { id: WireString::new(), host: WireString::new() };
    Question { version, client, body, held: Vec::new() }
}
