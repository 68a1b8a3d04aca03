//! `known-log-dirs`: which log directory a broker found under which path; and `given-up-log-dirs`, of the
//! same format: those of them that an operator has given up.
//!
//! ```text
//! 0                                    version
//! 2                                    count of entries
//! ykSLSUUeSxCxXu2TE1BN2g /data/one     directory id and absolute path, one a line
//! C8YZHQRKTNCSQNzHhVnLLw /data/two
//! ```
//!
//! The files are Logway's own. A disk that is not mounted looks like a new directory; by the first file a
//! start knows that it is not one. It also names the directories that are missing from `log.dirs`,
//! until they are given up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use logway_model::DirectoryId;

use super::{excerpt, malformed, read_text, replace_file};
use crate::LogError;
use crate::fs::Fs;

/// The name of the file in the first log directory.
pub const KNOWN_DIRS_FILE: &str = "known-log-dirs";

/// The name of the file with those that were given up, beside it.
pub const GIVEN_UP_DIRS_FILE: &str = "given-up-log-dirs";

/// Thousands of directories.
const FILE_MAX_BYTES: usize = 4 << 20;

const VERSION: &str = "0";

/// The ids of log directories by their absolute paths, which are texts without line ends.
pub type KnownDirs = BTreeMap<PathBuf, DirectoryId>;

/// Replaces the file at `path`; it is durable on return.
pub fn write(fs: &dyn Fs, path: &Path, dirs: &KnownDirs) -> Result<(), LogError> {
    let lines = dirs.iter().map(|(dir, id)| format!("{id} {}\n", dir.display()));
    let text = format!("{VERSION}\n{}\n{}", dirs.len(), lines.collect::<String>());
    replace_file(fs, path, text.as_bytes())
}

/// Gives a known directory up: moves it from one file of the first log directory `root` to the other,
/// durably. Cut short, it is in both, and given up.
pub fn give_up(fs: &dyn Fs, root: &Path, dir: &Path, id: DirectoryId) -> Result<(), LogError> {
    let (known_path, given_up_path) = (root.join(KNOWN_DIRS_FILE), root.join(GIVEN_UP_DIRS_FILE));
    let mut given_up = read(fs, &given_up_path)?;
    given_up.retain(|_, other| *other != id);
    given_up.insert(dir.to_owned(), id);
    write(fs, &given_up_path, &given_up)?;
    let mut known = read(fs, &known_path)?;
    known.retain(|_, other| *other != id);
    write(fs, &known_path, &known)
}

/// Reads the file at `path`; one that does not exist is empty.
pub fn read(fs: &dyn Fs, path: &Path) -> Result<KnownDirs, LogError> {
    let Some(text) = read_text(fs, path, FILE_MAX_BYTES)? else { return Ok(KnownDirs::new()) };
    if !text.ends_with('\n') {
        return Err(malformed(path, text.lines().count(), "the file ends within the line"));
    }
    let mut lines = (1..).zip(text.lines());
    let mut next = || lines.next().map_or("", |(_, line)| line);
    let (version, count) = (next(), next());
    if version != VERSION {
        return Err(malformed(path, 1, format!("unknown version {}", excerpt(version))));
    }
    let mut dirs = KnownDirs::new();
    for (number, line) in lines {
        let entry = line.split_once(' ').and_then(|(id, dir)| Some((id.parse().ok()?, dir)));
        let Some((id, dir)) = entry else {
            let reason = format!("no directory id and path: {}", excerpt(line));
            return Err(malformed(path, number, reason));
        };
        dirs.insert(PathBuf::from(dir), DirectoryId(id));
    }
    if count.parse() != Ok(dirs.len()) {
        let reason = format!("{} entries were announced, {} are there", excerpt(count), dirs.len());
        return Err(malformed(path, 2, reason));
    }
    Ok(dirs)
}

#[cfg(test)]
mod tests {
    use logway_model::Uuid;

    use super::*;
    use crate::fs::SimFs;

    #[test]
    fn what_was_written_is_read() {
        let (fs, path) = (SimFs::new(1), Path::new(KNOWN_DIRS_FILE));
        assert_eq!(read(&fs, path).expect("there is none"), KnownDirs::new());
        let dirs = ["/data/one", "/data/with a space"].map(PathBuf::from);
        let dirs: KnownDirs =
            dirs.into_iter().zip([1, 2].map(|n| DirectoryId(Uuid([n; 16])))).collect();
        write(&fs, path, &dirs).expect("is written");
        assert_eq!(read(&fs, path).expect("is read"), dirs);
    }

    #[test]
    fn one_that_is_given_up_is_known_no_more() {
        let (fs, root) = (SimFs::new(1), Path::new("/data"));
        fs.create_dir_all(root).expect("is made");
        let [one, two] =
            [1, 2].map(|n| (PathBuf::from(format!("/{n}")), DirectoryId(Uuid([n; 16]))));
        let known = KnownDirs::from([one.clone(), two.clone()]);
        write(&fs, &root.join(KNOWN_DIRS_FILE), &known).expect("is written");
        give_up(&fs, root, &two.0, two.1).expect("is given up");
        let left = read(&fs, &root.join(KNOWN_DIRS_FILE)).expect("is read");
        assert_eq!(left, KnownDirs::from([one]));
        let given_up = read(&fs, &root.join(GIVEN_UP_DIRS_FILE)).expect("is read");
        assert_eq!(given_up, KnownDirs::from([two]));
    }

    #[test]
    fn damage_is_reported_with_its_line() {
        let (fs, path) = (SimFs::new(1), Path::new(KNOWN_DIRS_FILE));
        for (text, line) in [
            ("", 0),
            ("1\n0\n", 1),
            ("0\n2\nAAAAAAAAAAAAAAAAAAAAAQ /a\n", 2),
            ("0\n1\nnothing\n", 3),
            ("0\n1\nAAAAAAAAAAAAAAAAAAAAAQ /a", 3),
        ] {
            replace_file(&fs, path, text.as_bytes()).expect("is written");
            match read(&fs, path) {
                Err(LogError::Malformed { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
