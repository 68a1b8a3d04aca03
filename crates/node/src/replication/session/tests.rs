//! A leader with one follower, over a simulated disk.

use logway_log::AppendOrigin;
use logway_log::LogDir;
use logway_log::fs::SimFs;
use logway_model::{PartitionId, TopicId, Uuid};
use logway_replication::Membership;
use tokio::time::{Duration, timeout};

use super::*;
use crate::replica::Lead;
use crate::replica::tests::{batch, durable, partition};
use crate::replication::answering::say_what_is_due;
use crate::replication::pace::{Bound, Pace};

const OWN: BrokerId = BrokerId(1);
const FOLLOWER: BrokerId = BrokerId(2);
const EPOCH: LeaderEpoch = LeaderEpoch(3);

struct Leading {
    _dir: LogDir,
    replica: Arc<Replica>,
    sessions: FetchSessions,
}

impl Leading {
    async fn new() -> Leading {
        Leading::with_in_sync(&[OWN, FOLLOWER]).await
    }

    async fn with_in_sync(isr: &[BrokerId]) -> Leading {
        let (dir, replica) = partition(&SimFs::new(1), durable());
        let membership = Membership {
            replicas: vec![OWN, FOLLOWER],
            isr: isr.to_vec(),
            has_eligible: false,
            partition_epoch: 1,
        };
        replica.lead(Lead { own: OWN, epoch: EPOCH, membership: &membership, in_sync_min: 1 });
        let leading = Leading { _dir: dir, replica, sessions: FetchSessions::default() };
        leading.append().await;
        leading
    }

    async fn append(&self) {
        self.replica.append(vec![batch()], AppendOrigin::Client).future.await.expect("it leads");
    }

    fn take(&self, request: &FetchFromLeader) -> Option<Arc<FetchSession>> {
        let find = |followed: FollowedPartition| match followed.topic.0.0[0] {
            0 => Err(ErrorCode::UnknownTopicId),
            _ => self
                .replica
                .check_leader_epoch(followed.leader_epoch)
                .map(|()| Arc::clone(&self.replica)),
        };
        let taken = self.sessions.take(&Led { find: &find, counts_diverging: false }, request)?;
        Some(taken.session)
    }
}

fn request(session: u64, number: u32) -> FetchFromLeader {
    FetchFromLeader {
        follower: FOLLOWER,
        broker_epoch: 7,
        session,
        number,
        wants: None,
        begun: Vec::new(),
        told: Vec::new(),
        starts: Vec::new(),
        ended: Vec::new(),
    }
}

fn followed(leader_epoch: LeaderEpoch) -> FollowedPartition {
    FollowedPartition { topic: TopicId(Uuid([2; 16])), partition: PartitionId(0), leader_epoch }
}

fn told(slot: u32, end: i64) -> FollowerEnd {
    let last_epoch = if end == 0 { LeaderEpoch::NONE } else { EPOCH };
    FollowerEnd { slot, end: Offset(end), last_epoch }
}

/// The first request of a session, which follows the partition from `end` on.
fn begins(session: u64, end: i64) -> FetchFromLeader {
    FetchFromLeader {
        begun: vec![followed(EPOCH)],
        told: vec![told(0, end)],
        ..request(session, 0)
    }
}

fn unbounded<'a>(_: &Replica, _: u32) -> Bound<'a> {
    unreachable!("the follower is in sync")
}

async fn due(session: &FetchSession) -> Vec<LedPartition> {
    let mut parts = Vec::new();
    say_what_is_due(session, 1 << 20, &unbounded, &mut parts).await;
    parts
}

async fn has_news(session: &FetchSession) -> bool {
    timeout(Duration::from_millis(20), session.news()).await.is_ok()
}

