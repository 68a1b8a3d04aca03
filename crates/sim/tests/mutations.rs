//! Whatever the engine leaves out is noticed.

use logway_sim::{MUTATIONS, run};

/// A mutation has to be noticed within so many worlds.
const SEEDS: u64 = 40;

#[test]
fn what_is_left_out_is_missed() {
    for mutation in MUTATIONS {
        let violation = (0..SEEDS).find_map(|seed| run(seed, Some(mutation)).err());
        let name = mutation.name;
        match violation {
            Some(violation) => println!("without {name}: {violation}"),
            None => panic!("nobody misses {name} within {SEEDS} seeds"),
        }
    }
}
