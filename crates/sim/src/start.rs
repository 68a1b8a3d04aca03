//! Starting again: what a broker does before it serves anybody.

use std::sync::Arc;

use logway_coordinator::{EmptyCluster, GroupMemory, GroupRecord, GroupSettings, GroupShard};
use logway_log::{Finding, LogError, RecoveryReport};
use logway_model::{PartitionId, TopicName, TopicPartition};
use logway_record::DecodeLimit;

use crate::broker::Broker;
use crate::model::{Kind, Partition};
use crate::violation::{Violation, ensure};
use crate::world::{OFFSETS_TOPIC, World};

/// A start ends at the latest at this change of the disk, if it is to be cut off.
const START_CHANGES_MAX: usize = 80;

impl World {
    /// Starts the broker, and checks what it finds. The machine may stop meanwhile; then it is tried
    /// again.
    pub(crate) fn start(&mut self) -> Result<(), Violation> {
        loop {
            if self.random.below(3) == 0 {
                let last_change = 1 + self.random.below(START_CHANGES_MAX);
                self.fs.crash_at_change(last_change as u64);
            }
            match self.open()? {
                Some(broker) if !self.fs.has_crashed() => {
                    self.broker = Some(broker);
                    break;
                }
                broker => self.stop_in_start(broker),
            }
        }
        self.fs.crash_never();
        self.was_closed = false;
        self.check_partitions()?;
        self.load_groups()?;
        self.check_commits()
    }

    /// Opens all, and brings the logs in line with the topics; `None` if the machine has stopped.
    fn open(&mut self) -> Result<Option<Broker>, Violation> {
        let mut broker = match Broker::open(&self.plan, &self.fs, &self.clock) {
            Ok(broker) => broker,
            Err(_) if self.fs.has_crashed() => return Ok(None),
            Err(error) => {
                return Err(Violation::new(format!("a directory cannot be opened: {error}")));
            }
        };
        if self.fs.has_crashed() {
            return Ok(Some(broker));
        }
        for dir in &broker.dirs {
            check_report(dir.recovery_report(), self.was_closed)?;
        }
        match self.bring_in_line(&mut broker)? {
            Ok(()) => Ok(Some(broker)),
            Err(_) if self.fs.has_crashed() => Ok(Some(broker)),
            Err(error) => Err(Violation::new(format!("a start has failed: {error}"))),
        }
    }

    /// Takes logs out of service that no topic has, and makes those that are missing.
    fn bring_in_line(&mut self, broker: &mut Broker) -> Result<Result<(), LogError>, Violation> {
        for (number, dir) in broker.dirs.iter().enumerate() {
            for log in dir.logs() {
                let name = log.topic_partition();
                let known = self.model.partitions.get(name);
                if known
                    .is_some_and(|known| known.topic_id == log.topic_id() && known.dir == number)
                {
                    continue;
                }
                let deleted = (name.clone(), log.topic_id());
                ensure(!self.model.deleted.contains(&deleted), || {
                    format!("{name} of a deleted topic came back in {}", dir.path().display())
                })?;
                self.turns.pause();
                if let Err(error) = dir.set_aside(name) {
                    return Ok(Err(error));
                }
                self.model.deleted.insert(deleted);
            }
        }
        for partition in self.model.partitions.values_mut() {
            self.turns.pause();
            let dir = &broker.dirs[partition.dir];
            let is_found = dir.log(&partition.name).is_some();
            ensure(!partition.is_created || is_found, || {
                format!("the log of {} is gone", partition.name)
            })?;
            let config = Arc::new(self.plan.config(partition.kind).clone());
            let created =
                dir.create_log(partition.name.clone(), partition.topic_id, Arc::clone(&config));
            match created {
                Ok(log) => {
                    log.set_config(config);
                    // One whose making a kill has interrupted has no name for good before the first
                    // record.
                    partition.is_created |= !is_found;
                    broker.logs.insert(partition.name.clone(), log);
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// Loads the shard of groups from its log.
    fn load_groups(&mut self) -> Result<(), Violation> {
        let settings = GroupSettings::default();
        let mut shard =
            GroupShard::new(settings, GroupMemory::new(16 << 20), Arc::new(EmptyCluster));
        let log = self.broker.as_ref().expect("the world lives").log(&offsets_partition());
        for batch in crate::check::read_all(&log)? {
            let records = batch.records(DecodeLimit::DEFAULT);
            let records = records.map_err(|error| Violation::new(format!("{batch:?}: {error}")))?;
            for record in records {
                let record =
                    record.map_err(|error| Violation::new(format!("{batch:?}: {error}")))?;
                let key = record.key.unwrap_or_default();
                let decoded = GroupRecord::decode(&key, record.value.as_ref());
                match decoded {
                    Ok(decoded) => decoded.iter().for_each(|record| shard.replay(record)),
                    Err(error) => return Err(Violation::new(format!("{batch:?}: {error}"))),
                }
            }
        }
        let effects = shard.loaded(self.moment());
        self.broker.as_mut().expect("the world lives").shard = Some(shard);
        self.do_effects(effects);
        Ok(())
    }

    /// Makes a topic known. Its logs are made by who calls this, or by the next start.
    pub(crate) fn add_topic(&mut self, name: &str, partitions: usize, kind: Kind) {
        let id = self.new_topic_id();
        for number in 0..partitions {
            let topic = TopicName::new(name).expect("a good name");
            let name = TopicPartition::new(topic, PartitionId(number as i32));
            let dir = self.random.below(self.plan.dirs.len());
            let config = self.plan.config(kind);
            let partition = Partition::new(name.clone(), id, dir, kind, config);
            self.model.partitions.insert(name, partition);
        }
    }

    /// As [`World::add_topic`], with what chance decides.
    pub(crate) fn add_random_topic(&mut self, number: usize) {
        let partitions = 1 + self.random.below(3);
        let kinds = [
            Kind::Durable,
            Kind::Durable,
            Kind::Lazy,
            Kind::Compacted,
            Kind::Compacted,
            Kind::Followed,
            Kind::Followed,
        ];
        let kind = kinds[self.random.below(kinds.len())];
        self.add_topic(World::topic_name(number).as_str(), partitions, kind);
    }
}

/// The partition that keeps the offsets of groups.
pub(crate) fn offsets_partition() -> TopicPartition {
    TopicPartition::new(TopicName::new(OFFSETS_TOPIC).expect("a good name"), PartitionId(0))
}

/// A crash cuts off ends, and nothing else is ever out of order; a clean stop leaves nothing to find.
fn check_report(report: &RecoveryReport, was_closed: bool) -> Result<(), Violation> {
    let is_cut = |finding: &Finding| {
        matches!(finding, Finding::TailTruncated { .. } | Finding::SegmentRemoved { .. })
    };
    let is_fine = report.failed.is_empty() && report.findings.iter().all(is_cut);
    ensure(is_fine, || format!("a start has found: {report:?}"))?;
    let is_untouched = report.was_clean && report.findings.is_empty();
    ensure(!was_closed || is_untouched, || format!("after a clean stop: {report:?}"))
}