#[tokio::test]
async fn records_are_sent_once_until_the_follower_says_that_it_has_them() {
    let leading = Leading::new().await;
    let session = leading.take(&begins(1, 0)).expect("begins");
    let parts = due(&session).await;
    assert_eq!((parts.len(), parts[0].slot, parts[0].records.is_empty()), (1, 0, false));
    leading.append().await;
    assert!(due(&session).await.is_empty(), "nothing was said of the first ones");
    let next = FetchFromLeader { told: vec![told(0, 1)], ..request(1, 1) };
    let session = leading.take(&next).expect("is the next one");
    assert_eq!(leading.replica.high_watermark().get(), Offset(1), "what it has is committed");
    let parts = due(&session).await;
    assert_eq!((parts.len(), parts[0].high_watermark), (1, Offset(1)));
}

#[tokio::test]
async fn who_has_everything_is_woken_by_the_next_record_and_by_nothing_else() {
    let leading = Leading::new().await;
    let session = leading.take(&begins(1, 1)).expect("begins");
    assert!(due(&session).await.is_empty() && !has_news(&session).await);
    leading.append().await;
    assert!(has_news(&session).await);
    assert_eq!(due(&session).await.len(), 1);
    assert!(!has_news(&session).await);
}

#[tokio::test]
async fn a_watermark_that_rises_is_told_with_the_next_answer() {
    let leading = Leading::new().await;
    let session = leading.take(&begins(1, 1)).expect("begins");
    let parts = session.quiet_news();
    assert_eq!((parts.len(), parts[0].high_watermark), (1, Offset(1)));
    assert!(session.quiet_news().is_empty(), "it is told once");
    leading.append().await;
    assert!(has_news(&session).await);
    assert_eq!(due(&session).await[0].high_watermark, Offset(1));
    let has_it = FetchFromLeader { told: vec![told(0, 2)], ..request(1, 1) };
    let session = leading.take(&has_it).expect("is the next one");
    assert!(due(&session).await.is_empty() && !has_news(&session).await);
    let parts = session.quiet_news();
    assert_eq!((parts.len(), parts[0].high_watermark), (1, Offset(2)));
}

#[tokio::test]
async fn a_watermark_that_came_with_a_refusal_is_told_again() {
    let leading = Leading::with_in_sync(&[OWN]).await;
    assert_eq!(leading.replica.high_watermark().get(), Offset(1));
    // It has the same records, and an epoch behind them in which it led and wrote nothing.
    let other_epoch = FollowerEnd { last_epoch: LeaderEpoch(2), ..told(0, 1) };
    let begins = FetchFromLeader { told: vec![other_epoch], ..begins(1, 1) };
    let session = leading.take(&begins).expect("begins");
    let parts = due(&session).await;
    assert!(parts.len() == 1 && parts[0].diverging.is_some(), "{parts:?}");
    assert!(session.quiet_news().is_empty(), "it has yet to cut its log off");

    let next = FetchFromLeader { told: vec![told(0, 1)], ..request(1, 1) };
    let session = leading.take(&next).expect("is the next one");
    let parts = session.quiet_news();
    assert_eq!((parts.len(), parts[0].high_watermark), (1, Offset(1)));
}

#[tokio::test]
async fn a_log_whose_beginning_moves_is_told_of() {
    let leading = Leading::new().await;
    let session = leading.take(&begins(1, 1)).expect("begins");
    assert_eq!(session.quiet_news().len(), 1);
    let deleted = leading.replica.delete_records_before(Offset(1)).expect("it leads");
    deleted.await.expect("is done");
    let parts = session.quiet_news();
    assert_eq!((parts.len(), parts[0].log_start), (1, Offset(1)));
}

