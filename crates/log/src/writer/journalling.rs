//! Rounds that are put on stable storage by one write to the [journal](crate::journal).
//!
//! A log may be journalled in a round if all of it that is not on stable storage is in the entry, in
//! one segment whose name is on the disk. What is acknowledged then is *flushed*, but not yet *synced*
//! in its own file; recovery points, seals, retention and a stop in good order go by the latter. All
//! other logs of the round, and rounds of many bytes, are synced as ever.
//!
//! When a half of the journal is full, the background thread syncs the files of its logs
//! ([write_back](super::write_back)). Until that is done its space is not used again; should the other half be
//! full before, rounds are synced as without a journal.
//!
//! After a write to it failed the journal is not written to again. All that it vouches for is synced
//! at once, and it is removed.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use logway_model::{Offset, TopicPartition};

use super::Writer;
use super::background::Job;
use super::log_tail::LogTail;
use super::round_pieces::{ROUND_MAX_BYTES, RoundPiece};
use super::write_back::WriteBacks;
use crate::LogError;
use crate::checkpoint::remove_file;
use crate::dir_syncs::DirSyncs;
use crate::journal::{EntryBuilder, EntryNumber, JOURNAL_FILE, JournalFile, VOID_ENTRY_BYTES};
use crate::log_state::LogKey;

/// The journal as the writer sees it.
pub(super) struct Journal {
    state: State,
    bytes: u64,
    /// So many rounds must have been worth an entry before there is a journal, and so many in a row of one
    /// log for it to be worth one.
    after_rounds: u32,
    root_syncs: Arc<DirSyncs>,
    /// The rounds of one log since the last of several.
    lone_rounds: u32,
    /// The half that is being filled, 0 or 1.
    half: usize,
    /// Where its next entry goes.
    position: u64,
    /// The number of that.
    next: EntryNumber,
    /// For each half, how far the logs go that its entries are about.
    ends: [HashMap<LogKey, Offset>; 2],
    /// Who the entries are about that are not void.
    mentioned: BTreeSet<TopicPartition>,
    pub(super) write_backs: WriteBacks,
}

enum State {
    /// There is none, and rounds that would have used it are counted.
    Useful(u32),
    /// The background thread makes one.
    InMaking,
    Open(JournalFile),
    /// A write failed.
    Failed,
    /// There is to be none.
    Off,
}

impl Journal {
    pub(super) fn new(bytes: u64, after_rounds: u32, root_syncs: Arc<DirSyncs>) -> Journal {
        Journal {
            state: if bytes > 0 { State::Useful(0) } else { State::Off },
            bytes,
            after_rounds,
            root_syncs,
            lone_rounds: 0,
            half: 0,
            position: 0,
            next: EntryNumber::first(),
            ends: Default::default(),
            mentioned: BTreeSet::new(),
            write_backs: WriteBacks::default(),
        }
    }

    /// How many logs a round must have to be worth an entry; `None` if there is no journal to write to.
    fn logs_min(&mut self, logs: usize) -> Option<usize> {
        self.lone_rounds = if logs == 1 { self.lone_rounds.saturating_add(1) } else { 0 };
        let is_there = matches!(self.state, State::Useful(_) | State::Open(_));
        let pays = logs > 1 || self.lone_rounds > self.after_rounds;
        (is_there && pays).then_some(logs.min(2))
    }

    /// Whether an entry fits into what is left of the half; an entry that makes all void always does.
    fn has_room_for(&self, entry_bytes: u64) -> bool {
        let State::Open(file) = &self.state else { return false };
        self.position + entry_bytes + VOID_ENTRY_BYTES <= file.half_bytes()
    }

    /// After an error the journal is not to be written to again.
    fn begin_half(&mut self, half: usize) -> Result<(), LogError> {
        if let State::Open(file) = &self.state {
            file.erase(half)?;
        }
        self.half = half;
        self.position = 0;
        self.next = EntryNumber { generation: self.next.generation + 1, sequence: 0 };
        self.ends[half].clear();
        Ok(())
    }

    /// Takes note that nothing in it counts of a log, all of which is in its own file.
    pub(super) fn forget(&mut self, key: LogKey) {
        self.ends.iter_mut().for_each(|ends| _ = ends.remove(&key));
    }

