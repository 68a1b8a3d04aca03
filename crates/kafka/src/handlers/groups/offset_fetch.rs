//! OffsetFetch: how far groups have read.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::time::Duration;

use logway_coordinator::{Reply, RequestBody, offset_fetch_groups, offset_fetch_response};
use logway_model::{ErrorCode, Offset, PartitionId};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use logway_wire::messages::{OffsetFetchRequest, OffsetFetchResponse};
use logway_wire::{Decoder, UnreadAge, WireString};

use super::topic_names::{BY_TOPIC_ID_FROM, topic_of};
use super::{expect_reply, question};
use crate::handlers::building::ENTRY_BYTES;
use crate::handlers::measured::{self, Part, QUESTION_BYTES, ToldPart, TooLarge, ask_measured};
use crate::request::{KnownTopics, RequestContext, RequestError, Work};
use logway_node::access::Operation;
use logway_node::groups::Measuring;
use logway_node::memory::Held;
use logway_node::tasks::off_thread;

const NO_OFFSET: i64 = -1;

/// What offsets tell of a topic.
const OPERATION: Operation = Operation::Describe;

/// How long ages are looked for. Those that are not found by then are unknown.
const AGES_TIME_MAX: Duration = Duration::from_secs(2);

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    measured::prepare(context, body, built_bytes, start)
}

/// What is asked. Where the version has a list of groups, the list of topics beside it is empty.
fn built_bytes(request: &OffsetFetchRequest) -> usize {
    let named = |partitions: usize| partitions * ENTRY_BYTES;
    let topics = request.topics.iter().flatten();
    let of_one = named(topics.map(|topic| topic.partition_indexes.len()).sum());
    let of_many = request.groups.iter().map(|group| {
        let topics = group.topics.iter().flatten();
        QUESTION_BYTES + named(topics.map(|topic| topic.partition_indexes.len()).sum())
    });
    of_one + of_many.sum::<usize>()
}

fn start(
    context: &RequestContext,
    request: OffsetFetchRequest,
) -> impl Future<Output = (OffsetFetchResponse, Held)> + use<> {
    let version = context.version;
    let topics = context.known_topics();
    let Mentions { groups, places } = Mentions::of(offset_fetch_groups(&request, version));
    let is_stable = request.require_stable;
    let measure =
        |(group, mentions)| AskedGroup::measure(context, &topics, group, is_stable, mentions);
    let parts = groups.into_iter().map(measure).collect();
    let context = context.clone();
    async move {
        let (told, held) = ask_measured(&context, parts, TooLarge::TellInParts).await;
        let mentions: Vec<_> = told.iter().map(|part| part.mentions).collect();
        let finish = |part: ToldPart<AskedGroup>| part.about.finish(&context, &topics, part.answer);
        let mut groups = told.into_iter().map(finish).collect();
        if UnreadAge::is_asked_in(&request.unknown_tagged_fields) {
            groups = off_thread(move || with_ages(&context, groups)).await;
        }
        let groups = tell_each_mention(&places, groups, mentions);
        (offset_fetch_response(&request, version, groups), held)
    }
}

/// The groups that a request names. Those of which it wants everything are asked for once, however often they are
/// named: a few bytes of a request would cost their shard a look at all their offsets each time.
struct Mentions {
    /// With how often each is named.
    groups: Vec<(OffsetFetchRequestGroup, usize)>,
    /// For each mention, its place among them.
    places: Vec<usize>,
}

impl Mentions {
    fn of(named: Vec<OffsetFetchRequestGroup>) -> Mentions {
        let mut mentions = Mentions { groups: Vec::new(), places: Vec::with_capacity(named.len()) };
        let mut whole = HashMap::new();
        for group in named {
            let next = mentions.groups.len();
            let place = match &group.topics {
                None => *whole.entry(group.group_id.clone()).or_insert(next),
                Some(_) => next,
            };
            match mentions.groups.get_mut(place) {
                Some((_, count)) => *count += 1,
                None => mentions.groups.push((group, 1)),
            }
            mentions.places.push(place);
        }
        mentions
    }
}

/// The answer to each mention, as Kafka gives it, as often as there is memory to tell a group.
fn tell_each_mention(
    places: &[usize],
    groups: Vec<OffsetFetchResponseGroup>,
    mut mentions: Vec<usize>,
) -> Vec<OffsetFetchResponseGroup> {
    if places.len() == groups.len() {
        return groups;
    }
    let tell = |&place: &usize| match mentions[place].checked_sub(1) {
        Some(left) => {
            mentions[place] = left;
            groups[place].clone()
        }
        None => OffsetFetchResponseGroup {
            group_id: groups[place].group_id.clone(),
            error_code: ErrorCode::CoordinatorLoadInProgress.code(),
            ..Default::default()
        },
    };
    places.iter().map(tell).collect()
}

