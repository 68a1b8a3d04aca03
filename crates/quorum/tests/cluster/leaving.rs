//! Nodes that leave for good, and voters that people choose.

use std::time::Duration;

use logway_metadata::controller::RemoveBroker;
use logway_model::{BrokerId, DirectoryId};
use logway_quorum::{AdmissionRefusal, MembersChange, QuorumError, Start, VoterName};
use tokio::time::{Instant, timeout};

use crate::in_virtual_time;
use crate::nodes::Nodes;
use crate::scenarios::{create, register};

/// A cluster that has grown, and commits.
async fn grown(seed: u64, count: usize, voters: usize) -> Nodes {
    let mut nodes = Nodes::new(seed);
    nodes.grow_to(count, voters).await;
    register(&nodes.quorum(1)).await.expect("is registered");
    nodes
}

fn id(nodes: &Nodes, number: usize) -> BrokerId {
    nodes.all[&number].id.expect("is known")
}

fn name(nodes: &Nodes, number: usize) -> VoterName {
    VoterName { id: id(nodes, number), directory: nodes.all[&number].directory }
}

/// The numbers of those who vote, as a node knows them.
fn voters(nodes: &Nodes, asked: usize) -> Vec<i32> {
    nodes.quorum(asked).status().voters.iter().map(|voter| voter.id.0).collect()
}

/// A node that runs and does not lead, but for some.
async fn follower(nodes: &Nodes, but: &[usize]) -> usize {
    let leader = nodes.led().await;
    let mut running = nodes.running().map(|(number, _)| number);
    running.find(|number| *number != leader && !but.contains(number)).expect("is one")
}

async fn change(nodes: &Nodes, asked: usize, change: MembersChange) -> Result<(), QuorumError> {
    let quorum = nodes.quorum(asked);
    timeout(Duration::from_secs(10), quorum.change_members(change))
        .await
        .expect("in bounded time")
        .map(|_| ())
}

async fn until_removed(nodes: &Nodes, number: usize) {
    let is_told = |nodes: &Nodes| {
        matches!(nodes.quorum(number).check_running(), Err(QuorumError::Removed { .. }))
    };
    nodes.until("it knows that it was removed", is_told).await;
}

#[test]
fn who_was_removed_while_away_is_told_so_and_is_not_admitted_again() {
    in_virtual_time(async {
        let mut nodes = grown(1, 4, 3).await;
        let away = follower(&nodes, &[]).await;
        nodes.kill(away);
        let asked = follower(&nodes, &[]).await;
        let gone = id(&nodes, away);
        change(&nodes, asked, MembersChange::remove(gone)).await.expect("is removed");
        let members = nodes.quorum(asked).members();
        assert!(members.iter().all(|member| member.id != gone));
        nodes.until("another votes in its place", |nodes| voters(nodes, asked).len() == 3).await;
        let epoch = nodes.quorum(asked).status().epoch;

        nodes.start(away).await.expect("opens its files");
        until_removed(&nodes, away).await;
        let refusal = create(&nodes.quorum(away), 1).await.expect_err("belongs to nobody");
        assert!(matches!(refusal, QuorumError::Removed { id } if id == gone), "{refusal}");
        assert_eq!(nodes.quorum(asked).status().epoch, epoch, "it has disturbed nobody");
        nodes.kill(away);
        let refusal = nodes.admit(away).await.expect_err("was removed");
        let QuorumError::Admission(AdmissionRefusal::Removed { id }) = refusal else {
            panic!("{refusal}")
        };
        assert_eq!(id, gone);
        // A new one does not get its number by itself.
        nodes.add(9, None, Start::Join);
        nodes.join(9).await.expect("is admitted");
        assert!(nodes.all[&9].id.expect("has one").0 > 4);
    });
}

#[test]
fn who_is_removed_while_it_runs_is_told_so_whether_it_votes_or_not() {
    in_virtual_time(async {
        let nodes = grown(2, 4, 3).await;
        let leader = nodes.led().await;
        let voting = voters(&nodes, leader);
        let mut running = nodes.running().map(|(number, _)| number);
        let learner = running
            .find(|number| !voting.contains(&id(&nodes, *number).0))
            .expect("one does not vote");
        let voter = follower(&nodes, &[learner]).await;
        for number in [learner, voter] {
            let remove = MembersChange::remove(id(&nodes, number));
            change(&nodes, leader, remove).await.expect("is removed");
            until_removed(&nodes, number).await;
        }
        create(&nodes.quorum(leader), 1).await.expect("the others go on");
        assert_eq!(nodes.quorum(leader).members().len(), 2);
    });
}

