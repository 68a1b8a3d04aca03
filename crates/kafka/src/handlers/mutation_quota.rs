//! Requests that make or delete partitions, within their client's quota (KIP-599).

use std::time::Duration;

use logway_metadata::controller::{COMMAND_RECORDS_MAX, Command, ControllerError};
use logway_model::ErrorCode;

use super::batched_command::submit_each;
use crate::request::{OverQuota, RequestContext};
use logway_node::failure::Failure;

/// One thing of a request, and how many partitions it makes or deletes if it succeeds.
pub(super) type Mutation<T> = (Result<T, Failure>, u32);

/// The number of partitions of a list, as mutations are counted.
pub(super) fn partition_count(partitions: usize) -> u32 {
    u32::try_from(partitions).unwrap_or(u32::MAX)
}

/// How many partitions a request makes that asks for so many. It is none if they are more than can
/// be made at once: that is refused, and who asks for billions shall not owe them.
pub(super) fn made_count(partitions: i64) -> u32 {
    match usize::try_from(partitions) {
        Ok(count) if count <= COMMAND_RECORDS_MAX => partition_count(count),
        _ => 0,
    }
}

/// As [`submit_each`], for things that the client's quota allows; the others fail with
/// `THROTTLING_QUOTA_EXCEEDED`, or are done and the client waits.
pub(super) async fn submit_within_quota<T, C, R>(
    context: &RequestContext,
    over: OverQuota,
    time_max: Option<Duration>,
    things: Vec<Mutation<T>>,
    command: impl FnOnce(Vec<T>) -> C,
) -> Vec<Result<R, Failure>>
where
    C: Command<Reply = Vec<Result<R, ControllerError>>>,
{
    let mut taken = vec![0; things.len()];
    let take = |((thing, partitions), taken): (Mutation<T>, &mut u32)| {
        if let (Ok(_), Some(charge), 1..) = (&thing, &context.charge, partitions) {
            charge.take_mutations(partitions, over)?;
            *taken = partitions;
        }
        thing
    };
    let things = things.into_iter().zip(&mut taken).map(take).collect();
    let results = submit_each(context, time_max, things, command).await;

    // What is late may still be done.
    let is_undone = |result: &Result<R, Failure>| matches!(result, Err(failure) if failure.code != ErrorCode::RequestTimedOut);
    let undone = results.iter().zip(taken).filter(|(result, _)| is_undone(result));
    let undone = undone.fold(0_u32, |sum, (_, partitions)| sum.saturating_add(partitions));
    if let Some(charge) = &context.charge {
        charge.settle_mutations(undone, over);
    }
    results
}
