//! The check of the files that say what a log directory is: `meta.properties`, `known-log-dirs`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use logway_model::{BrokerId, ClusterId, DirectoryId, Uuid};

use super::problem::line_position;
use super::repair::{Change, NewContent};
use super::{ExpectedLogs, Problem, Repair};
use crate::LogError;
use crate::checkpoint::MetaProperties;
use crate::checkpoint::known_dirs::{self, KNOWN_DIRS_FILE, KnownDirs};
use crate::fs::{Fs, OpenMode, read_to_end};

/// More than either file may have.
const TEXT_MAX_BYTES: usize = 4 << 20;

/// What is known of a log directory's identity.
pub(super) struct Identity<'a> {
    pub(super) fs: &'a dyn Fs,
    pub(super) root: &'a Path,
    pub(super) owner: &'a Result<Option<MetaProperties>, LogError>,
    pub(super) expected: Option<&'a ExpectedLogs>,
    pub(super) has_logs: bool,
}

impl Identity<'_> {
    /// Reports what is wrong with the files, and returns what a repair does to them.
    pub(super) fn check(&self, report: &mut dyn FnMut(Problem)) -> Vec<Change> {
        let path = self.root.join(KNOWN_DIRS_FILE);
        let known = known_dirs::read(self.fs, &path);
        let of_this = known.as_ref().ok().and_then(|known| self.id_in(known));
        let mut changes = Vec::new();
        changes.extend(self.check_owner(of_this, report));
        match (known, self.true_id(of_this)) {
            (Err(error), id) => {
                let problem = Problem::of_error(self.fs, &path, error);
                report(problem.repaired_by(Repair::Rewrite));
                let mut dirs = self.readable_dirs(&path);
                dirs.extend(id.map(|id| (self.absolute(), id)));
                changes.push(Change::new(path, NewContent::KnownDirs(dirs)));
            }
            (Ok(mut dirs), Some(id)) if of_this.is_some_and(|said| said != id) => {
                let position = self.line_of_this(&path);
                let reason = format!("it has another id for this directory, which is {id}");
                report(Problem::new(&path, position, reason).repaired_by(Repair::Rewrite));
                dirs.insert(self.absolute(), id);
                changes.push(Change::new(path, NewContent::KnownDirs(dirs)));
            }
            _ => {}
        }
        changes
    }

    fn check_owner(
        &self,
        of_this: Option<DirectoryId>,
        report: &mut dyn FnMut(Problem),
    ) -> Option<Change> {
        let path = self.root.join(MetaProperties::FILE);
        let readable = self.readable_owner(&path, of_this);
        let problem = match self.owner {
            Ok(None) if !self.has_logs && self.expected.is_none() => return None,
            Ok(None) => Problem::new(&path, 0, "it is missing: nobody knows whose logs these are"),
            Ok(Some(owner)) if Some(*owner) == readable => return None,
            Ok(Some(owner)) => {
                let readable = readable?;
                let (line, reason) = if owner.node_id == readable.node_id {
                    let id = readable.directory_id;
                    (4, format!("it has another id for this directory, which is {id}"))
                } else {
                    let (said, node) = (owner.node_id, readable.node_id);
                    (2, format!("it has node {said}, but the metadata is that of node {node}"))
                };
                Problem::new(&path, line_position(self.fs, &path, line), reason)
            }
            Err(error) => Problem::of_error(self.fs, &path, error.clone()),
        };
        let Some(owner) = readable else {
            report(problem);
            return None;
        };
        report(problem.repaired_by(Repair::Rewrite));
        Some(Change::new(path, NewContent::Owner(owner)))
    }

    /// The owner, from what can be read of the file and what others say; `None` if nobody knows.
    /// Only the file knows the cluster.
    fn readable_owner(&self, path: &Path, of_this: Option<DirectoryId>) -> Option<MetaProperties> {
        let text = self.text(path);
        let node_id = self.expected.map(|expected| expected.node_id);
        let node_id = node_id
            .or_else(|| field(&text, "node.id").map(BrokerId).filter(|node_id| node_id.0 >= 0))?;
        let cluster_id = ClusterId(field::<Uuid>(&text, "cluster.id")?);
        let directory_id = self.true_id(of_this)?;
        Some(MetaProperties { node_id, cluster_id, directory_id })
    }

    /// The id of the directory: that of its own file, if the metadata knows it; else the one that
    /// `known-log-dirs` has for its path, or that of the only directory that the metadata knows.
    fn true_id(&self, of_this: Option<DirectoryId>) -> Option<DirectoryId> {
        let path = self.root.join(MetaProperties::FILE);
        let own = field::<Uuid>(&self.text(&path), "directory.id").map(DirectoryId);
        let is_known = |id: &DirectoryId| {
            self.expected.is_none_or(|expected| expected.directories.contains(id))
        };
        let only =
            self.expected.and_then(|expected| match *Vec::from_iter(&expected.directories) {
                [only] => Some(*only),
                _ => None,
            });
        own.filter(is_known).or(of_this.filter(is_known)).or(only).or(own).or(of_this)
    }

    fn id_in(&self, known: &KnownDirs) -> Option<DirectoryId> {
        known.get(&self.absolute()).copied()
    }

    fn absolute(&self) -> PathBuf {
        std::path::absolute(self.root).unwrap_or_else(|_| self.root.to_owned())
    }

    /// The lines of a damaged `known-log-dirs` that can be read, but for that of this directory.
    fn readable_dirs(&self, path: &Path) -> KnownDirs {
        let text = self.text(path);
        let readable = text.lines().skip(2).filter(|line| !line.contains('\u{fffd}'));
        let lines = readable.filter_map(|line| line.split_once(' '));
        let dirs = lines.filter_map(|(id, dir)| Some((dir.into(), DirectoryId(id.parse().ok()?))));
        let own = self.true_id(None);
        let mut dirs: KnownDirs = dirs.collect();
        dirs.retain(|_, id| Some(*id) != own);
        dirs
    }

    /// What a file holds, with U+FFFD for what is no UTF-8; nothing if it cannot be read.
    fn text(&self, path: &Path) -> String {
        let Ok(file) = self.fs.open(path, OpenMode::Read) else { return String::new() };
        let content = read_to_end(&*file, TEXT_MAX_BYTES).unwrap_or_default();
        String::from_utf8_lossy(&content).into_owned()
    }

    fn line_of_this(&self, path: &Path) -> u64 {
        let text = self.text(path);
        let dir = self.absolute();
        let is_this =
            |line: &str| line.split_once(' ').is_some_and(|(_, path)| dir == Path::new(path));
        let before = text.split_inclusive('\n').take_while(|line| !is_this(line.trim_end()));
        before.map(|line| line.len() as u64).sum()
    }
}

