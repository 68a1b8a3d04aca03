//! What becomes of a partition when a broker goes or comes: who leads it, who is in sync, and who may lead though it is not.

use logway_model::{BrokerId, DirectoryId, LeaderEpoch, PartitionId};

use crate::image::{MetadataImage, PartitionImage, TopicImage};
use crate::level::MetadataLevel;
use crate::record::{MetadataRecord, PartitionRecord, Reassignment, directory_of};
use crate::settings::{BrokerSettings, TopicSettings};

/// A partition on its way to its next state.
pub(super) struct PartitionChange<'a> {
    image: &'a MetadataImage,
    settings: &'a BrokerSettings,
    topic: &'a TopicImage,
    before: &'a PartitionImage,
    record: PartitionRecord,
    /// What others than the leader have is lost.
    is_unclean: bool,
    /// Nobody knows what this one has lost, or it is lost itself.
    distrusted: Option<BrokerId>,
}

impl<'a> PartitionChange<'a> {
    /// The partition as it is.
    pub(super) fn new(
        image: &'a MetadataImage,
        settings: &'a BrokerSettings,
        topic: &'a TopicImage,
        partition: PartitionId,
        before: &'a PartitionImage,
    ) -> PartitionChange<'a> {
        let record = before.to_record(topic.id, partition);
        PartitionChange {
            image,
            settings,
            topic,
            before,
            record,
            is_unclean: false,
            distrusted: None,
        }
    }

    /// A broker leads nothing any more, and leaves the ISR unless it is the last one in it. The last one
    /// has all that was committed.
    pub(super) fn leave(mut self, broker: BrokerId) -> PartitionChange<'a> {
        if self.record.isr.iter().any(|id| *id != broker) {
            self.record.isr.retain(|id| *id != broker);
        }
        if self.record.leader == Some(broker) {
            self = self.led_by_one_but(broker);
        }
        self
    }

    /// The leader gives the partition up.
    pub(super) fn without_leader(self) -> PartitionChange<'a> {
        match self.before.leader {
            Some(leader) => self.led_by_one_but(leader),
            None => self,
        }
    }

    fn led_by_one_but(mut self, broker: BrokerId) -> PartitionChange<'a> {
        match self.candidate(&[broker]) {
            Some(leader) => self.led_by(leader),
            None => {
                self.record.leader = None;
                self
            }
        }
    }

    /// A broker has started again. After a stop that was not in good order, it may lack some of what is acknowledged where
    /// the topic does not have that on the disk: it is not eligible any more.
    pub(super) fn restart(mut self, broker: BrokerId, was_clean: bool) -> PartitionChange<'a> {
        let PartitionChange { image, settings, topic, .. } = self;
        if !was_clean && !TopicSettings::is_durable(&topic.overrides, image, settings) {
            self.distrusted = Some(broker);
        }
        self.leave(broker)
    }

    /// A broker never comes back. It leaves the ISR as one that has stopped does. Nobody waits for it among those who may
    /// lead: while others do, their leader commits nothing. Another node under its number makes its replica anew, unless
    /// it was the last one in sync: an empty log must not be taken for that one. Such a replica is said to be in the
    /// directory by which the broker is remembered, whichever of its directories had it.
    pub(super) fn lose(mut self, broker: BrokerId, known_by: DirectoryId) -> PartitionChange<'a> {
        self.distrusted = Some(broker);
        self = self.leave(broker);
        if self.record.isr.contains(&broker) {
            if self.before.directory_of(broker) != DirectoryId::UNASSIGNED {
                self.assign(broker, known_by);
            }
        } else {
            self.assign(broker, DirectoryId::UNASSIGNED);
        }
        self
    }

    fn is_lost(&self, broker: BrokerId) -> bool {
        self.record.replicas.contains(&broker)
            && is_lost(self.image, broker, self.directory_of(broker))
    }

    fn directory_of(&self, broker: BrokerId) -> DirectoryId {
        directory_of(&self.record.replicas, &self.record.directories, broker)
    }

    /// A lost replica that is not in sync any more is in no directory: whoever gets the number makes it anew.
    fn forget_lost(&mut self) {
        let PartitionRecord { replicas, directories, isr, .. } = &mut self.record;
        for (broker, directory) in replicas.iter().zip(directories) {
            if !isr.contains(broker) && is_lost(self.image, *broker, *directory) {
                *directory = DirectoryId::UNASSIGNED;
            }
        }
    }

    fn assign(&mut self, broker: BrokerId, to: DirectoryId) {
        if self.directory_of(broker) == to {
            return;
        }
        let PartitionRecord { replicas, directories, .. } = &mut self.record;
        // A record of version 0 names none.
        directories.resize(replicas.len(), DirectoryId::UNASSIGNED);
        let place = replicas.iter().position(|id| *id == broker);
        if let Some(directory) = place.and_then(|place| directories.get_mut(place)) {
            *directory = to;
        }
    }

    /// Whether others hold the partition, and a broker's replica is in none of the directories that the broker can use.
    pub(super) fn is_without(&self, broker: BrokerId, log_dirs: &[DirectoryId]) -> bool {
        let directory = self.directory_of(broker);
        is_without(directory, log_dirs, self.record.replicas.len())
    }

    fn has_replica(&self, broker: BrokerId) -> bool {
        let directory = self.directory_of(broker);
        has_replica(self.image, broker, directory, self.record.replicas.len())
    }

    /// A broker is back: what has no leader gets it, if it has all that was committed and its directory is there.
    pub(super) fn come_back(self, broker: BrokerId) -> PartitionChange<'a> {
        let could_lead = self.has_replica(broker) && self.has_all(broker);
        match self.record.leader.is_none() && could_lead {
            true => self.led_by(broker),
            false => self,
        }
    }

    /// A broker says where its replica is. One that was not found before may lead from now on.
    pub(super) fn in_directory(
        mut self,
        broker: BrokerId,
        directory: DirectoryId,
    ) -> PartitionChange<'a> {
        self.assign(broker, directory);
        match self.image.is_active(broker) {
            true => self.come_back(broker),
            false => self,
        }
    }

    /// A new ISR, by the leader's word.
    pub(super) fn with_isr(mut self, isr: Vec<BrokerId>) -> PartitionChange<'a> {
        self.record.isr = isr;
        self
    }

    /// A certain leader. One that was not in sync is alone in the ISR. If it may lack what was committed, nobody else is
    /// eligible: what the others have beyond it is lost.
    pub(super) fn led_by(mut self, leader: BrokerId) -> PartitionChange<'a> {
        self.is_unclean |= !self.has_all(leader);
        if self.is_lost(leader) {
            self.assign(leader, DirectoryId::UNASSIGNED);
        }
        if !self.record.isr.contains(&leader) {
            self.record.isr = vec![leader];
        }
        self.record.leader = Some(leader);
        self
    }

    /// The first replica that has all that was committed, lives, has its directory, and is none of `but`: one in sync, or
    /// else one that is eligible. One that is not there to lead is taken where nobody else can.
    pub(super) fn candidate(&self, but: &[BrokerId]) -> Option<BrokerId> {
        let could =
            |id: &BrokerId| !but.contains(id) && self.image.is_active(*id) && self.has_replica(*id);
        let first = |of: &[BrokerId]| {
            self.record.replicas.iter().copied().find(|id| of.contains(id) && could(id))
        };
        self.relief(but)
            .or_else(|| first(&self.record.isr))
            .or_else(|| first(&self.record.eligible))
    }

    /// The first replica in sync that is there to lead, and is none of `but`.
    pub(super) fn relief(&self, but: &[BrokerId]) -> Option<BrokerId> {
        let could = |id: &BrokerId| {
            let is_in_sync = self.record.isr.contains(id) && !but.contains(id);
            is_in_sync && self.image.should_lead(*id) && self.has_replica(*id)
        };
        self.record.replicas.iter().copied().find(could)
    }

    fn has_all(&self, broker: BrokerId) -> bool {
        let had_all = self.record.isr.contains(&broker) || self.record.eligible.contains(&broker);
        had_all && !self.is_lost(broker)
    }

    /// On the way to other replicas, or back; `place` says which directory a new one is made in. One that has no replica any
    /// more leaves the ISR.
    pub(super) fn on_the_way(
        mut self,
        reassignment: Option<Reassignment>,
        replicas: Vec<BrokerId>,
        place: impl FnMut(BrokerId) -> DirectoryId,
    ) -> PartitionChange<'a> {
        self.record.reassignment = reassignment;
        self.with_replicas(replicas, place)
    }

    fn with_replicas(
        mut self,
        replicas: Vec<BrokerId>,
        mut place: impl FnMut(BrokerId) -> DirectoryId,
    ) -> PartitionChange<'a> {
        let PartitionRecord { replicas: held, directories, .. } = &self.record;
        let directory = |id: &BrokerId| match held.iter().position(|held| held == id) {
            Some(place) => directories.get(place).copied().unwrap_or(DirectoryId::UNASSIGNED),
            None => place(*id),
        };
        self.record.directories = replicas.iter().map(directory).collect();
        self.record.isr.retain(|id| replicas.contains(id));
        self.record.replicas = replicas;
        self
    }

    /// What was on its way has arrived, once the others are not needed any more and one of those that stay can lead.
    fn arrive(mut self) -> PartitionChange<'a> {
        let Some(reassignment) = &self.record.reassignment else { return self };
        let stays = |id: &BrokerId| reassignment.target.contains(id);
        let can_be_led = self.record.isr.iter().any(|id| stays(id) && self.image.is_active(*id));
        if !can_be_led || !reassignment.is_complete(&self.record.isr, self.in_sync_min()) {
            return self;
        }
        let target = reassignment.target.clone();
        self.record.reassignment = None;
        // All of them have a place already.
        self.with_replicas(target, |_| DirectoryId::UNASSIGNED)
    }

    /// The record, if anything has changed. A new leader, or none, begins a new epoch, in which nobody
    /// takes what an earlier leader still sends.
    ///
    /// So does a replica less. It may become one again, with an empty log, and its leader must not take it for what it was.
    pub(super) fn record(mut self) -> Option<PartitionRecord> {
        self = self.arrive();
        if let Some(leader) = self.record.leader
            && !self.record.replicas.contains(&leader)
        {
            self = self.led_by_one_but(leader);
        }
        self.record.eligible = self.eligible();
        self.forget_lost();
        let PartitionChange { before, mut record, .. } = self;
        let is_as_before = record.leader == before.leader
            && record.isr == before.isr
            && record.replicas == before.replicas
            && record.reassignment == before.reassignment
            && record.directories == before.directories
            && record.eligible == before.eligible;
        if is_as_before {
            return None;
        }
        let is_less = before.replicas.iter().any(|id| !record.replicas.contains(id));
        if record.leader != before.leader || is_less {
            record.leader_epoch = LeaderEpoch(before.leader_epoch.0 + 1);
        }
        record.partition_epoch = before.partition_epoch + 1;
        Some(record)
    }

    /// Who may lead besides the ISR (KIP-966). While the ISR has fewer than `min.insync.replicas`, nothing is committed:
    /// who was in sync or eligible until now, and is not in the ISR, has all that was.
    fn eligible(&self) -> Vec<BrokerId> {
        let PartitionChange { before, record, .. } = self;
        let is_known = self.image.metadata_level() >= MetadataLevel::ELIGIBLE_REPLICAS;
        if self.is_unclean || !is_known || record.isr.len() >= self.in_sync_min() {
            return Vec::new();
        }
        let had_all = |id: &&BrokerId| before.isr.contains(id) || before.eligible.contains(id);
        let is_left = |id: &&BrokerId| {
            !record.isr.contains(id)
                && self.distrusted.is_none_or(|it| it != **id)
                && !self.is_lost(**id)
        };
        record.replicas.iter().filter(had_all).filter(is_left).copied().collect()
    }

    /// How many have to be in sync for anything to be committed. Nobody asks for more than there are.
    fn in_sync_min(&self) -> usize {
        let min =
            TopicSettings::min_insync_replicas(&self.topic.overrides, self.image, self.settings);
        usize::try_from(min).unwrap_or(0).min(self.record.replicas.len())
    }
}

