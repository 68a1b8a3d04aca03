//! A replica of a partition: its log, its role, its high watermark, and who waits for them.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use logway_log::{
    AppendBatches, AppendFuture, AppendOrigin, Completion, HeldAppend, InlineRound, Log, LogConfig,
    TailListener,
};
use logway_metadata::Intake;
use logway_model::{BrokerId, DirectoryId, ErrorCode, LeaderEpoch, Offset, TopicPartition};
use logway_record::Batch;
use logway_replication::{
    FollowerFetch, FollowerLimits, IsrProposal, Leader, LeaderStart, LocalTail, Membership,
    ProposedReplica,
};

use crate::append::NotTaken;
use crate::log_dirs::LocatedLog;
use crate::metrics::TopicTraffic;
use crate::rising_offset::RisingOffset;
use crate::tasks::steady_time;
use freshness::Freshness;

pub(crate) mod freshness;
mod readers;

pub use readers::ReadFrom;

/// A replica of a partition on this node.
///
/// It leads, it follows, or it is offline; each change of the role carries a leader epoch, and no
/// epoch comes twice with another role. Nothing here assumes that it leads.
///
/// Appends go to the log's writer thread, which reports each new tail back through
/// [`TailListener`]; of a leader, the leader state turns it into the high watermark. The role's lock
/// is taken under the gate's or under none, and held across no I/O.
///
/// The log can be replaced by another one with the same records, in another log directory. What
/// changes it goes through the gate, so that for that moment it can be held back. A change of the
/// role goes through the gate as well: what was appended before it has the old epoch.
#[derive(Debug)]
pub struct Replica {
    topic_partition: TopicPartition,
    /// Changes only under `gate`.
    location: ArcSwap<LocatedLog>,
    gate: Mutex<Gate>,
    role: Mutex<Role>,
    /// The role as [`RoleView`] packs it, for those who take no lock.
    role_view: AtomicU64,
    high_watermark: RisingOffset,
    /// What `read_committed` readers may see ends here: at the high watermark, or where a transaction begins that is
    /// unstable. Like it, it changes only under the role's lock.
    last_stable: RisingOffset,
    /// Of a leader with followers, what they may copy ends here.
    log_end: RisingOffset,
    /// How many replicas are in sync, and below it how many have to be for `acks=all`.
    in_sync: AtomicU64,
    /// Whether the partition takes records, as far as it is a shard: an [`Intake`]. Changes only under `gate`.
    intake: AtomicU8,
    traffic: TopicTraffic,
    /// The place in a segment at which damage was last reported; consumers ask for it again and again.
    damage_reported_at: AtomicU64,
    /// While it follows. Taken under no other lock but the gate's.
    freshness: Mutex<Freshness>,
}

/// Whether appends go to the log.
#[derive(Debug)]
enum Gate {
    Open,
    /// They wait, in their order. Their memory is that of their requests.
    Closed(Vec<HeldAppend>),
    /// They are refused, with an error after which clients try again.
    Shut,
}

/// What the replica is for.
#[derive(Debug)]
enum Role {
    /// It takes appends, and knows how far its followers are.
    Leading(Leader),
    /// It copies what this broker leads.
    Following(BrokerId),
    /// It serves nobody: its role is not known yet, or it is not served here any more.
    Offline,
}

/// A role without what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoleKind {
    Offline = 0,
    Following = 1,
    Leading = 2,
}

/// The role and its epoch, in one word that is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RoleView {
    kind: RoleKind,
    epoch: LeaderEpoch,
}

impl RoleView {
    fn pack(self) -> u64 {
        (self.kind as u64) << 32 | u64::from(self.epoch.0.cast_unsigned())
    }

    fn unpack(packed: u64) -> RoleView {
        let kind = match packed >> 32 {
            2 => RoleKind::Leading,
            1 => RoleKind::Following,
            _ => RoleKind::Offline,
        };
        let epoch = (packed & u64::from(u32::MAX)) as u32;
        RoleView { kind, epoch: LeaderEpoch(epoch.cast_signed()) }
    }
}

