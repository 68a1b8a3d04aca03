//! Writes the reference pages, which are made from tables in the code and from the program itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, bail};
use logway_metadata::settings::render_reference;

/// Where the pages are.
const FOLDER: &str = "docs/reference";

/// Writes the pages, or with `check` fails if a committed one differs.
pub fn run(check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in the root")?;
    let [program, bench] = programs(root)?;
    let pages = [
        ("settings.md", render_reference()),
        ("cli.md", ask(&program, &["cli"])?),
        ("json.md", ask(&program, &["json"])?),
        ("metrics.md", ask(&program, &["metrics"])?),
        ("agents.md", ask(&program, &["agents"])?),
        ("bench.md", ask(&bench, &[])?),
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

/// The examples of `logway` and `logway-bench` that print pages which only a whole program can print.
///
/// They are built apart from this program, which must build even when the generated code that they stand on does not.
/// They are built as parts of the workspace, so that they share each crate with its tests: for one package alone, other
/// features of the dependencies are chosen, and all is compiled again.
fn programs(root: &Path) -> anyhow::Result<[PathBuf; 2]> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let names = ["reference", "bench-reference"];
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--workspace"]).current_dir(root);
    build.args(names.iter().flat_map(|name| ["--example", name]));
    if !build.status().context("cargo cannot be run")?.success() {
        bail!("{} could not be built", names.join(" and "));
    }
    let this = env::current_exe().context("xtask does not know where it is")?;
    let examples = this.parent().context("xtask is in a folder")?.join("examples");
    Ok(names.map(|name| examples.join(name)))
}

/// What a program prints.
fn ask(program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let name = program.display();
    let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("{name} cannot be run"))?;
    if !output.status.success() {
        bail!("{name} could not make a page");
    }
    Ok(String::from_utf8(output.stdout)?)
}
