//! What a follower does with what its leader says.

use logway_model::{ErrorCode, LeaderEpoch, Offset};

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
/// `truncation_point` tells where the follower's log is cut off when the leader's ends there in that epoch; the log knows
/// (`Log::truncation_point`). It may have to be asked again with what the leader says then.
pub fn after_answer(
    answer: LeaderAnswer,
    truncation_point: impl FnOnce(LeaderEpoch, Offset) -> Offset,
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
        Some((epoch, end)) => FollowerStep::Truncate(truncation_point(epoch, end)),
        None => FollowerStep::Append {
            high_watermark: answer.high_watermark,
            log_start: answer.log_start,
        },
    }
}

#[cfg(test)]
mod tests {
    use logway_log::checkpoint::{Divergence, EpochEnd, LeaderEpochCache};
    use proptest::prelude::*;

    use super::*;

    /// The epoch in which the leader leads, which its log knows from the beginning of it on.
    const LEADS: LeaderEpoch = LeaderEpoch(9);

    /// A log as the epochs of its records, one for each offset.
    type Epochs = Vec<i32>;

    fn end(log: &Epochs) -> Offset {
        Offset(i64::try_from(log.len()).expect("is small"))
    }

    fn epochs_of(log: &Epochs) -> LeaderEpochCache {
        let mut epochs = LeaderEpochCache::default();
        for (offset, epoch) in (0..).zip(log) {
            epochs.assign(LeaderEpoch(*epoch), Offset(offset));
        }
        epochs
    }

    /// What a leader with this log answers (KIP-595).
    fn answer(leader: &Epochs, follower: &Epochs) -> LeaderAnswer {
        let ok = LeaderAnswer {
            error: ErrorCode::None,
            diverging: None,
            high_watermark: Offset::ZERO,
            log_start: Offset::ZERO,
        };
        let Some(last) = follower.last() else { return ok };
        let mut leading = epochs_of(leader);
        leading.assign(LEADS, end(leader));
        match leading.divergence(LeaderEpoch(*last), end(follower), end(leader)) {
            Divergence::None => ok,
            Divergence::At(EpochEnd { epoch, end_offset }) => {
                LeaderAnswer { diverging: Some((epoch, end_offset)), ..ok }
            }
            Divergence::UnknownEpoch => LeaderAnswer { error: ErrorCode::OffsetOutOfRange, ..ok },
        }
    }

    /// Asks until the follower's log is the beginning of the leader's.
    fn agree(leader: &Epochs, follower: &mut Epochs) -> usize {
        for steps in 0..100 {
            let before = end(follower);
            let point = |epoch, end_offset| {
                let leader = EpochEnd { epoch, end_offset };
                epochs_of(follower).truncation_point(leader, before).offset
            };
            match after_answer(answer(leader, follower), point) {
                FollowerStep::Append { .. } => return steps,
                FollowerStep::Truncate(end) => {
                    assert!(end < before, "no step without progress");
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
        let step = |error| {
            let answer = LeaderAnswer {
                error,
                diverging: None,
                high_watermark: Offset(1),
                log_start: Offset(7),
            };
            after_answer(answer, |_, _| unreachable!("nothing diverges"))
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
