//! What a node's parts have in common: who it is, who the others are, and how to ask them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logway_model::{BrokerId, DirectoryId};
use openraft::ServerState;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Metrics;
use super::message::{Header, Refusal, Reply, Request, decode_reply, encode_request};
use super::receive::Receiving;
use crate::command_id::CommandId;
use crate::contact::Contacts;
use crate::disk_work::DiskProgress;
use crate::membership::{Member, Members, broker_id};
use crate::options::{Mutation, QuorumOptions, Timings};
use crate::peer::{Identity, Peer, PeerError, PeerNetwork};

/// No certain term.
const NO_TERM: u64 = u64::MAX;

/// See [the module](self).
pub(crate) struct Shared {
    pub(super) own_id: u64,
    own: Identity,
    address: String,
    pub(super) timings: Timings,
    pub(super) voters_max: usize,
    /// This node is there to vote, and for nothing else.
    votes_only: bool,
    pub(super) submit_timeout: Duration,
    pub(super) mutation: Option<Mutation>,
    pub(super) disk_work: crate::options::DiskWork,
    /// Of the log and the vote.
    pub(super) disk_progress: Arc<DiskProgress>,
    network: Option<Arc<dyn PeerNetwork>>,
    pub(super) contacts: Contacts,
    members: Mutex<Arc<Members>>,
    /// How often there was news about who leads, and who waits for the next.
    news: AtomicU64,
    has_news: Notify,
    /// The snapshot that another node is sending.
    pub(super) receiving: tokio::sync::Mutex<Option<Receiving>>,
    /// Held while the members change: openraft takes one change at a time.
    pub(super) changing_members: tokio::sync::Mutex<()>,
    /// How far this node, as the leader, has let others apply the log.
    told_committed: AtomicU64,
    /// This leader is about to stop.
    is_transferring: AtomicBool,
    /// The term of the leader that wants this node to take its place.
    resigned_term: AtomicU64,
    /// The number that this node had, once it knows that it was removed from the cluster.
    removed: watch::Sender<Option<BrokerId>>,
    chance: Mutex<Chance>,
    instance: u64,
    sequence: AtomicU64,
}

/// A small seeded generator: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("refused: {0:?}")]
    Refused(Refusal),
    #[error("an answer that cannot be read: {0}")]
    Malformed(String),
}

impl Shared {
    pub(super) fn new(options: &QuorumOptions, own_id: u64) -> Shared {
        // The standard library draws the keys of its hash maps from the system's source of chance.
        let seed = options.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let mut chance = Chance(seed);
        let instance = chance.next();
        Shared {
            own_id,
            own: Identity { id: options.settings.node_id.0, directory: options.directory },
            address: options.address.clone(),
            timings: options.timings,
            voters_max: options.voters_max,
            votes_only: options.votes_only,
            submit_timeout: options.submit_timeout,
            mutation: options.mutation,
            disk_work: options.disk_work.clone(),
            disk_progress: Arc::default(),
            network: options.network.clone(),
            contacts: Contacts::default(),
            members: Mutex::default(),
            news: AtomicU64::new(0),
            has_news: Notify::new(),
            receiving: tokio::sync::Mutex::default(),
            changing_members: tokio::sync::Mutex::default(),
            told_committed: AtomicU64::new(0),
            is_transferring: AtomicBool::new(false),
            resigned_term: AtomicU64::new(NO_TERM),
            removed: watch::Sender::new(None),
            chance: Mutex::new(chance),
            instance,
            sequence: AtomicU64::new(0),
        }
    }

    /// Others are about to hear that they may apply the log up to an index.
    pub(super) fn tell_committed(&self, index: u64) {
        self.told_committed.fetch_max(index, Ordering::AcqRel);
    }

    /// How far this node has let others apply the log. What is up to there stays committed, whoever leads.
    pub(super) fn told_committed(&self) -> u64 {
        self.told_committed.load(Ordering::Acquire)
    }

    /// A time between two, by chance.
    pub(super) fn between(&self, min: Duration, max: Duration) -> Duration {
        let span = u64::try_from(max.saturating_sub(min).as_millis()).unwrap_or(u64::MAX);
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        min + Duration::from_millis(chance.next() % span.max(1))
    }

