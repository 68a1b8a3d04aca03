//! What comes of a leader's answer: appends, cuts, and what is committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use logway_log::checkpoint::EpochEnd;
use logway_log::{FollowerBatches, LogDir, LogError, Truncation};
use logway_model::{DirectoryId, LeaderEpoch, Offset, TopicPartition};
use logway_replication::message::LedPartition;
use logway_replication::{FollowerStep, LeaderAnswer, after_answer};
use tokio::time::sleep;

use crate::Node;
use crate::cluster::Mutation;
use crate::replica::Replica;
use crate::tasks::off_thread;

/// A replica, and the epoch in which it followed when its leader was asked.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) replica: Arc<Replica>,
    pub(super) epoch: LeaderEpoch,
    /// What it asked for.
    pub(super) end: Offset,
}

/// When a partition is asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// With the next request.
    AtOnce,
    /// After a pause.
    Later,
}

/// What came of an answer.
pub(super) struct Followed {
    /// For each partition when to tell the leader of it again.
    pub(super) next: Vec<Next>,
    /// What could not be copied, and why.
    pub(super) failed: Vec<(TopicPartition, String)>,
}

/// What an answer has for the logs of one directory.
#[derive(Default)]
struct Work {
    appends: Vec<(usize, FollowerBatches)>,
    truncations: Vec<(usize, Cut)>,
}

#[derive(Debug, Clone, Copy)]
enum Cut {
    To(Offset),
    StartAt(Offset),
}

/// Does what an answer says of these, one for one. When this returns, what was appended is flushed where its topic is
/// durable.
pub(super) async fn follow(node: &Node, asked: &[Asked], answer: Vec<LedPartition>) -> Followed {
    let mut followed = Followed { next: vec![Next::AtOnce; asked.len()], failed: Vec::new() };
    let Followed { next, failed } = &mut followed;
    let mut by_directory: BTreeMap<DirectoryId, Work> = BTreeMap::new();
    let mut committed = Vec::new();
    for (index, (of, part)) in asked.iter().zip(answer).enumerate() {
        let said = LeaderAnswer {
            error: part.error,
            diverging: part.diverging,
            high_watermark: part.high_watermark,
            log_start: part.log_start,
        };
        let log = of.replica.log();
        let point = |epoch, end_offset| log.truncation_point(EpochEnd { epoch, end_offset }).offset;
        let work = by_directory.entry(of.replica.directory()).or_default();
        match after_answer(said, point) {
            FollowerStep::Append { high_watermark, log_start } => {
                committed.push((index, high_watermark, log_start));
                if part.records.is_empty() {
                    continue;
                }
                let partition = of.replica.topic_partition();
                match FollowerBatches::parse(partition, of.epoch, of.end, part.records) {
                    Ok(batches) if batches.is_empty() => {}
                    Ok(batches) => work.appends.push((index, batches)),
                    Err(error) => {
                        let error = format!("the leader has sent what is no batch: {error}");
                        failed.push((partition.clone(), error));
                        next[index] = Next::Later;
                    }
                }
            }
            FollowerStep::Truncate(end) => work.truncations.push((index, Cut::To(end))),
            FollowerStep::StartAt(start) => work.truncations.push((index, Cut::StartAt(start))),
            // The leader is another, or it is behind with the metadata: the next request goes to whom they name then.
            FollowerStep::AwaitMetadata | FollowerStep::Retry => next[index] = Next::Later,
        }
    }
    for (directory, work) in by_directory {
        let Some(dir) = node.log_dirs.by_id(directory) else {
            let indexes = work.appends.iter().map(|(index, _)| index);
            let cut = work.truncations.iter().map(|(index, _)| index);
            indexes.chain(cut).for_each(|index| next[*index] = Next::Later);
            continue;
        };
        let is_waited_for = !node.breaks(Mutation::TellsBeforeFlush);
        failed.extend(append(&dir, asked, work.appends, next, is_waited_for).await);
        cut(&dir, asked, work.truncations, next).await;
    }
    for (index, high_watermark, log_start) in committed {
        asked[index].replica.on_answer(asked[index].epoch, high_watermark, log_start);
    }
    followed
}

