//! Packages of a Debian release, unpacked beside the system instead of installed in it: no rights
//! are needed, and no service is started.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run;
use crate::files::{create_directory, write_file};

/// Packages that together are what a peer runs.
#[derive(Debug, Clone, Copy)]
pub(in crate::side) struct DebianPeer {
    /// The directory's name.
    pub(in crate::side) name: &'static str,
    pub(in crate::side) packages: &'static [&'static str],
}

impl DebianPeer {
    /// The root below which the packages are unpacked, fetched at the first use.
    ///
    /// # Errors
    ///
    /// This is not Debian or alike, its package lists are missing, or the packages cannot be had.
    pub(in crate::side) fn need(&self, cache: &Path) -> anyhow::Result<PathBuf> {
        let home = cache.join(self.name);
        let (root, archives, list) =
            (home.join("root"), home.join("archives"), home.join("packages"));
        let wanted = self.packages.join("\n");
        // Written last, so that an interrupted fetch is done again.
        if fs::read_to_string(&list).is_ok_and(|text| text == wanted) {
            return Ok(root);
        }
        for directory in [&root, &archives] {
            create_directory(directory)?;
        }
        let what = format!(
            "{} is made of Debian's packages, which `apt-get update` makes known",
            self.name
        );
        let mut download = Command::new("apt-get");
        run(download.arg("download").args(self.packages).current_dir(&archives), &what)?;
        for entry in fs::read_dir(&archives)? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("deb")) {
                run(Command::new("dpkg-deb").arg("--extract").arg(&path).arg(&root), &what)?;
            }
        }
        fs::remove_dir_all(&archives)?;
        write_file(&list, wanted)?;
        Ok(root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_fetched_again() {
        let peer = DebianPeer { name: "peer", packages: &["a", "b"] };
        let cache = tempfile::tempdir().expect("a directory");
        fs::create_dir(cache.path().join("peer")).expect("is created");
        fs::write(cache.path().join("peer/packages"), "a\nb").expect("is written");
        assert_eq!(peer.need(cache.path()).expect("is there"), cache.path().join("peer/root"));
    }
}
