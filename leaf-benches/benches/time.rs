//! How long each leaf function takes. Compare two builds on one machine, one right after the other.

use criterion::Criterion;
use logway_leaf_benches::leaves;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for leaf in leaves() {
        let mut work = leaf.prepare();
        criterion.bench_function(leaf.name, |bencher| bencher.iter(&mut work));
    }
    criterion.final_summary();
}