    /// Writes an entry and syncs it.
    fn write(&mut self, entry: &[u8]) -> Result<u64, LogError> {
        let State::Open(file) = &self.state else {
            unreachable!("only an open journal is written")
        };
        file.write(self.half, self.position, entry)?;
        let written = entry.len() as u64;
        self.position += written;
        self.next.sequence += 1;
        Ok(written)
    }
}

impl Writer {
    /// To be called before the logs of a round are written.
    pub(super) fn begin_pieces(&mut self, is_synced: bool) {
        let is_open = matches!(self.journal.state, State::Open(_));
        self.round.pieces.begin(is_synced && is_open);
    }

    /// Puts logs of this round on stable storage; answers the appends that this completes.
    pub(super) fn sync_round(&mut self, mut due: Vec<LogKey>) {
        if let Some(logs_min) = self.journal.logs_min(due.len()) {
            self.write_entry(logs_min);
            let is_left = |tail: &LogTail| tail.unflushed_records() > 0;
            due.retain(|key| self.tails.get(key).is_some_and(is_left));
        }
        self.sync(due);
    }

    /// Puts what it can of the round on stable storage by an entry in the journal, if that is of so many
    /// logs at least.
    fn write_entry(&mut self, logs_min: usize) {
        if let State::Useful(rounds) = &mut self.journal.state {
            *rounds += 1;
            if *rounds >= self.journal.after_rounds {
                self.journal.state = State::InMaking;
                self.round.background.send(Job::MakeJournal { bytes: self.journal.bytes });
            }
            return;
        }
        let pieces = std::mem::take(&mut self.round.pieces.pieces);
        let chosen: Vec<&RoundPiece> = pieces
            .iter()
            .filter(|piece| self.tails.get(&piece.key).is_some_and(|tail| tail.is_all(piece)))
            .collect();
        let ranges: Vec<Range<usize>> = chosen.iter().map(|piece| piece.encoded.clone()).collect();
        let entry_bytes = EntryBuilder::entry_bytes(&ranges);
        let is_small = entry_bytes <= ROUND_MAX_BYTES;
        if chosen.len() < logs_min || !is_small || !self.make_room(entry_bytes) {
            return;
        }
        let journal = &mut self.journal;
        let entry = self.round.pieces.builder.finish(journal.next, &ranges);
        match journal.write(entry) {
            Ok(written) => {
                self.round.metrics.journal_rounds.inc();
                self.round.metrics.journal_bytes.inc_by(written);
            }
            Err(error) => {
                // It may be there all the same.
                let tails = chosen.iter().filter_map(|piece| self.tails.get(&piece.key));
                let partitions = tails.map(|tail| tail.log.topic_partition().clone());
                journal.mentioned.extend(partitions);
                return self.fail_journal(&error);
            }
        }
        let mut completed = 0;
        for piece in &chosen {
            let tail = self.tails.get_mut(&piece.key).expect("it was just looked at");
            let journal = &mut self.journal;
            journal.ends[journal.half].insert(piece.key, piece.end.offset);
            if !journal.mentioned.contains(tail.log.topic_partition()) {
                journal.mentioned.insert(tail.log.topic_partition().clone());
            }
            tail.set_flushed(piece.end);
            tail.publish();
            completed += tail.complete_due();
            if let Some(log) = tail.plan_part_of_write_back() {
                journal.write_backs.begin_part(log, &self.round.background);
            }
        }
        if completed > 0 {
            self.round.metrics.group_commit_appends.observe(completed as f64);
        }
    }

    /// Makes sure that an entry fits; says whether it does.
    fn make_room(&mut self, entry_bytes: u64) -> bool {
        if self.journal.has_room_for(entry_bytes) {
            return true;
        }
        let other = 1 - self.journal.half;
        if self.is_written_back(other) {
            if let Err(error) = self.journal.begin_half(other) {
                self.fail_journal(&error);
                return false;
            }
            // The one that is full.
            self.write_back();
            return self.journal.has_room_for(entry_bytes);
        }
        self.write_back();
        false
    }

