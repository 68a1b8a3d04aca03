//! Clusters that must keep all promises, and some that break a rule. More with `cargo clusterworlds`.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use logway_sim::{ClusterReport, Transactions, run_cluster, run_directed};

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
        let (transactions, name) = match seed % 2 {
            0 => (Transactions::Never, "never"),
            _ => (Transactions::Always, "always"),
        };
        match run_cluster(seed, transactions, None) {
            Ok(report) => total += report,
            Err(violation) => {
                let again = format!("--from {seed} --seeds 1 --transactions {name}");
                panic!("{violation}\nhint: `cargo clusterworlds {again}` lives it again")
            }
        }
    }
    println!("{total}");
    assert!(total.transactions_committed > 0, "no transaction is committed: {total}");
    assert!(total.acknowledged > SEEDS * 100, "the clusters are too quiet: {total}");
}

#[test]
fn worlds_that_are_made_for_a_rule_keep_it_and_miss_it() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(violation) = run_directed(0, None) {
        panic!("{violation}\nhint: `cargo clusterworlds --directed --seeds 1` lives it again");
    }
    let names = [
        "telling the lives of replicas",
        "waiting until a marker is replicated",
        "looking at who vouches",
    ];
    for name in names {
        assert_missed(&["--directed", "--seeds", "1"], name);
    }
}

#[test]
fn what_no_cluster_can_do_without_is_missed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let names =
        ["waiting for other replicas", "showing only what is committed", "a last stable offset"];
    for name in names {
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
