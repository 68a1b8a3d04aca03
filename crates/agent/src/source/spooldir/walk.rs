//! Which files are in the directory, and below it.
//!
//! Links are followed, and may lead back, or to one directory on many ways. So each directory is looked into once, on the
//! way with the fewest links: its files have the same paths at each look.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use regex_lite::Regex;

use super::super::identity::{FileId, modified};
use super::super::{name_text, names_pattern};
use crate::settings::Settings;
use crate::stop::Stop;

/// How deep directories below are looked into.
const DEPTH_MAX: usize = 32;

/// Which files are read.
pub(super) struct Wanted {
    directory: PathBuf,
    tracker: PathBuf,
    goes_down: bool,
    suffix: String,
    include: Regex,
    ignore: Regex,
}

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Files that are wanted, with the time of their last change.
    pub(super) files: Vec<(SystemTime, PathBuf)>,
    /// Directories that cannot be looked into.
    pub(super) failed: Vec<(PathBuf, io::Error)>,
}

/// A directory that is to be looked into, in the order of these fields.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Directory {
    /// So many links are on the way to it.
    links: usize,
    depth: usize,
    path: PathBuf,
    id: FileId,
}

impl Wanted {
    pub(super) fn new(settings: &Settings, directory: PathBuf, tracker: PathBuf) -> Wanted {
        let whole = |key| names_pattern(settings.required(key)).expect("it was checked");
        Wanted {
            directory,
            tracker,
            goes_down: settings.flag("recursiveDirectorySearch"),
            suffix: settings.required("fileSuffix").to_owned(),
            include: whole("includePattern"),
            ignore: whole("ignorePattern"),
        }
    }

    /// Looks for all files that are wanted. If the agent ends meanwhile, some are not found.
    pub(super) fn look(&self, stop: &Stop) -> Looked {
        let mut looked = Looked::default();
        let path = self.directory.clone();
        let id = match fs::metadata(&path) {
            Ok(metadata) => FileId::of(&metadata),
            Err(error) => {
                looked.failed.push((path, error));
                return looked;
            }
        };
        // Notes are no files of the directory, whatever leads to them.
        let tracker = fs::metadata(&self.tracker).ok().map(|metadata| FileId::of(&metadata));
        let mut seen: HashSet<FileId> =
            tracker.into_iter().filter(|tracker| *tracker != id).collect();
        let mut open = BTreeSet::from([Directory { links: 0, depth: 0, path, id }]);
        while let Some(directory) = open.pop_first() {
            if stop.is_set() {
                break;
            }
            if !seen.insert(directory.id) {
                continue;
            }
            if let Err(error) = self.look_into(&directory, &mut open, &mut looked.files) {
                looked.failed.push((directory.path, error));
            }
        }
        looked
    }

    fn look_into(
        &self,
        directory: &Directory,
        open: &mut BTreeSet<Directory>,
        files: &mut Vec<(SystemTime, PathBuf)>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(&directory.path)? {
            let entry = entry?;
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            // Files that were read stay in the directory: nothing more is asked about them.
            if !self.is_wanted(&path, kind.is_file()) {
                continue;
            }
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if metadata.is_dir() {
                if self.goes_down && directory.depth < DEPTH_MAX {
                    let links = directory.links + usize::from(kind.is_symlink());
                    let (depth, id) = (directory.depth + 1, FileId::of(&metadata));
                    open.insert(Directory { links, depth, path, id });
                }
            } else if metadata.is_file() && self.is_wanted(&path, true) {
                files.push((modified(&metadata), path));
            }
        }
        Ok(())
    }

    /// Whether the name is wanted, of a file or of something else.
    fn is_wanted(&self, path: &Path, is_file: bool) -> bool {
        let name = &*name_text(path);
        let is_of_file = || {
            !name.ends_with(&self.suffix)
                && self.include.is_match(name)
                && !self.ignore.is_match(name)
        };
        !name.starts_with('.') && (!is_file || is_of_file())
    }
}
