//! Values of records: in memory before a run, or as it goes on.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::sensors::SensorRecords;

/// So much of a file is read at once.
const READ_BYTES: usize = 1 << 20;

/// So many records of a seed are held in memory; then they come again.
const HELD_SENSOR_RECORDS: usize = 20_000;

/// Where they come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
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

/// Values that are in memory, at least one. Another process is told where they are from, and has its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Origin", into = "Origin")]
pub(crate) struct HeldValues {
    origin: Origin,
    values: Arc<Vec<Vec<u8>>>,
}

impl HeldValues {
    pub(crate) fn all(&self) -> &[Vec<u8>] {
        &self.values
    }

    #[cfg(test)]
    pub(crate) fn of(values: Vec<Vec<u8>>) -> HeldValues {
        HeldValues { origin: Origin::Sensors(0), values: Arc::new(values) }
    }
}

/// Fails if a file cannot be read, or has no lines.
impl TryFrom<Origin> for HeldValues {
    type Error = anyhow::Error;

    fn try_from(origin: Origin) -> anyhow::Result<HeldValues> {
        let mut values = Vec::new();
        let mut value = Vec::new();
        match &origin {
            Origin::File(path) => {
                let mut lines = Lines::open(path)?;
                while lines.read_into(&mut value)? {
                    values.push(value.clone());
                }
                ensure!(!values.is_empty(), "{} has no lines", path.display());
            }
            Origin::Sensors(seed) => {
                let mut records = SensorRecords::new(*seed);
                values.resize_with(HELD_SENSOR_RECORDS, || {
                    records.next_into(&mut value);
                    value.clone()
                });
            }
        }
        Ok(HeldValues { origin, values: Arc::new(values) })
    }
}

impl From<HeldValues> for Origin {
    fn from(held: HeldValues) -> Origin {
        held.origin
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

    /// The next one, whatever was there before.
    fn next_into(&mut self, line: &mut Vec<u8>) -> anyhow::Result<()> {
        if self.read_into(line)? {
            return Ok(());
        }
        self.file.rewind()?;
        ensure!(self.read_into(line)?, "{} has no lines", self.path.display());
        Ok(())
    }

    /// The next one before the end of the file; whether there is one.
    fn read_into(&mut self, line: &mut Vec<u8>) -> anyhow::Result<bool> {
        loop {
            line.clear();
            let read = self.file.read_until(b'\n', line);
            if read.with_context(|| format!("cannot read {}", self.path.display()))? == 0 {
                return Ok(false);
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if !line.is_empty() {
                return Ok(true);
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
            let origin = Origin::File(path.clone());
            let error = origin.open(0).expect("it is there").peek().err();
            assert!(error.expect("no lines").to_string().contains("no lines"));
            let error = HeldValues::try_from(origin).expect_err("nothing to hold");
            assert!(error.to_string().contains("no lines"), "{error}");
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

    #[test]
    fn what_is_held_in_memory_is_what_is_streamed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lines");
        std::fs::write(&path, "a\n\nbc\nd").expect("is written");
        for origin in [Origin::Sensors(7), Origin::File(path)] {
            let told = serde_json::to_string(&HeldValues::try_from(origin.clone()).expect("some"));
            let told = told.expect("an origin is plain");
            assert!(told.len() < 1000, "{told}");
            let held: HeldValues = serde_json::from_str(&told).expect("they are there still");
            let mut streamed = origin.open(0).expect("there are some");
            for value in held.all() {
                assert_eq!(next(&mut streamed), *value);
            }
        }
    }
}