/// A request that waits somewhere while it is repeated elsewhere.
#[test]
fn a_late_removal_does_not_meet_the_next_node_of_the_number() {
    in_virtual_time(async {
        let mut nodes = grown(5, 3, 3).await;
        let gone = follower(&nodes, &[]).await;
        let VoterName { id: number, directory } = name(&nodes, gone);
        let asked = follower(&nodes, &[gone]).await;
        let late = MembersChange::Remove { id: number, directory: Some(directory) };
        change(&nodes, asked, MembersChange::remove(number)).await.expect("is removed");
        nodes.add(9, Some(number.0), Start::Join);
        nodes.join(9).await.expect("gets the number");
        for again in [asked, nodes.led().await] {
            change(&nodes, again, late.clone()).await.expect("was done before");
            assert_eq!(nodes.quorum(again).members().len(), 3, "the next one stays");
        }
        let unknown = DirectoryId::UNASSIGNED;
        let wrong = MembersChange::Remove { id: number, directory: Some(unknown) };
        let refusal = change(&nodes, asked, wrong).await.expect_err("nobody has had it");
        let expected = AdmissionRefusal::OtherDirectory {
            id: number,
            given: unknown,
            known: name(&nodes, 9).directory,
        };
        assert!(matches!(refusal, QuorumError::Admission(refusal) if refusal == expected));
        change(&nodes, asked, MembersChange::remove(number)).await.expect("who has it now goes");
        assert_eq!(nodes.quorum(asked).members().len(), 2);
    });
}

/// What a leader leaves that is stopped in the middle.
#[test]
fn the_quorum_lets_go_of_a_broker_that_was_removed() {
    in_virtual_time(async {
        let nodes = grown(3, 3, 3).await;
        let gone = follower(&nodes, &[]).await;
        let VoterName { id, directory } = name(&nodes, gone);
        let command = RemoveBroker { id, directory: Some(directory), is_replaced: false };
        let leader = nodes.led().await;
        nodes.quorum(leader).submit(command).await.expect("is committed");
        nodes.until("it is no member", |nodes| nodes.quorum(leader).members().len() == 2).await;
        until_removed(&nodes, gone).await;
    });
}

