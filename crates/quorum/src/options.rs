//! How to open a quorum.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logway_log::fs::{Fs, RealFs};
use logway_metadata::event::ClusterEvent;
use logway_metadata::settings::BrokerSettings;
use logway_model::DirectoryId;

use crate::peer::PeerNetwork;
use crate::published::MetadataIndex;

/// How often the log is replaced by a snapshot, unless said otherwise.
const SNAPSHOT_INTERVAL_ENTRIES: u64 = 10_000;

/// How much of the log stays behind a snapshot, unless said otherwise.
const ENTRIES_KEPT_BEHIND_SNAPSHOT: u64 = 1_000;

/// How long a command looks for a leader and a majority, unless said otherwise.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How to open a quorum.
#[derive(Clone)]
pub struct QuorumOptions {
    /// The directory of the quorum's own log and snapshots; created if need be.
    pub dir: PathBuf,
    /// This node's settings: its number, and what the controller goes by.
    pub settings: Arc<BrokerSettings>,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// A snapshot is written, and the log before it dropped, every so many committed entries.
    pub snapshot_interval_entries: u64,
    /// So many entries before a snapshot stay in the log, for followers that are a little behind.
    pub entries_kept_behind_snapshot: u64,
    /// What an empty directory means.
    pub start: Start,
    /// What this data directory is called. A node that comes back with another one has lost what it
    /// promised, and is refused until somebody replaces it.
    pub directory: DirectoryId,
    /// Where other nodes reach this one, `host:port`; empty where none shall.
    pub address: String,
    /// How other nodes are reached; `None` for a cluster of one that stays it.
    pub network: Option<Arc<dyn PeerNetwork>>,
    /// How fast a dead leader is noticed.
    pub timings: Timings,
    /// How long a command looks for a leader and a majority before it fails.
    pub submit_timeout: Duration,
    /// The quorum grows by itself to this many voters: 1, 3 or 5.
    pub voters_max: usize,
    /// This node is there to vote, and for nothing else: of those that could get a vote, such come first.
    pub votes_only: bool,
    /// Where work that waits for the disk is done.
    pub disk_work: DiskWork,
    /// The source of chance, for election timeouts and the ids of commands; `None` for the system's.
    pub seed: Option<u64>,
    /// Who wants to know of changes of the cluster.
    pub on_events: Option<OnEvents>,
    /// A rule that this node breaks, to see whether a test notices.
    #[doc(hidden)]
    pub mutation: Option<Mutation>,
}

/// Is told what a commit has changed, before the image shows it: once for each commit that this process applies, in their
/// order. At a start these are also commits that were applied before, since the last snapshot. What comes as a snapshot from
/// another node is not told. It must not wait.
pub type OnEvents = Arc<dyn Fn(MetadataIndex, Vec<ClusterEvent>) + Send + Sync>;

impl QuorumOptions {
    /// The usual options for a directory.
    pub fn new(dir: &Path, settings: Arc<BrokerSettings>) -> QuorumOptions {
        QuorumOptions {
            dir: dir.to_owned(),
            settings,
            fs: Arc::new(RealFs),
            snapshot_interval_entries: SNAPSHOT_INTERVAL_ENTRIES,
            entries_kept_behind_snapshot: ENTRIES_KEPT_BEHIND_SNAPSHOT,
            start: Start::Found,
            directory: DirectoryId::UNASSIGNED,
            address: String::new(),
            network: None,
            timings: Timings::default(),
            submit_timeout: SUBMIT_TIMEOUT,
            voters_max: 5,
            votes_only: false,
            disk_work: DiskWork::Threads,
            seed: None,
            on_events: None,
            mutation: None,
        }
    }
}

/// What an empty directory means. A directory with metadata is simply opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It is a new cluster of one.
    Found,
    /// This node was admitted to a cluster, which sends it everything. It never founds one, also not
    /// when it is started once more before it has received anything (nats-server#2792: the first node
    /// that came back with an empty disk founded a second cluster).
    Join,
}

/// How fast a dead leader is noticed.
///
/// After `kill -9` of the leader nobody leads for at most `election_timeout_max`, the round trip of the
/// pre-vote, that of the vote with a sync on both sides, and one commit. With the defaults that is
/// less than 0.5 s on a network of one region and disks that sync within 20 ms:
///
/// - `heartbeat` 50 ms: two may be lost before anybody doubts;
/// - `lease` 150 ms: three heartbeats;
/// - `election_timeout` 200 to 320 ms: more than the lease and two syncs, so that voters are free to vote.
///   The voters take turns within it, and a little chance is added, so that two candidates seldom meet. A
///   candidate that has not won tries again after half a lease to a whole one, by chance, and then waits
///   twice as long each time.
///
/// A false alarm costs little: a pre-vote changes nothing, and voters that hear the leader say no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// A leader speaks to each member so often.
    pub heartbeat: Duration,
    /// Who has heard the leader votes for nobody else for so long.
    pub lease: Duration,
    /// Who has heard no leader for this long, at least, asks for votes.
    pub election_timeout_min: Duration,
    /// … and this, at most. A leader that has heard no majority for so long takes no commands, and is
    /// silent so that others can be elected.
    pub election_timeout_max: Duration,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings {
            heartbeat: Duration::from_millis(50),
            lease: Duration::from_millis(150),
            election_timeout_min: Duration::from_millis(200),
            election_timeout_max: Duration::from_millis(320),
        }
    }
}

/// Where work that waits for the disk is done.
#[derive(Clone)]
pub enum DiskWork {
    /// On the runtime's threads for blocking work.
    Threads,
    /// Where it is asked for, after a pause: a simulation decides how slow its disk is. So one thread
    /// does everything, always in the same order.
    Inline(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl fmt::Debug for DiskWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiskWork::Threads => "Threads",
            DiskWork::Inline(_) => "Inline",
        })
    }
}

/// A rule that a node breaks.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// It votes for others while it hears the leader.
    VotesWithinTheLease,
    /// It founds a cluster where it was to join one.
    FoundsWhereItJoins,
    /// It does not look whether it has committed a command before.
    ForgetsCommands,
    /// It applies a batch to another image than the one it was judged against.
    AppliesToAnyImage,
    /// It leads on without a majority.
    NeverSilent,
    /// It does not sync its votes.
    VotesWithoutSync,
    /// It does not sync its log.
    AppendsWithoutSync,
    /// It leads on in its term when it comes back.
    LeadsOnInItsTerm,
    /// It drops the log before the snapshot in its place is on stable storage.
    PurgesEarly,
}
