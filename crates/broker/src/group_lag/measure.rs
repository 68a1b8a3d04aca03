//! One measurement of all groups.

use std::sync::Arc;
use std::time::{Duration, Instant};

use logway_coordinator::{Client, Reply, RequestBody};
use logway_model::{Offset, PartitionId};
use logway_wire::messages::ListGroupsRequest;
use logway_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use logway_wire::{UnreadAge, WireString};
use prometheus_client::encoding::EncodeLabelSet;

use crate::Broker;
use crate::broker::off_thread;
use crate::groups::{Question, UnreadAges};
use crate::partition::Partition;

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
    /// Asks for the offsets of all groups, in the order of their names, as long as there is room
    /// for their partitions. A group is shown with all its partitions or not at all.
    pub(super) async fn take(broker: &Arc<Broker>, partitions_max: usize) -> Measurement {
        let mut names = group_names(broker).await;
        let count = names.len();
        names.retain(|name| name.len() <= NAME_MAX_BYTES);
        names.sort_unstable();
        let (mut lags, mut shown) = (Vec::new(), 0);
        for name in names {
            let room = partitions_max - lags.len();
            if room == 0 {
                break;
            }
            let of_group = lags_of_group(broker, &name).await;
            if of_group.len() <= room {
                lags.extend(of_group);
                shown += 1;
            }
        }
        Measurement { at: Instant::now(), lags, groups_left_out: count - shown }
    }
}

async fn group_names(broker: &Arc<Broker>) -> Vec<WireString> {
    let all =
        || question(LIST_GROUPS_VERSION, RequestBody::ListGroups(ListGroupsRequest::default()));
    let mut names = Vec::new();
    for measuring in broker.groups.measure_all(all) {
        // A shard that is loading or has gone has no groups to show.
        let Ok(question) = measuring.measured().await else { continue };
        if let Ok(Reply::ListGroups(listed)) = question.ask(None).reply().await {
            names.extend(listed.groups.into_iter().map(|group| group.group_id));
        }
    }
    names
}

/// The partitions that a group has committed offsets of and that are served here.
async fn lags_of_group(broker: &Arc<Broker>, group: &WireString) -> Vec<PartitionLag> {
    let committed = committed_offsets(broker, group).await;
    let mut lags = Vec::with_capacity(committed.len());
    for some in committed.chunks(AGES_AT_ONCE) {
        let (some, broker) = (some.to_vec(), Arc::clone(broker));
        let measure = move || -> Vec<PartitionLag> {
            let mut ages = UnreadAges::new(&broker.age_unpacking, broker.now(), AGES_TIME_MAX);
            let lags =
                some.into_iter().map(|(partition, offset)| lag(&partition, offset, &mut ages));
            lags.collect()
        };
        lags.extend(off_thread(measure).await);
    }
    for lag in &mut lags {
        lag.labels.group = group.to_string();
    }
    lags.sort_unstable_by(|a, b| a.labels.place().cmp(&b.labels.place()));
    lags
}

async fn committed_offsets(
    broker: &Arc<Broker>,
    group: &WireString,
) -> Vec<(Arc<Partition>, Offset)> {
    let request = OffsetFetchRequestGroup {
        group_id: group.clone(),
        topics: None,
        ..OffsetFetchRequestGroup::default()
    };
    let body = RequestBody::OffsetFetch(request);
    let pending = broker.groups.ask(group, question(OFFSET_FETCH_VERSION, body));
    let Ok(Reply::OffsetFetch(fetched)) = pending.reply().await else { return Vec::new() };
    let table = broker.topics();
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
fn lag(partition: &Partition, committed: Offset, ages: &mut UnreadAges<'_>) -> PartitionLag {
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
    fn place(&self) -> (&str, i32) {
        (&self.topic, self.partition)
    }
}

/// A question that no client asks.
fn question(version: i16, body: RequestBody) -> Question {
    let client = Client { id: WireString::new(), host: WireString::new() };
    Question { version, client, body, held: Vec::new() }
}
