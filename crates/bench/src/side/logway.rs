//! Logway, of one executable or another.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::own_rates::OwnCounts;
use super::{DELETED_SOON, Launch, checksum, free_addresses};

const LOG_LISTEN: &str = "--log-listen";

/// `logway serve` with nothing but where to listen and where to write, and when deleted topics go. Several nodes each
/// have an address for the others, and all but the first join that one.
pub(super) fn launch(executable: &Path, directories: &[PathBuf]) -> anyhow::Result<Vec<Launch>> {
    let version = Command::new(executable).arg("--version").output();
    let version = version.with_context(|| format!("cannot run {}", executable.display()))?;
    let version = String::from_utf8_lossy(&version.stdout);
    let version = format!("{}, executable {}", version.trim(), checksum(executable)?);
    let has_log_service = takes(executable, LOG_LISTEN)?;
    let addresses = free_addresses(4 * directories.len())?;
    let (clients, others) = addresses.split_at(directories.len());
    let (https, others) = others.split_at(directories.len());
    let (log_services, nodes) = others.split_at(directories.len());
    let node = |number: usize| {
        let mut command = [
            &executable.display().to_string(),
            "serve",
            "--data-dir",
            &directories[number].join("data").display().to_string(),
            "--kafka-listen",
            &clients[number].to_string(),
            "--http-listen",
            &https[number].to_string(),
            "--set",
            DELETED_SOON,
        ]
        .map(str::to_owned)
        .to_vec();
        if has_log_service {
            command.extend([LOG_LISTEN.to_owned(), log_services[number].to_string()]);
        }
        if directories.len() > 1 {
            command.extend(["--node-listen".to_owned(), nodes[number].to_string()]);
        }
        if number > 0 {
            command.extend(["--join".to_owned(), clients[0].to_string()]);
        }
        Launch {
            command,
            address: clients[number].clone(),
            log_service: has_log_service.then(|| log_services[number].clone()),
            own_counts: OwnCounts::Metrics(https[number].clone()),
            version: version.clone(),
            ..Launch::default()
        }
    };
    Ok((0..directories.len()).map(node).collect())
}

/// Whether `logway serve` knows an option: the builds that a change is compared with may be older than it.
fn takes(executable: &Path, option: &str) -> anyhow::Result<bool> {
    let help = Command::new(executable).args(["serve", "--help"]).output();
    let help = help.with_context(|| format!("cannot run {}", executable.display()))?;
    Ok(String::from_utf8_lossy(&help.stdout).contains(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No `logway`, but it says something when it is asked for its version.
    fn launch_some(nodes: usize) -> Vec<Launch> {
        let directories: Vec<PathBuf> =
            (1..=nodes).map(|number| PathBuf::from(format!("/nowhere/{number}"))).collect();
        launch(Path::new("/bin/echo"), &directories).expect("it is there")
    }

    #[test]
    fn a_version_says_which_build_it_is() {
        let launch = &launch_some(1)[0];
        let (said, build) = launch.version.split_once(", executable ").expect("both are there");
        assert!(!said.is_empty() && build.len() == 8, "{}", launch.version);
    }

    #[test]
    fn all_nodes_but_the_first_join_it() {
        let nodes = launch_some(3);
        let joins =
            |node: &Launch| node.command.join(" ").split_once(" --join ").map(|at| at.1.to_owned());
        let first = Some(nodes[0].address.to_string());
        assert_eq!(nodes.iter().map(joins).collect::<Vec<_>>(), [None, first.clone(), first]);
        assert!(nodes[2].command.contains(&"/nowhere/3/data".to_owned()));
        let alone = launch_some(1)[0].command.join(" ");
        assert!(!alone.contains("--node-listen") && !alone.contains("--join"), "{alone}");
    }
}