/// Appends to logs of one directory, in one round, and waits until all of it is as safe as its topics want it. Returns what
/// could not be appended, and why.
async fn append(
    dir: &Arc<LogDir>,
    asked: &[Asked],
    appends: Vec<(usize, FollowerBatches)>,
    next: &mut [Next],
    is_waited_for: bool,
) -> Vec<(TopicPartition, String)> {
    let mut failed = Vec::new();
    let (mut indexes, mut answers) = (Vec::new(), Vec::new());
    {
        let (mut held, mut to_logs) = (Vec::new(), Vec::new());
        for (index, batches) in appends {
            let Asked { replica, epoch, .. } = &asked[index];
            match replica.hold_following(*epoch) {
                Some(hold) if replica.directory() == dir.directory_id() => {
                    held.push(hold);
                    to_logs.push((replica.log(), batches));
                    indexes.push(index);
                }
                // It has another role now, or is on its way to another directory.
                _ => next[index] = Next::Later,
            }
        }
        if !to_logs.is_empty() {
            answers = dir.append_followed(to_logs);
        }
    }
    if !is_waited_for {
        // It is written meanwhile, and perhaps not flushed.
        sleep(Duration::from_millis(1)).await;
        return failed;
    }
    for (index, answer) in indexes.into_iter().zip(answers) {
        let Asked { replica, .. } = &asked[index];
        match answer.await {
            Ok(_) => {}
            Err(error) => {
                next[index] = Next::Later;
                match error {
                    LogError::EpochOver { .. } | LogError::Closed { .. } => {}
                    // An empty log whose leader begins in the middle of a batch begins with that batch.
                    LogError::OffsetNotNext { got, end, .. } if got < end => {
                        let empty = replica.log().log_start_offset() == end;
                        if empty {
                            cut(dir, asked, vec![(index, Cut::StartAt(got))], next).await;
                        }
                    }
                    error => failed.push((replica.topic_partition().clone(), error.to_string())),
                }
            }
        }
    }
    failed
}

/// Cuts logs off at the high watermark that they know, which no follower does.
pub(super) async fn cut_to_watermark(node: &Node, asked: Vec<Asked>) {
    for asked in asked {
        let Some(dir) = node.log_dirs.by_id(asked.replica.directory()) else { continue };
        let known = asked.replica.high_watermark().get();
        if known < asked.replica.log().log_end_offset() {
            cut(&dir, &[asked], vec![(0, Cut::To(known))], &mut [Next::AtOnce]).await;
        }
    }
}

/// Cuts off logs of one directory.
async fn cut(dir: &Arc<LogDir>, asked: &[Asked], cuts: Vec<(usize, Cut)>, next: &mut [Next]) {
    if cuts.is_empty() {
        return;
    }
    let (dir, asked) = (Arc::clone(dir), asked.to_vec());
    let outcomes = off_thread(move || cut_here(&dir, &asked, cuts)).await;
    outcomes.into_iter().for_each(|index| next[index] = Next::Later);
}

/// Returns those that were not cut.
fn cut_here(dir: &LogDir, asked: &[Asked], cuts: Vec<(usize, Cut)>) -> Vec<usize> {
    let (mut held, mut truncations, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (index, to) in cuts {
        let Asked { replica, epoch, .. } = &asked[index];
        let Some(hold) = replica.hold_following(*epoch) else {
            failed.push(index);
            continue;
        };
        let log = replica.log();
        truncations.push(match to {
            Cut::To(end) => Truncation::to_end_at(&log, end, *epoch),
            Cut::StartAt(start) => Truncation::restart_at(&log, start, *epoch),
        });
        let (partition, from) = (replica.topic_partition(), log.log_end_offset());
        tracing::info!(%partition, epoch = epoch.0, %from, ?to,
            "the leader has other records than this replica: its log is cut off");
        held.push((index, hold));
    }
    for ((index, hold), outcome) in held.into_iter().zip(dir.truncate(&truncations)) {
        hold.was_cut_off();
        if let Err(error) = outcome {
            let partition = asked[index].replica.topic_partition();
            tracing::warn!(%partition, %error, "a follower's log is not cut off yet");
            failed.push(index);
        }
    }
    failed
}
