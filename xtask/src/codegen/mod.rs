//! Writes the messages of the wire codec from Kafka's definitions.
//!
//! The definitions ([`definition`]) come out of three jars ([`jar`]), are resolved ([`schema`]) and turned into one file of
//! Rust per message (`emit_*`), an index of them, and the list of APIs. Only names, types, versions and defaults are
//! taken over; the definitions' prose is not.

mod definition;
mod emit_api_key;
mod emit_decode;
mod emit_encode;
mod emit_index;
mod emit_message;
mod emit_struct;
mod jar;
mod names;
mod output;
pub mod schema;
pub mod types;
mod versions;
mod wire_size;

use std::path::{Path, PathBuf};

use anyhow::Context;

use jar::Artifact;
pub use output::Files;
use schema::Message;

use crate::{kinesis_model, log_service};

/// What `cargo xtask codegen` was asked to do.
#[derive(Debug, Default)]
pub struct Options {
    /// Where the jars are, if Maven shall not fetch them.
    pub jars: Jars,
    /// Compare instead of writing.
    pub check: bool,
}

/// The jars with definitions; those that are `None` are fetched with Maven.
#[derive(Debug, Default)]
pub struct Jars {
    /// The kafka-clients jar.
    pub clients: Option<PathBuf>,
    /// The kafka-group-coordinator jar.
    pub group_coordinator: Option<PathBuf>,
    /// The kafka-transaction-coordinator jar.
    pub transaction_coordinator: Option<PathBuf>,
}

/// Generates the messages.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let root = workspace_root()?;
    for service in &kinesis_model::SERVICES {
        settle(options, &kinesis_model::emit(service, root)?, service.shapes)?;
    }
    settle(options, &log_service::emit(root)?, log_service::MESSAGES)?;
    let messages = messages(&options.jars)?;
    let mut code = Files::default();
    code.add("mod.rs", emit_index::emit_index(&messages));
    code.add("api_key.rs", emit_api_key::emit_api_key(&messages)?);
    for message in &messages {
        code.add(&format!("{}.rs", message.module), emit_message::emit_message(message));
    }
    let mut tests = Files::default();
    tests.add("mod.rs", emit_index::emit_test_index(&messages));
    settle(options, &code, "crates/wire/src/messages")?;
    settle(options, &tests, "crates/wire/tests/all_messages")?;
    Ok(())
}

/// Writes generated files to their folder, or compares them with what is there.
fn settle(options: &Options, files: &Files, folder: &str) -> anyhow::Result<()> {
    let name = folder.replace('/', "-");
    let files = files.formatted(&cache_dir()?.join("unformatted").join(name))?;
    let folder = workspace_root()?.join(folder);
    if options.check { files.compare(&folder) } else { files.write(&folder) }
}

/// The messages that the jars define and we want, by name.
pub fn messages(jars: &Jars) -> anyhow::Result<Vec<Message>> {
    let mut messages = Vec::new();
    for (artifact, jar) in [
        (Artifact::Clients, &jars.clients),
        (Artifact::GroupCoordinator, &jars.group_coordinator),
        (Artifact::TransactionCoordinator, &jars.transaction_coordinator),
    ] {
        let jar = match jar {
            Some(jar) => jar.to_owned(),
            None => jar::fetch(artifact, &cache_dir()?)?,
        };
        for definition in jar::definitions(artifact, &jar)? {
            messages.extend(Message::resolve(artifact, &definition)?);
        }
    }
    messages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(messages)
}

fn cache_dir() -> anyhow::Result<PathBuf> {
    Ok(workspace_root()?.join("target/codegen"))
}

/// The folder of the whole project.
pub fn workspace_root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in the workspace")
}