/// What a replica leads with.
#[derive(Debug, Clone, Copy)]
pub struct Lead<'a> {
    /// This node.
    pub own: BrokerId,
    /// The leader epoch.
    pub epoch: LeaderEpoch,
    /// Who else holds the partition.
    pub membership: &'a Membership,
    /// `min.insync.replicas`
    pub in_sync_min: u32,
}

/// What a replica knows of a broker that tells how far it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowerStanding {
    /// The replica does not lead, or does not know that the broker follows.
    Unknown,
    /// The broker follows.
    Follows {
        /// It could be in sync and is not.
        could_join: bool,
        /// It is in sync, as committed.
        in_sync: bool,
    },
}

/// An append on its way, and the epoch that it is of.
#[derive(Debug)]
#[must_use = "the append is answered to whoever waits for it"]
pub struct StartedAppend {
    /// What the log answers when it is flushed, or only written where the topic's settings say so.
    pub future: AppendFuture,
    /// For [`Replica::committed`].
    pub epoch: LeaderEpoch,
    /// Why the log was not asked at all, if the partition is a shard that takes nothing.
    pub not_taken: Option<NotTaken>,
}

/// The leader epoch of an append has ended before the append was committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{partition}: leader epoch {epoch} has ended before the records were on all in-sync replicas; \
     they may be kept or not"
)]
pub struct EpochEnded {
    /// The partition.
    pub partition: TopicPartition,
    /// The epoch.
    pub epoch: LeaderEpoch,
}

impl Replica {
    /// A replica with this log and no role yet, which counts in `traffic`.
    pub fn new(located: LocatedLog, traffic: TopicTraffic) -> Arc<Replica> {
        let log = Arc::clone(&located.log);
        let offline = RoleView { kind: RoleKind::Offline, epoch: LeaderEpoch::NONE };
        let partition = Arc::new(Replica {
            topic_partition: log.topic_partition().clone(),
            high_watermark: RisingOffset::new(log.high_watermark()),
            last_stable: RisingOffset::new(log.last_stable_offset(log.high_watermark())),
            log_end: RisingOffset::new(log.log_end_offset()),
            role: Mutex::new(Role::Offline),
            role_view: AtomicU64::new(offline.pack()),
            in_sync: AtomicU64::new(0),
            intake: AtomicU8::new(Intake::Open as u8),
            traffic,
            damage_reported_at: AtomicU64::new(u64::MAX),
            freshness: Mutex::default(),
            gate: Mutex::new(Gate::Open),
            location: ArcSwap::from_pointee(located),
        });
        log.set_tail_listener(Arc::new(Listener(Arc::downgrade(&partition))));
        partition
    }

    /// Leads in an epoch, as the metadata says. An older epoch than the replica's changes nothing; in its own, who holds
    /// the partition may have changed.
    ///
    /// Without followers, what has survived on this disk is committed: a record that was readable before a
    /// restart stays readable.
    pub fn lead(&self, lead: Lead<'_>) {
        let Lead { own, epoch, membership, in_sync_min } = lead;
        self.change_role(RoleKind::Leading, epoch, || {
            let log = self.log();
            Role::Leading(Leader::new(LeaderStart {
                own,
                epoch,
                membership: membership.clone(),
                durable: log.config().is_durable(),
                in_sync_min,
                tail: tail_of(&log),
                // A log whose end was lost has less than was once known.
                high_watermark: self.high_watermark.get().min(log.log_end_offset()),
                now: steady_time(),
            }))
        });
        self.advance(|leader| {
            if leader.epoch() != epoch {
                return None;
            }
            let raised = leader.on_membership(membership, steady_time());
            let raised = leader.set_in_sync_min(in_sync_min).or(raised);
            self.note_in_sync(leader);
            // Alone, it has nobody to wait for before it removes anything.
            if !leader.has_followers() {
                self.log().forget_high_watermark();
            }
            raised
        });
        // The log may have grown between the look and the change.
        self.on_tail(tail_of(&self.log()));
    }

