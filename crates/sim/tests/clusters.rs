//! Clusters that must keep all promises, and some that break a rule. More with `cargo clusterworlds`.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use logway_sim::{ClusterReport, run_cluster, run_directed};

/// How many clusters are lived: each takes some seconds, for the most part of waiting.
const SEEDS: u64 = 2;

/// A mutation that nearly every cluster notices has to be noticed within so many.
const SEEDS_MUTATED: u64 = 5;

/// Clusters keep time, which two at once have too little of.
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
fn who_is_back_in_another_life_is_not_in_sync() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(violation) = run_directed(0, None) {
        panic!("{violation}\nhint: `cargo clusterworlds --directed --seeds 1` lives it again");
    }
    assert_missed(&["--directed", "--seeds", "1"], "telling the lives of replicas");
}

#[test]
fn what_no_cluster_can_do_without_is_missed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for name in ["waiting for other replicas", "showing only what is committed"] {
        assert_missed(&["--seeds", &SEEDS_MUTATED.to_string()], name);
    }
}

/// Lives worlds that break a rule, in a process of their own: what is left of them may panic some time later, which counts
/// against the next one.
fn assert_missed(worlds: &[&str], name: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clusterworlds"));
    let lived = command.args(worlds).args(["--mutation", name]).output();
    let lived = lived.expect("it is built with this test");
    let said = String::from_utf8_lossy(&lived.stderr);
    assert!(!lived.status.success(), "nobody misses {name} in {worlds:?}");
    assert!(said.contains("lives it again"), "{said}");
    println!("without {name}: {said}");
}