/// Adds to each committed offset how long what comes after it has been waiting. Of partitions that another broker leads
/// nothing is said, so that clients ask that one.
fn with_ages(
    context: &RequestContext,
    mut groups: Vec<OffsetFetchResponseGroup>,
) -> Vec<OffsetFetchResponseGroup> {
    let served_topics = context.served_topics();
    let mut ages = context.unread_ages(AGES_TIME_MAX);
    for topic in groups.iter_mut().flat_map(|group| &mut group.topics) {
        let (name, id) = (&topic.name, topic.topic_id);
        let served = served_topics.by_name_or_id(context, name, id, OPERATION);
        for partition in &mut topic.partitions {
            let id = PartitionId(partition.partition_index);
            let age = match served.and_then(|served| served.partition(id)) {
                Err(ErrorCode::NotLeaderOrFollower) => continue,
                Ok(served) if partition.committed_offset >= 0 => {
                    ages.of(served, Offset(partition.committed_offset))
                }
                _ => UnreadAge::Unknown,
            };
            partition.unknown_tagged_fields.push(age.answer());
        }
    }
    groups
}

/// A group that was asked for.
struct AskedGroup {
    group_id: WireString,
    /// Whether it is asked for all its topics.
    is_whole: bool,
    /// The topics that do not exist, or are not for the requester.
    unknown: Vec<(OffsetFetchRequestTopics, ErrorCode)>,
}

impl AskedGroup {
    fn measure(
        context: &RequestContext,
        known: &KnownTopics,
        mut group: OffsetFetchRequestGroup,
        is_stable: bool,
        mentions: usize,
    ) -> Part<AskedGroup> {
        let group_id = group.group_id.clone();
        let permitted = match context.group(&group_id, Operation::Describe) {
            Ok(permitted) => permitted,
            Err(code) => {
                let is_whole = group.topics.is_none();
                let about = AskedGroup { group_id, is_whole, unknown: Vec::new() };
                return Part { about, measuring: Measuring::refused(code), mentions };
            }
        };
        let mut unknown = Vec::new();
        if let Some(topics) = group.topics.take() {
            let name = |topic| with_both_names(context, known, topic, &mut unknown);
            group.topics = Some(each_once(topics.into_iter().filter_map(name).collect()));
        }
        let is_whole = group.topics.is_none();
        let body = match is_stable {
            true => RequestBody::StableOffsetFetch(group),
            false => RequestBody::OffsetFetch(group),
        };
        let measuring = permitted.measure(question(context, body));
        Part { about: AskedGroup { group_id, is_whole, unknown }, measuring, mentions }
    }

    fn finish(
        self,
        context: &RequestContext,
        known: &KnownTopics,
        answer: Result<Reply, ErrorCode>,
    ) -> OffsetFetchResponseGroup {
        let AskedGroup { group_id, is_whole, unknown } = self;
        let mut group = match answer {
            Ok(reply) => expect_reply!(reply, OffsetFetch),
            Err(code) => {
                OffsetFetchResponseGroup { group_id, error_code: code.code(), ..Default::default() }
            }
        };
        // As in Kafka: what is wrong with the group is said once.
        if group.error_code != ErrorCode::None.code() {
            return group;
        }
        if is_whole {
            keep_current(context, known, &mut group.topics);
        }
        let unknown = unknown.into_iter();
        group.topics.extend(unknown.map(|(topic, code)| failed_topic(topic, code.code())));
        group
    }
}

/// Each partition once, however often it is named: clients look partitions up by number.
fn each_once(mut topics: Vec<OffsetFetchRequestTopics>) -> Vec<OffsetFetchRequestTopics> {
    let mut seen = HashSet::new();
    for topic in &mut topics {
        topic.partition_indexes.retain(|index| seen.insert((topic.name.clone(), *index)));
    }
    topics
}

/// Takes out offsets of topics that were deleted, where the request has not named topics itself:
/// those of an earlier topic of the same name, and, where topics are known by id, those of one that
/// is no more. So do those that the requester may not describe.
fn keep_current(
    context: &RequestContext,
    known: &KnownTopics,
    topics: &mut Vec<OffsetFetchResponseTopics>,
) {
    topics.retain_mut(|topic| match known.by_name(context, &topic.name, OPERATION) {
        Ok(known) if topic.topic_id.is_zero() || topic.topic_id == known.id.0 => {
            topic.topic_id = known.id.0;
            true
        }
        Err(ErrorCode::UnknownTopicOrPartition) => context.version < BY_TOPIC_ID_FROM,
        _ => false,
    });
    topics.dedup_by(|next, last| {
        let is_same = next.name == last.name;
        if is_same {
            last.partitions.append(&mut next.partitions);
        }
        is_same
    });
}

/// The topic under its name and its id; one that does not exist has offsets by name, if they have
/// not been looked through yet, but not by id.
fn with_both_names(
    context: &RequestContext,
    known: &KnownTopics,
    mut topic: OffsetFetchRequestTopics,
    unknown: &mut Vec<(OffsetFetchRequestTopics, ErrorCode)>,
) -> Option<OffsetFetchRequestTopics> {
    match topic_of(context, known, &topic.name, topic.topic_id, OPERATION) {
        Ok(known) => {
            topic.name = WireString::copy_of(known.name.as_str());
            topic.topic_id = known.id.0;
            Some(topic)
        }
        Err(ErrorCode::UnknownTopicOrPartition) => Some(topic),
        Err(code) => {
            unknown.push((topic, code));
            None
        }
    }
}

fn failed_topic(topic: OffsetFetchRequestTopics, error_code: i16) -> OffsetFetchResponseTopics {
    let partitions = topic.partition_indexes.into_iter();
    OffsetFetchResponseTopics {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: partitions
            .map(|partition_index| OffsetFetchResponsePartitions {
                partition_index,
                committed_offset: NO_OFFSET,
                metadata: Some(WireString::new()),
                error_code,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}