/// Whether a broker's replica in a directory has gone with a broker that was removed. Who has the number now, or will have it,
/// has nothing of it.
pub(super) fn is_lost(image: &MetadataImage, broker: BrokerId, directory: DirectoryId) -> bool {
    image.broker(broker).is_none() || image.removed_brokers().by_directory(directory).is_some()
}

/// Whether a broker's replica of a partition with so many of them has gone neither with a removed broker nor with its directory.
/// Who leads without it serves nobody, and keeps others from leading.
pub(super) fn has_replica(
    image: &MetadataImage,
    broker: BrokerId,
    directory: DirectoryId,
    replicas: usize,
) -> bool {
    let log_dirs = image.broker(broker).map_or(&[][..], |known| &known.log_dirs);
    !is_lost(image, broker, directory) && !is_without(directory, log_dirs, replicas)
}

fn is_without(directory: DirectoryId, log_dirs: &[DirectoryId], replicas: usize) -> bool {
    replicas > 1 && directory != DirectoryId::UNASSIGNED && !log_dirs.contains(&directory)
}

/// What a change of all partitions makes of those that a broker holds.
pub(super) fn of_all_held_by<'a>(
    image: &'a MetadataImage,
    settings: &'a BrokerSettings,
    broker: BrokerId,
    change: impl Fn(PartitionChange<'a>) -> PartitionChange<'a>,
) -> Vec<MetadataRecord> {
    let is_held = |partition: &PartitionImage| {
        partition.replicas.contains(&broker) || partition.leader == Some(broker)
    };
    of_all(image, settings, is_held, change)
}

/// What other settings make of partitions that have eligible replicas: some may commit now.
pub(super) fn settle_eligible(
    image: &MetadataImage,
    settings: &BrokerSettings,
) -> Vec<MetadataRecord> {
    let has_eligible = |partition: &PartitionImage| !partition.eligible.is_empty();
    of_all(image, settings, has_eligible, |partition| partition)
}

fn of_all<'a>(
    image: &'a MetadataImage,
    settings: &'a BrokerSettings,
    is_meant: impl Fn(&PartitionImage) -> bool,
    change: impl Fn(PartitionChange<'a>) -> PartitionChange<'a>,
) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    for topic in image.topics() {
        for (number, partition) in topic.numbered_partitions() {
            if is_meant(partition) {
                let changed =
                    change(PartitionChange::new(image, settings, topic, number, partition));
                records.extend(changed.record().map(MetadataRecord::partition));
            }
        }
    }
    records
}
