//! Prints a page of the reference that is made from the program itself:
//!
//! `cargo run --package logway --example reference -- cli|json|metrics|agents`
//!
//! `cargo xtask reference` writes the pages into docs/reference.

mod cli_page;
mod json_page;
mod metrics_page;

use anyhow::bail;

const TOP: &str = "<!-- Written by `cargo xtask reference`; edit the doc comments in \
                   crates/server/src/cli instead. -->
# The command line

What `--help` says. stdout carries data, stderr everything else. A command that fails says why on a
line that begins with `error:`, mostly what to do about it on a line that begins with `hint:`, and
exits with 1, or with 2 if it was called wrongly. `logway serve` exits with 3 when it was removed from its cluster.
";

fn main() -> anyhow::Result<()> {
    let page = match std::env::args().nth(1).as_deref() {
        Some("cli") => cli_page::render(TOP, logway_server::command()),
        Some("json") => json_page::render(),
        Some("metrics") => metrics_page::render()?,
        Some("agents") => logway_agent::render_reference(),
        _ => bail!("usage: reference cli|json|metrics|agents"),
    };
    print!("{page}");
    Ok(())
}
