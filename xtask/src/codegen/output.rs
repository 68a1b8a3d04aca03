//! The generated files: formatting, writing, comparing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// Generated files by name, all for one folder that holds nothing else.
#[derive(Debug, Default)]
pub struct Files {
    contents: BTreeMap<String, String>,
}

impl Files {
    /// Adds a file.
    pub fn add(&mut self, name: &str, content: String) {
        self.contents.insert(name.to_owned(), content);
    }

    /// The files as rustfmt writes them, which it does in the folder `scratch`.
    pub fn formatted(&self, scratch: &Path) -> anyhow::Result<Files> {
        self.write(scratch)?;
        // rustfmt follows the `mod` lines to the other files, and finds rustfmt.toml in a folder above.
        let status = Command::new("rustfmt")
            .args(["--edition", "2024"])
            .arg(scratch.join("mod.rs"))
            .status()
            .context("running rustfmt")?;
        ensure!(status.success(), "rustfmt refused the generated code in {}", scratch.display());
        Ok(Files { contents: read_folder(scratch)? })
    }

    /// Makes the folder hold these files and no others.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        let old = read_folder(folder)?;
        for name in old.keys().filter(|name| !self.contents.contains_key(*name)) {
            let path = folder.join(name);
            fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
        // Unchanged files keep their times, so that they are not compiled again.
        for (name, content) in
            self.contents.iter().filter(|(name, content)| old.get(*name) != Some(content))
        {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    /// Fails unless the folder holds just these files.
    pub fn compare(&self, folder: &Path) -> anyhow::Result<()> {
        let committed = read_folder(folder)?;
        let names = committed.keys().chain(self.contents.keys());
        let differs = |name: &&String| committed.get(*name) != self.contents.get(*name);
        if let Some(name) = names.filter(differs).min() {
            bail!(
                "{} is not what the generator writes (hint: cargo xtask codegen)",
                folder.join(name).display()
            );
        }
        Ok(())
    }
}

fn read_folder(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut contents = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("a file name that is not UTF-8")?;
        let content =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        contents.insert(name.to_owned(), content);
    }
    Ok(contents)
}
