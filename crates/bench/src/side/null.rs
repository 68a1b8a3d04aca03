//! The broker that does nothing, or only stores, of this executable.

use std::path::Path;

use super::{Launch, free_address};

pub(super) fn launch(executable: &Path, store: Option<&Path>) -> anyhow::Result<Launch> {
    let address = free_address()?;
    let executable = executable.display().to_string();
    let command = [&executable, "bench", "null", "--listen", &address.to_string()];
    let mut command = command.map(str::to_owned).to_vec();
    if let Some(store) = store {
        command.extend(["--store".to_owned(), store.display().to_string()]);
    }
    let version = match store {
        None => "answers without doing anything",
        Some(_) => "stores what it is sent, and nothing else",
    };
    Ok(Launch { command, address, version: version.to_owned(), ..Launch::default() })
}
