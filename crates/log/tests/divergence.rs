//! A follower finds out where its log and its leader's part (KIP-101, KIP-279, KIP-595).

use logway_log::checkpoint::{Divergence, EpochEnd, LeaderEpochCache};
use logway_model::{LeaderEpoch, Offset};
use proptest::collection::vec;
use proptest::prelude::*;

/// A log: of each record the epoch and a number that no other record has.
#[derive(Debug, Clone, Default)]
struct ModelLog {
    records: Vec<(i32, u32)>,
    epochs: LeaderEpochCache,
}

impl ModelLog {
    fn end(&self) -> Offset {
        Offset(self.records.len() as i64)
    }

    fn push(&mut self, record: (i32, u32)) {
        if self.epochs.latest().is_none_or(|latest| latest.epoch.0 < record.0) {
            self.epochs.assign(LeaderEpoch(record.0), self.end());
        }
        self.records.push(record);
    }

    fn truncate(&mut self, end: Offset) {
        self.records.truncate(end.0 as usize);
        self.epochs.truncate_from_end(end);
    }

    fn latest_epoch(&self) -> LeaderEpoch {
        self.epochs.latest().map_or(LeaderEpoch::NONE, |latest| latest.epoch)
    }

    /// How many of the first records are the same.
    fn common_with(&self, other: &ModelLog) -> usize {
        self.records.iter().zip(&other.records).take_while(|(one, other)| one == other).count()
    }
}

/// Cuts the follower's log off as OffsetForLeaderEpoch has it; returns how often the leader was asked.
fn truncate_by_epochs(follower: &mut ModelLog, leader: &ModelLog) -> usize {
    let mut asked = 0;
    while follower.latest_epoch() > LeaderEpoch::NONE {
        asked += 1;
        let answer = leader.epochs.end_offset_for(follower.latest_epoch(), leader.end());
        let answer = answer.expect("a leader knows its own epoch, and so all below");
        let point = follower.epochs.truncation_point(answer, follower.end());
        follower.truncate(point.offset);
        if point.is_final {
            break;
        }
    }
    asked
}

/// The same as Fetch has it: the leader says that what is fetched is not there.
fn truncate_by_fetches(follower: &mut ModelLog, leader: &ModelLog) {
    while follower.latest_epoch() > LeaderEpoch::NONE {
        let (epoch, end) = (follower.latest_epoch(), follower.end());
        match leader.epochs.divergence(epoch, end, leader.end()) {
            Divergence::None => return,
            Divergence::At(answer) => {
                let point = follower.epochs.truncation_point(answer, end);
                follower.truncate(point.offset);
            }
            Divergence::UnknownEpoch => panic!("a leader knows its own epoch, and so all below"),
        }
    }
}

/// One reign: who leads, how many records it appends, and how many of its log each of the others
/// copies, if it hears of the leader at all.
type Reign = (usize, usize, Vec<Option<usize>>);

const REPLICAS: usize = 3;

fn reigns() -> impl Strategy<Value = Vec<Reign>> {
    let copied = prop_oneof![Just(None), (0usize..6).prop_map(Some)];
    vec((0..REPLICAS, 0usize..4, vec(copied, REPLICAS)), 1..12)
}

proptest! {
    /// Anybody is elected, also one that has missed what others have: only so logs part. What is
    /// cut off is exactly what the leader has not.
    #[test]
    fn a_follower_keeps_what_its_leader_has_and_nothing_else(reigns in reigns()) {
        let mut logs = vec![ModelLog::default(); REPLICAS];
        let mut number = 0;
        for (epoch, (leader, appended, copied)) in reigns.into_iter().enumerate() {
            let epoch = epoch as i32;
            let mut leading = logs[leader].clone();
            leading.epochs.assign(LeaderEpoch(epoch), leading.end());
            for _ in 0..appended {
                number += 1;
                leading.push((epoch, number));
            }
            for (replica, copied) in copied.into_iter().enumerate() {
                let Some(copied) = copied.filter(|_| replica != leader) else { continue };
                let common = logs[replica].common_with(&leading);
                let mut by_fetches = logs[replica].clone();
                let asked = truncate_by_epochs(&mut logs[replica], &leading);
                let follower = &mut logs[replica];
                prop_assert_eq!(follower.records.len(), common, "{:?} of {:?}", follower, leading);
                prop_assert!(asked <= epoch as usize + 1, "each answer is about an older epoch");
                truncate_by_fetches(&mut by_fetches, &leading);
                prop_assert_eq!(&by_fetches.records, &follower.records);
                let end = follower.records.len();
                for &record in leading.records[end..].iter().take(copied) {
                    follower.push(record);
                }
            }
            logs[leader] = leading;
        }
    }
}

/// The table of KIP-279: two quick elections in a row, after which an end offset alone would not do.
#[test]
fn quick_failovers_do_not_leave_logs_apart() {
    let mut follower = ModelLog::default();
    let mut leader = ModelLog::default();
    for (log, epochs) in [(&mut follower, [0, 0, 1, 1, 1]), (&mut leader, [0, 0, 2, 2, 2])] {
        for (number, epoch) in (0..).zip(epochs) {
            let own = if epoch == 0 { number } else { 100 * epoch as u32 + number };
            log.push((epoch, own));
        }
    }
    assert_eq!(truncate_by_epochs(&mut follower, &leader), 1);
    assert_eq!(follower.end(), Offset(2));
}

/// The leader's newest epoch below the follower's is one that the follower has not: nothing of what
/// is behind the epoch before is the leader's, and of that the leader is asked once more.
#[test]
fn an_epoch_that_the_follower_has_not_leads_to_another_question() {
    let mut follower = ModelLog::default();
    [(0, 1), (0, 2), (1, 3), (3, 4)].into_iter().for_each(|record| follower.push(record));
    let answer = EpochEnd { epoch: LeaderEpoch(2), end_offset: Offset(9) };
    let point = follower.epochs.truncation_point(answer, follower.end());
    assert_eq!((point.offset, point.is_final), (Offset(3), false));
}

#[test]
fn a_log_without_epochs_keeps_what_the_leader_has_as_far_as_it_goes() {
    let answer = |end| EpochEnd { epoch: LeaderEpoch(2), end_offset: Offset(end) };
    let epochs = LeaderEpochCache::default();
    let point = |end| epochs.truncation_point(answer(end), Offset(5));
    assert_eq!((point(3).offset, point(3).is_final), (Offset(3), true));
    assert_eq!(point(9).offset, Offset(5));
}