    /// A name for a command that nothing else has.
    pub(crate) fn next_command_id(&self) -> CommandId {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        CommandId { instance: self.instance, sequence }
    }

    /// How long a command looks for a leader.
    pub(crate) fn submit_timeout(&self) -> Duration {
        self.submit_timeout
    }

    /// A pause before something is tried again: a heartbeat, more or less.
    pub(crate) fn retry_pause(&self) -> Duration {
        self.between(self.timings.heartbeat / 4, self.timings.heartbeat)
    }

    /// This node as a member.
    pub(super) fn member(&self) -> Member {
        Member {
            addr: self.address.clone(),
            directory: self.own.directory,
            votes_only: self.votes_only,
            is_demoted: false,
        }
    }

    /// Others say that this node was removed from the cluster, or its own image does.
    pub(super) fn set_removed(&self, id: BrokerId) {
        if self.removed.send_replace(Some(id)).is_none() {
            tracing::error!(%id, "this node was removed from the cluster");
        }
    }

    /// The number that this node had, once it knows that it was removed from the cluster.
    pub(super) fn removed(&self) -> Option<BrokerId> {
        *self.removed.borrow()
    }

    /// Waits until this node knows that it was removed, which may never be.
    pub(super) async fn wait_until_removed(&self) -> BrokerId {
        let mut removed = self.removed.subscribe();
        let removed = removed.wait_for(Option::is_some).await;
        let removed = removed.expect("this, which has the sender, exists");
        removed.expect("it was waited for")
    }

    fn lock_members(&self) -> MutexGuard<'_, Arc<Members>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who belongs to the quorum, as this node knows it.
    pub(crate) fn members(&self) -> Arc<Members> {
        self.lock_members().clone()
    }

    /// Takes over what openraft knows of the members.
    pub(super) fn learn_members(&self, metrics: &Metrics) {
        let stored = &metrics.membership_config;
        let membership = stored.membership();
        let nodes = membership.nodes().map(|(&id, member)| (id, member.clone())).collect();
        let voters = membership.get_joint_config().clone();
        let mut known = self.lock_members();
        let is_settled = voters.len() == 1 && *stored.log_id() <= metrics.last_applied;
        let settled_voters = match is_settled || known.settled_voters.is_empty() {
            true => voters.first().cloned().unwrap_or_default(),
            false => known.settled_voters.clone(),
        };
        let members = Members { nodes, voters, settled_voters };
        if **known != members {
            *known = Arc::new(members);
        }
    }

    /// There is news about who leads or who is a member.
    pub(super) fn tell_news(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
        self.has_news.notify_waiters();
    }

    /// Tells of news about who leads and who is a member, from now on.
    pub(crate) fn watch_leadership(self: &Arc<Self>) -> LeadershipWatch {
        LeadershipWatch { shared: Arc::clone(self), seen: self.news.load(Ordering::Acquire) }
    }

    /// Who was not heard for this long is not taken for alive.
    pub(crate) fn silence_of_dead(&self) -> Duration {
        self.timings.election_timeout_max + self.timings.heartbeat
    }

    /// Whether this is the only node.
    pub(crate) fn is_alone(&self) -> bool {
        let members = self.members();
        members.nodes.len() == 1 && members.nodes.contains_key(&self.own_id)
    }

    pub(super) fn is_transferring(&self) -> bool {
        self.is_transferring.load(Ordering::Acquire)
    }

    /// From now on this leader takes no commands, or does again.
    pub(super) fn set_transferring(&self, is_transferring: bool) {
        self.is_transferring.store(is_transferring, Ordering::Release);
    }

    /// The leader of a term wants this node in its place.
    pub(super) fn set_resigned(&self, term: u64) {
        self.resigned_term.store(term, Ordering::Release);
    }

    /// Whether a vote for this term is wanted by the leader of the term before.
    pub(super) fn is_wanted_by_leader(&self, term: u64) -> bool {
        let resigned = self.resigned_term.load(Ordering::Acquire);
        resigned != NO_TERM && resigned + 1 == term
    }

