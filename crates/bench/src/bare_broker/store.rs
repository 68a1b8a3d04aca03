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

/// What the journal has is moved to its partition when it is so much: a larger write is not cheaper.
pub(super) const HELD_BYTES_MAX: usize = 64 << 10;

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
    file: File,
    /// Its records go to the journal first.
    is_synced: bool,
    next_offset: Cell<i64>,
    end_bytes: Cell<u64>,
    pieces: RefCell<Vec<Piece>>,
    /// What the journal has and the file is yet to get.
    held: RefCell<Held>,
}

/// Records that follow each other.
#[derive(Default)]
struct Held {
    position: u64,
    bytes: Vec<u8>,
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
    /// Those that had some with the last write.
    written: Vec<Rc<Partition>>,
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
            written: Vec::new(),
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
        let is_synced = topic.is_synced;
        let file = self.create_file(name, index)?;
        let number = self.next_number;
        self.next_number += 1;
        let partition = Partition {
            number,
            file,
            is_synced,
            next_offset: Cell::new(0),
            end_bytes: Cell::new(0),
            pieces: RefCell::default(),
            held: RefCell::default(),
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
            let directory = self.directory_of(&name, index);
            fs::remove_dir_all(&directory)
                .with_context(|| format!("cannot remove {}", directory.display()))?;
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
        let dirty = std::mem::replace(&mut self.dirty, std::mem::take(&mut self.written));
        let mut entries = Vec::new();
        for partition in &dirty {
            let mut pieces = partition.pieces.borrow_mut();
            pieces.sort_unstable_by_key(|piece| piece.position);
            if partition.is_synced {
                entries.extend(pieces.iter().map(|piece| Entry {
                    partition: partition.number,
                    position: piece.position,
                    bytes: bytes(piece),
                }));
            }
        }
        if !entries.is_empty() {
            let journal = self.journal.as_mut().context("the journal could not be made")?;
            if !journal.has_room_for(&entries) {
                self.partitions.values().try_for_each(|partition| partition.move_held())?;
                journal.begin_again();
            }
            journal.write(&entries)?;
        }
        dirty.iter().try_for_each(|partition| partition.take_in(bytes))?;
        self.written = dirty;
        Ok(())
    }

    /// Moves what the journal has to the files of its partitions, where it has become much with the last write.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub(super) fn move_much(&mut self) -> anyhow::Result<()> {
        let is_much = |partition: &Rc<Partition>| partition.held_bytes() >= HELD_BYTES_MAX;
        self.written.drain(..).filter(is_much).try_for_each(|partition| partition.move_held())
    }
}

impl Partition {
    /// Writes the pieces to the file, or holds them for it if the journal has them.
    fn take_in<'a>(&self, bytes: impl Fn(&Piece) -> &'a [u8]) -> anyhow::Result<()> {
        let follows = |one: &Piece, next: &Piece| one.end() == next.position;
        let mut pieces = self.pieces.borrow_mut();
        for run in pieces.chunk_by(follows) {
            let run_bytes: usize = run.iter().map(|piece| piece.at.len()).sum();
            if self.is_synced && run_bytes < HELD_BYTES_MAX {
                run.iter().try_for_each(|piece| self.hold(piece.position, bytes(piece)))?;
                continue;
            }
            self.move_held()?;
            let mut slices: Vec<IoSlice<'_>> =
                run.iter().map(|piece| IoSlice::new(bytes(piece))).collect();
            write_at(&self.file, &mut slices, run[0].position)?;
        }
        pieces.clear();
        Ok(())
    }

    fn hold(&self, position: u64, bytes: &[u8]) -> anyhow::Result<()> {
        let follows = self.held.borrow().end() == position;
        if !follows {
            self.move_held()?;
            self.held.borrow_mut().position = position;
        }
        self.held.borrow_mut().bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.held.borrow().bytes.len()
    }

    fn move_held(&self) -> anyhow::Result<()> {
        let mut held = self.held.borrow_mut();
        write_at(&self.file, &mut [IoSlice::new(&held.bytes)], held.position)?;
        held.position = held.end();
        held.bytes.clear();
        Ok(())
    }
}

impl Held {
    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }
}

impl Piece {
    fn end(&self) -> u64 {
        self.position + self.at.len() as u64
    }
}
