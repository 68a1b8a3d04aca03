//! What is to be produced.

use std::fs::File;
use std::io::{self, BufReader, Read};

use super::text;
use crate::cli::error::CliError;

/// Large reads keep the cost per record low.
const BUFFER_BYTES: usize = 256 << 10;

/// How much of a file is looked at before anything is sent.
const HEAD_BYTES: u64 = 64 << 10;

/// A file or stdin, opened.
pub(super) struct Input {
    /// Its bytes.
    pub(super) reader: BufReader<Box<dyn Read + Send>>,
    /// What to call it in messages.
    pub(super) name: String,
}

/// How much there is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputSize {
    /// Regular files of so many bytes in all.
    Bytes(u64),
    /// A pipe, a terminal or a device among them: it may also pause.
    Unknown,
}

impl Input {
    /// Opens a file, or stdin for `-`.
    pub(super) fn open(path: &str) -> Result<Input, CliError> {
        let source: Box<dyn Read + Send> = match path {
            "-" => Box::new(io::stdin()),
            path => Box::new(File::open(path).map_err(|source| cannot_read(path, source))?),
        };
        let reader = BufReader::with_capacity(BUFFER_BYTES, source);
        Ok(Input { reader, name: name_of(path) })
    }
}

/// What messages call an input.
pub(super) fn name_of(path: &str) -> String {
    match path {
        "-" => "stdin".to_owned(),
        path => path.to_owned(),
    }
}

/// Looks at regular files before anything of any of them is sent, and adds their sizes up.
///
/// # Errors
///
/// A file that cannot be read, or, if lines are `expected`, one that does not begin as text.
pub(super) fn look_at(paths: &[String], expects_text: bool) -> Result<InputSize, CliError> {
    let mut total_bytes = 0;
    let mut is_known = true;
    for path in paths {
        let of_file = |source| cannot_read(path, source);
        // A named pipe cannot be opened twice.
        let metadata = match &**path {
            "-" => None,
            path => Some(std::fs::metadata(path).map_err(of_file)?),
        };
        let Some(metadata) = metadata.filter(|metadata| metadata.is_file() || metadata.is_dir())
        else {
            is_known = false;
            continue;
        };
        let mut head = Vec::new();
        let file = File::open(path).map_err(of_file)?;
        file.take(HEAD_BYTES).read_to_end(&mut head).map_err(of_file)?;
        if expects_text {
            text::check_head(&head, path)?;
        }
        total_bytes += metadata.len();
    }
    Ok(if is_known { InputSize::Bytes(total_bytes) } else { InputSize::Unknown })
}

/// The error for a read that failed.
pub(super) fn cannot_read(name: &str, source: io::Error) -> CliError {
    CliError::Io { what: format!("read {name}"), source }
}
