//! Writes the reference pages that are made from tables in the code.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use logway_metadata::settings::render_reference;

/// Writes the pages, or with `check` fails if a committed one differs.
pub fn run(check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in the root")?;
    let pages: [(PathBuf, String); 1] =
        [(root.join("docs/reference/settings.md"), render_reference())];
    for (path, page) in pages {
        let name = path.display();
        if !check {
            fs::create_dir_all(path.parent().context("a page is in a folder")?)?;
            fs::write(&path, page).with_context(|| name.to_string())?;
        } else if fs::read_to_string(&path).with_context(|| name.to_string())? != page {
            bail!("{name} is out of date; run `cargo xtask reference`");
        }
    }
    Ok(())
}
