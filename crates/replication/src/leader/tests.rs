use proptest::prelude::*;

use super::*;

const OWN: BrokerId = BrokerId(1);
const SECOND: BrokerId = BrokerId(2);
const THIRD: BrokerId = BrokerId(3);
const LIMITS: FollowerLimits = FollowerLimits {
    lag_max: Duration::from_secs(30),
    stall_max: Duration::from_secs(2),
    own_stalls: false,
};

fn nobody(_: ProposedReplica) -> bool {
    false
}

fn tail(log_end: i64, flushed: i64) -> LocalTail {
    LocalTail { log_end: Offset(log_end), flushed: Offset(flushed) }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn membership(isr: &[BrokerId], partition_epoch: i32) -> Membership {
    let replicas = vec![OWN, SECOND, THIRD];
    Membership { replicas, isr: isr.to_vec(), has_eligible: false, partition_epoch }
}

fn start(membership: Membership, durable: bool, tail: LocalTail) -> Leader {
    Leader::new(LeaderStart {
        own: OWN,
        epoch: LeaderEpoch(4),
        membership,
        durable,
        in_sync_min: 2,
        tail,
        high_watermark: Offset::ZERO,
        now: seconds(0),
    })
}

fn alone(durable: bool) -> Leader {
    let membership =
        Membership { replicas: vec![OWN], isr: vec![OWN], has_eligible: false, partition_epoch: 0 };
    start(membership, durable, tail(0, 0))
}

fn fetch(broker: BrokerId, end: i64) -> FollowerFetch {
    FollowerFetch { broker, broker_epoch: 10, end: Offset(end) }
}

fn brokers(proposal: Option<IsrProposal>) -> Option<Vec<BrokerId>> {
    Some(proposal?.isr.iter().map(|replica| replica.broker).collect())
}

#[test]
fn a_durable_partition_shows_only_what_is_on_disk() {
    let mut leader = alone(true);
    assert_eq!(leader.on_local_tail(tail(10, 0), seconds(0)), None);
    assert_eq!(leader.on_local_tail(tail(10, 7), seconds(0)), Some(Offset(7)));
    assert_eq!(leader.high_watermark(), Offset(7));
}

#[test]
fn a_partition_that_is_not_durable_shows_what_is_written() {
    assert_eq!(alone(false).on_local_tail(tail(10, 0), seconds(0)), Some(Offset(10)));
}

#[test]
fn the_slowest_in_sync_follower_holds_the_watermark() {
    let mut leader = start(membership(&[OWN, SECOND], 0), true, tail(0, 0));
    assert_eq!(leader.on_local_tail(tail(10, 10), seconds(0)), None);
    assert_eq!(leader.on_fetch(fetch(SECOND, 3), seconds(1)), Some(Offset(3)));
    assert_eq!(leader.on_fetch(fetch(THIRD, 1), seconds(1)), None, "it is not in sync");
    assert_eq!(leader.on_fetch(fetch(SECOND, 10), seconds(1)), Some(Offset(10)));
}

#[test]
fn the_watermark_never_goes_back() {
    let mut leader = alone(false);
    leader.on_local_tail(tail(10, 0), seconds(0));
    assert_eq!(leader.set_durable(true), None);
    assert_eq!(leader.high_watermark(), Offset(10));
    assert_eq!(leader.on_local_tail(tail(12, 9), seconds(0)), None);
    assert_eq!(leader.on_local_tail(tail(12, 12), seconds(0)), Some(Offset(12)));
}

#[test]
fn below_the_least_number_of_replicas_in_sync_nothing_is_committed() {
    let mut leader = start(membership(&[OWN], 0), false, tail(0, 0));
    assert_eq!(leader.in_sync(), (1, 2));
    assert_eq!(leader.on_local_tail(tail(5, 5), seconds(0)), None);
    assert_eq!(leader.set_in_sync_min(1), Some(Offset(5)));
}

#[test]
fn who_has_caught_up_joins_and_counts_from_the_proposal_on() {
    let mut leader = start(membership(&[OWN, SECOND], 7), true, tail(4, 4));
    leader.on_local_tail(tail(10, 10), seconds(0));
    assert_eq!(leader.on_fetch(fetch(SECOND, 10), seconds(1)), Some(Offset(10)));
    leader.on_fetch(fetch(THIRD, 9), seconds(1));
    assert_eq!(leader.propose(LIMITS, seconds(1), nobody), None, "it lacks what is committed");
    leader.on_local_tail(tail(11, 11), seconds(0));
    leader.on_fetch(fetch(THIRD, 10), seconds(1));
    let proposal = leader.propose(LIMITS, seconds(1), nobody).expect("it has what is committed");
    assert_eq!((proposal.leader_epoch, proposal.partition_epoch), (LeaderEpoch(4), 7));
    assert_eq!(proposal.isr[2], ProposedReplica { broker: THIRD, broker_epoch: 10 });
    assert_eq!(leader.propose(LIMITS, seconds(1), nobody), None, "one at a time");
    assert_eq!(leader.on_fetch(fetch(SECOND, 11), seconds(1)), None, "it may be in sync already");
    leader.on_membership(&membership(&[OWN, SECOND, THIRD], 8), seconds(1));
    assert_eq!(leader.on_fetch(fetch(THIRD, 11), seconds(1)), Some(Offset(11)));
}

#[test]
fn who_lacks_the_beginning_of_the_epoch_does_not_join() {
    // The watermark that the new leader knows is old: what was committed ends later.
    let mut leader = start(membership(&[OWN], 0), true, tail(10, 10));
    leader.on_fetch(fetch(SECOND, 5), seconds(1));
    assert_eq!(leader.propose(LIMITS, seconds(1), nobody), None);
    leader.on_fetch(fetch(SECOND, 10), seconds(1));
    assert_eq!(brokers(leader.propose(LIMITS, seconds(1), nobody)), Some(vec![OWN, SECOND]));
}

#[test]
fn who_has_not_fetched_since_it_started_again_keeps_nobody_else_out() {
    let mut leader = start(membership(&[OWN], 0), true, tail(0, 0));
    leader.on_fetch(fetch(SECOND, 0), seconds(1));
    let third = FollowerFetch { broker_epoch: 11, ..fetch(THIRD, 0) };
    leader.on_fetch(third, seconds(1));
    // The second one has started again, and is in epoch 12.
    let is_past = |it: ProposedReplica| it.broker == SECOND && it.broker_epoch < 12;
    assert_eq!(brokers(leader.propose(LIMITS, seconds(1), is_past)), Some(vec![OWN, THIRD]));
}

#[test]
fn the_fenced_and_the_leaving_do_not_join() {
    let mut leader = start(membership(&[OWN], 0), true, tail(0, 0));
    leader.on_fetch(fetch(SECOND, 0), seconds(1));
    assert!(leader.could_join(SECOND) && !leader.could_join(THIRD));
    assert_eq!(leader.propose(LIMITS, seconds(1), |it| it.broker == SECOND), None);
    assert_eq!(brokers(leader.propose(LIMITS, seconds(1), nobody)), Some(vec![OWN, SECOND]));
}

#[test]
fn a_fetch_of_an_earlier_incarnation_says_nothing() {
    let mut leader = start(membership(&[OWN, SECOND], 0), true, tail(0, 0));
    leader.on_local_tail(tail(10, 10), seconds(0));
    let late = FollowerFetch { broker_epoch: 9, ..fetch(SECOND, 10) };
    leader.on_fetch(fetch(SECOND, 2), seconds(1));
    assert_eq!(leader.on_fetch(late, seconds(1)), None);
    assert_eq!(leader.high_watermark(), Offset(2));
}

#[test]
fn a_follower_with_records_of_another_epoch_counts_for_nothing() {
    let mut leader = start(membership(&[OWN, SECOND], 0), true, tail(10, 10));
    assert_eq!(leader.on_fetch(fetch(SECOND, 15), seconds(1)), None);
    assert_eq!(leader.high_watermark(), Offset(0));
    assert_eq!(leader.on_fetch(fetch(SECOND, 8), seconds(1)), Some(Offset(8)));
}

#[test]
fn who_never_had_everything_for_too_long_leaves() {
    let mut leader = start(membership(&[OWN, SECOND, THIRD], 0), true, tail(0, 0));
    for second in 1..=40_u64 {
        let end = i64::try_from(second).expect("is small") * 10;
        leader.on_local_tail(tail(end, end), seconds(second));
        leader.on_fetch(fetch(SECOND, end), seconds(second));
        // It makes progress, and is further behind each time.
        leader.on_fetch(fetch(THIRD, end / 2), seconds(second));
        let left = brokers(leader.propose(LIMITS, seconds(second), nobody));
        match second {
            32.. => return assert_eq!(left, Some(vec![OWN, SECOND])),
            _ => assert_eq!(left, None, "after {second} s"),
        }
    }
}

#[test]
fn who_is_as_far_as_the_log_was_at_the_last_fetch_stays() {
    let mut leader = start(membership(&[OWN, SECOND], 0), true, tail(0, 0));
    for second in 1..=100_u64 {
        let end = i64::try_from(second).expect("is small") * 10;
        leader.on_local_tail(tail(end, end), seconds(second));
        leader.on_fetch(fetch(SECOND, end - 10), seconds(second));
        assert_eq!(leader.propose(LIMITS, seconds(second), nobody), None);
    }
}

#[test]
fn a_disk_that_hangs_holds_the_others_up_for_two_seconds() {
    let mut leader = start(membership(&[OWN, SECOND, THIRD], 0), true, tail(0, 0));
    leader.on_fetch(fetch(SECOND, 0), seconds(9));
    leader.on_fetch(fetch(THIRD, 0), seconds(9));
    leader.on_local_tail(tail(5, 5), seconds(9));
    leader.on_fetch(fetch(SECOND, 5), seconds(10));
    assert_eq!(leader.propose(LIMITS, seconds(11), nobody), None);
    assert_eq!(brokers(leader.propose(LIMITS, seconds(12), nobody)), Some(vec![OWN, SECOND]));
    assert_eq!(leader.high_watermark(), Offset(0), "until that is committed");
    let moved = leader.on_membership(&membership(&[OWN, SECOND], 1), seconds(12));
    assert_eq!(moved, Some(Offset(5)));
    // Without the second there would be too few: it stays, however long its disk hangs.
    leader.on_local_tail(tail(6, 6), seconds(12));
    assert_eq!(leader.propose(LIMITS, seconds(20), nobody), None);
}

#[test]
fn who_had_everything_until_now_is_not_late() {
    let mut leader = start(membership(&[OWN, SECOND, THIRD], 0), true, tail(0, 0));
    leader.on_fetch(fetch(SECOND, 0), seconds(1));
    leader.on_fetch(fetch(THIRD, 0), seconds(1));
    // Nobody says anything while there is nothing to say.
    leader.on_local_tail(tail(5, 5), seconds(1_000));
    assert_eq!(leader.propose(LIMITS, seconds(1_002), nobody), None);
    leader.on_fetch(fetch(SECOND, 5), seconds(1_002));
    assert_eq!(brokers(leader.propose(LIMITS, seconds(1_003), nobody)), Some(vec![OWN, SECOND]));
}

#[test]
fn a_leader_whose_disk_hangs_gives_up_while_enough_others_are_in_sync() {
    let mut leader = start(membership(&[OWN, SECOND, THIRD], 0), true, tail(0, 0));
    leader.on_local_tail(tail(5, 0), seconds(100));
    for broker in [SECOND, THIRD] {
        leader.on_fetch(fetch(broker, 5), seconds(101));
    }
    assert_eq!(leader.propose(LIMITS, seconds(102), nobody), None);
    let one_is_fenced = |it: ProposedReplica| it.broker == THIRD;
    assert_eq!(leader.propose(LIMITS, seconds(103), one_is_fenced), None, "too few are left");
    let proposal = leader.propose(LIMITS, seconds(103), nobody);
    assert_eq!(brokers(proposal), Some(vec![SECOND, THIRD]));
    let mut leader = start(membership(&[OWN, SECOND, THIRD], 0), true, tail(0, 0));
    leader.on_local_tail(tail(5, 5), seconds(1));
    leader.on_local_tail(tail(9, 5), seconds(100));
    for broker in [SECOND, THIRD] {
        leader.on_fetch(fetch(broker, 9), seconds(101));
    }
    assert_eq!(leader.propose(LIMITS, seconds(102), nobody), None, "it had nothing to flush");
    leader.on_local_tail(tail(9, 7), seconds(102));
    assert_eq!(leader.propose(LIMITS, seconds(104), nobody), None, "it makes progress");
    let writes_nothing = FollowerLimits { own_stalls: true, ..LIMITS };
    let proposal = leader.propose(writes_nothing, seconds(104), nobody);
    assert_eq!(brokers(proposal), Some(vec![SECOND, THIRD]));
}

#[test]
fn while_others_are_eligible_nothing_is_committed() {
    let mut leader = start(membership(&[OWN, SECOND], 0), true, tail(0, 0));
    let alone = Membership { has_eligible: true, ..membership(&[OWN], 1) };
    leader.on_membership(&alone, seconds(1));
    leader.set_in_sync_min(1);
    assert_eq!(leader.on_local_tail(tail(5, 5), seconds(1)), None);
    assert_eq!(leader.on_membership(&membership(&[OWN], 2), seconds(1)), Some(Offset(5)));
}

#[test]
fn a_proposal_that_is_refused_is_made_anew() {
    let mut leader = start(membership(&[OWN, SECOND], 0), true, tail(0, 0));
    leader.on_local_tail(tail(3, 3), seconds(0));
    leader.on_fetch(fetch(THIRD, 0), seconds(1));
    assert!(leader.propose(LIMITS, seconds(1), nobody).is_some());
    assert_eq!(leader.on_fetch(fetch(SECOND, 3), seconds(1)), None);
    assert_eq!(leader.on_refusal(), Some(Offset(3)), "the third never was in sync");
    assert_eq!(leader.propose(LIMITS, seconds(1), nobody), None, "it lacks what is committed now");
}

#[derive(Debug, Clone)]
enum Event {
    Grows(i64),
    Flushes,
    Fetches { broker: BrokerId, behind: i64 },
    Proposes,
    Commits,
    Refuses,
    Durable(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let broker = prop_oneof![Just(SECOND), Just(THIRD)];
    prop_oneof![
        (1..20_i64).prop_map(Event::Grows),
        Just(Event::Flushes),
        (broker, 0..25_i64).prop_map(|(broker, behind)| Event::Fetches { broker, behind }),
        Just(Event::Proposes),
        Just(Event::Commits),
        Just(Event::Refuses),
        any::<bool>().prop_map(Event::Durable),
    ]
}

proptest! {
    /// Followers' ends only rise; each event takes a second, so that they join and leave.
    #[test]
    fn what_is_committed_is_on_every_replica_that_may_be_in_sync(
        events in prop::collection::vec(event(), 1..200),
        is_durable in any::<bool>(),
    ) {
        let mut leader = start(membership(&[OWN, SECOND], 0), is_durable, tail(0, 0));
        let (mut log_end, mut flushed, mut durable) = (0, 0, is_durable);
        let mut ends = BTreeMap::from([(SECOND, 0), (THIRD, 0)]);
        let mut committed = BTreeSet::from([OWN, SECOND]);
        let mut proposed: Option<BTreeSet<BrokerId>> = None;
        let mut partition_epoch = 0;
        for (second, event) in (1..).zip(events) {
            let now = seconds(second);
            let before = leader.high_watermark();
            match event {
                Event::Grows(records) => {
                    log_end += records;
                    leader.on_local_tail(tail(log_end, flushed), now);
                }
                Event::Flushes => {
                    flushed = log_end;
                    leader.on_local_tail(tail(log_end, flushed), now);
                }
                Event::Fetches { broker, behind } => {
                    let end = ends.get_mut(&broker).expect("is a follower");
                    *end = (log_end - behind).max(*end);
                    leader.on_fetch(fetch(broker, *end), now);
                }
                Event::Proposes => {
                    if let Some(proposal) = leader.propose(LIMITS, now, nobody) {
                        prop_assert!(proposed.is_none());
                        prop_assert_eq!(proposal.partition_epoch, partition_epoch);
                        proposed = Some(proposal.isr.iter().map(|it| it.broker).collect());
                    }
                }
                Event::Commits => {
                    if let Some(isr) = proposed.take() {
                        partition_epoch += 1;
                        committed = isr;
                        let isr: Vec<BrokerId> = committed.iter().copied().collect();
                        leader.on_membership(&membership(&isr, partition_epoch), now);
                    }
                }
                Event::Refuses => {
                    proposed = None;
                    leader.on_refusal();
                }
                Event::Durable(is) => {
                    durable = is;
                    leader.set_durable(is);
                }
            }
            let after = leader.high_watermark();
            prop_assert!(after >= before, "it went back from {before} to {after}");
            if after > before {
                let own = if durable { flushed } else { log_end };
                prop_assert!(after.0 <= own);
                prop_assert!(committed.len() >= 2, "too few are in sync");
                let counted = committed.iter().chain(proposed.iter().flatten());
                for broker in counted.filter(|broker| **broker != OWN) {
                    prop_assert!(after.0 <= ends[broker], "{broker} has less");
                }
            }
        }
    }
}

#[test]
fn readers_are_sent_to_followers_in_sync_that_reach_the_offset() {
    let mut leader = start(membership(&[OWN, SECOND], 0), false, tail(10, 10));
    let readable = |leader: &Leader, offset| {
        leader.readable_at(Offset(offset)).map(|it| it.broker).collect::<Vec<_>>()
    };
    leader.on_fetch(fetch(SECOND, 8), seconds(1));
    leader.on_fetch(fetch(THIRD, 10), seconds(1));
    assert_eq!(readable(&leader, 5), [], "nobody has said where its log begins");
    leader.on_start(SECOND, 10, Offset(3));
    leader.on_start(THIRD, 10, Offset(0));
    for (offset, expected) in
        [(2, &[][..]), (3, &[SECOND]), (8, &[SECOND]), (9, &[])].map(|(at, ids)| (at, ids.to_vec()))
    {
        assert_eq!(readable(&leader, offset), expected, "{offset}");
    }
    leader.on_membership(&membership(&[OWN, SECOND, THIRD], 1), seconds(1));
    assert_eq!(readable(&leader, 8), [SECOND, THIRD]);
    // Another life of it may be of a version that serves no readers.
    leader.on_start(THIRD, 9, Offset(9));
    leader.on_fetch(FollowerFetch { broker_epoch: 11, ..fetch(THIRD, 10) }, seconds(2));
    assert_eq!(readable(&leader, 8), [SECOND]);
    leader.on_start(THIRD, 11, Offset(0));
    assert_eq!(readable(&leader, 8), [SECOND, THIRD]);
}
