//! Jars from Maven Central.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::run;
use crate::files::{create_directory, write_file};

/// A Maven project whose dependencies are what a peer runs.
#[derive(Debug, Clone, Copy)]
pub(in crate::side) struct MavenPeer {
    /// With its version: the directory's name.
    pub(in crate::side) name: &'static str,
    /// `group:artifact:version` of each dependency.
    pub(in crate::side) dependencies: &'static [&'static str],
}

impl MavenPeer {
    /// The directory with its jars, fetched at the first use.
    ///
    /// # Errors
    ///
    /// There is no `mvn`, or it fails.
    pub(in crate::side) fn need(&self, cache: &Path) -> anyhow::Result<PathBuf> {
        let home = cache.join(self.name);
        let (pom, libs) = (home.join("pom.xml"), home.join("libs"));
        // Written last, so that an interrupted fetch is done again.
        if fs::read_to_string(&pom).is_ok_and(|text| text == self.pom()) {
            return Ok(libs);
        }
        create_directory(&home)?;
        let unfinished = home.join("fetching.xml");
        write_file(&unfinished, self.pom())?;
        let mut fetch = Command::new("mvn");
        fetch
            .args(["--quiet", "--batch-mode", "--file"])
            .arg(&unfinished)
            .arg("dependency:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", libs.display()));
        run(&mut fetch, &format!("Maven fetches {}", self.name))?;
        fs::rename(&unfinished, &pom).with_context(|| format!("cannot write {}", pom.display()))?;
        Ok(libs)
    }

    fn pom(&self) -> String {
        let mut dependencies = String::new();
        for dependency in self.dependencies {
            let mut parts = dependency.split(':');
            let mut part = |tag: &str| format!("<{tag}>{}</{tag}>", parts.next().unwrap_or(""));
            let parts = [part("groupId"), part("artifactId"), part("version")];
            dependencies += &format!("    <dependency>{}</dependency>\n", parts.concat());
        }
        format!(
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  \
             <modelVersion>4.0.0</modelVersion>\n  <groupId>io.logway.bench</groupId>\n  \
             <artifactId>peer</artifactId>\n  <version>1</version>\n  <dependencies>\n\
             {dependencies}  </dependencies>\n</project>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_fetched_again() {
        let peer = MavenPeer { name: "peer-1", dependencies: &["a.b:c:1", "d:e:2"] };
        let pom = peer.pom();
        assert!(pom.contains(
            "<dependency><groupId>a.b</groupId><artifactId>c</artifactId>\
             <version>1</version></dependency>"
        ));
        let cache = tempfile::tempdir().expect("a directory");
        fs::create_dir(cache.path().join("peer-1")).expect("is created");
        fs::write(cache.path().join("peer-1/pom.xml"), pom).expect("is written");
        assert_eq!(peer.need(cache.path()).expect("is there"), cache.path().join("peer-1/libs"));
    }
}
