//! `meta.properties`: who owns a log directory.
//!
//! ```text
//! version=1
//! node.id=1
//! cluster.id=ykSLSUUeSxCxXu2TE1BN2g
//! directory.id=C8YZHQRKTNCSQNzHhVnLLw
//! ```
//!
//! It is a Java properties file. Apache Kafka writes a comment with the date first and the
//! properties in any order, with `:` or `=` between; comments and unknown keys are skipped.

use std::path::Path;

use logway_model::{BrokerId, ClusterId, DirectoryId, Uuid};

use super::{excerpt, malformed, read_text, replace_file};
use crate::LogError;
use crate::fs::Fs;

/// The owner of a log directory (version 1, KIP-631; directory ids KIP-858).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaProperties {
    /// The broker that owns the directory.
    pub node_id: BrokerId,
    /// The cluster that the broker belongs to.
    pub cluster_id: ClusterId,
    /// The directory's own name.
    pub directory_id: DirectoryId,
}

const FILE_MAX_BYTES: usize = 64 << 10;

impl MetaProperties {
    /// The name of the file in the log directory.
    pub const FILE: &str = "meta.properties";

    /// Replaces the file at `path`; it is durable on return.
    pub fn write(&self, fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
        let text = format!(
            "version=1\nnode.id={}\ncluster.id={}\ndirectory.id={}\n",
            self.node_id, self.cluster_id, self.directory_id
        );
        replace_file(fs, path, text.as_bytes())
    }

    /// Reads the file at `path`; `None` if it does not exist.
    pub fn read(fs: &dyn Fs, path: &Path) -> Result<Option<MetaProperties>, LogError> {
        let Some(text) = read_text(fs, path, FILE_MAX_BYTES)? else { return Ok(None) };
        let properties = Properties::parse(path, &text)?;

        let (line, version) = properties.get("version")?;
        if version != "1" {
            return Err(malformed(path, line, format!("unknown version {}", excerpt(version))));
        }
        let (line, node_id) = properties.get("node.id")?;
        let node_id: i32 = node_id
            .parse()
            .ok()
            .filter(|&id| id >= 0)
            .ok_or_else(|| malformed(path, line, "node.id is not a number of a broker"))?;
        Ok(Some(MetaProperties {
            node_id: BrokerId(node_id),
            cluster_id: ClusterId(properties.uuid("cluster.id")?),
            directory_id: DirectoryId(properties.uuid("directory.id")?),
        }))
    }
}

/// The lines `key=value` of a properties file, with their numbers.
struct Properties<'a> {
    path: &'a Path,
    lines: Vec<(usize, &'a str, &'a str)>,
}

impl<'a> Properties<'a> {
    fn parse(path: &'a Path, text: &'a str) -> Result<Properties<'a>, LogError> {
        let mut lines: Vec<(usize, &str, &str)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let Some((key, value)) = line.split_once(['=', ':']) else {
                return Err(malformed(
                    path,
                    number,
                    format!("no key and value: {}", excerpt(line)),
                ));
            };
            let key = key.trim();
            if lines.iter().any(|&(_, earlier, _)| earlier == key) {
                return Err(malformed(path, number, format!("{} is there twice", excerpt(key))));
            }
            lines.push((number, key, value.trim()));
        }
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(malformed(path, text.lines().count(), "the file ends within the line"));
        }
        Ok(Properties { path, lines })
    }

    fn get(&self, key: &str) -> Result<(usize, &'a str), LogError> {
        let found = self.lines.iter().find(|&&(_, candidate, _)| candidate == key);
        let &(line, _, value) =
            found.ok_or_else(|| malformed(self.path, 1, format!("{key} is missing")))?;
        Ok((line, value))
    }

    fn uuid(&self, key: &str) -> Result<Uuid, LogError> {
        let (line, value) = self.get(key)?;
        value.parse().map_err(|error| malformed(self.path, line, format!("{key}: {error}")))
    }
}
