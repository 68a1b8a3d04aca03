//! Writes the messages of the wire codec from Kafka's definitions.
//!
//! The definitions ([`definition`]) come out of a jar ([`jar`]), are resolved ([`schema`]) and turned into one file of
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

use output::Files;
use schema::Message;

/// What `cargo xtask codegen` was asked to do.
#[derive(Debug, Default)]
pub struct Options {
    /// The kafka-clients jar, instead of the one that Maven fetches.
    pub jar: Option<PathBuf>,
    /// Compare instead of writing.
    pub check: bool,
}

/// Generates the messages.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let messages = messages(options.jar.as_deref())?;
    let mut code = Files::default();
    code.add("mod.rs", emit_index::emit_index(&messages));
    code.add("api_key.rs", emit_api_key::emit_api_key(&messages)?);
    for message in &messages {
        code.add(&format!("{}.rs", message.module), emit_message::emit_message(message));
    }
    let mut tests = Files::default();
    tests.add("mod.rs", emit_index::emit_test_index(&messages));
    let root = workspace_root()?;
    for (files, folder) in
        [(code, "crates/wire/src/messages"), (tests, "crates/wire/tests/all_messages")]
    {
        let files = files.formatted(&cache_dir()?.join("unformatted"))?;
        if options.check {
            files.compare(&root.join(folder))?;
        } else {
            files.write(&root.join(folder))?;
        }
    }
    Ok(())
}

/// The messages in the jar, by default the one that Maven fetches, by name.
pub fn messages(jar: Option<&Path>) -> anyhow::Result<Vec<Message>> {
    let jar = match jar {
        Some(jar) => jar.to_owned(),
        None => jar::fetch(&cache_dir()?)?,
    };
    let mut messages = Vec::new();
    for definition in jar::definitions(&jar)? {
        messages.extend(Message::resolve(&definition)?);
    }
    Ok(messages)
}

fn cache_dir() -> anyhow::Result<PathBuf> {
    Ok(workspace_root()?.join("target/codegen"))
}

fn workspace_root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in the workspace")
}