    /// A follower tells in which epoch it follows and how far it is, by asking for more. In another epoch than the leader's
    /// that does not count.
    pub fn on_fetch(&self, epoch: LeaderEpoch, fetch: FollowerFetch) -> FollowerStanding {
        let broker = fetch.broker;
        let mut standing = FollowerStanding::Unknown;
        self.advance(|leader| {
            if !leader.is_followed_by(broker) {
                return None;
            }
            let is_of_epoch = leader.epoch() == epoch;
            let raised = if is_of_epoch { self.take_fetch(leader, fetch) } else { None };
            standing = FollowerStanding::Follows {
                could_join: is_of_epoch && leader.could_join(broker),
                in_sync: leader.is_in_sync(broker),
            };
            raised
        });
        standing
    }

    /// The log shows what it has before it tells its listener. A follower that was faster than that holds more than the
    /// leader state knows of, and says so once.
    fn take_fetch(&self, leader: &mut Leader, fetch: FollowerFetch) -> Option<Offset> {
        let raised = match fetch.end > leader.local_tail().log_end {
            true => leader.on_local_tail(tail_of(&self.log()), steady_time()),
            false => None,
        };
        leader.on_fetch(fetch, steady_time()).or(raised)
    }

    /// Whether a follower is in sync with this leader.
    #[cfg(test)]
    pub(crate) fn has_in_sync(&self, follower: BrokerId) -> bool {
        matches!(&*self.role(), Role::Leading(leader) if leader.is_in_sync(follower))
    }

    /// What the in-sync replicas should be, if that is not what they are; see [`Leader::propose`].
    pub(crate) fn propose(
        &self,
        limits: FollowerLimits,
        is_barred: impl Fn(ProposedReplica) -> bool,
    ) -> Option<IsrProposal> {
        match &mut *self.role() {
            Role::Leading(leader) => leader.propose(limits, steady_time(), is_barred),
            Role::Following(_) | Role::Offline => None,
        }
    }

    /// The controller has refused a proposal of an epoch for good.
    pub(crate) fn on_refusal(&self, epoch: LeaderEpoch) {
        self.advance(|leader| if leader.epoch() == epoch { leader.on_refusal() } else { None });
    }