#[test]
fn whose_vote_is_taken_does_not_get_it_back_by_itself() {
    in_virtual_time(async {
        let mut nodes = grown(4, 4, 3).await;
        let asked = follower(&nodes, &[]).await;
        let demoted = nodes.led().await;
        let number = id(&nodes, demoted).0;
        let wrong = VoterName { directory: DirectoryId::UNASSIGNED, ..name(&nodes, demoted) };
        let refusal = change(&nodes, asked, MembersChange::RemoveVoter(wrong)).await;
        let refusal = refusal.expect_err("is another directory");
        assert!(matches!(refusal, QuorumError::Admission(AdmissionRefusal::NoVoter { .. })));

        let remove = MembersChange::RemoveVoter(name(&nodes, demoted));
        change(&nodes, asked, remove).await.expect("hands over, and loses its vote");
        let has_replacement = |nodes: &Nodes| {
            let voters = voters(nodes, asked);
            voters.len() == 3 && !voters.contains(&number)
        };
        nodes.until("the fourth votes in its place", has_replacement).await;
        create(&nodes.quorum(demoted), 1).await.expect("it follows on");

        // With a voter less and nobody else, it is not taken either.
        let next = follower(&nodes, &[demoted]).await;
        let remove = MembersChange::RemoveVoter(name(&nodes, next));
        change(&nodes, asked, remove).await.expect("loses its vote");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(3) {
            create(&nodes.quorum(asked), begin.elapsed().as_millis() as u32 + 2)
                .await
                .expect("goes on");
            assert!(voters(&nodes, asked).len() < 3, "{:?}", voters(&nodes, asked));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // The address of a node may change, and that gives it no vote.
        nodes.kill(demoted);
        nodes.all.get_mut(&demoted).expect("is one").address = "moved:9093".to_owned();
        nodes.start(demoted).await.expect("is back");
        let is_known = |nodes: &Nodes| {
            let leader = nodes.leader().map(|leader| nodes.quorum(leader).members());
            leader.into_iter().flatten().any(|member| member.address == "moved:9093")
        };
        nodes.until("its new address is known", is_known).await;
        assert!(!voters(&nodes, asked).contains(&number));

        let add = MembersChange::AddVoter(name(&nodes, demoted));
        change(&nodes, asked, add.clone()).await.expect("votes again");
        assert!(voters(&nodes, asked).contains(&number));
        let refusal = change(&nodes, asked, add).await.expect_err("votes already");
        assert!(matches!(refusal, QuorumError::Admission(AdmissionRefusal::IsVoter { .. })));
    });
}

#[test]
fn a_voter_that_the_others_need_does_not_leave() {
    in_virtual_time(async {
        let mut nodes = grown(5, 3, 3).await;
        let dead = follower(&nodes, &[]).await;
        nodes.kill(dead);
        let needed = follower(&nodes, &[]).await;
        let leader = nodes.led().await;
        let is_silent = |nodes: &Nodes| {
            let members = nodes.quorum(leader).members();
            let dead = members.iter().find(|member| member.id == id(nodes, dead));
            dead.is_some_and(|dead| dead.last_heard.is_none_or(|ago| ago > Duration::from_secs(1)))
        };
        nodes.until("the dead one is silent", is_silent).await;
        for change_ in [
            MembersChange::RemoveVoter(name(&nodes, needed)),
            MembersChange::remove(id(&nodes, needed)),
            MembersChange::RemoveVoter(name(&nodes, leader)),
        ] {
            let refusal = change(&nodes, leader, change_).await.expect_err("is needed");
            let QuorumError::Admission(AdmissionRefusal::NoMajorityLeft { silent, .. }) = refusal
            else {
                panic!("{refusal}")
            };
            assert_eq!(silent, [id(&nodes, dead)]);
        }
        let image = nodes.quorum(leader).image();
        assert_eq!(image.removed_brokers().iter().len(), 0, "what is refused changes nothing");
        let remove = MembersChange::remove(id(&nodes, dead));
        change(&nodes, needed, remove).await.expect("the dead one can go");
        let remove = MembersChange::remove(id(&nodes, needed));
        change(&nodes, leader, remove).await.expect("is not needed any more");
        let last = MembersChange::remove(id(&nodes, leader));
        let refusal = change(&nodes, leader, last).await.expect_err("is the last");
        assert!(matches!(refusal, QuorumError::Admission(AdmissionRefusal::LastVoter { .. })));
        create(&nodes.quorum(leader), 1).await.expect("goes on alone");
    });
}

#[test]
fn every_node_says_how_the_quorum_is_by_its_leaders_word() {
    const PATIENCE: Duration = Duration::from_secs(2);
    in_virtual_time(async {
        let mut nodes = grown(6, 4, 3).await;
        for number in 1..=4 {
            let described = nodes.quorum(number).describe(PATIENCE).await.expect("is told");
            let known = described.members.iter().filter(|member| member.log_end.is_some()).count();
            assert_eq!(known, 4, "{described:?}");
        }
        let leader = nodes.led().await;
        nodes.kill(leader);
        let asked = nodes.running().next().expect("runs").0;
        let described = nodes.quorum(asked).describe(PATIENCE).await.expect("the next one tells");
        assert_ne!(described.status.leader, Some(id(&nodes, leader)));
        let second = nodes.led().await;
        nodes.kill(second);
        let asked = nodes.running().next().expect("runs").0;
        let begin = Instant::now();
        let error = nodes.quorum(asked).describe(PATIENCE).await.expect_err("nobody leads");
        assert!(begin.elapsed() < PATIENCE * 2, "{:?}", begin.elapsed());
        assert!(matches!(error, QuorumError::NotLeader | QuorumError::OutcomeUnknown), "{error}");
        assert_eq!(nodes.quorum(asked).own_description().members.len(), 4);
    });
}

/// The place of a node whose disk is lost goes to an empty one.
#[test]
fn a_dead_node_is_replaced_in_one_step_and_a_living_one_is_not() {
    for seed in 10..20 {
        in_virtual_time(async move {
            let mut nodes = grown(seed, 3, 3).await;
            let lost = follower(&nodes, &[]).await;
            let number = id(&nodes, lost);
            nodes.add(12, Some(number.0), Start::Join);
            nodes.all.get_mut(&12).expect("was added").replaces = true;
            let refusal = nodes.join(12).await.expect_err("it lives");
            let QuorumError::Admission(AdmissionRefusal::NotReplaced { id: refused, .. }) = refusal
            else {
                panic!("seed {seed}: {refusal}")
            };
            assert_eq!(refused, number);
            nodes.power_cut(lost);
            let asked = follower(&nodes, &[lost]).await;
            let leader = nodes.led().await;
            let is_silent = |nodes: &Nodes| {
                let members = nodes.quorum(leader).members();
                let known = members.into_iter().find(|member| member.id == number);
                known.and_then(|it| it.last_heard).is_none_or(|at| at > Duration::from_secs(1))
            };
            nodes.until("nobody hears it", is_silent).await;
            let admitted = timeout(Duration::from_secs(10), nodes.join(12)).await;
            admitted.expect("in bounded time").unwrap_or_else(|it| panic!("seed {seed}: {it}"));
            assert_eq!(id(&nodes, 12), number);
            nodes.until("it votes", |nodes| voters(nodes, 12).len() == 3).await;
            assert_eq!(nodes.quorum(asked).members().len(), 3);
            // The old disk is found again.
            nodes.start(lost).await.expect("opens its files");
            until_removed(&nodes, lost).await;
            create(&nodes.quorum(12), 1).await.expect("the others go on");
        });
    }
}

#[test]
fn a_number_that_nobody_has_had_is_no_node_to_replace() {
    in_virtual_time(async {
        let mut nodes = grown(20, 1, 1).await;
        nodes.add(9, Some(9), Start::Join);
        nodes.all.get_mut(&9).expect("was added").replaces = true;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let refusal = nodes.join(9).await.expect_err("is unknown");
        let told = "node 9 cannot be replaced: the cluster has no such node";
        assert!(refusal.to_string().contains(told), "{refusal}");
        // After a removal the number is known.
        nodes.all.get_mut(&9).expect("was added").replaces = false;
        nodes.join(9).await.expect("is admitted");
        change(&nodes, 1, MembersChange::remove(BrokerId(9))).await.expect("is removed");
        nodes.add(10, Some(9), Start::Join);
        nodes.all.get_mut(&10).expect("was added").replaces = true;
        nodes.join(10).await.expect("takes the place of the removed one");
    });
}
