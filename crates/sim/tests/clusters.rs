//! Clusters that must keep all promises, and two that break a rule. More with `cargo clusterworlds`.

use std::sync::{Mutex, PoisonError};

use logway_sim::{CLUSTER_MUTATIONS, ClusterReport, run_cluster};

/// How many clusters are lived: each takes some seconds, for the most part of waiting.
const SEEDS: u64 = 2;

/// A mutation that nearly every cluster notices has to be noticed within so many.
const SEEDS_MUTATED: u64 = 5;

/// A panic anywhere in the process counts against the cluster that is lived, and one that breaks a rule may panic.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn no_fault_of_a_cluster_breaks_a_promise() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut total = ClusterReport::default();
    for seed in 0..SEEDS {
        match run_cluster(seed, None) {
            Ok(report) => total += report,
            Err(violation) => {
                panic!(
                    "{violation}\nhint: `cargo clusterworlds --from {seed} --seeds 1` lives it again"
                )
            }
        }
    }
    println!("{total}");
    assert!(total.acknowledged > SEEDS * 100, "the clusters are too quiet: {total}");
}

#[test]
fn what_no_cluster_can_do_without_is_missed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for name in ["waiting for other replicas", "showing only what is committed"] {
        let mutation = CLUSTER_MUTATIONS.iter().find(|mutation| mutation.name == name);
        let mutation = mutation.expect("there is one");
        let violation = (0..SEEDS_MUTATED).find_map(|seed| run_cluster(seed, Some(mutation)).err());
        match violation {
            Some(violation) => println!("without {name}: {violation}"),
            None => panic!("nobody misses {name} within {SEEDS_MUTATED} seeds"),
        }
    }
}
