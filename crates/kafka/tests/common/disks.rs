//! Log directories, each as if on a disk of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_log::fs::{Fs, RealFs};
use logway_node::NodeError;
use tempfile::TempDir;

use super::TestBroker;

/// Two log directories, of which the first holds the metadata.
pub struct Disks {
    pub root: TempDir,
    pub a: PathBuf,
    pub b: PathBuf,
}

impl Disks {
    pub fn new() -> Disks {
        let root = tempfile::tempdir().expect("a directory");
        let (a, b) = (root.path().join("a"), root.path().join("b"));
        Disks { root, a, b }
    }

    /// As `log.dirs` names them.
    pub fn log_dirs(&self) -> String {
        format!("{},{}", self.a.display(), self.b.display())
    }

    pub async fn start(&self) -> TestBroker {
        self.try_start(Arc::new(RealFs)).await.expect("starts")
    }

    pub async fn try_start(&self, fs: Arc<dyn Fs>) -> Result<TestBroker, NodeError> {
        self.try_start_with(fs, &[]).await
    }

    pub async fn try_start_with(
        &self,
        fs: Arc<dyn Fs>,
        settings: &[(&str, &str)],
    ) -> Result<TestBroker, NodeError> {
        let log_dirs = self.log_dirs();
        let fixed = [
            ("log.dirs", &*log_dirs),
            ("listeners", "127.0.0.1:0"),
            // One in each directory.
            ("offsets.topic.num.partitions", "2"),
        ];
        let settings: Vec<_> = fixed.iter().chain(settings).copied().collect();
        TestBroker::try_start(fs, &settings).await
    }
}

/// Copies a directory with all that is in it.
pub fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("is made");
    for entry in fs::read_dir(from).expect("is a directory") {
        let entry = entry.expect("can be read");
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy_all(&path, &copy),
            false => _ = fs::copy(&path, &copy).expect("is copied"),
        }
    }
}
