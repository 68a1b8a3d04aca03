//! What is sent, on the disk.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::IoSlice;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;

use super::connection::Connection;
use super::journal::{Entry, Journal};
use crate::files::create_directory;
use crate::null_broker::Topics;
use crate::vectored::write_at;

/// Part of what a connection has in its buffer.
pub(super) struct Piece {
    /// Where it belongs in its partition.
    pub(super) position: u64,
    pub(super) connection: u64,
    pub(super) at: Range<usize>,
}

/// The end of one partition, and what is to be written there.
pub(super) struct Partition {
    number: u32,
    /// None if its records go to the journal.
    file: Option<File>,
    next_offset: Cell<i64>,
    end_bytes: Cell<u64>,
    pieces: RefCell<Vec<Piece>>,
}

/// All partitions of all topics.
pub(super) struct Store {
    directory: PathBuf,
    partitions: BTreeMap<(String, i32), Rc<Partition>>,
    next_number: u32,
    /// Made with the first topic that is to be synced.
    journal: Option<Journal>,
    /// Those that have pieces.
    dirty: Vec<Rc<Partition>>,
}

impl Partition {
    /// The offset of so many records, and where their bytes belong.
    pub(super) fn reserve(&self, records: i64, bytes: u64) -> (i64, u64) {
        let (offset, position) = (self.next_offset.get(), self.end_bytes.get());
        self.next_offset.set(offset + records);
        self.end_bytes.set(position + bytes);
        (offset, position)
    }
}

impl Store {
    /// One that has nothing yet; what an earlier one left is removed.
    pub(super) fn create(directory: &Path) -> anyhow::Result<Store> {
        if directory.exists() {
            fs::remove_dir_all(directory)
                .with_context(|| format!("cannot clear {}", directory.display()))?;
        }
        create_directory(directory)?;
        Ok(Store {
            directory: directory.to_owned(),
            partitions: BTreeMap::new(),
            next_number: 0,
            journal: None,
            dirty: Vec::new(),
        })
    }

    /// A partition of a topic that was created.
    pub(super) fn partition(
        &mut self,
        name: &str,
        index: i32,
        topics: &Topics,
    ) -> anyhow::Result<Rc<Partition>> {
        let key = (name.to_owned(), index);
        if let Some(known) = self.partitions.get(&key) {
            return Ok(Rc::clone(known));
        }
        let topic = topics.get(name).filter(|topic| (0..topic.partitions).contains(&index));
        let topic = topic.with_context(|| format!("no partition {name}-{index}"))?;
        let file = match topic.is_synced {
            true => None,
            false => Some(self.create_file(name, index)?),
        };
        let number = self.next_number;
        self.next_number += 1;
        let partition = Partition {
            number,
            file,
            next_offset: Cell::new(0),
            end_bytes: Cell::new(0),
            pieces: RefCell::default(),
        };
        let partition = Rc::new(partition);
        self.partitions.insert(key, Rc::clone(&partition));
        Ok(partition)
    }

    fn create_file(&self, name: &str, index: i32) -> anyhow::Result<File> {
        let directory = self.directory_of(name, index);
        create_directory(&directory)?;
        let path = directory.join("00000000000000000000.log");
        File::create(&path).with_context(|| format!("cannot create {}", path.display()))
    }

    /// As Kafka names it.
    fn directory_of(&self, name: &str, index: i32) -> PathBuf {
        self.directory.join(format!("{name}-{index}"))
    }

    /// Makes ready for topics that are new, so that no record has to wait for it, and removes the files
    /// of those that are gone.
    pub(super) fn follow(&mut self, topics: &Topics) -> anyhow::Result<()> {
        if self.journal.is_none() && topics.are_any_synced() {
            self.journal = Some(Journal::create(&self.directory)?);
        }
        let gone = self.partitions.keys().filter(|(name, _)| topics.get(name).is_none());
        for (name, index) in gone.cloned().collect::<Vec<_>>() {
            // One without a file has no directory.
            let _ = fs::remove_dir_all(self.directory_of(&name, index));
            self.partitions.remove(&(name, index));
        }
        Ok(())
    }

    /// Notes what [`write`](Store::write) is to write.
    pub(super) fn add(&mut self, partition: &Rc<Partition>, piece: Piece) {
        let mut pieces = partition.pieces.borrow_mut();
        if pieces.is_empty() {
            self.dirty.push(Rc::clone(partition));
        }
        pieces.push(piece);
    }

    /// Writes all that was added, as far as it belongs together at once, and syncs the journal if any
    /// of it goes there.
    ///
    /// # Errors
    ///
    /// It cannot be stored: nothing of it must be acknowledged.
    pub(super) fn write(&mut self, connections: &BTreeMap<u64, Connection>) -> anyhow::Result<()> {
        let bytes = |piece: &Piece| connections[&piece.connection].bytes(piece.at.clone());
        let mut entries = Vec::new();
        for partition in self.dirty.drain(..) {
            let mut pieces = partition.pieces.borrow_mut();
            let Some(file) = &partition.file else {
                entries.extend(pieces.drain(..).map(|piece| Entry {
                    partition: partition.number,
                    position: piece.position,
                    bytes: bytes(&piece),
                }));
                continue;
            };
            pieces.sort_unstable_by_key(|piece| piece.position);
            let follows = |one: &Piece, next: &Piece| one.end() == next.position;
            for run in pieces.chunk_by(follows) {
                let mut slices: Vec<IoSlice<'_>> =
                    run.iter().map(|piece| IoSlice::new(bytes(piece))).collect();
                write_at(file, &mut slices, run[0].position)?;
            }
            pieces.clear();
        }
        if entries.is_empty() {
            return Ok(());
        }
        self.journal.as_mut().context("the journal could not be made")?.write(&entries)
    }
}

impl Piece {
    fn end(&self) -> u64 {
        self.position + self.at.len() as u64
    }
}
