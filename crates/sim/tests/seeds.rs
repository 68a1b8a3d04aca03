//! Worlds that must keep all promises. A fixed set; others with `LOGWAY_SIM_FIRST_SEED` and
//! `LOGWAY_SIM_SEEDS`.

use logway_sim::{Report, run};

/// How many worlds are lived by default.
const SEEDS: u64 = 30;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}: {error}")),
        Err(_) => default,
    }
}

#[test]
fn no_power_cut_breaks_a_promise() {
    let first = number("LOGWAY_SIM_FIRST_SEED", 0);
    let mut total = Report::default();
    for seed in first..first + number("LOGWAY_SIM_SEEDS", SEEDS) {
        match run(seed, None) {
            Ok(report) => total += report,
            Err(violation) => {
                panic!("{violation}\nhint: `cargo powercut --from {seed} --seeds 1` repeats it")
            }
        }
    }
    println!("{total}");
}

/// Of those that compact nothing; of the others, nearly all.
#[cfg(target_os = "linux")]
#[test]
fn a_seed_gives_the_same_world_each_time() {
    const WORLDS: usize = 4;
    let worlds = (0..).map(|seed| (seed, run(seed, None)));
    let is_repeatable = |(_, world): &(u64, Result<Report, _>)| {
        world.as_ref().is_ok_and(|report| report.cleanings == 0 && report.batches > 0)
    };
    for (seed, world) in worlds.filter(is_repeatable).take(WORLDS) {
        assert_eq!(run(seed, None), world, "seed {seed}");
    }
}
