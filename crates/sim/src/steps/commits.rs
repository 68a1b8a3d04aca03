//! Groups that commit offsets.

use logway_coordinator::{
    Client, CommitToken, CommittedTopic, DeletedTopic, Effect, GroupShard, Reply, Request,
    RequestBody, RequestToken,
};
use logway_model::{ErrorCode, TopicId, TopicName};
use logway_wire::WireString;
use logway_wire::messages::OffsetCommitRequest;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};

use crate::batch::batch_of_group;
use crate::model::CommitKey;
use crate::start::offsets_partition;
use crate::violation::{Violation, ensure};
use crate::world::World;

const GROUPS: [&str; 3] = ["blue", "green", "red"];

/// The version in which topics have names, and the driver adds their ids.
const REQUEST_VERSION: i16 = 9;

impl World {
    /// Commits some offsets at once.
    pub(super) fn commit_some(&mut self) -> Result<(), Violation> {
        for _ in 0..1 + self.random.below(4) {
            let Some(partition) = self.some_partition() else { return Ok(()) };
            let topic_id = self.model.partition(&partition).topic_id;
            let group = GROUPS[self.random.below(GROUPS.len())].to_owned();
            let key = CommitKey { group, partition, topic_id };
            let advance = 1 + self.random.below(9) as i64;
            let offset = self.model.commits.send(&key, advance);
            let token = self.ask(RequestBody::OffsetCommit(commit_request(&key, offset)));
            self.asked.insert(token, (key, offset));
        }
        self.finish_appends()?;
        self.note_replies()
    }

    /// Asks the shard, and starts what it wants done.
    pub(crate) fn ask(&mut self, body: RequestBody) -> RequestToken {
        let token = RequestToken(self.number());
        let request = Request { token, version: REQUEST_VERSION, client: Client::default(), body };
        let now = self.moment();
        let effects = self.shard().request(now, request);
        self.do_effects(effects);
        token
    }

    /// Tells the shard that its append is durable.
    pub(super) fn finish_append_of_shard(&mut self, token: CommitToken) {
        let now = self.moment();
        let effects = self.shard().appended(now, token, Ok(()));
        self.do_effects(effects);
    }

    /// Tells the shard that a topic was deleted.
    pub(super) fn forget_topic(&mut self, name: &TopicName, id: TopicId) -> Result<(), Violation> {
        let deleted = [DeletedTopic { name: CommittedTopic::from(name.as_str()), id }];
        let now = self.moment();
        let effects = self.shard().topics_deleted(now, &deleted);
        self.do_effects(effects);
        self.finish_appends()
    }

    /// Does what the shard wants done.
    pub(crate) fn do_effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append { token, records } => {
                    let batch = batch_of_group(&records, self.now());
                    self.append(&offsets_partition(), batch, Some(token));
                }
                Effect::Reply { token, reply } => self.replies.push((token, reply)),
                other => unreachable!("nobody commits by a transaction here: {other:?}"),
            }
        }
    }

    /// Takes note of the commits that were acknowledged.
    fn note_replies(&mut self) -> Result<(), Violation> {
        for (token, reply) in std::mem::take(&mut self.replies) {
            let Some((key, offset)) = self.asked.remove(&token) else { continue };
            ensure(is_success(&reply), || format!("{key:?} cannot commit: {reply:?}"))?;
            self.report.commits += 1;
            self.model.commits.acknowledge(&key, offset);
        }
        Ok(())
    }

    fn shard(&mut self) -> &mut GroupShard {
        let broker = self.broker.as_mut().expect("the world lives");
        broker.shard.as_mut().expect("it was loaded at the start")
    }
}

fn commit_request(key: &CommitKey, offset: i64) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition {
        partition_index: key.partition.partition.0,
        committed_offset: offset,
        committed_metadata: Some(WireString::copy_of("as far as I have read")),
        ..OffsetCommitRequestPartition::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: WireString::copy_of(key.partition.topic.as_str()),
        topic_id: key.topic_id.0,
        partitions: vec![partition],
        ..OffsetCommitRequestTopic::default()
    };
    OffsetCommitRequest {
        group_id: WireString::copy_of(&key.group),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..OffsetCommitRequest::default()
    }
}

fn is_success(reply: &Reply) -> bool {
    let Reply::OffsetCommit(response) = reply else { return false };
    let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.all(|partition| partition.error_code == ErrorCode::None.code())
}