    /// Whether everything that the entries of a half are about is in its own file, on stable storage.
    /// Those of logs that are gone are void.
    fn is_written_back(&self, half: usize) -> bool {
        let is_synced = |(key, end): (&LogKey, &Offset)| {
            self.tails.get(key).is_none_or(|tail| tail.synced.offset >= *end)
        };
        self.journal.ends[half].iter().all(is_synced)
    }

    /// The background thread has made a journal, or not.
    pub(super) fn note_journal_made(&mut self, made: Result<JournalFile, LogError>) {
        self.journal.state = match made {
            Ok(file) => State::Open(file),
            Err(error) => {
                let dir = self.round.dir.display();
                tracing::warn!(%dir, %error, "there is no journal: each log is synced by itself");
                State::Useful(0)
            }
        };
    }

    /// Sees to it that nothing in the journal is about a log that goes, or whose segments are replaced:
    /// all files are synced, and the entries made void.
    ///
    /// # Errors
    ///
    /// Why that is not so: another log cannot be synced, or the journal not written. It stays for the
    /// next start then.
    pub(super) fn void_journal_of(
        &mut self,
        partition: &TopicPartition,
        is_leaving: bool,
    ) -> Result<(), LogError> {
        if !self.journal.mentioned.contains(partition) {
            return Ok(());
        }
        self.sync_journalled();
        let others = self.tails.values().filter(|tail| tail.is_journalled());
        let mut others =
            others.filter(|tail| !is_leaving || tail.log.topic_partition() != partition);
        if let Some(tail) = others.next() {
            return Err(tail.not_synced());
        }
        if let State::Open(_) = self.journal.state {
            let mut void = EntryBuilder::default();
            match self.journal.write(void.finish(self.journal.next, &[])) {
                Ok(_) => {
                    self.journal.mentioned.clear();
                    return Ok(());
                }
                Err(error) => self.fail_journal(&error),
            }
        }
        self.remove_journal()
    }

    /// A write to the journal failed: nobody knows what is in it.
    fn fail_journal(&mut self, error: &LogError) {
        let dir = self.round.dir.display();
        tracing::error!(%dir, %error, "the journal is not used any more: each log is synced by itself");
        self.round.metrics.journal_failures.inc();
        self.journal.state = State::Failed;
        self.sync_journalled();
        if self.tails.values().any(LogTail::is_journalled) {
            return;
        }
        if let Err(error) = self.remove_journal() {
            let dir = self.round.dir.display();
            tracing::error!(%dir, %error, "the journal cannot be removed");
        }
    }

    /// Removes the journal, for good. Nothing that only it vouches for may be in it.
    pub(super) fn remove_journal(&mut self) -> Result<(), LogError> {
        if matches!(self.journal.state, State::Useful(_) | State::Off) {
            return Ok(());
        }
        let path = self.round.dir.join(JOURNAL_FILE);
        let fs = &*self.round.fs;
        self.journal.root_syncs.work(|| remove_file(fs, &path))?;
        if let State::Failed = self.journal.state {
            // If this is not the first try, that has found no file, and synced nothing: the name may be there
            // again after a power cut.
            self.journal.root_syncs.sync_all(fs)?;
        }
        self.journal.state = State::Off;
        self.journal.mentioned.clear();
        self.journal.ends.iter_mut().for_each(HashMap::clear);
        Ok(())
    }

    /// Syncs the files of all logs that only the journal vouches for.
    fn sync_journalled(&mut self) {
        let journalled = self.tails.iter().filter(|(_, tail)| tail.is_journalled());
        let keys: Vec<LogKey> = journalled.map(|(key, _)| *key).collect();
        self.sync(keys);
    }
}

impl LogTail {
    /// Whether some of it is on stable storage in the journal alone.
    pub(super) fn is_journalled(&self) -> bool {
        self.synced.offset < self.view.flushed.offset
    }

    pub(super) fn not_synced(&self) -> LogError {
        self.poisoned().or_else(|| self.delayed()).unwrap_or_else(|| {
            let not_tried = std::io::Error::other("it was not tried");
            LogError::io("sync", self.view.active().path())(not_tried)
        })
    }
}
