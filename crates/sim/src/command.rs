//! What the commands that live worlds have in common.

use std::io;
use std::process::{Child, Command, ExitCode};

use anyhow::Context;
use tracing::Level;

/// Shows on stderr what is logged, up to a level.
pub fn log(most: Level) {
    tracing_subscriber::fmt()
        .with_max_level(most)
        .with_thread_names(true)
        .with_writer(io::stderr)
        .init();
}

/// The command that lives one world again. `more` are the arguments that say what kind of world it is.
pub fn repeating(name: &str, seed: u64, more: &[&str]) -> String {
    let quoted = |argument: &&str| match argument.contains(' ') {
        true => format!(" '{argument}'"),
        false => format!(" {argument}"),
    };
    let more: String = more.iter().map(quoted).collect();
    format!("cargo {name} --from {seed} --seeds 1{more}")
}

/// Deals the worlds of so many seeds, from a first one on, out to processes of this program: in one there is one world at a
/// time. `more` are the arguments that say what kind of worlds.
///
/// # Errors
///
/// If a process cannot be started or waited for.
pub fn deal(first: u64, seeds: u64, jobs: u64, more: &[&str]) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("this program has no path")?;
    let share = seeds.div_ceil(jobs);
    let mut children: Vec<Child> = Vec::new();
    for job in 0..jobs {
        let first = first.saturating_add(job * share);
        let seeds = share.min(seeds.saturating_sub(job * share));
        let mut command = Command::new(&program);
        command.args(["--from", &first.to_string(), "--seeds", &seeds.to_string()]).args(more);
        children.push(command.spawn().context("another process cannot be started")?);
    }
    let mut outcome = ExitCode::SUCCESS;
    for mut child in children {
        if !child.wait().context("another process cannot be waited for")?.success() {
            outcome = ExitCode::FAILURE;
        }
    }
    Ok(outcome)
}
