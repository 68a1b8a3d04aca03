//! The broker that does nothing, or only stores, of this executable.

use std::path::Path;

use super::{Launch, checksum, free_address};

pub(super) fn launch(
    executable: &Path,
    directory: &Path,
    is_storing: bool,
) -> anyhow::Result<Launch> {
    let address = free_address()?;
    let build = checksum(executable)?;
    let executable = executable.display().to_string();
    let command = [&executable, "null", "--listen", &address.to_string()];
    let mut command = command.map(str::to_owned).to_vec();
    let (option, version) = match is_storing {
        false => ("--source", "answers without doing anything"),
        true => ("--store", "stores what it is sent, and nothing else"),
    };
    command.extend([option.to_owned(), directory.display().to_string()]);
    Ok(Launch {
        command,
        address,
        version: format!("{version}, executable {build}"),
        ..Launch::default()
    })
}
