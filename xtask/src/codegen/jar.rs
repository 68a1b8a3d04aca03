//! Where the definitions come from: the kafka-clients jar.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::definition::Definition;

/// The version of Kafka whose protocol is spoken.
pub const KAFKA_VERSION: &str = "4.3.0";

/// Where in the jar the definitions are.
const FOLDER: &str = "common/message/";

/// The jar under `cache_dir`, fetched with Maven if it is not there.
pub fn fetch(cache_dir: &Path) -> anyhow::Result<PathBuf> {
    let jar = cache_dir.join(format!("kafka-clients-{KAFKA_VERSION}.jar"));
    if jar.exists() {
        return Ok(jar);
    }
    eprintln!("fetching {} with Maven", jar.display());
    let status = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "dependency:copy"])
        .arg(format!("-Dartifact=org.apache.kafka:kafka-clients:{KAFKA_VERSION}"))
        .arg(format!("-DoutputDirectory={}", cache_dir.display()))
        .status()
        .context("running mvn (hint: install Maven, or give --jar)")?;
    ensure!(status.success() && jar.exists(), "mvn did not fetch {}", jar.display());
    Ok(jar)
}

/// The definitions in the jar, by name.
pub fn definitions(jar: &Path) -> anyhow::Result<Vec<Definition>> {
    let file = File::open(jar).with_context(|| format!("opening {}", jar.display()))?;
    let mut archive = zip::ZipArchive::new(file)?;
    let mut definitions = Vec::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index)?;
        let name = member.name()?.into_owned();
        if !name.starts_with(FOLDER) || !name.ends_with(".json") {
            continue;
        }
        let mut text = String::new();
        member.read_to_string(&mut text).with_context(|| format!("reading {name}"))?;
        definitions.push(Definition::parse(&name, &text)?);
    }
    ensure!(!definitions.is_empty(), "{} holds no message definitions", jar.display());
    definitions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(definitions)
}
