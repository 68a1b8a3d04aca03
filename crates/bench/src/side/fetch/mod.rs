//! Getting what a peer runs, once for all runs of this user, by the means that users have: Maven,
//! Debian's packages, Go's modules. Nothing is installed on the system.

mod debian;
mod go;
mod maven;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

pub(super) use debian::DebianPeer;
pub(super) use go::GoPeer;
pub(super) use maven::MavenPeer;

/// Where what was fetched stays: `$LOGWAY_BENCH_CACHE`, or the user's cache directory.
///
/// # Errors
///
/// The environment names no home directory.
pub(super) fn cache_directory() -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(directory) = variable("LOGWAY_BENCH_CACHE") {
        return Ok(directory);
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    Ok(cache.context("neither LOGWAY_BENCH_CACHE nor HOME is set")?.join("logway-bench"))
}

/// Runs a command to its end; `what` says what it is for.
///
/// # Errors
///
/// It cannot be run, or fails: with what it said.
pub(super) fn run(command: &mut Command, what: &str) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().with_context(|| format!("{what}, but {program} cannot be run"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success(), "{what}, but {program} failed: {}", said.trim());
    Ok(())
}
