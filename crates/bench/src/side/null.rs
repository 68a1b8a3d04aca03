//! The broker that does nothing, of this executable.

use std::path::Path;

use super::{Launch, free_address};

pub(super) fn launch(executable: &Path) -> anyhow::Result<Launch> {
    let address = free_address()?;
    let executable = executable.display().to_string();
    let command = [&executable, "bench", "null", "--listen", &address.to_string()];
    Ok(Launch {
        command: command.map(str::to_owned).to_vec(),
        address,
        version: "answers without doing anything".to_owned(),
        ..Launch::default()
    })
}
