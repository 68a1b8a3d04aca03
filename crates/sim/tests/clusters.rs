//! Clusters that must keep all promises, and two that break a rule. More with `cargo clusterworlds`.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use logway_sim::{ClusterReport, run_cluster};

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
fn what_no_cluster_can_do_without_is_missed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for name in ["waiting for other replicas", "showing only what is committed"] {
        // What is left of a cluster that breaks a rule may panic some time later, which counts against the next one.
        let mut worlds = Command::new(env!("CARGO_BIN_EXE_clusterworlds"));
        worlds.args(["--seeds", &SEEDS_MUTATED.to_string(), "--mutation", name]);
        let lived = worlds.output().expect("it is built with this test");
        let said = String::from_utf8_lossy(&lived.stderr);
        assert!(!lived.status.success(), "nobody misses {name} within {SEEDS_MUTATED} seeds");
        assert!(said.contains("lives it again"), "{said}");
        println!("without {name}: {said}");
    }
}
