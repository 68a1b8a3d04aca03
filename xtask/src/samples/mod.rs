//! Random messages as bytes, made from the definitions alone, without the codec that they are for testing.
//!
//! The bytes are in the one form that a codec may write: the shortest integers, no tagged field with its default. So
//! whoever decodes and encodes them must get the same bytes.

mod random;
mod writer;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;

use crate::codegen;
use random::Random;
use writer::Writer;

/// What `cargo xtask wire-samples` was asked to do.
#[derive(Debug)]
pub struct Options {
    /// Where the jars are, if Maven shall not fetch them.
    pub jars: codegen::Jars,
    pub seed: u64,
    /// How many samples of each version of each message.
    pub samples: usize,
    pub out: PathBuf,
}

/// Writes one line per sample: the message's name, the version, the word `random`, and the bytes in hexadecimal.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut random = Random::new(options.seed);
    let mut lines = String::new();
    for message in codegen::messages(&options.jars)? {
        for version in message.versions.min..=message.versions.max {
            for _ in 0..options.samples {
                let bytes = Writer::new(&message, version, &mut random).message();
                write!(lines, "{} {version} random ", message.name)?;
                bytes.iter().try_for_each(|byte| write!(lines, "{byte:02x}"))?;
                lines.push('\n');
            }
        }
    }
    std::fs::write(&options.out, lines)
        .with_context(|| format!("writing {}", options.out.display()))
}
