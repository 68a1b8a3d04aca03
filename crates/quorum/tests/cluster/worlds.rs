//! Worlds by the seed.

use std::time::Instant;

use logway_quorum::Mutation;

use crate::in_virtual_time;
use crate::world::live;

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("is a number"))
}

#[test]
fn worlds_keep_their_promises() {
    let (first, count) = (number("QUORUM_SEED", 0), number("QUORUM_WORLDS", 12));
    let begin = Instant::now();
    let mut total = [0; 4];
    for seed in first..first + count {
        let lived = in_virtual_time(live(seed, None));
        let lived = lived.unwrap_or_else(|violation| {
            panic!("QUORUM_SEED={seed} QUORUM_WORLDS=1: {violation}");
        });
        let report = lived.report;
        let counts = [report.acknowledged, report.unknown, report.epochs, report.images];
        total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
    }
    let [acknowledged, unknown, epochs, images] = total;
    let per_hour = count as f64 * 3_600.0 / begin.elapsed().as_secs_f64();
    println!(
        "{count} worlds from {first}: {acknowledged} commands acknowledged, {unknown} unknown, \
         {epochs} epochs, {images} images; {per_hour:.0} worlds an hour"
    );
    assert!(acknowledged as u64 > count * 20, "the worlds are too quiet: {acknowledged}");
}

#[test]
fn a_seed_is_one_world() {
    for seed in 0..3 {
        let traces = [0; 2].map(|_| in_virtual_time(live(seed, None)).expect("is well").trace);
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}

/// Lives worlds until a broken rule is noticed.
fn caught(mutation: Mutation) {
    let (first, count) = (number("QUORUM_SEED", 0), number("QUORUM_WORLDS", 100));
    let found = (first..first + count).find_map(|seed| {
        let violation = in_virtual_time(live(seed, Some(mutation))).err()?;
        Some((seed - first + 1, violation))
    });
    let Some((worlds, violation)) = found else { panic!("{mutation:?} is not noticed") };
    let violation = violation.lines().next().unwrap_or_default();
    println!("{mutation:?} is noticed in world {worlds}: {violation}");
}

#[test]
fn votes_without_sync_are_noticed() {
    caught(Mutation::VotesWithoutSync);
}

#[test]
fn a_log_without_sync_is_noticed() {
    caught(Mutation::AppendsWithoutSync);
}

#[test]
fn votes_within_the_lease_are_noticed() {
    caught(Mutation::VotesWithinTheLease);
}

#[test]
fn a_node_that_founds_where_it_joins_is_noticed() {
    caught(Mutation::FoundsWhereItJoins);
}

#[test]
fn commands_that_are_done_twice_are_noticed() {
    caught(Mutation::ForgetsCommands);
}

#[test]
fn a_batch_for_another_image_is_noticed() {
    caught(Mutation::AppliesToAnyImage);
}

#[test]
fn a_leader_that_is_never_silent_is_noticed() {
    caught(Mutation::NeverSilent);
}
