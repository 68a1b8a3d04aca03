//! Programs that Go builds from their modules.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::run;

/// A program of a Go module.
#[derive(Debug, Clone, Copy)]
pub(in crate::side) struct GoPeer {
    /// With its version: the directory's name.
    pub(in crate::side) name: &'static str,
    /// What `go install` takes.
    pub(in crate::side) package: &'static str,
    pub(in crate::side) program: &'static str,
}

impl GoPeer {
    /// The program, fetched and built at the first use.
    ///
    /// # Errors
    ///
    /// There is no `go`, or it fails.
    pub(in crate::side) fn need(&self, cache: &Path) -> anyhow::Result<PathBuf> {
        let directory = cache.join(self.name);
        let program = directory.join(self.program);
        // Go puts a program in its place when it is whole.
        if !program.is_file() {
            let mut install = Command::new("go");
            install.args(["install", self.package]).env("GOBIN", &directory);
            run(&mut install, "Go fetches and builds the peer")?;
        }
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_built_again() {
        let peer = GoPeer { name: "peer-1", package: "no.such/module@v1", program: "peer" };
        let cache = tempfile::tempdir().expect("a directory");
        let program = cache.path().join("peer-1/peer");
        std::fs::create_dir(cache.path().join("peer-1")).expect("is created");
        std::fs::write(&program, "").expect("is written");
        assert_eq!(peer.need(cache.path()).expect("is there"), program);
    }
}
