//! Writing files with errors that name them, and directories that go again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};

/// Writes a whole file, or replaces it.
pub(crate) fn write_file(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Creates a directory with those above it; one that is there is as good.
pub(crate) fn create_directory(path: &Path) -> anyhow::Result<()> {
    ensure!(!path.is_file(), "{} is a file, where a directory is wanted", path.display());
    fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))
}

/// A directory that goes with its last owner, and after it the one that it lies in.
///
/// Threads that cannot be called off are owners of what they write to.
#[derive(Debug)]
pub(crate) struct OwnedDirectory {
    path: PathBuf,
    goes: Goes,
    _within: Option<Arc<OwnedDirectory>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Goes {
    WithContent,
    IfEmpty,
    /// It was there before.
    Not,
}

impl OwnedDirectory {
    /// One for results, which goes if there are none in the end and it was not there before.
    ///
    /// # Errors
    ///
    /// It cannot be created.
    pub(crate) fn for_results(
        path: PathBuf,
        within: Option<Arc<OwnedDirectory>>,
    ) -> anyhow::Result<Arc<OwnedDirectory>> {
        let goes = if path.exists() { Goes::Not } else { Goes::IfEmpty };
        create_directory(&path)?;
        Ok(Arc::new(OwnedDirectory { path, goes, _within: within }))
    }

    /// The first of some names that nobody has.
    ///
    /// # Errors
    ///
    /// It cannot be created.
    pub(crate) fn with_new_name(
        names: impl Iterator<Item = String>,
    ) -> anyhow::Result<Arc<OwnedDirectory>> {
        for name in names {
            let path = PathBuf::from(name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made.with_context(|| format!("cannot create {}", path.display()))?;
                    let goes = Goes::IfEmpty;
                    return Ok(Arc::new(OwnedDirectory { path, goes, _within: None }));
                }
            }
        }
        anyhow::bail!("there are directories of all names")
    }

    /// One in `within` that goes with all that is in it.
    ///
    /// # Errors
    ///
    /// It cannot be created; one that is there is somebody's.
    pub(crate) fn for_use(
        name: &str,
        within: &Arc<OwnedDirectory>,
    ) -> anyhow::Result<Arc<OwnedDirectory>> {
        let path = within.path.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => anyhow::bail!(
                "{} is there, and the benchmark would remove it in the end; give another --work-dir, or remove it",
                path.display()
            ),
            made => made.with_context(|| format!("cannot create {}", path.display()))?,
        }
        let within = Some(Arc::clone(within));
        Ok(Arc::new(OwnedDirectory { path, goes: Goes::WithContent, _within: within }))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnedDirectory {
    fn drop(&mut self) {
        // What cannot be removed stays.
        let _ = match self.goes {
            Goes::WithContent => fs::remove_dir_all(&self.path),
            Goes::IfEmpty => fs::remove_dir(&self.path),
            Goes::Not => Ok(()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_go_with_their_last_owner_unless_they_hold_results() {
        let root = tempfile::tempdir().expect("a directory");
        let results = root.path().join("results");
        let brokers = results.join("brokers");
        let make = || {
            let output = OwnedDirectory::for_results(results.clone(), None).expect("results");
            let work = OwnedDirectory::for_results(brokers.clone(), Some(output)).expect("work");
            OwnedDirectory::for_use("logway", &work).expect("a side")
        };
        let side = make();
        fs::write(side.path().join("log"), "data").expect("a file");
        let thread = Arc::clone(&side);
        drop(side);
        assert!(thread.path().exists(), "the thread still writes");
        drop(thread);
        assert!(!results.exists());

        let side = make();
        fs::write(results.join("results.json"), "{}").expect("a file");
        drop(side);
        assert!(results.exists() && !brokers.exists());
        drop(make());
        assert!(results.join("results.json").exists());
    }

    #[test]
    fn what_was_there_before_stays() {
        let root = tempfile::tempdir().expect("a directory");
        drop(OwnedDirectory::for_results(root.path().to_owned(), None).expect("it is there"));
        assert!(root.path().exists());
    }

    #[test]
    fn what_somebody_has_there_is_not_used_and_not_removed() {
        let root = tempfile::tempdir().expect("a directory");
        let theirs = root.path().join("logway/data");
        fs::create_dir_all(&theirs).expect("a directory");
        let work = OwnedDirectory::for_results(root.path().to_owned(), None).expect("it is there");
        let error = OwnedDirectory::for_use("logway", &work).expect_err("it is theirs");
        assert!(error.to_string().contains("--work-dir"), "{error}");
        drop(work);
        assert!(theirs.exists());
    }

    #[test]
    fn a_file_is_no_directory() {
        let root = tempfile::tempdir().expect("a directory");
        let file = root.path().join("report");
        write_file(&file, "").expect("is written");
        let error = OwnedDirectory::for_results(file, None).expect_err("it is a file");
        assert!(error.to_string().contains("report is a file"), "{error}");
    }

    #[test]
    fn a_new_name_is_nobodys() {
        let root = tempfile::tempdir().expect("a directory");
        let names =
            || ["a", "b"].into_iter().map(|name| format!("{}/{name}", root.path().display()));
        let first = OwnedDirectory::with_new_name(names()).expect("the first");
        let second = OwnedDirectory::with_new_name(names()).expect("the second");
        assert!(first.path().ends_with("a") && second.path().ends_with("b"));
        assert!(OwnedDirectory::with_new_name(names()).is_err());
    }
}
