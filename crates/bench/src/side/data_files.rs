//! The files that a broker has written.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

/// All segments below a directory, those of one partition in their order. Logway and Kafka both
/// name them by their first offset, with the ending `.log`.
pub(crate) fn segments(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            found.extend(segments(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Puts files on the disk and out of memory, so that the next read comes from the disk.
pub(crate) fn drop_from_memory(files: &[PathBuf]) -> io::Result<()> {
    for path in files {
        let file = File::open(path)?;
        file.sync_data()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_in_their_order() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("t-0")).expect("is created");
        for name in ["t-0/00020.log", "t-0/00000.log", "t-0/00000.index", "x.log"] {
            fs::write(root.path().join(name), name).expect("is written");
        }
        let found = segments(root.path()).expect("can be listed");
        let expected = ["t-0/00000.log", "t-0/00020.log", "x.log"];
        assert_eq!(found, expected.map(|name| root.path().join(name)));
        drop_from_memory(&found).expect("can be dropped");
        assert_eq!(fs::read(&found[1]).expect("is still there"), b"t-0/00020.log");
    }
}
