//! DescribeTopicPartitions: topics and their partitions in pages (KIP-966).
//!
//! Topics come in the order of their names. A page ends when it holds as many partitions as
//! allowed; its cursor names the first partition that it left out, where the next page begins.

use std::collections::BTreeSet;

use logway_metadata::TopicImage;
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use logway_wire::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};

use super::authorized_operations::NOT_ASKED;
use super::building::{ENTRY_WITH_MESSAGE_BYTES, PARTITION_BYTES, with_all};
use super::cluster_view::{
    ClusterView, PartitionView, absence, is_internal, leader_number, numbers,
};
use crate::request::RequestContext;
use logway_node::access::{Operation, Resource};

/// What has to be allowed to see a topic.
const OPERATION: Operation = Operation::Describe;

/// A page of partitions, and the topics that they are of or that are named.
pub(crate) fn built_bytes(
    context: &RequestContext,
    request: &DescribeTopicPartitionsRequest,
) -> usize {
    let partitions = partitions_max(context, request).min(context.sizes().partition_count());
    let named_bytes = request.topics.len() * ENTRY_WITH_MESSAGE_BYTES;
    with_all(context, named_bytes, partitions * (ENTRY_WITH_MESSAGE_BYTES + PARTITION_BYTES))
}

pub(crate) async fn handle(
    context: RequestContext,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    if !is_cursor_valid(&request) {
        return refused(request);
    }
    let partitions_max = partitions_max(&context, &request);
    let view = ClusterView::of(&context);
    let is_named = !request.topics.is_empty();
    let find = |name| match view.by_name(&context, name, OPERATION) {
        Err(ErrorCode::TopicAuthorizationFailed) => None,
        found => Some(found.ok()),
    };
    let all_from = |name| view.topics_from(&context, name, OPERATION);
    let wanted = topics_from_cursor(&request, find, all_from).map(|wanted| Wanted {
        topic: wanted.topic.and_then(|topic| view.served(topic)),
        ..wanted
    });
    let wanted = wanted.filter(|wanted| is_named || wanted.topic.is_some());
    let page = cut_page(wanted, partitions_max);
    let hidden = names_from_cursor(&request).filter(|name| find(name).is_none());

    let topics = page.topics.into_iter().map(|entry| {
        let told = match entry {
            Entry::Absent(name) => absent_topic(name),
            Entry::Present { topic, first, count } => existing_topic(&view, topic, first, count),
        };
        let name = told.name.as_deref().unwrap_or_default();
        let operations = context.authorized_operations(Resource::Topic(name));
        DescribeTopicPartitionsResponseTopic { topic_authorized_operations: operations, ..told }
    });
    DescribeTopicPartitionsResponse {
        topics: topics.chain(hidden.map(hidden_topic)).collect(),
        next_cursor: page.next,
        ..Default::default()
    }
}

/// How many partitions a page has at most.
fn partitions_max(context: &RequestContext, request: &DescribeTopicPartitionsRequest) -> usize {
    let asked_max = usize::try_from(request.response_partition_limit).unwrap_or(0);
    asked_max.min(context.settings().describe_partitions_max).max(1)
}

/// A cursor must name a partition of a topic that is asked for.
fn is_cursor_valid(request: &DescribeTopicPartitionsRequest) -> bool {
    let Some(cursor) = &request.cursor else { return true };
    let is_asked = |topics: &[_]| topics.is_empty() || names(request).contains(&*cursor.topic_name);
    cursor.partition_index >= 0 && is_asked(&request.topics)
}

/// There is no error for a request as a whole: each topic that it asks for gets it. One that asks for all is told at its
/// cursor's, or it would see nothing.
fn refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let mut names = names(&request);
    if names.is_empty() {
        names.extend(request.cursor.as_ref().map(|cursor| cursor.topic_name.as_str()));
    }
    let topics = names.into_iter().map(|name| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        ..named_topic(name)
    });
    DescribeTopicPartitionsResponse { topics: topics.collect(), ..Default::default() }
}

fn names(request: &DescribeTopicPartitionsRequest) -> BTreeSet<&str> {
    request.topics.iter().map(|topic| topic.name.as_str()).collect()
}

/// A topic to be listed, and from which partition on.
struct Wanted<'a> {
    name: &'a str,
    topic: Option<&'a TopicImage>,
    first: usize,
}

