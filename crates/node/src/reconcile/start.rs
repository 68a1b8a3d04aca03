//! What a start looks for before any topic is served: logs that nobody knows, and what is missing.

use std::collections::BTreeMap;

use logway_log::Log;
use logway_metadata::MetadataImage;
use logway_model::{DirectoryId, TopicId, TopicPartition};

use super::delete_logs;
use crate::Node;

impl Node {
    /// Takes the logs out of service that belong to no topic. Done once, at the start, before any
    /// topic is served.
    ///
    /// Mostly their topics were deleted just before the broker stopped. But if the metadata was
    /// lost they are all that is left, so they are set aside under another name and not deleted.
    ///
    /// A log whose partition the metadata has on other nodes was moved away while this one was down. It is deleted, as it
    /// would have been then: each of the others has all of it that was acknowledged.
    pub(crate) fn set_strays_aside(&self) {
        let image = self.image();
        for (dir, log) in self.log_dirs.logs_where_assigned() {
            let partition = log.topic_partition();
            // One that does not say whose it is keeps its name: its partition is then offline,
            // which somebody will notice, instead of empty.
            let is_anonymous = log.topic_id() == TopicId::default();
            if self.is_elsewhere(&image, &log) {
                tracing::info!(%partition, "the partition was moved to other nodes while this one \
                    was down: its log here is deleted");
                delete_logs(self, std::slice::from_ref(partition));
                continue;
            }
            if image.topic_by_id(log.topic_id()).is_some()
                || (is_anonymous && image.topic(partition.topic.as_str()).is_some())
            {
                continue;
            }
            match dir.set_aside(partition) {
                Ok(path) => tracing::warn!(%partition, topic_id = %log.topic_id(), ?path,
                    "no topic has this log: it is set aside; remove it if it is not needed"),
                Err(error) => tracing::error!(%partition, %error,
                    "no topic has this log, and it cannot be set aside"),
            }
        }
    }

    /// Whether the metadata knows the partition of a log, and has no replica of it here.
    fn is_elsewhere(&self, image: &MetadataImage, log: &Log) -> bool {
        let topic = image.topic_by_id(log.topic_id());
        let known = topic.and_then(|topic| topic.partition(log.topic_partition().partition));
        known.is_some_and(|known| !known.replicas.contains(&self.settings.node_id))
    }

    /// Names the log directories that cannot be used or are missing from `log.dirs`, with how many
    /// partitions are in each. Done once, at the start.
    pub(crate) fn report_absent_dirs(&self) {
        let image = self.image();
        let mut counts: BTreeMap<DirectoryId, usize> = BTreeMap::new();
        for (_, replicas) in image.topics().flat_map(|topic| topic.numbered_partitions()) {
            if replicas.replicas.contains(&self.settings.node_id) {
                *counts.entry(replicas.directory_of(self.settings.node_id)).or_default() += 1;
            }
        }
        counts.remove(&DirectoryId::UNASSIGNED);
        counts.retain(|id, _| !self.log_dirs.is_given_up(*id));
        self.log_dirs.online_ids().iter().for_each(|id| _ = counts.remove(id));
        for (path, id) in self.log_dirs.absent() {
            let partitions = id.and_then(|id| counts.remove(&id)).unwrap_or(0);
            let emptied = self.log_dirs.emptied(path);
            let (path, id) = (path.display(), id.map(tracing::field::display));
            if let Some(error) = emptied {
                // It says itself what can be done.
                tracing::error!(id, partitions, %error,
                    "a log directory cannot be used, and the partitions in it are offline");
                continue;
            }
            tracing::error!(%path, id, partitions, "a log directory that was in use is missing, and \
                the partitions in it are offline; put it back and name it in log.dirs, or give it \
                up with 'logway log forget-dir' while the broker is stopped");
        }
        for (id, partitions) in counts {
            tracing::error!(%id, partitions, "partitions are offline that are in a log directory of \
                which no path is known; name it in log.dirs, or give it up with 'logway log \
                forget-dir' while the broker is stopped");
        }
    }

    /// Names the partitions that have no log, before their logs are made: a crash came between the
    /// commit that made the topic and its log, or the log was lost in its first second, before a
    /// checkpoint knew it. Nobody can tell which. Done once, at the start.
    pub(crate) fn report_missing_logs(&self) {
        let image = self.image();
        for topic in image.topics() {
            for (id, replicas) in topic.numbered_partitions() {
                let partition = TopicPartition::new(topic.name.clone(), id);
                let assigned = replicas.directory_of(self.settings.node_id);
                let place = self.log_dirs.by_id(assigned);
                if let Some(place) = place
                    && !self.log_dirs.has_log(&partition)
                {
                    let dir = place.path().display();
                    tracing::warn!(%partition, %dir, "the partition has no log: it is made, and \
                        begins at offset 0");
                }
            }
        }
    }
}
