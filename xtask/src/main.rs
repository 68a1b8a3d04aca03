//! Developer tasks, run as `cargo xtask TASK`.

#![allow(unreachable_pub, reason = "a binary exports nothing; `pub` means: for the other modules")]

mod codegen;
mod reference;
mod samples;

use std::path::PathBuf;

use anyhow::{Context, bail};

const USAGE: &str = "usage: cargo xtask codegen [--jar PATH] [--check]
       cargo xtask reference [--check]
       cargo xtask wire-samples --out FILE [--seed N] [--samples N] [--jar PATH]

codegen        write the protocol's messages, crates/wire/src/messages, from the definitions in the kafka-clients jar
  --check      write nothing; fail if the committed code differs
reference      write docs/reference from the tables in the code
  --check      write nothing; fail if a committed page differs
wire-samples   write random messages of every version, one a line, made from the definitions alone
  --out FILE   where to
  --seed N     the same seed gives the same messages (default 1)
  --samples N  how many of each version (default 20)

--jar PATH     the jar, instead of the one that Maven fetches";

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("codegen") => codegen::run(&codegen_options(args)?),
        Some("reference") => match args.next().as_deref() {
            None => reference::run(false),
            Some("--check") => reference::run(true),
            Some(other) => bail!("unknown argument '{other}'\n{USAGE}"),
        },
        Some("wire-samples") => samples::run(&samples_options(args)?),
        _ => bail!("{USAGE}"),
    }
}

fn codegen_options(mut args: impl Iterator<Item = String>) -> anyhow::Result<codegen::Options> {
    let mut options = codegen::Options::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--jar" => options.jar = Some(PathBuf::from(value(&arg, &mut args)?)),
            "--check" => options.check = true,
            _ => bail!("unknown argument '{arg}'\n{USAGE}"),
        }
    }
    Ok(options)
}

fn samples_options(mut args: impl Iterator<Item = String>) -> anyhow::Result<samples::Options> {
    let (mut jar, mut out, mut seed, mut samples) = (None, None, 1, 20);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--jar" => jar = Some(PathBuf::from(value(&arg, &mut args)?)),
            "--out" => out = Some(PathBuf::from(value(&arg, &mut args)?)),
            "--seed" => seed = value(&arg, &mut args)?.parse().context("--seed")?,
            "--samples" => samples = value(&arg, &mut args)?.parse().context("--samples")?,
            _ => bail!("unknown argument '{arg}'\n{USAGE}"),
        }
    }
    Ok(samples::Options { jar, seed, samples, out: out.context("--out is needed")? })
}

fn value(arg: &str, args: &mut impl Iterator<Item = String>) -> anyhow::Result<String> {
    args.next().with_context(|| format!("{arg} needs a value"))
}