/// The topic where a page begins.
fn begin(request: &DescribeTopicPartitionsRequest) -> &str {
    request.cursor.as_ref().map_or("", |cursor| cursor.topic_name.as_str())
}

/// The names that are asked for, from the cursor on.
fn names_from_cursor(
    request: &DescribeTopicPartitionsRequest,
) -> impl Iterator<Item = &str> + use<'_> {
    names(request).into_iter().filter(|name| *name >= begin(request))
}

/// The topics that are asked for, all if none is named, from the cursor on. `find` says of a name whether there is such a
/// topic; `None` hides it.
fn topics_from_cursor<'a, I: Iterator<Item = &'a TopicImage> + 'a>(
    request: &'a DescribeTopicPartitionsRequest,
    find: impl Fn(&'a str) -> Option<Option<&'a TopicImage>> + 'a,
    all_from: impl FnOnce(&'a str) -> I,
) -> Box<dyn Iterator<Item = Wanted<'a>> + 'a> {
    let (cursor, begin) = (request.cursor.as_ref(), begin(request));
    let wanted = move |name: &'a str, topic: Option<&'a TopicImage>| {
        let cursor = cursor.filter(|_| name == begin);
        let first = cursor.and_then(|cursor| usize::try_from(cursor.partition_index).ok());
        Wanted { name, topic, first: first.unwrap_or(0) }
    };
    if request.topics.is_empty() {
        let topics = all_from(begin);
        return Box::new(topics.map(move |topic| wanted(topic.name.as_str(), Some(topic))));
    }
    let names = names_from_cursor(request);
    Box::new(names.filter_map(move |name| Some(wanted(name, find(name)?))))
}

struct Page<'a> {
    topics: Vec<Entry<'a>>,
    next: Option<Cursor>,
}

enum Entry<'a> {
    Absent(&'a str),
    Present { topic: &'a TopicImage, first: usize, count: usize },
}

/// Takes topics until the partitions that are allowed are used up.
fn cut_page<'a>(wanted: impl Iterator<Item = Wanted<'a>>, partitions_max: usize) -> Page<'a> {
    let mut page = Page { topics: Vec::new(), next: None };
    let mut left = partitions_max;
    for Wanted { name, topic, first } in wanted {
        if left == 0 {
            page.next = Some(cursor(name, 0));
            break;
        }
        let Some(topic) = topic else {
            page.topics.push(Entry::Absent(name));
            continue;
        };
        let available = topic.partitions.len().saturating_sub(first);
        let count = available.min(left);
        page.topics.push(Entry::Present { topic, first, count });
        left -= count;
        if count < available {
            page.next = Some(cursor(name, first + count));
            break;
        }
    }
    page
}

fn cursor(topic: &str, partition: usize) -> Cursor {
    Cursor {
        topic_name: WireString::copy_of(topic),
        partition_index: i32::try_from(partition).expect("partitions are numbered by i32"),
        ..Default::default()
    }
}

fn named_topic(name: &str) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        name: Some(WireString::copy_of(name)),
        is_internal: is_internal(name),
        topic_authorized_operations: NOT_ASKED,
        ..Default::default()
    }
}

fn absent_topic(name: &str) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic { error_code: absence(name).code(), ..named_topic(name) }
}

/// A topic that the requester may not describe: of what is there nothing is said.
fn hidden_topic(name: &str) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        is_internal: false,
        ..named_topic(name)
    }
}

fn existing_topic(
    view: &ClusterView,
    topic: &TopicImage,
    first: usize,
    count: usize,
) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        topic_id: topic.id.0,
        partitions: view.partitions_from(topic, first).take(count).map(partition).collect(),
        ..named_topic(topic.name.as_str())
    }
}