/// The value of a property, if the file has it once and it can be read.
fn field<T: FromStr>(text: &str, key: &str) -> Option<T> {
    let values = text.lines().filter_map(|line| {
        let (found, value) = line.split_once(['=', ':'])?;
        (found.trim() == key).then_some(value.trim())
    });
    let mut values = values.fuse();
    let value = values.next()?.parse().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::SimFs;

    /// Of a directory that was copied to another path, where `known-log-dirs` does not speak of it.
    #[test]
    fn the_only_directory_of_the_metadata_has_its_id() {
        let fs = SimFs::new(1);
        fs.create_dir_all(Path::new("/copy")).expect("the disk works");
        let [wrong, right] = [1, 2].map(|byte| DirectoryId(Uuid([byte; 16])));
        let owner = MetaProperties {
            node_id: BrokerId(1),
            cluster_id: ClusterId(Uuid([7; 16])),
            directory_id: wrong,
        };
        let path = Path::new("/copy").join(MetaProperties::FILE);
        owner.write(&fs, &path).expect("the disk works");
        let expected = ExpectedLogs {
            node_id: BrokerId(1),
            directories: vec![right],
            logs: Default::default(),
        };
        let identity = Identity {
            fs: &fs,
            root: Path::new("/copy"),
            owner: &Ok(Some(owner)),
            expected: Some(&expected),
            has_logs: true,
        };
        let mut problems = Vec::new();
        let changes = identity.check(&mut |problem| problems.push(problem));
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.reason.contains(&right.to_string()), "{problem:?}");
        assert_eq!((problem.repair, changes.len()), (Some(Repair::Rewrite), 1));
    }
}
