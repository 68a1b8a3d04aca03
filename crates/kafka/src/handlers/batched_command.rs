//! Requests about many things, each of which is accepted or refused by itself.

use std::time::Duration;

use logway_metadata::controller::COMMAND_RECORDS_MAX;
use logway_metadata::{Command, ControllerError};
use tokio::time::Instant;

use crate::request::RequestContext;
use logway_node::failure::Failure;

/// The time that a request gives its work. Without any the work is begun, and the answer is that it
/// is not done in time, as in Kafka.
pub(super) fn time_max(timeout_ms: i32) -> Option<Duration> {
    Some(Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0)))
}

/// Submits one command for the things that the handler found nothing wrong with, and returns one
/// result for each thing, in order. When the command as a whole fails, or takes more than
/// `time_max`, each of its things does.
pub(super) async fn submit_each<T, C, R>(
    context: &RequestContext,
    time_max: Option<Duration>,
    things: Vec<Result<T, Failure>>,
    command: impl FnOnce(Vec<T>) -> C,
) -> Vec<Result<R, Failure>>
where
    C: Command<Reply = Vec<Result<R, ControllerError>>>,
{
    let (accepted, refused) = split(things);
    let count = accepted.len();
    let replies: Vec<Result<R, Failure>> = match count {
        0 => Vec::new(),
        _ => match context.submit(command(accepted), time_max).await {
            Ok(replies) => replies.into_iter().map(|reply| reply.map_err(Failure::from)).collect(),
            Err(failure) => (0..count).map(|_| Err(failure.clone())).collect(),
        },
    };
    merge(refused, replies)
}

/// As [`submit_each`], of things that nothing is wrong with: as many at a time as one command can have. `time_max` is for all
/// of them together.
pub(super) async fn submit_in_parts<T: Clone, C, R>(
    context: &RequestContext,
    time_max: Option<Duration>,
    things: &[T],
    command: impl Fn(Vec<T>) -> C,
) -> Vec<Result<R, Failure>>
where
    C: Command<Reply = Vec<Result<R, ControllerError>>>,
{
    let deadline = time_max.map(|time_max| Instant::now() + time_max);
    let mut results = Vec::with_capacity(things.len());
    for part in things.chunks(COMMAND_RECORDS_MAX) {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let part = part.iter().cloned().map(Ok).collect();
        results.extend(submit_each(context, left, part, &command).await);
    }
    results
}

/// The things that are accepted; and for all things in order, why they are not.
fn split<T>(things: Vec<Result<T, Failure>>) -> (Vec<T>, Vec<Option<Failure>>) {
    let mut accepted = Vec::with_capacity(things.len());
    let mut accept = |thing| match thing {
        Ok(thing) => {
            accepted.push(thing);
            None
        }
        Err(failure) => Some(failure),
    };
    let refused = things.into_iter().map(&mut accept).collect();
    (accepted, refused)
}

fn merge<R>(
    refused: Vec<Option<Failure>>,
    replies: Vec<Result<R, Failure>>,
) -> Vec<Result<R, Failure>> {
    let mut replies = replies.into_iter();
    let mut next = || replies.next().expect("a command answers each of its things");
    refused.into_iter().map(|refusal| refusal.map_or_else(&mut next, Err)).collect()
}

#[cfg(test)]
mod tests {
    use logway_model::ErrorCode;

    use super::*;

    #[test]
    fn results_come_back_in_the_order_of_the_things() {
        let refusal = Failure::new(ErrorCode::InvalidRequest, "no");
        let things = vec![Ok('a'), Err(refusal.clone()), Ok('b'), Err(refusal.clone())];
        let (accepted, refused) = split(things);
        assert_eq!(accepted, ['a', 'b']);
        let replies = accepted.into_iter().map(|thing| Ok(thing.to_ascii_uppercase())).collect();
        let expected = vec![Ok('A'), Err(refusal.clone()), Ok('B'), Err(refusal)];
        assert_eq!(merge(refused, replies), expected);
    }
}
