//! Prints the page of the reference that is made from this program's command line:
//!
//! `cargo run --package logway-bench --example bench-reference`
//!
//! `cargo xtask reference` writes it into docs/reference.

#[path = "../../server/examples/reference/cli_page.rs"]
mod cli_page;

const TOP: &str = "<!-- Written by `cargo xtask reference`; edit the doc comments in crates/bench/src instead. -->
# The command line of logway-bench

What `--help` says. `make bench` builds the program. How to run it and how to read what it prints is in
[BENCHMARKS.md](../BENCHMARKS.md).
";

fn main() {
    print!("{}", cli_page::render(TOP, logway_bench::command()));
}
