//! Where the definitions come from: Kafka's jars.

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

/// A jar with definitions, named as its artifact on Maven Central.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Artifact {
    /// What clients and brokers say to each other.
    Clients,
    /// The records that the group coordinator keeps in `__consumer_offsets`.
    GroupCoordinator,
    /// The records that the transaction coordinator keeps in `__transaction_state`.
    TransactionCoordinator,
}

impl Artifact {
    /// Every jar.
    pub const ALL: &[Artifact] =
        &[Artifact::Clients, Artifact::GroupCoordinator, Artifact::TransactionCoordinator];

    /// The artifact's id.
    pub fn name(self) -> &'static str {
        match self {
            Artifact::Clients => "kafka-clients",
            Artifact::GroupCoordinator => "kafka-group-coordinator",
            Artifact::TransactionCoordinator => "kafka-transaction-coordinator",
        }
    }

    /// Whether code is generated for the message of that name.
    fn wants(self, message: &str) -> bool {
        match self {
            Artifact::Clients | Artifact::TransactionCoordinator => true,
            // The others are records of group types that are not served; not all of them can be read.
            Artifact::GroupCoordinator => GROUP_RECORDS.contains(&message),
        }
    }
}

/// The records of classic groups, of committed offsets, of consumer groups (KIP-848), and of streams groups (KIP-1071).
const GROUP_RECORDS: [&str; 30] = [
    "GroupMetadataKey",
    "GroupMetadataValue",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "StreamsGroupMetadataKey",
    "StreamsGroupMetadataValue",
    "StreamsGroupMemberMetadataKey",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupTargetAssignmentMetadataKey",
    "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupTargetAssignmentMemberKey",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupCurrentMemberAssignmentKey",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupTopologyKey",
    "StreamsGroupTopologyValue",
];

/// The jar under `cache_dir`, fetched with Maven if it is not there.
pub fn fetch(artifact: Artifact, cache_dir: &Path) -> anyhow::Result<PathBuf> {
    let artifact = artifact.name();
    let jar = cache_dir.join(format!("{artifact}-{KAFKA_VERSION}.jar"));
    if jar.exists() {
        return Ok(jar);
    }
    eprintln!("fetching {} with Maven", jar.display());
    let status = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "dependency:copy"])
        .arg(format!("-Dartifact=org.apache.kafka:{artifact}:{KAFKA_VERSION}"))
        .arg(format!("-DoutputDirectory={}", cache_dir.display()))
        .status()
        .context("running mvn (hint: install Maven, or name the jars)")?;
    ensure!(status.success() && jar.exists(), "mvn did not fetch {}", jar.display());
    Ok(jar)
}

/// The definitions in the jar for which there shall be code, by name.
pub fn definitions(artifact: Artifact, jar: &Path) -> anyhow::Result<Vec<Definition>> {
    let file = File::open(jar).with_context(|| format!("opening {}", jar.display()))?;
    let mut archive = zip::ZipArchive::new(file)?;
    let mut definitions = Vec::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index)?;
        let name = member.name()?.into_owned();
        let message = name.strip_prefix(FOLDER).and_then(|file| file.strip_suffix(".json"));
        if !message.is_some_and(|message| artifact.wants(message)) {
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