    /// Holds the role, the log and the log's place as they are, while a follower's log is changed; `None` if the replica
    /// does not follow in this epoch, or its log is being replaced.
    pub(crate) fn hold_following(&self, epoch: LeaderEpoch) -> Option<HeldFollower<'_>> {
        let gate = self.gate();
        let follows = RoleView { kind: RoleKind::Following, epoch };
        let is_open = matches!(*gate, Gate::Open) && self.role_view() == follows;
        is_open.then(|| HeldFollower { replica: self, _gate: gate })
    }

    /// The leader of the epoch that is followed says what is committed, and where its log begins.
    pub(crate) fn on_answer(&self, epoch: LeaderEpoch, high_watermark: Offset, log_start: Offset) {
        let gate = self.gate();
        if self.role_view() != (RoleView { kind: RoleKind::Following, epoch }) {
            return;
        }
        let log = self.log();
        let known = high_watermark.min(log.log_end_offset());
        {
            let _role = self.role();
            // Also while the log is being replaced: the leader says it once.
            if known > self.high_watermark.get() {
                self.high_watermark.raise(known);
                log.set_high_watermark(known);
                self.raise_last_stable(&log);
            }
        }
        let is_open = matches!(*gate, Gate::Open);
        if is_open && log_start > log.log_start_offset() && log_start <= log.log_end_offset() {
            // Nobody waits for it: the next answer says it again.
            drop(log.delete_records_before(log_start));
        }
    }

    /// Begins to follow a leader in an epoch. An epoch that is not newer than the replica's changes
    /// nothing.
    pub fn follow(&self, epoch: LeaderEpoch, leader: BrokerId) {
        self.change_role(RoleKind::Following, epoch, || Role::Following(leader));
    }

    /// Serves nobody from now on: the partition is deleted, or its log cannot be used.
    pub fn go_offline(&self) {
        let epoch = self.leader_epoch();
        self.set_role(RoleKind::Offline, epoch, || Role::Offline);
    }

    fn change_role(&self, kind: RoleKind, epoch: LeaderEpoch, role: impl FnOnce() -> Role) {
        // What went offline may come back in its epoch.
        let is_news = |now: RoleView| {
            epoch > now.epoch || epoch == now.epoch && now.kind == RoleKind::Offline
        };
        if is_news(self.role_view()) {
            self.set_role(kind, epoch, role);
        }
    }

    fn set_role(&self, kind: RoleKind, epoch: LeaderEpoch, new: impl FnOnce() -> Role) {
        {
            let _gate = self.gate();
            let log = self.log();
            // What is appended from now on comes behind it.
            begin_epoch(&log, kind, epoch);
            let mut role = self.role();
            *role = new();
            let view = RoleView { kind, epoch };
            self.role_view.store(view.pack(), Ordering::SeqCst);
            if let Role::Leading(state) = &*role {
                self.log_end.reset(state.local_tail().log_end);
                self.high_watermark.reset(state.high_watermark());
                self.last_stable.reset(log.last_stable_offset(state.high_watermark()));
            }
            let is_one_of_several = match &*role {
                Role::Leading(state) => state.has_followers(),
                Role::Following(_) => true,
                Role::Offline => false,
            };
            if is_one_of_several {
                log.set_high_watermark(self.high_watermark.get());
            }
            // Under the lock, under which waits of the new epoch are added.
            self.high_watermark.end_waits();
            self.last_stable.end_waits();
            self.log_end.end_waits();
        }
    }

    fn role_view(&self) -> RoleView {
        RoleView::unpack(self.role_view.load(Ordering::SeqCst))
    }

    /// Whether this replica leads the partition.
    pub fn is_leading(&self) -> bool {
        self.role_view().kind == RoleKind::Leading
    }

    /// Whether this replica leads the partition in this epoch.
    pub(crate) fn leads_in(&self, epoch: LeaderEpoch) -> bool {
        self.role_view() == RoleView { kind: RoleKind::Leading, epoch }
    }

    /// Who leads the partition, if this replica follows.
    pub fn leader_followed(&self) -> Option<BrokerId> {
        match *self.role() {
            Role::Following(leader) => Some(leader),
            Role::Leading(_) | Role::Offline => None,
        }
    }

    /// Its topic and number.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }

    /// The log, for reading.
    pub fn log(&self) -> Arc<Log> {
        Arc::clone(&self.location.load().log)
    }

    /// The log directory that the log is in.
    pub fn directory(&self) -> DirectoryId {
        self.location.load().directory
    }

    /// The leader epoch of the role that this replica has.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.role_view().epoch
    }

    /// How many replicas are in sync, this one among them.
    pub fn in_sync(&self) -> u32 {
        (self.in_sync.load(Ordering::Relaxed) >> 32) as u32
    }

    /// How many replicas have to be in sync for `acks=all`.
    pub fn in_sync_min(&self) -> u32 {
        self.in_sync.load(Ordering::Relaxed) as u32
    }

    /// Counts what goes in and out.
    pub fn traffic(&self) -> &TopicTraffic {
        &self.traffic
    }

    /// Whether this replica leads and knows all that earlier leaders have shown to be committed. Until then nobody may be
    /// told where the partition ends: it would seem to go back.
    pub fn knows_what_is_committed(&self) -> bool {
        matches!(&*self.role(), Role::Leading(leader) if leader.knows_what_is_committed())
    }

    /// Of a leader with followers, the exclusive end of what they may copy.
    pub(crate) fn log_end(&self) -> &RisingOffset {
        &self.log_end
    }

    /// The exclusive end of what consumers may read.
    pub fn high_watermark(&self) -> &RisingOffset {
        &self.high_watermark
    }

    /// Takes note of damage at a place of a segment's file; whether that is not what was noted last.
    pub(crate) fn note_damage(&self, position: u64) -> bool {
        self.damage_reported_at.swap(position, Ordering::Relaxed) != position
    }

    /// The exclusive end of what `read_committed` consumers may read (KIP-98): before the first transaction that is open,
    /// or whose marker is not committed. Never beyond the high watermark.
    pub fn last_stable_offset(&self) -> &RisingOffset {
        &self.last_stable
    }

    /// Compares the leader epoch that a client believes in with ours (KIP-320).
    pub fn check_leader_epoch(&self, client: LeaderEpoch) -> Result<(), ErrorCode> {
        let ours = self.leader_epoch();
        match client {
            LeaderEpoch::NONE => Ok(()),
            _ if client < ours => Err(ErrorCode::FencedLeaderEpoch),
            _ if client > ours => Err(ErrorCode::UnknownLeaderEpoch),
            _ => Ok(()),
        }
    }

    /// Hands validated batches to the log's writer, all or none. The batches of one caller are
    /// appended in the order of its calls.
    ///
    /// A replica that does not lead answers as a log that is closed: clients look for the leader.
    pub(crate) fn append(&self, batches: Vec<Batch>, origin: AppendOrigin) -> StartedAppend {
        self.start_append(batches, origin, |log, append| log.append(append))
    }

    /// As [`Replica::append`]; but it may join or begin a round of the writer that the caller
    /// does, as with [`Log::append_inline`].
    pub(crate) fn append_inline(
        &self,
        batches: Vec<Batch>,
        origin: AppendOrigin,
        open_round: &mut Option<InlineRound>,
    ) -> StartedAppend {
        self.start_append(batches, origin, |log, append| log.append_inline(append, open_round))
    }

    fn start_append(
        &self,
        batches: Vec<Batch>,
        origin: AppendOrigin,
        to_log: impl FnOnce(&Log, AppendBatches) -> AppendFuture,
    ) -> StartedAppend {
        let gate = &mut *self.gate();
        let RoleView { kind, epoch } = self.role_view();
        let append = AppendBatches { batches, leader_epoch: epoch, origin };
        let not_taken = match origin {
            // What was taken before a shard was closed has to end, or nobody reads up to its end.
            AppendOrigin::Markers(_) => None,
            _ => NotTaken::of(self.intake(), &self.topic_partition),
        };
        let future = match (kind, gate) {
            _ if not_taken.is_some() => self.waiting_append(append).1,
            (RoleKind::Leading, Gate::Open) => to_log(&self.location.load().log, append),
            (RoleKind::Leading, Gate::Closed(waiting)) => {
                let (held, answer) = self.waiting_append(append);
                waiting.push(held);
                answer
            }
            // Dropped, it is answered.
            (_, Gate::Shut) | (RoleKind::Following | RoleKind::Offline, _) => {
                self.waiting_append(append).1
            }
        };
        StartedAppend { future, epoch, not_taken }
    }

    /// Whether the partition takes records, as far as it is a shard.
    pub fn intake(&self) -> Intake {
        let intakes = [Intake::Open, Intake::NotYet, Intake::Closed];
        let intake = self.intake.load(Ordering::SeqCst);
        intakes.into_iter().find(|it| *it as u8 == intake).unwrap_or(Intake::Closed)
    }

    /// Takes records from now on, or none, as the metadata says. A closed shard stays closed: its end may have been told
    /// by who has seen newer metadata.
    pub(crate) fn set_intake(&self, intake: Intake) {
        // Under the gate, so that what was appended before is on its way to the log.
        let _gate = self.gate();
        if self.intake() != Intake::Closed {
            self.intake.store(intake as u8, Ordering::SeqCst);
        }
    }

    /// Takes no more records. Gives the epoch, and what ends when all that were taken before are in the log; `None` where
    /// the replica does not lead, or its log is being replaced.
    pub(crate) fn close_intake(&self) -> Option<(LeaderEpoch, Completion<Offset>)> {
        let gate = self.gate();
        let RoleView { kind, epoch } = self.role_view();
        if kind != RoleKind::Leading || !matches!(*gate, Gate::Open) {
            return None;
        }
        self.intake.store(Intake::Closed as u8, Ordering::SeqCst);
        Some((epoch, self.log().flush()))
    }

    fn waiting_append(&self, append: AppendBatches) -> (HeldAppend, AppendFuture) {
        HeldAppend::new(append, &self.topic_partition.to_string().into())
    }

    /// Waits until everything before `end` is committed, that is, below the high watermark of the epoch
    /// in which it was appended.
    ///
    /// Fails if that epoch ends before: whether the records are kept is up to the next leader, and what it
    /// makes of their offsets says nothing about them.
    pub async fn committed(&self, end: Offset, epoch: LeaderEpoch) -> Result<(), EpochEnded> {
        let leads = RoleView { kind: RoleKind::Leading, epoch };
        // The watermark first: that the epoch goes on afterwards says that it is of the epoch.
        let is_reached = self.high_watermark.get() >= end;
        if self.role_view() != leads {
            return Err(self.epoch_ended(epoch));
        }
        if is_reached {
            return Ok(());
        }
        let waiting = {
            // The role does not change meanwhile, so that its end ends this wait.
            let _role = self.role();
            if self.role_view() != leads {
                return Err(self.epoch_ended(epoch));
            }
            self.high_watermark.when_committed(end)
        };
        match waiting {
            None => Ok(()),
            Some(committed) => committed.await.map_err(|_ended| self.epoch_ended(epoch)),
        }
    }

    fn epoch_ended(&self, epoch: LeaderEpoch) -> EpochEnded {
        EpochEnded { partition: self.topic_partition.clone(), epoch }
    }

    /// Forgets all records before an offset; as [`Log::delete_records_before`]. Fails with
    /// `NOT_LEADER_OR_FOLLOWER`, after which clients try again, while appends are held back or where
    /// the replica does not lead.
    pub fn delete_records_before(&self, offset: Offset) -> Result<Completion<Offset>, ErrorCode> {
        let gate = self.gate();
        if !self.is_leading() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        match *gate {
            Gate::Open => Ok(self.location.load().log.delete_records_before(offset)),
            Gate::Closed(_) | Gate::Shut => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// Holds back whatever changes the log from now on, until the result is dropped. One at a time;
    /// `None` if it is shut for good.
    pub(crate) fn close_gate(&self) -> Option<ClosedGate<'_>> {
        let mut gate = self.gate();
        match *gate {
            Gate::Open => *gate = Gate::Closed(Vec::new()),
            Gate::Closed(_) => unreachable!("a gate is closed by one"),
            Gate::Shut => return None,
        }
        Some(ClosedGate { replica: self, is_undecided: false })
    }

    /// Puts other topic settings in force.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        let durable = config.is_durable();
        // Under the gate, lest a log that is being replaced gets it.
        let gate = self.gate();
        self.location.load().log.set_config(config);
        drop(gate);
        self.set_durable(durable);
    }

    fn set_durable(&self, durable: bool) {
        self.advance(|leader| leader.set_durable(durable));
    }

    fn on_tail(&self, tail: LocalTail) {
        self.advance(|leader| leader.on_local_tail(tail, steady_time()));
    }

    /// Raises the high watermark to what the leader state says. Of a replica that does not lead, its leader says
    /// where the watermark is.
    fn advance(&self, event: impl FnOnce(&mut Leader) -> Option<Offset>) {
        // Raised under the lock, so that two threads cannot raise it in the wrong order.
        let mut role = self.role();
        let Role::Leading(leader) = &mut *role else { return };
        let raised = event(leader);
        let has_followers = leader.has_followers();
        if let Some(offset) = raised {
            self.high_watermark.raise(offset);
            if has_followers {
                self.log().set_high_watermark(offset);
            }
        }
        self.raise_last_stable(&self.location.load().log);
        let log_end = leader.local_tail().log_end;
        if has_followers && log_end > self.log_end.get() {
            self.log_end.raise(log_end);
        }
    }

    /// Raises the last stable offset to what follows from the high watermark and the log. To be called under the role's
    /// lock.
    fn raise_last_stable(&self, log: &Log) {
        let last_stable = log.last_stable_offset(self.high_watermark.get());
        if last_stable > self.last_stable.get() {
            self.last_stable.raise(last_stable);
        }
    }

    fn note_in_sync(&self, leader: &Leader) {
        let (in_sync, min) = leader.in_sync();
        self.in_sync.store(u64::from(in_sync) << 32 | u64::from(min), Ordering::Relaxed);
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn role(&self) -> MutexGuard<'_, Role> {
        self.role.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A replica that follows, held as it is.
#[derive(Debug)]
pub(crate) struct HeldFollower<'a> {
    replica: &'a Replica,
    _gate: MutexGuard<'a, Gate>,
}