#[tokio::test]
async fn requests_count_in_their_order_and_once() {
    let leading = Leading::new().await;
    let first = leading.take(&begins(5, 0)).expect("begins");
    assert!(leading.take(&begins(5, 1)).is_none(), "it has begun");
    assert!(leading.take(&begins(4, 1)).is_none(), "it is an earlier one");
    assert!(leading.take(&FetchFromLeader { told: vec![told(0, 1)], ..request(5, 2) }).is_none());
    assert_eq!(leading.replica.high_watermark().get(), Offset(0), "nothing of them was taken");
    assert!(leading.take(&request(5, 1)).is_some());
    assert!(leading.take(&request(5, 1)).is_none(), "it comes again");
    let second = leading.take(&begins(6, 1)).expect("begins");
    assert!(first.is_over() && has_news(&first).await && !second.is_over());
    assert!(leading.take(&request(5, 2)).is_none());
    let earlier_life = FetchFromLeader { broker_epoch: 6, ..begins(9, 1) };
    assert!(leading.take(&earlier_life).is_none());
}

#[tokio::test]
async fn an_epoch_that_ends_is_told_at_once() {
    let leading = Leading::new().await;
    let session = leading.take(&begins(1, 1)).expect("begins");
    assert!(!has_news(&session).await);
    leading.replica.follow(LeaderEpoch(4), FOLLOWER);
    assert!(has_news(&session).await);
    assert_eq!(due(&session).await[0].error, ErrorCode::NotLeaderOrFollower);
    assert!(due(&session).await.is_empty());
}

#[tokio::test]
async fn who_cannot_be_answered_is_told_why() {
    let leading = Leading::new().await;
    let unknown = FollowedPartition { topic: TopicId(Uuid([0; 16])), ..followed(EPOCH) };
    let request = FetchFromLeader {
        begun: vec![followed(LeaderEpoch(2)), unknown, followed(EPOCH), followed(EPOCH)],
        told: vec![
            told(0, 0),
            told(1, 0),
            // Its last record is of an epoch that the leader has not.
            FollowerEnd { slot: 2, end: Offset(3), last_epoch: LeaderEpoch(2) },
            told(3, 9),
            told(77, 0),
        ],
        ended: vec![78],
        ..request(1, 0)
    };
    let session = leading.take(&request).expect("begins");
    let parts = due(&session).await;
    let errors: Vec<_> = parts.iter().map(|part| part.error).collect();
    let (fenced, unknown) = (ErrorCode::FencedLeaderEpoch, ErrorCode::UnknownTopicId);
    assert_eq!(errors[..2], [fenced, unknown]);
    assert!(parts[2].diverging.is_some() && parts[3].awaits_follower());
    assert_eq!(leading.replica.high_watermark().get(), Offset(0), "how far they are says nothing");
}

#[tokio::test]
async fn a_partition_that_ended_is_not_spoken_of() {
    let leading = Leading::new().await;
    let session = leading.take(&begins(1, 0)).expect("begins");
    let ends = FetchFromLeader { ended: vec![0], ..request(1, 1) };
    leading.take(&ends).expect("is the next one");
    assert!(due(&session).await.is_empty() && session.quiet_news().is_empty());
    leading.append().await;
    assert!(due(&session).await.is_empty());
}

#[tokio::test]
async fn an_answer_that_is_full_leaves_the_others_in_front() {
    let leading = Leading::new().await;
    let slots = 0..3_u32;
    let request = FetchFromLeader {
        begun: slots.clone().map(|_| followed(EPOCH)).collect(),
        told: slots.map(|slot| told(slot, 0)).collect(),
        ..request(1, 0)
    };
    let batch_bytes = batch().size_bytes() as u64;
    // Full with the first batch, or with no room for a second one.
    for (session, max_bytes) in [(1, 1), (2, batch_bytes + 1)] {
        let request = FetchFromLeader { session, ..request.clone() };
        let session = leading.take(&request).expect("begins");
        for expected in 0..3 {
            assert!(has_news(&session).await);
            let mut parts = Vec::new();
            say_what_is_due(&session, max_bytes, &unbounded, &mut parts).await;
            assert_eq!(parts.iter().map(|part| part.slot).collect::<Vec<_>>(), [expected]);
        }
    }
}

