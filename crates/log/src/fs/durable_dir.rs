//! Directories that are there for good.

use std::io;
use std::path::Path;

use super::Fs;

/// Creates a directory and those above it, and puts their names on stable storage. `failed` makes the
/// error of what was to be done, where it was, and why it failed.
///
/// What is there may be what a process has made that was killed before it came to the syncs, so that
/// all are made until the caller has put something into the directory by which it knows that it once
/// came to its end.
pub fn create_dir_durably<E>(
    fs: &dyn Fs,
    path: &Path,
    failed: impl Fn(&'static str, &Path, io::Error) -> E,
) -> Result<(), E> {
    let exists = |path: &Path| fs.exists(path).map_err(|error| failed("look for", path, error));
    let mut missing = 0;
    for dir in path.ancestors() {
        if dir.as_os_str().is_empty() || exists(dir)? {
            break;
        }
        missing += 1;
    }
    fs.create_dir_all(path).map_err(|error| failed("create", path, error))?;
    for (above, parent) in path.ancestors().skip(1).enumerate() {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match fs.sync_dir(parent) {
            Err(error) if above >= missing && is_of_others(&error) => {}
            synced => synced.map_err(|error| failed("sync", parent, error))?,
        }
    }
    Ok(())
}

/// Whether a directory cannot be synced because nobody makes names in it, or we may not.
fn is_of_others(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported)
}