impl HeldFollower<'_> {
    /// The end of the log was cut off: what it has behind is not what was there.
    pub(crate) fn was_cut_off(&self) {
        let _role = self.replica.role();
        let end = self.replica.log().log_end_offset();
        let is_lowered = end < self.replica.high_watermark.get();
        if is_lowered {
            self.replica.high_watermark.reset(end);
        }
        let log = self.replica.log();
        let high_watermark = self.replica.high_watermark.get();
        self.replica.last_stable.reset(log.last_stable_offset(high_watermark));
        if is_lowered {
            // Who waits behind the end is to hear that it is there no more.
            self.replica.high_watermark.end_waits();
            self.replica.last_stable.end_waits();
        }
    }
}

/// The closed gate of a replica: what would change its log waits. Dropped, it opens again. Only while nobody
/// knows which log is the partition's, it does not.
#[derive(Debug)]
pub(crate) struct ClosedGate<'a> {
    replica: &'a Replica,
    is_undecided: bool,
}

impl ClosedGate<'_> {
    /// From now on nobody knows which of two logs is the partition's, until it is said with which it
    /// goes on. Dropped before, it takes no appends any more: the next start knows.
    pub(crate) fn begin_decision(&mut self) {
        self.is_undecided = true;
    }

    /// Refuses what is held back, and what comes: it would have to wait for too long.
    pub(crate) fn refuse(&self) {
        // What waited is dropped outside of the lock.
        let _refused = std::mem::replace(&mut *self.replica.gate(), Gate::Shut);
    }

    /// Goes on with the log that the partition had.
    pub(crate) fn stay(mut self) {
        self.is_undecided = false;
    }

    /// Goes on with another log, which has all that the one before has.
    pub(crate) fn go_on_with(mut self, located: LocatedLog) {
        let replica = self.replica;
        let log = Arc::clone(&located.log);
        debug_assert_eq!(log.log_end_offset(), replica.log().log_end_offset());
        let listener = replica.log().take_tail_listener();
        // What was held back has the epoch of its time, which may be over.
        let RoleView { kind, epoch } = replica.role_view();
        begin_epoch(&log, kind, epoch);
        replica.location.store(Arc::new(located));
        if let Some(listener) = listener {
            log.set_tail_listener(listener);
        }
        self.is_undecided = false;
        // Dropped now: what was held back goes to the new log, before anything that comes later.
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        if self.is_undecided {
            return self.refuse();
        }
        let mut gate = self.replica.gate();
        let located = self.replica.location.load();
        if let Gate::Closed(waiting) = std::mem::replace(&mut *gate, Gate::Open) {
            waiting.into_iter().for_each(|held| located.log.append_held(held));
        }
    }
}

/// Tells a log in which epoch, and as what, it goes on. Nobody waits for it. Followers of a leader are told where its epoch
/// starts, though it has no record yet.
fn begin_epoch(log: &Log, kind: RoleKind, epoch: LeaderEpoch) {
    drop(match kind {
        RoleKind::Leading => log.begin_leading(epoch),
        RoleKind::Following | RoleKind::Offline => log.begin_epoch(epoch),
    });
}

fn tail_of(log: &Log) -> LocalTail {
    // In this order: the flushed offset never passes a log end that is read after it.
    let flushed = log.flushed_offset();
    LocalTail { log_end: log.log_end_offset(), flushed }
}

/// What the log holds of its partition: not the partition itself, or neither would ever be freed.
struct Listener(Weak<Replica>);

impl TailListener for Listener {
    fn on_tail(&self, log_end: Offset, flushed: Offset) {
        if let Some(partition) = self.0.upgrade() {
            partition.on_tail(LocalTail { log_end, flushed });
        }
    }

    fn stable_offset(&self) -> Offset {
        // Of one that is served no more, nothing is known to be stable.
        self.0.upgrade().map_or(Offset::ZERO, |partition| partition.last_stable_offset().get())
    }
}

#[cfg(test)]
pub(crate) mod tests;