fn partition(view: PartitionView<'_>) -> DescribeTopicPartitionsResponsePartition {
    DescribeTopicPartitionsResponsePartition {
        partition_index: view.id.0,
        leader_id: leader_number(view.leader),
        leader_epoch: view.image.leader_epoch.0,
        replica_nodes: numbers(&view.image.replicas),
        isr_nodes: numbers(&view.image.isr),
        eligible_leader_replicas: Some(numbers(&view.image.eligible)),
        last_known_elr: Some(Vec::new()),
        offline_replicas: numbers(&view.offline_replicas),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use logway_metadata::MetadataImage;
    use logway_metadata::record::{MetadataRecord, PartitionRecord, TopicRecord};
    use logway_model::{BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName, Uuid};
    use logway_wire::messages::describe_topic_partitions_request::{
        Cursor as RequestCursor, TopicRequest,
    };

    use super::*;

    /// Topics `a` of 2 partitions, `b` of 3 and `c` of 1.
    fn image() -> MetadataImage {
        let mut records = Vec::new();
        for (id, name, partitions) in [(1, "a", 2), (2, "b", 3), (3, "c", 1)] {
            let topic_id = TopicId(Uuid([id; 16]));
            let name = TopicName::new(name).expect("a legal name");
            records.push(MetadataRecord::Topic(TopicRecord { name, id: topic_id }));
            records.extend((0..partitions).map(|partition| {
                MetadataRecord::Partition(PartitionRecord {
                    topic_id,
                    partition: PartitionId(partition),
                    replicas: vec![BrokerId(1)],
                    directories: Vec::new(),
                    isr: vec![BrokerId(1)],
                    eligible: Vec::new(),
                    reassignment: None,
                    leader: Some(BrokerId(1)),
                    leader_epoch: LeaderEpoch(0),
                    partition_epoch: 0,
                })
            }));
        }
        MetadataImage::default().apply(&records).expect("the records fit")
    }

    fn request(
        topics: &[&'static str],
        cursor: Option<(&'static str, i32)>,
    ) -> DescribeTopicPartitionsRequest {
        let topic = |&name: &&'static str| TopicRequest { name: name.into(), ..Default::default() };
        DescribeTopicPartitionsRequest {
            topics: topics.iter().map(topic).collect(),
            cursor: cursor.map(|(name, partition_index)| RequestCursor {
                topic_name: name.into(),
                partition_index,
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// What a page holds, as `topic first..end` or `topic ?`, and its cursor.
    fn page(request: &DescribeTopicPartitionsRequest, partitions_max: usize) -> String {
        let image = image();
        let find = |name: &str| Some(image.topic(name).map(|topic| &**topic));
        let all_from = |name| image.topics_from(name).map(|topic| &**topic);
        let page = cut_page(topics_from_cursor(request, find, all_from), partitions_max);
        let mut parts: Vec<String> = Vec::new();
        parts.extend(page.topics.iter().map(|entry| match entry {
            Entry::Absent(name) => format!("{name} ?"),
            Entry::Present { topic, first, count } => {
                format!("{} {first}..{}", topic.name, first + count)
            }
        }));
        parts.extend(
            page.next.map(|next| format!("> {} {}", &*next.topic_name, next.partition_index)),
        );
        parts.join(", ")
    }

    #[test]
    fn pages_follow_one_another_without_gaps() {
        assert_eq!(page(&request(&[], None), 10), "a 0..2, b 0..3, c 0..1");
        assert_eq!(page(&request(&[], None), 4), "a 0..2, b 0..2, > b 2");
        assert_eq!(page(&request(&[], Some(("b", 2))), 4), "b 2..3, c 0..1");
        assert_eq!(page(&request(&[], None), 2), "a 0..2, > b 0");
    }

    #[test]
    fn named_topics_come_sorted_and_once_also_those_that_do_not_exist() {
        assert_eq!(
            page(&request(&["c", "a", "zz", "b2", "a"], None), 10),
            "a 0..2, b2 ?, c 0..1, zz ?"
        );
        assert_eq!(page(&request(&["c", "a"], Some(("c", 0))), 10), "c 0..1");
    }

    #[test]
    fn a_cursor_behind_the_last_partition_or_a_deleted_topic_goes_on_with_the_next() {
        assert_eq!(
            page(&request(&[], Some(("a", i32::MAX))), 1),
            "a 2147483647..2147483647, b 0..1, > b 1"
        );
        assert_eq!(page(&request(&[], Some(("aa", 5))), 10), "b 0..3, c 0..1");
    }

    #[test]
    fn a_cursor_must_name_an_asked_topic_and_a_partition() {
        assert!(is_cursor_valid(&request(&["a"], Some(("a", 0)))));
        assert!(is_cursor_valid(&request(&[], Some(("gone", 3)))));
        assert!(!is_cursor_valid(&request(&["a"], Some(("b", 0)))));
        assert!(!is_cursor_valid(&request(&[], Some(("a", -1)))));
        assert_eq!(refused(request(&[], Some(("a", -1)))).topics.len(), 1);
    }
}
