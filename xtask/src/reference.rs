//! Writes the reference pages, which are made from tables in the code and from the program itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use logway_metadata::settings::render_reference;

/// Where the pages are.
const FOLDER: &str = "docs/reference";

/// Writes the pages, or with `check` fails if a committed one differs.
pub fn run(check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in the root")?;
    let pages = [
        ("settings.md", render_reference()),
        ("cli.md", ask_the_program(root, ("logway", "reference"), &["cli"])?),
        ("json.md", ask_the_program(root, ("logway", "reference"), &["json"])?),
        ("metrics.md", ask_the_program(root, ("logway", "reference"), &["metrics"])?),
        ("agents.md", ask_the_program(root, ("logway", "reference"), &["agents"])?),
        ("bench.md", ask_the_program(root, ("logway-bench", "bench-reference"), &[])?),
    ];
    for (name, page) in pages {
        let path = root.join(FOLDER).join(name);
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

/// A page that only a whole program can print, by an example of its package. It is built apart from this one, which
/// must build even when the generated code that the program stands on does not.
fn ask_the_program(
    root: &Path,
    (package, example): (&str, &str),
    arguments: &[&str],
) -> anyhow::Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--package", package, "--example", example, "--"])
        .args(arguments)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cargo cannot be run")?;
    if !output.status.success() {
        bail!("{example} of {package} could not make a page");
    }
    Ok(String::from_utf8(output.stdout)?)
}
