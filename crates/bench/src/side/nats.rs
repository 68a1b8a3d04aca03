//! NATS with JetStream: one server with its own defaults, but for when it syncs.

use std::path::Path;

use super::fetch::{GoPeer, cache_directory};
use super::{Launch, free_address};
use crate::files::write_file;
use crate::peer::Nats;

const NATS: GoPeer = GoPeer {
    name: "nats-2.15.2",
    package: "github.com/nats-io/nats-server/v2@v2.15.2",
    program: "nats-server",
};

pub(super) fn launch(directory: &Path) -> anyhow::Result<Launch> {
    let program = NATS.need(&cache_directory()?)?;
    let address = free_address()?;
    let common = [
        format!("listen: \"{address}\""),
        // A server that asks whether we are there would be answered by nobody.
        "ping_interval: \"1h\"".to_owned(),
    ];
    let start_with = |name: &str, sync: &str| {
        let store = directory.join("data");
        let storage = format!("jetstream {{ store_dir: \"{}\"{sync} }}", store.display());
        let config_path = directory.join(name);
        let text = common.join("\n") + "\n" + &storage + "\n";
        write_file(&config_path, text)?;
        let command = [&program.display().to_string(), "--config"];
        let mut command = command.map(str::to_owned).to_vec();
        command.push(config_path.display().to_string());
        anyhow::Ok((command, storage))
    };
    // Its default is to sync every two minutes.
    let (command, storage) = start_with("unsynced.conf", "")?;
    let (synced_command, synced_storage) = start_with("synced.conf", ", sync_interval: always")?;
    let mut settings = common.to_vec();
    settings.extend([storage, "# for what is to be synced:".to_owned(), synced_storage]);
    Ok(Launch {
        command,
        synced_command: Some(synced_command),
        settings,
        address,
        version: "NATS 2.15.2 with JetStream".to_owned(),
        peer: Some(&Nats),
        ..Launch::default()
    })
}