#[tokio::test]
async fn who_is_not_in_sync_waits_for_a_bound_and_nobody_else_does() {
    let leading = Leading::with_in_sync(&[OWN]).await;
    let pace = Pace::default();
    let rounds = Mutex::new(Vec::new());
    let bound = |_: &Replica, round| {
        rounds.lock().expect("is whole").push(round);
        Bound { pace: &pace, bytes_per_second: 1 }
    };
    let session = leading.take(&begins(1, 0)).expect("begins");
    let mut parts = Vec::new();
    assert_eq!(say_what_is_due(&session, 1 << 20, &bound, &mut parts).await, None);
    assert_eq!(parts.len(), 1, "nothing was copied before");
    leading.append().await;
    let next = FetchFromLeader { told: vec![told(0, 1)], ..request(1, 1) };
    let session = leading.take(&next).expect("is the next one");
    parts.clear();
    let free_at = say_what_is_due(&session, 1 << 20, &bound, &mut parts).await;
    assert!(free_at.is_some_and(|at| at > Instant::now()) && parts.is_empty());
    assert!(due(&session).await.is_empty(), "it is held back until somebody looks again");
    session.take_held_back();
    let unlimited = |_: &Replica, round| {
        rounds.lock().expect("is whole").push(round);
        Bound { pace: &pace, bytes_per_second: u64::MAX }
    };
    say_what_is_due(&session, 1 << 20, &unlimited, &mut parts).await;
    assert_eq!((parts.len(), parts[0].records.is_empty()), (1, false));
    // It had all that was there when it began, and there is more.
    assert_eq!(*rounds.lock().expect("is whole"), [0, 1, 1]);
}

#[tokio::test]
async fn a_follower_that_the_leader_does_not_know_yet_is_told_to_come_again() {
    let (_dir, replica) = partition(&SimFs::new(1), durable());
    let lead = |replicas: &[BrokerId], partition_epoch| {
        let (replicas, isr) = (replicas.to_vec(), vec![OWN]);
        let membership = Membership { replicas, isr, has_eligible: false, partition_epoch };
        replica.lead(Lead { own: OWN, epoch: EPOCH, membership: &membership, in_sync_min: 1 });
    };
    lead(&[OWN], 1);
    let leading = Leading { _dir, replica: Arc::clone(&replica), sessions: Default::default() };
    let session = leading.take(&begins(1, 0)).expect("begins");
    let parts = due(&session).await;
    assert_eq!((parts.len(), parts[0].error), (1, ErrorCode::UnknownLeaderEpoch));
    assert!(!replica.has_in_sync(FOLLOWER));
    lead(&[OWN, FOLLOWER], 2);
    let next = FetchFromLeader { told: vec![told(0, 0)], ..request(1, 1) };
    let find = |_: FollowedPartition| Ok(Arc::clone(&replica));
    let led = Led { find: &find, counts_diverging: false };
    let taken = leading.sessions.take(&led, &next).expect("is the next one");
    assert!(taken.could_join, "it has all that there is");
}

#[tokio::test]
async fn readers_are_sent_to_a_follower_when_it_has_said_where_its_log_begins() {
    let leading = Leading::new().await;
    let readable = |offset| {
        let followers = leading.replica.readable_followers(Offset(offset));
        followers.iter().map(|follower| follower.broker).collect::<Vec<_>>()
    };
    leading.take(&begins(1, 0)).expect("begins");
    assert_eq!(readable(0), []);
    let begins_at = |number, start| FetchFromLeader {
        starts: vec![FollowerStart { slot: 0, start: Offset(start) }],
        ..request(1, number)
    };
    leading.take(&begins_at(1, 0)).expect("is the next one");
    assert_eq!(readable(0), [FOLLOWER]);
    leading.take(&begins_at(2, 1)).expect("is the next one");
    assert_eq!(readable(0), [], "it has removed what is there");
    let unknown = FetchFromLeader {
        starts: vec![FollowerStart { slot: 9, start: Offset(0) }],
        ..request(1, 3)
    };
    leading.take(&unknown).expect("is the next one");
    assert_eq!(readable(0), []);
}
