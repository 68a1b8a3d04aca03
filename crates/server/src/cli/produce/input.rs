//! What is to be produced.

use std::fs::File;
use std::io::{self, BufReader, Read};

use crate::cli::error::CliError;

/// Large reads keep the cost per line low.
const BUFFER_BYTES: usize = 256 << 10;

/// A file or stdin, opened.
pub(super) struct Input {
    /// Its bytes.
    pub(super) reader: BufReader<Box<dyn Read>>,
    /// What to call it in messages.
    pub(super) name: String,
    /// How much is to come.
    pub(super) size: InputSize,
}

/// How much there is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputSize {
    /// A regular file of so many bytes.
    Bytes(u64),
    /// A pipe, a terminal or a device: it may also pause.
    Unknown,
}

impl Input {
    /// Opens a file, or stdin for `-`.
    pub(super) fn open(file: &str) -> Result<Input, CliError> {
        let (source, name, size): (Box<dyn Read>, _, _) = match file {
            "-" => (Box::new(io::stdin()), "stdin".to_owned(), InputSize::Unknown),
            path => {
                let file = File::open(path).map_err(|source| cannot_read(path, source))?;
                let metadata = file.metadata().map_err(|source| cannot_read(path, source))?;
                let size = match metadata.is_file() {
                    true => InputSize::Bytes(metadata.len()),
                    false => InputSize::Unknown,
                };
                (Box::new(file), path.to_owned(), size)
            }
        };
        let reader = BufReader::with_capacity(BUFFER_BYTES, source);
        Ok(Input { reader, name, size })
    }
}

/// The error for a read that failed.
pub(super) fn cannot_read(name: &str, source: io::Error) -> CliError {
    CliError::Io { what: format!("read {name}"), source }
}
