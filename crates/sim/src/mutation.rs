//! What is left out, to see whether the simulation misses it.
//!
//! Nothing in the engine is switched off for this: the simulated disk says that a sync, a rename, a
//! removal or a change of length is done, and does nothing. That is what the engine would be like
//! without the call.

use std::path::{Path, PathBuf};

use logway_log::fs::sim::{Failure, Fault, SimOperation};

/// The thread that opens directories, makes logs and deletes them.
pub(crate) const DRIVER: &str = "driver";

/// The threads that do rounds of writers themselves.
pub(crate) const NETWORK: &str = "network";

/// The threads of the engine.
const WRITER: &str = "log-writer";
const BACKGROUND: &str = "log-background";
pub(crate) const CLEANER: &str = "log-cleaner";

/// Something that the engine does not do.
#[derive(Debug)]
pub struct Mutation {
    /// What is left out.
    pub name: &'static str,
    left_out: LeftOut,
}

/// Which calls are left out.
#[derive(Debug)]
enum LeftOut {
    /// Syncs of files whose paths have this part, on this thread or all.
    Syncs(&'static str, Option<&'static str>),
    /// Syncs of the directories of partitions, on this thread.
    PartitionDirs(&'static str),
    /// Syncs of log directories, on this thread.
    Roots(&'static str),
    /// Changes of the lengths of segments, on this thread.
    Cuts(&'static str),
    /// Renames to paths that have this part, on this thread.
    Renames(&'static str, &'static str),
    /// Removals of files whose paths have this part, on this thread.
    Removals(&'static str, &'static str),
}

/// All mutations. Each is missed.
///
/// The sync of offset indexes is not among them. A crash leaves of an index that is not synced what was
/// written or zeros, and a look-up that lands on zeros walks from the beginning: that is slow and
/// not wrong. Nor are the syncs of names while a cleaned segment takes its place: a power cut seldom hits
/// the few changes between them.
pub const MUTATIONS: &[Mutation] = &[
    mutation("the sync of records before they are acknowledged", syncs_on(".log", WRITER)),
    mutation("the sync of the journal", syncs_on("/journal", WRITER)),
    mutation("the sync of records in a round on another thread", syncs_on(".log", NETWORK)),
    mutation("the sync of the journal in such a round", syncs_on("/journal", NETWORK)),
    mutation("the sync of records that a start has found", syncs_on(".log", DRIVER)),
    mutation("the sync of full segments", syncs_on(".log", BACKGROUND)),
    mutation("the sync of time indexes", syncs(".timeindex")),
    mutation("the sync of the names of new segments", LeftOut::PartitionDirs(WRITER)),
    mutation("the sync of the names that a start makes", LeftOut::PartitionDirs(DRIVER)),
    mutation(
        "the sync of the names of indexes, snapshots and leader epochs",
        LeftOut::PartitionDirs(BACKGROUND),
    ),
    mutation("the sync of snapshots of producers", syncs(".snapshot.tmp")),
    mutation("the sync of leader epochs", syncs("leader-epoch-checkpoint.tmp")),
    mutation("the sync of recovery points", syncs("recovery-point-offset-checkpoint.tmp")),
    mutation("the sync of log starts", syncs("log-start-offset-checkpoint.tmp")),
    mutation("the sync of the lists of segments", syncs("segment-lists.tmp")),
    mutation("the sync of the topic's id", syncs("partition.metadata.tmp")),
    mutation("the sync of the directory's identity", syncs("meta.properties.tmp")),
    mutation("the sync of the names of checkpoints", LeftOut::Roots(BACKGROUND)),
    mutation(
        "the log starts on disk before the records go",
        LeftOut::Renames("log-start-offset-checkpoint", BACKGROUND),
    ),
    mutation(
        "the leader epochs on disk before the recovery points",
        LeftOut::Renames("leader-epoch-checkpoint", BACKGROUND),
    ),
    mutation(
        "the recovery points on disk before a log's name is free",
        LeftOut::Renames("recovery-point-offset-checkpoint", BACKGROUND),
    ),
    mutation("the sync of the names of logs", LeftOut::Roots(DRIVER)),
    mutation("the removal of the mark of a clean stop", LeftOut::Removals("cleanshutdown", DRIVER)),
    mutation("the truncation of an end that was cut off", LeftOut::Cuts(DRIVER)),
    mutation("the removal of segments behind such an end", LeftOut::Renames(".deleted", DRIVER)),
    mutation("the sync of cleaned segments", syncs(".log.cleaned")),
    mutation("the name by which a cleaned segment counts", LeftOut::Renames(".swap", BACKGROUND)),
    mutation("the removal of what it replaces", LeftOut::Removals(".log", BACKGROUND)),
    mutation(
        "the removal of snapshots behind an end that is cut off",
        LeftOut::Removals(".snapshot", BACKGROUND),
    ),
    mutation("the new length of a segment whose end is cut off", LeftOut::Cuts(BACKGROUND)),
    mutation(
        "the names that segments lose behind an end that is cut off",
        LeftOut::Renames(".deleted", BACKGROUND),
    ),
    mutation(
        "the list of segments without what is cut off",
        LeftOut::Renames("segment-lists", DRIVER),
    ),
    mutation(
        "the lower high watermark on disk before an end is cut off",
        LeftOut::Renames("replication-offset-checkpoint", DRIVER),
    ),
];

const fn mutation(name: &'static str, left_out: LeftOut) -> Mutation {
    Mutation { name, left_out }
}

const fn syncs(part: &'static str) -> LeftOut {
    LeftOut::Syncs(part, None)
}

const fn syncs_on(part: &'static str, thread: &'static str) -> LeftOut {
    LeftOut::Syncs(part, Some(thread))
}

impl Mutation {
    /// The faults that make it, with these log directories.
    pub(crate) fn faults(&self, dirs: &[PathBuf]) -> Vec<Fault> {
        match self.left_out {
            LeftOut::Syncs(part, thread) => {
                let fault = ignored(SimOperation::Sync).in_path(part);
                vec![match thread {
                    Some(thread) => fault.on_thread(thread),
                    None => fault,
                }]
            }
            // Their names have a number behind a dash, and no other directory's has.
            LeftOut::PartitionDirs(thread) => {
                vec![ignored(SimOperation::SyncDir).in_path("-").on_thread(thread)]
            }
            LeftOut::Roots(thread) => {
                let fault =
                    |dir: &Path| ignored(SimOperation::SyncDir).at_path(dir).on_thread(thread);
                dirs.iter().map(|dir| fault(dir)).collect()
            }
            LeftOut::Cuts(thread) => {
                vec![ignored(SimOperation::SetLen).in_path(".log").on_thread(thread)]
            }
            LeftOut::Renames(part, thread) => {
                vec![ignored(SimOperation::Rename).in_path(part).on_thread(thread)]
            }
            LeftOut::Removals(part, thread) => {
                vec![ignored(SimOperation::Remove).in_path(part).on_thread(thread)]
            }
        }
    }
}

fn ignored(operation: SimOperation) -> Fault {
    Fault::new(operation, Failure::Ignored)
}