    /// Whether a majority has heard this leader since a point in time.
    pub(super) fn has_majority_since(&self, metrics: &Metrics, since: Instant) -> bool {
        let voters = metrics.membership_config.membership().get_joint_config();
        let (term, now) = (metrics.current_term, Instant::now());
        metrics.state == ServerState::Leader
            && self
                .contacts
                .majority_at(voters, self.own_id, term, now)
                .is_some_and(|at| at >= since)
    }

    /// Whether this leader of a term hears no majority, and must not keep others from electing one that
    /// does.
    pub(super) fn is_silent(&self, term: u64) -> bool {
        if self.mutation == Some(Mutation::NeverSilent) {
            return false;
        }
        let (now, timeout) = (Instant::now(), self.timings.election_timeout_max);
        self.majority_or_election_at(term).is_none_or(|at| now.duration_since(at) > timeout)
    }

    /// Up to when a majority has heard this leader of a term, or since when it leads. `None` if it was
    /// elected so short a time ago that it has not said anything yet.
    pub(super) fn majority_or_election_at(&self, term: u64) -> Option<Instant> {
        let voters = &self.members().voters;
        self.contacts.majority_or_election_at(voters, self.own_id, term, Instant::now())
    }

    /// Whether a message is for this node, with this directory.
    pub(super) fn is_own(&self, to: Identity) -> bool {
        to == self.own
    }

    /// How a member is reached; `None` if it is not known or has no address.
    pub(super) fn peer(&self, id: u64) -> Option<Peer> {
        let members = self.members();
        members.nodes.get(&id).and_then(|member| peer(id, member))
    }

    /// Asks another node.
    pub(super) async fn call(
        &self,
        to: &Peer,
        request: &Request,
        rest: &[u8],
        timeout: Duration,
    ) -> Result<Reply, CallError> {
        let Some(network) = &self.network else {
            return Err(PeerError::Unreachable("this node has no network".to_owned()).into());
        };
        let reply = ask(network, self.own, to, request, rest, timeout).await;
        if let Err(CallError::Refused(Refusal::Removed { id })) = &reply {
            self.set_removed(*id);
        }
        reply
    }
}

/// Tells of news about who leads and who is a member.
pub(crate) struct LeadershipWatch {
    shared: Arc<Shared>,
    seen: u64,
}

impl LeadershipWatch {
    /// Waits for the next news. A node that has stopped has none.
    pub(crate) async fn changed(&mut self) {
        loop {
            let mut has_news = pin!(self.shared.has_news.notified());
            has_news.as_mut().enable();
            let news = self.shared.news.load(Ordering::Acquire);
            if news != self.seen {
                self.seen = news;
                return;
            }
            has_news.await;
        }
    }
}

/// How a member is reached, if it has an address.
pub(super) fn peer(id: u64, member: &Member) -> Option<Peer> {
    let has_address = !member.addr.is_empty();
    has_address.then(|| Peer {
        id: Some(broker_id(id)),
        directory: member.directory,
        address: member.addr.clone(),
    })
}

/// Sends a request in somebody's name and reads the reply.
pub(super) async fn ask(
    network: &Arc<dyn PeerNetwork>,
    from: Identity,
    to: &Peer,
    request: &Request,
    rest: &[u8],
    timeout: Duration,
) -> Result<Reply, CallError> {
    let id = to.id.unwrap_or(BrokerId(Identity::NO_ID)).0;
    let directory = if to.id.is_some() { to.directory } else { DirectoryId::UNASSIGNED };
    let header = Header { from, to: Identity { id, directory } };
    let bytes = encode_request(header, request, rest);
    let call = network.call(to, request.lane(), bytes, timeout);
    // The carrier keeps the time, too, but nothing here may wait for ever because of it.
    let reply = tokio::time::timeout(timeout, call).await.map_err(|_| PeerError::TimedOut)??;
    match decode_reply(&reply) {
        Ok(Reply::Refused(refusal)) => Err(CallError::Refused(refusal)),
        Ok(reply) => Ok(reply),
        Err(reason) => Err(CallError::Malformed(reason)),
    }
}
