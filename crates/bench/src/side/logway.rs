//! Logway, of one executable or another.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::own_rates::OwnCounts;
use super::{DELETED_SOON, Launch, checksum, free_address};

/// `logway serve` with nothing but where to listen and where to write, and when deleted topics go.
pub(super) fn launch(executable: &Path, directory: &Path) -> anyhow::Result<Launch> {
    let (address, http) = (free_address()?, free_address()?);
    let version = Command::new(executable).arg("--version").output();
    let version = version.with_context(|| format!("cannot run {}", executable.display()))?;
    let version = String::from_utf8_lossy(&version.stdout);
    let version = format!("{}, executable {}", version.trim(), checksum(executable)?);
    let data_dir = directory.join("data");
    let command = [
        &executable.display().to_string(),
        "serve",
        "--data-dir",
        &data_dir.display().to_string(),
        "--kafka-listen",
        &address.to_string(),
        "--http-listen",
        &http.to_string(),
        "--set",
        DELETED_SOON,
    ];
    Ok(Launch {
        command: command.map(str::to_owned).to_vec(),
        address,
        own_counts: OwnCounts::Metrics(http),
        version,
        ..Launch::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_says_which_build_it_is() {
        // No `logway`, but it says something when it is asked for its version.
        let launch = launch(Path::new("/bin/echo"), Path::new("/nowhere")).expect("it is there");
        let (said, build) = launch.version.split_once(", executable ").expect("both are there");
        assert!(!said.is_empty() && build.len() == 8, "{}", launch.version);
    }
}
