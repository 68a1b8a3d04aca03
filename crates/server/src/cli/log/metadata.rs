//! What the metadata says of the logs of a data directory.

use std::path::Path;
use std::sync::Arc;

use logway_log::checkpoint::MetaProperties;
use logway_log::checkpoint::known_dirs::KNOWN_DIRS_FILE;
use logway_log::fs::{Fs, RealFs, ScratchFs};
use logway_log::inspect::{ExpectedLog, ExpectedLogs, Problem};
use logway_metadata::MetadataImage;
use logway_metadata::settings::BrokerSettings;
use logway_model::{BrokerId, TopicPartition};
use logway_node::start::METADATA_DIR;
use logway_quorum::{MetadataQuorum, QuorumError, QuorumOptions};

/// The node of a directory that does not say whose it is: the default of `node.id`.
const NODE_DEFAULT: BrokerId = BrokerId(1);

/// Reads the metadata in a data directory as a broker does when it starts, and changes nothing.
/// `None` if there never was any, as in all data directories of a broker but the first.
pub(super) fn read(
    root: &Path,
    owner: Option<MetaProperties>,
) -> Result<Option<ExpectedLogs>, Problem> {
    let dir = root.join(METADATA_DIR);
    let log = MetadataQuorum::log_path(&dir);
    let is_there = |path: &Path| RealFs.exists(path).unwrap_or(true);
    if !is_there(&log) {
        return match is_there(&root.join(KNOWN_DIRS_FILE)) {
            true => Err(problem(&log, "the log of the metadata is gone: put it back")),
            false => Ok(None),
        };
    }
    let node_id = owner.map_or(NODE_DEFAULT, |owner| owner.node_id);
    let read = match image(&dir, node_id) {
        Err(QuorumError::NodeIdChanged { stored, .. }) => match stored.parse().map(BrokerId) {
            Ok(stored) => image(&dir, stored).map(|image| expected(&image, stored)),
            Err(_) => return Err(problem(&log, "it does not say whose it is")),
        },
        read => read.map(|image| expected(&image, node_id)),
    };
    read.map(Some).map_err(|error| problem_of(&dir, error))
}

fn image(dir: &Path, node_id: BrokerId) -> Result<Arc<MetadataImage>, QuorumError> {
    let stopped = |reason: String| QuorumError::Stopped { reason };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| stopped(error.to_string()))?;
    let settings = BrokerSettings::new([("node.id".to_owned(), node_id.to_string())]);
    let settings = settings.map_err(|error| stopped(error.to_string()))?;
    let options = QuorumOptions {
        fs: Arc::new(ScratchFs::new(Arc::new(RealFs))),
        ..QuorumOptions::new(dir, Arc::new(settings))
    };
    runtime.block_on(async {
        let quorum = MetadataQuorum::open(options).await?;
        let image = quorum.image();
        quorum.shutdown().await?;
        Ok(image)
    })
}

/// The logs of a broker.
fn expected(image: &MetadataImage, node_id: BrokerId) -> ExpectedLogs {
    let logs = image.topics().flat_map(|topic| {
        let partitions = topic.numbered_partitions();
        let own = partitions.filter(|(_, partition)| partition.replicas.contains(&node_id));
        own.map(|(number, partition)| {
            let directory = partition.directory_of(node_id);
            let log = ExpectedLog { topic_id: topic.id, directory };
            (TopicPartition::new(topic.name.clone(), number), log)
        })
    });
    let directories = image.broker(node_id).map(|broker| broker.log_dirs.clone());
    ExpectedLogs { node_id, directories: directories.unwrap_or_default(), logs: logs.collect() }
}

fn problem_of(dir: &Path, error: QuorumError) -> Problem {
    match error {
        QuorumError::Log { path, reason } | QuorumError::Snapshot { path, reason } => {
            problem(&path, &reason)
        }
        QuorumError::Io { action, path, source } => {
            problem(&path, &format!("the system cannot {action} it: {source}"))
        }
        other => problem(dir, &other.to_string()),
    }
}

fn problem(path: &Path, reason: &str) -> Problem {
    Problem {
        path: path.to_owned(),
        position: 0,
        reason: reason.to_owned(),
        lost: None,
        may_be_unfinished: false,
        repair: None,
    }
}
