//! What the journal of a log directory holds when it is opened.

use std::collections::BTreeMap;

use logway_model::TopicPartition;

use super::LogDir;
use super::options::LogDirOptions;
use crate::checkpoint::remove_file;
use crate::journal::{JOURNAL_FILE, JournalContent, Piece, read_journal, unopened};
use crate::recovery::JournalledEnd;
use crate::writer::RESERVE_FILE;
use crate::{Finding, LogError, RecoveryReport};

/// The records that are to be redone, by log.
#[derive(Debug, Default)]
pub(super) struct Journalled {
    pieces: BTreeMap<TopicPartition, Vec<Piece>>,
    has_journal: bool,
    has_unopened: bool,
}

impl Journalled {
    /// Reads what a crash has left. Damage is reported; what else is there counts.
    ///
    /// A directory that was closed in good order has no journal. If there is one all the same,
    /// somebody has put it there, or Apache Kafka has closed the directory since: it does not count, and is
    /// removed, because the next start may not know any more that the directory was closed.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`].
    pub(super) fn read(
        options: &LogDirOptions,
        report: &mut RecoveryReport,
    ) -> Result<Journalled, LogError> {
        let (fs, root) = (&*options.fs, &options.path);
        let unopened = unopened::read(fs, root)?;
        let mut journal = read_journal(fs, root)?;
        if let Some(JournalContent { pieces, .. }) = &journal
            && report.was_clean
        {
            if !pieces.is_empty() {
                tracing::warn!(dir = %root.display(), "the directory was closed in good order: its \
                    journal does not count");
            }
            remove_file(fs, &root.join(JOURNAL_FILE))?;
            journal = None;
        }
        let (has_unopened, has_journal) = (unopened.is_some(), journal.is_some());
        let mut pieces: BTreeMap<TopicPartition, Vec<Piece>> = BTreeMap::new();
        for JournalContent { pieces: found, damage } in [unopened, journal].into_iter().flatten() {
            for error in damage {
                tracing::error!(%error, "the journal is damaged");
                report.findings.push(Finding::Rebuilt { error });
            }
            for piece in found {
                pieces.entry(piece.partition.clone()).or_default().push(piece);
            }
        }
        Ok(Journalled { pieces, has_journal, has_unopened })
    }

    /// How far there are records of each log.
    pub(super) fn ends(&self) -> BTreeMap<TopicPartition, JournalledEnd> {
        let ends = self.pieces.iter().filter_map(|(partition, pieces)| {
            let Piece { topic_id, end, .. } = *pieces.last()?;
            Some((partition.clone(), JournalledEnd { topic_id, end }))
        });
        ends.collect()
    }

    /// What is to be redone of a log.
    pub(super) fn of(&self, partition: &TopicPartition) -> &[Piece] {
        self.pieces.get(partition).map_or(&[], Vec::as_slice)
    }

    /// Keeps what is about logs that could not be opened, and removes the journal: all else is where it
    /// belongs, on stable storage.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`]; then the journal is as it was.
    pub(super) fn settle(
        &self,
        options: &LogDirOptions,
        is_unopened: impl Fn(&TopicPartition) -> bool,
    ) -> Result<(), LogError> {
        let (fs, root) = (&*options.fs, &options.path);
        let kept = self.pieces.iter().filter(|(partition, _)| is_unopened(partition));
        let kept: Vec<&Piece> = kept.flat_map(|(_, pieces)| pieces).collect();
        if self.has_unopened || !kept.is_empty() {
            match unopened::keep(fs, root, kept.iter().copied()) {
                // On a full disk the space that is kept in reserve is as good for this as for checkpoints.
                Err(error) if error.is_disk_full() => {
                    remove_file(fs, &root.join(RESERVE_FILE))?;
                    unopened::keep(fs, root, kept)?;
                }
                written => written?,
            }
        }
        match self.has_journal {
            true => remove_file(fs, &root.join(JOURNAL_FILE)),
            false => Ok(()),
        }
    }
}

impl LogDir {
    /// What is kept of a log that could not be opened.
    pub(super) fn journalled_of(&self, partition: &TopicPartition) -> Result<Vec<Piece>, LogError> {
        let kept = unopened::read(&*self.options.fs, &self.options.path)?;
        let pieces = kept.into_iter().flat_map(|kept| kept.pieces);
        Ok(pieces.filter(|piece| piece.partition == *partition).collect())
    }

    /// Forgets what is kept of a log: it is where it belongs, or the log goes. To be done before there
    /// can be another of its name.
    pub(super) fn forget_journalled(&self, partition: &TopicPartition) -> Result<(), LogError> {
        let (fs, root) = (&*self.options.fs, &self.options.path);
        self.root_syncs.work(|| unopened::forget(fs, root, partition))
    }
}
