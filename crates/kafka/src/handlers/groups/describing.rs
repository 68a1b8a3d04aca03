//! Descriptions of groups: of any kind, one question to the shard and one right for each group.

use std::collections::HashSet;
use std::future::Future;

use logway_coordinator::{Reply as ShardOutcome, RequestBody};
use logway_model::ErrorCode;
use logway_wire::WireString;

use super::question;
use crate::handlers::authorized_operations::NOT_ASKED;
use crate::handlers::measured::{Part, ToldPart, TooLarge, ask_measured};
use crate::request::RequestContext;
use logway_node::access::{Operation, Resource};
use logway_node::groups::Measuring;
use logway_node::memory::Held;

/// Kafka's sentence, which names no topic.
const HIDDEN_TOPICS: &str =
    "The group has described topic(s) that the client is not authorized to describe.";

/// A group, as one of the APIs describes it.
pub(super) trait Described: Send + Sized + 'static {
    /// One that is not described, and why.
    fn refused(group_id: WireString, code: ErrorCode, message: Option<&'static str>) -> Self;

    /// Those of a shard's answer.
    fn of_outcome(outcome: ShardOutcome) -> Vec<Self>;

    fn group_id(&self) -> &WireString;

    fn error_code(&self) -> i16;

    /// The topics that it names in its own right. Who may not describe one of them is told nothing of the group.
    fn named_topics(&self) -> HashSet<&str>;

    fn set_authorized_operations(&mut self, operations: i32);
}

/// What is asked of a shard.
pub(super) struct Asked {
    /// The groups, which may be named more than once.
    pub(super) groups: Vec<WireString>,
    /// The question about one of them.
    pub(super) body: fn(Vec<WireString>) -> RequestBody,
    /// Whether groups of the kind are served.
    pub(super) is_served: bool,
    /// Whether what the requester may do with a group is told.
    pub(super) tells_operations: bool,
}

/// Describes each group once, however often it is named: clients look groups up by name.
pub(super) fn describe<G: Described>(
    context: &RequestContext,
    asked: Asked,
) -> impl Future<Output = (Vec<G>, Held)> + use<G> {
    let Asked { groups, body, is_served, tells_operations } = asked;
    let mut seen = HashSet::new();
    let groups = groups.into_iter().filter(|group| seen.insert(group.clone()));
    let parts = groups.map(|group| {
        let measuring = match context.group(&group, Operation::Describe) {
            _ if !is_served => Measuring::refused(ErrorCode::UnsupportedVersion),
            Ok(permitted) => permitted.measure(question(context, body(vec![group.clone()]))),
            Err(code) => Measuring::refused(code),
        };
        Part { about: group, measuring, mentions: 1 }
    });
    let parts = parts.collect();
    let context = context.clone();
    async move {
        let (told, held) = ask_measured(&context, parts, TooLarge::TellInParts).await;
        let mut groups = Vec::with_capacity(told.len());
        for ToldPart { about: group_id, answer, .. } in told {
            match answer {
                Ok(outcome) => groups.extend(G::of_outcome(outcome)),
                Err(code) => groups.push(G::refused(group_id, code, None)),
            }
        }
        let shown = groups.into_iter().map(|group| shown(&context, group, tells_operations));
        (shown.collect(), held)
    }
}

/// The group as the requester may see it: all of it, or nothing if it may not know one of the topics.
fn shown<G: Described>(context: &RequestContext, mut group: G, tells_operations: bool) -> G {
    if group.error_code() != 0 {
        return group;
    }
    let may_see = |topic: &str| context.may(Operation::Describe, Resource::Topic(topic));
    if context.has_acls() && !group.named_topics().into_iter().all(may_see) {
        let code = ErrorCode::TopicAuthorizationFailed;
        return G::refused(group.group_id().clone(), code, Some(HIDDEN_TOPICS));
    }
    group.set_authorized_operations(match tells_operations {
        true => context.authorized_operations(Resource::Group(group.group_id())),
        false => NOT_ASKED,
    });
    group
}
