//! What a follower does with what its leader says.

use logway_model::{ErrorCode, LeaderEpoch, Offset};

/// Where a follower stands: what it asks its leader with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerPosition {
    /// Its log begins here.
    pub log_start: Offset,
    /// Its log ends here.
    pub log_end: Offset,
    /// The epoch of its last record; [`LeaderEpoch::NONE`] for an empty log.
    pub last_epoch: LeaderEpoch,
}

/// What a leader answers about one partition, without the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderAnswer {
    /// Whether it could answer.
    pub error: ErrorCode,
    /// The last epoch that both can have in common, and where it ends in the leader's log (KIP-595); `None` if
    /// the follower's log is the beginning of the leader's.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Its high watermark.
    pub high_watermark: Offset,
    /// Where its log begins.
    pub log_start: Offset,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowerStep {
    /// Append the records, if any, and ask on. What is committed ends at `high_watermark`; what is before
    /// `log_start` is deleted.
    Append {
        /// Never beyond the follower's own log after the append: it has to be bounded by that.
        high_watermark: Offset,
        /// As the leader says.
        log_start: Offset,
    },
    /// Cut the log off here and ask again.
    Truncate(Offset),
    /// The log has nothing that the leader still has: begin anew here.
    StartAt(Offset),
    /// The leader is another, or of another epoch: ask nobody until the metadata says whom.
    AwaitMetadata,
    /// Ask again after a while.
    Retry,
}

/// What a follower does after an answer.
///
/// `own_end_of` tells the last epoch of the follower's log that is not newer than the one asked for, and where it ends
/// there; `None` if it has no such epoch.
pub fn after_answer(
    position: FollowerPosition,
    answer: LeaderAnswer,
    own_end_of: impl Fn(LeaderEpoch) -> Option<(LeaderEpoch, Offset)>,
) -> FollowerStep {
    match answer.error {
        ErrorCode::None => {}
        // The leader has deleted what comes next, or has less than the follower and no common epoch.
        ErrorCode::OffsetOutOfRange => return FollowerStep::StartAt(answer.log_start),
        ErrorCode::NotLeaderOrFollower
        | ErrorCode::FencedLeaderEpoch
        | ErrorCode::UnknownTopicId
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::InconsistentTopicId => return FollowerStep::AwaitMetadata,
        // The leader is behind with the metadata, or its disk has failed: both can pass.
        _ => return FollowerStep::Retry,
    }
    match answer.diverging {
        Some(diverging) => match truncation_point(position, diverging, own_end_of) {
            point if point < position.log_start => FollowerStep::StartAt(point),
            point => FollowerStep::Truncate(point),
        },
        None => FollowerStep::Append {
            high_watermark: answer.high_watermark,
            log_start: answer.log_start,
        },
    }
}

