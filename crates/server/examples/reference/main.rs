//! Prints a page of the reference that is made from the program itself:
//!
//! `cargo run --package logway --example reference -- cli|json|metrics`
//!
//! `cargo xtask reference` writes the pages into docs/reference.

mod cli_page;
mod json_page;
mod metrics_page;

use anyhow::bail;

fn main() -> anyhow::Result<()> {
    let page = match std::env::args().nth(1).as_deref() {
        Some("cli") => cli_page::render(logway_server::command()),
        Some("json") => json_page::render(),
        Some("metrics") => metrics_page::render()?,
        _ => bail!("usage: reference cli|json|metrics"),
    };
    print!("{page}");
    Ok(())
}
