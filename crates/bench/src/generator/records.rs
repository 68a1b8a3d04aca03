//! Values of records that come while a run goes on.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::sensors::SensorRecords;

/// So much of a file is read at once.
const READ_BYTES: usize = 1 << 20;

/// Where they come from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// The lines of a file, again and again.
    File(PathBuf),
    /// A seed.
    Sensors(u64),
}

impl Origin {
    /// Those of the connection with a number: a seed makes others for each, a file the same.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no lines.
    pub(crate) fn open(&self, number: usize) -> anyhow::Result<Records> {
        let source = match self {
            Origin::File(path) => Source::Lines(Lines::open(path)?),
            Origin::Sensors(seed) => {
                Source::Sensors(SensorRecords::new(seed.wrapping_add(number as u64)))
            }
        };
        Ok(Records { source, value: Vec::new(), is_taken: true })
    }
}

/// One value after the other, without end. Holds no more than one, and what is read of a file at once.
#[derive(Debug)]
pub(crate) struct Records {
    source: Source,
    value: Vec<u8>,
    is_taken: bool,
}

#[derive(Debug)]
enum Source {
    Lines(Lines),
    Sensors(SensorRecords),
}

impl Records {
    /// The value whose turn it is.
    ///
    /// # Errors
    ///
    /// The file cannot be read any more.
    pub(crate) fn peek(&mut self) -> anyhow::Result<&[u8]> {
        if self.is_taken {
            match &mut self.source {
                Source::Lines(lines) => lines.next_into(&mut self.value)?,
                Source::Sensors(sensors) => sensors.next_into(&mut self.value),
            }
            self.is_taken = false;
        }
        Ok(&self.value)
    }

    /// That one is done with.
    pub(crate) fn take(&mut self) {
        self.is_taken = true;
    }
}

/// A file's lines that are not empty, from its beginning again after its end.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: BufReader<File>,
}

impl Lines {
    fn open(path: &Path) -> anyhow::Result<Lines> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = BufReader::with_capacity(READ_BYTES, file);
        Ok(Lines { path: path.to_owned(), file })
    }

    fn next_into(&mut self, line: &mut Vec<u8>) -> anyhow::Result<()> {
        let mut has_ended = false;
        loop {
            line.clear();
            let read = self.file.read_until(b'\n', line);
            if read.with_context(|| format!("cannot read {}", self.path.display()))? == 0 {
                ensure!(!has_ended, "{} has no lines", self.path.display());
                has_ended = true;
                self.file.rewind()?;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if !line.is_empty() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(records: &mut Records) -> Vec<u8> {
        let value = records.peek().expect("there is more").to_vec();
        records.take();
        value
    }

    #[test]
    fn a_files_lines_come_again_and_empty_ones_never() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lines");
        std::fs::write(&path, "a\n\nbc\n\nd").expect("is written");
        let mut records = Origin::File(path).open(0).expect("it is there");
        let values: Vec<Vec<u8>> = (0..5).map(|_| next(&mut records)).collect();
        assert_eq!(values, [b"a".as_slice(), b"bc", b"d", b"a", b"bc"]);
        assert_eq!(records.peek().expect("there is more"), b"d");
        assert_eq!(records.peek().expect("there is more"), b"d");
    }

    #[test]
    fn a_file_without_lines_is_no_end_of_waiting() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lines");
        for text in ["", "\n\n"] {
            std::fs::write(&path, text).expect("is written");
            let error = Origin::File(path.clone()).open(0).expect("it is there").peek().err();
            assert!(error.expect("no lines").to_string().contains("no lines"));
        }
        assert!(Origin::File(directory.path().join("none")).open(0).is_err());
    }

    #[test]
    fn connections_send_sensors_of_their_own() {
        let origin = Origin::Sensors(7);
        let [mut first, mut second, mut again] =
            [0, 1, 0].map(|number| origin.open(number).expect("a seed"));
        let value = next(&mut first);
        assert_ne!(value, next(&mut second));
        assert_eq!(value, next(&mut again));
        assert_ne!(value, next(&mut first));
    }
}
