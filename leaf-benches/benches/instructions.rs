//! How many instructions each leaf function executes, held against the baseline.
//!
//! ```text
//! cargo bench -p logway-leaf-benches --bench instructions
//! cargo bench -p logway-leaf-benches --bench instructions -- --update    writes the baseline anew
//! ```
//!
//! Each function runs under callgrind for two different numbers of calls, in processes of their
//! own; the difference is what the calls cost, without the start of the process and the making of the input.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use logway_leaf_benches::{Leaf, leaves};

/// How far above the baseline a count may be, in percent.
const TOLERANCE_PERCENT: f64 = 10.0;
/// A few calls first: tables and allocators grow at the first ones.
const FEW_CALLS: u64 = 20;
const MANY_CALLS: u64 = 220;

fn main() -> anyhow::Result<ExitCode> {
    let args: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--call", name, calls] => {
            call(name, calls.parse()?)?;
            Ok(ExitCode::SUCCESS)
        }
        ["--update"] => {
            let counts = count_all()?;
            fs::write(baseline_path(), to_table(&counts))?;
            Ok(ExitCode::SUCCESS)
        }
        [] => compare(),
        _ => bail!("unknown arguments {args:?}: only --update is known"),
    }
}

/// What callgrind watches.
fn call(name: &str, calls: u64) -> anyhow::Result<()> {
    let leaf = leaves().find(|leaf| leaf.name == name).context("no such leaf function")?;
    let mut work = leaf.prepare();
    (0..calls).for_each(|_| work());
    Ok(())
}

fn compare() -> anyhow::Result<ExitCode> {
    let path = baseline_path();
    let baseline = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let baseline = from_table(&baseline)?;
    let (mut passed, mut failed) = (0, 0);
    for leaf in leaves() {
        let count = count(&leaf)?;
        let verdict = judge(count, baseline.get(leaf.name).copied());
        println!("{}  {:<36} {count:>10}  {}", verdict.word(), leaf.name, verdict.detail);
        *(if verdict.is_failure { &mut failed } else { &mut passed }) += 1;
    }
    for name in baseline.keys().filter(|name| leaves().all(|leaf| leaf.name != **name)) {
        println!("FAIL  {name}: in the baseline, but there is no such function");
        failed += 1;
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        println!(
            "where it is meant to cost more, write the baseline anew with --update, and say why"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

struct Verdict {
    is_failure: bool,
    detail: String,
}

impl Verdict {
    fn word(&self) -> &'static str {
        if self.is_failure { "FAIL" } else { "ok  " }
    }
}

fn judge(count: u64, baseline: Option<u64>) -> Verdict {
    let Some(baseline) = baseline else {
        return Verdict { is_failure: true, detail: "not in the baseline".to_owned() };
    };
    let change_percent = (count as f64 / baseline as f64 - 1.0) * 100.0;
    let detail = format!("{change_percent:+.1} % of {baseline}");
    Verdict { is_failure: change_percent > TOLERANCE_PERCENT, detail }
}

fn count_all() -> anyhow::Result<BTreeMap<String, u64>> {
    leaves().map(|leaf| Ok((leaf.name.to_owned(), count(&leaf)?))).collect()
}

/// Instructions of one call.
fn count(leaf: &Leaf) -> anyhow::Result<u64> {
    let (few, many) = (count_calls(leaf, FEW_CALLS)?, count_calls(leaf, MANY_CALLS)?);
    ensure!(many > few, "{}: {MANY_CALLS} calls executed no more than {FEW_CALLS}", leaf.name);
    Ok((many - few) / (MANY_CALLS - FEW_CALLS))
}

/// Instructions of a process that makes so many calls.
fn count_calls(leaf: &Leaf, calls: u64) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["--call", leaf.name, &calls.to_string()])
        .output()
        .context("valgrind cannot be run: it is in your distribution's package `valgrind`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} under valgrind: {}\n{said}", leaf.name, output.status);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let (_, count) = collected.with_context(|| format!("valgrind counted nothing:\n{said}"))?;
    Ok(count.trim().parse()?)
}

fn baseline_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.tsv")
}

fn to_table(counts: &BTreeMap<String, u64>) -> String {
    let mut table = String::from(
        "# Instructions of one call of each leaf function (x86_64, AVX2, glibc's allocator).\n\
         # Written by: cargo bench -p logway-leaf-benches --bench instructions -- --update\n",
    );
    for (name, count) in counts {
        writeln!(table, "{name}\t{count}").expect("a string takes everything");
    }
    table
}

fn from_table(table: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let entries = lines.map(|line| {
        let (name, count) = line.split_once('\t').with_context(|| format!("no tab in {line:?}"))?;
        Ok((name.to_owned(), count.parse().with_context(|| line.to_owned())?))
    });
    entries.collect()
}