/// Where a follower cuts its log off that has learned where its leader's log diverges (KIP-101, KIP-279).
///
/// Behind the end of the common epoch nothing of the follower's is in the leader's log. If the follower does not know
/// the leader's epoch, its own last epoch before that may go on longer than the leader's: it is cut to what can be common
/// and asks again.
pub fn truncation_point(
    position: FollowerPosition,
    diverging: (LeaderEpoch, Offset),
    own_end_of: impl Fn(LeaderEpoch) -> Option<(LeaderEpoch, Offset)>,
) -> Offset {
    let (epoch, end) = diverging;
    match own_end_of(epoch) {
        Some((_, own_end)) => end.min(own_end).min(position.log_end),
        // All that the follower has is of newer epochs than what the leader has there: nothing is common.
        None => end.min(position.log_start),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A log as the epochs of its records, one for each offset.
    type Epochs = Vec<i32>;

    fn end_of(log: &Epochs, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        let last = log.iter().rposition(|of_record| *of_record <= epoch.0)?;
        let end = i64::try_from(last + 1).expect("is small");
        Some((LeaderEpoch(log[last]), Offset(end)))
    }

    fn position(log: &Epochs) -> FollowerPosition {
        FollowerPosition {
            log_start: Offset::ZERO,
            log_end: Offset(i64::try_from(log.len()).expect("is small")),
            last_epoch: log.last().map_or(LeaderEpoch::NONE, |epoch| LeaderEpoch(*epoch)),
        }
    }

    /// What a leader with this log answers (KIP-595).
    fn answer(leader: &Epochs, asked: FollowerPosition) -> LeaderAnswer {
        let ok = LeaderAnswer {
            error: ErrorCode::None,
            diverging: None,
            high_watermark: Offset::ZERO,
            log_start: Offset::ZERO,
        };
        if asked.last_epoch == LeaderEpoch::NONE {
            return ok;
        }
        match end_of(leader, asked.last_epoch) {
            None => LeaderAnswer { error: ErrorCode::OffsetOutOfRange, ..ok },
            Some((epoch, end)) if epoch == asked.last_epoch && end >= asked.log_end => ok,
            diverging => LeaderAnswer { diverging, ..ok },
        }
    }

    /// Asks until the follower's log is the beginning of the leader's.
    fn agree(leader: &Epochs, follower: &mut Epochs) -> usize {
        for steps in 0..100 {
            let asked = position(follower);
            let own: Epochs = follower.clone();
            match after_answer(asked, answer(leader, asked), |epoch| end_of(&own, epoch)) {
                FollowerStep::Append { .. } => return steps,
                FollowerStep::Truncate(end) => {
                    assert!(end < asked.log_end, "no step without progress");
                    follower.truncate(usize::try_from(end.0).expect("is small"));
                }
                FollowerStep::StartAt(start) => {
                    assert_eq!(start, Offset::ZERO);
                    follower.clear();
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("they do not agree: {follower:?} and {leader:?}");
    }

    #[test]
    fn a_fast_failover_leaves_no_divergence() {
        // KAFKA-6361: epoch 1 led for a moment at one, epoch 2 at the other.
        let leader = vec![0, 0, 2, 2];
        let mut follower = vec![0, 0, 1, 1];
        agree(&leader, &mut follower);
        assert_eq!(follower, [0, 0]);
    }

    #[test]
    fn a_follower_is_not_cut_to_its_high_watermark() {
        // KAFKA-1211: what it has beyond the watermark it knows may be committed.
        let leader = vec![0, 0, 0];
        let mut follower = vec![0, 0];
        assert_eq!(agree(&leader, &mut follower), 0);
        assert_eq!(follower, [0, 0]);
    }

    #[test]
    fn errors_say_whom_to_ask() {
        let asked = position(&vec![0]);
        let step = |error| {
            let answer = LeaderAnswer {
                error,
                diverging: None,
                high_watermark: Offset(1),
                log_start: Offset(7),
            };
            after_answer(asked, answer, |_| None)
        };
        assert_eq!(step(ErrorCode::OffsetOutOfRange), FollowerStep::StartAt(Offset(7)));
        assert_eq!(step(ErrorCode::FencedLeaderEpoch), FollowerStep::AwaitMetadata);
        assert_eq!(step(ErrorCode::UnknownLeaderEpoch), FollowerStep::Retry);
        assert_eq!(step(ErrorCode::KafkaStorageError), FollowerStep::Retry);
    }

    /// A history that both logs come from: who led in which epoch decides what each has got.
    fn logs() -> impl Strategy<Value = (Epochs, Epochs)> {
        let common = prop::collection::vec(0..3_i32, 0..10);
        let own = || prop::collection::vec(3..8_i32, 0..10);
        (common, own(), own(), any::<bool>()).prop_map(|(mut common, mut left, mut right, odd)| {
            common.sort_unstable();
            left.sort_unstable();
            right.sort_unstable();
            // An epoch has one leader: what two logs have of one epoch is the same.
            left.retain(|epoch| epoch % 2 == 0);
            right.retain(|epoch| epoch % 2 == 1);
            if odd {
                std::mem::swap(&mut left, &mut right);
            }
            let with = |rest: Epochs| common.iter().copied().chain(rest).collect::<Epochs>();
            (with(left), with(right))
        })
    }

    proptest! {
        #[test]
        fn logs_of_one_history_come_to_agree((leader, mut follower) in logs()) {
            let before = follower.clone();
            agree(&leader, &mut follower);
            prop_assert!(leader.starts_with(&follower));
            let common = leader.iter().zip(&before).take_while(|(ours, theirs)| ours == theirs);
            prop_assert_eq!(follower.len(), common.count(), "nothing that is common is cut");
        }
    }
}
