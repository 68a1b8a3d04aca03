//! Developer tasks, run as `cargo xtask TASK`.

#![allow(unreachable_pub, reason = "a binary exports nothing; `pub` means: for the other modules")]

mod codegen;
mod kinesis_model;
mod log_service;
mod reference;
mod samples;

use std::path::PathBuf;

use anyhow::{Context, bail};

const USAGE: &str = "usage: cargo xtask codegen [JARS] [--check]
       cargo xtask kinesis-model SERVICE FILE
       cargo xtask reference [--check]
       cargo xtask wire-samples --out FILE [--seed N] [--samples N] [JARS]

codegen        write the protocol's messages, crates/wire/src/messages, from the definitions in Kafka's jars, and
               the shapes of Kinesis, crates/kinesis/src/shapes, from crates/kinesis/model, and the messages of the log
               service, crates/logservice/src/messages, from crates/logservice/proto
  --check      write nothing; fail if the committed code differs
kinesis-model  prune botocore's data/SERVICE/DATE/service-2.json, unpacked, into crates/kinesis/model; SERVICE is
               kinesis, dynamodb or cloudwatch
reference      write docs/reference from the tables in the code
  --check      write nothing; fail if a committed page differs
wire-samples   write random messages of every version, one a line, made from the definitions alone
  --out FILE   where to
  --seed N     the same seed gives the same messages (default 1)
  --samples N  how many of each version (default 20)

JARS are fetched with Maven where they are not given:
  --clients-jar PATH                  kafka-clients
  --group-coordinator-jar PATH        kafka-group-coordinator
  --transaction-coordinator-jar PATH  kafka-transaction-coordinator";

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("codegen") => codegen::run(&codegen_options(args)?),
        Some("kinesis-model") => {
            let name = args.next().context(USAGE)?;
            let service = kinesis_model::SERVICES.iter().find(|service| service.name == name);
            let from = PathBuf::from(args.next().context(USAGE)?);
            kinesis_model::prune(service.context(USAGE)?, &from, codegen::workspace_root()?)
        }
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
            "--check" => options.check = true,
            _ if jar_option(&mut options.jars, &arg, &mut args)? => {}
            _ => bail!("unknown argument '{arg}'\n{USAGE}"),
        }
    }
    Ok(options)
}

fn samples_options(mut args: impl Iterator<Item = String>) -> anyhow::Result<samples::Options> {
    let mut jars = codegen::Jars::default();
    let (mut out, mut seed, mut samples) = (None, 1, 20);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--out" => out = Some(PathBuf::from(value(&arg, &mut args)?)),
            "--seed" => seed = value(&arg, &mut args)?.parse().context("--seed")?,
            "--samples" => samples = value(&arg, &mut args)?.parse().context("--samples")?,
            _ if jar_option(&mut jars, &arg, &mut args)? => {}
            _ => bail!("unknown argument '{arg}'\n{USAGE}"),
        }
    }
    Ok(samples::Options { jars, seed, samples, out: out.context("--out is needed")? })
}

/// Takes the argument if it names a jar.
fn jar_option(
    jars: &mut codegen::Jars,
    arg: &str,
    args: &mut impl Iterator<Item = String>,
) -> anyhow::Result<bool> {
    let jar = match arg {
        "--clients-jar" => &mut jars.clients,
        "--group-coordinator-jar" => &mut jars.group_coordinator,
        "--transaction-coordinator-jar" => &mut jars.transaction_coordinator,
        _ => return Ok(false),
    };
    *jar = Some(PathBuf::from(value(arg, args)?));
    Ok(true)
}

fn value(arg: &str, args: &mut impl Iterator<Item = String>) -> anyhow::Result<String> {
    args.next().with_context(|| format!("{arg} needs a value"))
}
