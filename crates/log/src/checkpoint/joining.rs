//! `joining`: what the first log directory of a node will be called that asks a cluster to admit it.
//!
//! ```text
//! C8YZHQRKTNCSQNzHhVnLLw    directory id
//! ```
//!
//! The file is Logway's own. It is written before the cluster is asked, and goes when the node has its place there. So
//! a node that is killed in between asks again under the same name, and never founds a cluster of its own.

use std::path::Path;

use logway_model::DirectoryId;

use super::{malformed, read_text, remove_file, replace_file};
use crate::LogError;
use crate::fs::{Fs, create_dir_durably};

/// The name of the file in the first log directory.
const FILE: &str = "joining";

const FILE_MAX_BYTES: usize = 1 << 10;

/// Writes the file into a directory, which is made if need be; it is durable on return.
pub fn write(fs: &dyn Fs, root: &Path, directory: DirectoryId) -> Result<(), LogError> {
    create_dir_durably(fs, root, |action, path, error| LogError::io(action, path)(error))?;
    replace_file(fs, &root.join(FILE), format!("{directory}\n").as_bytes())
}

/// Reads the file of a directory; `None` if there is none.
pub fn read(fs: &dyn Fs, root: &Path) -> Result<Option<DirectoryId>, LogError> {
    let path = root.join(FILE);
    let Some(text) = read_text(fs, &path, FILE_MAX_BYTES)? else { return Ok(None) };
    let id = text.trim().parse().map_err(|error| malformed(&path, 1, format!("{error}")))?;
    Ok(Some(DirectoryId(id)))
}

/// Removes it, durably.
pub fn forget(fs: &dyn Fs, root: &Path) -> Result<(), LogError> {
    remove_file(fs, &root.join(FILE))
}

#[cfg(test)]
mod tests {
    use logway_model::Uuid;

    use super::*;
    use crate::fs::SimFs;

    #[test]
    fn a_node_that_is_killed_before_it_is_admitted_keeps_its_name() {
        let (fs, root) = (SimFs::new(1), Path::new("/data"));
        assert_eq!(read(&fs, root).expect("is none"), None);
        let id = DirectoryId(Uuid([7; 16]));
        write(&fs, root, id).expect("is written");
        let fs = fs.crash();
        assert_eq!(read(&fs, root).expect("is read"), Some(id));
        forget(&fs, root).expect("is removed");
        forget(&fs, root).expect("is gone");
        assert_eq!(read(&fs.crash(), root).expect("is none"), None);
    }
}
