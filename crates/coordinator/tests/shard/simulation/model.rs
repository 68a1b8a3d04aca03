//! What must be true of what clients are told.

use std::collections::BTreeMap;

use bytes::Bytes;
use logway_coordinator::GroupRecord;
use logway_wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use logway_wire::messages::{OffsetCommitRequest, OffsetCommitResponse};

use super::client::Client;

/// A group and one of its partitions.
type Place = (String, i32);

/// What is known from outside.
#[derive(Default)]
pub(crate) struct Model {
    /// Who owns a partition in a generation: the instance, or the member.
    owners: BTreeMap<(String, i32, i32), String>,
    /// The highest offset that was ever sent in a commit.
    sent: BTreeMap<Place, i64>,
    /// What the log says last: offsets in the order of the log, and none after a reset.
    committed: BTreeMap<Place, i64>,
    /// The highest that a client was told is committed, since the last reset.
    told: BTreeMap<Place, i64>,
}

impl Model {
    /// An offset for a commit: beyond all before it.
    pub(crate) fn next_offset(&mut self, group: &str, partition: i32) -> i64 {
        let sent = self.sent.entry((group.to_owned(), partition)).or_default();
        *sent += 1;
        *sent
    }

    /// Records are durable now.
    pub(crate) fn appended(&mut self, records: &[GroupRecord]) {
        for record in records {
            match record {
                GroupRecord::Offset { group, partition, offset: Some(offset), .. } => {
                    let place = (group.as_str().to_owned(), partition.0);
                    let before = self.committed.insert(place, offset.offset.0);
                    assert!(before.is_none_or(|before| before < offset.offset.0), "{record:?}");
                }
                GroupRecord::Offset { group, partition, offset: None, .. } => {
                    let place = (group.as_str().to_owned(), partition.0);
                    self.committed.remove(&place);
                    self.told.remove(&place);
                }
                // Its generations are counted anew.
                GroupRecord::Metadata { group, metadata: None } => {
                    self.owners.retain(|(of, ..), _| of != group.as_str());
                }
                GroupRecord::Metadata { .. }
                | GroupRecord::Consumer { .. }
                | GroupRecord::Streams { .. } => {}
            }
        }
    }

    /// A client was told what it owns.
    pub(crate) fn assigned(&mut self, client: &Client, assignment: &Bytes) {
        let owner = client.instance_id.as_ref().unwrap_or(&client.member_id);
        for partition in assignment {
            let key = (client.group.to_owned(), client.generation, i32::from(*partition));
            let before = self.owners.insert(key.clone(), owner.clone());
            assert!(
                before.as_ref().is_none_or(|before| before == owner),
                "{key:?} belongs to {before:?} and {owner}"
            );
        }
    }

    /// A client was told that its commit is durable, or not.
    pub(crate) fn commit_told(
        &mut self,
        request: &OffsetCommitRequest,
        response: &OffsetCommitResponse,
    ) {
        let partition = &request.topics[0].partitions[0];
        if response.topics[0].partitions[0].error_code != 0 {
            return;
        }
        let place = (request.group_id.as_str().to_owned(), partition.partition_index);
        let offset = partition.committed_offset;
        let Some(committed) = self.committed.get(&place) else { return };
        assert!(*committed >= offset, "{place:?} was told {offset}, the log has {committed}");
        let told = self.told.entry(place).or_insert(offset);
        *told = offset.max(*told);
    }

    /// A tool was told the offsets of a group.
    pub(crate) fn fetched(&self, group: &str, response: &OffsetFetchResponseGroup) {
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        let fetched: BTreeMap<Place, i64> = partitions
            .map(|partition| {
                ((group.to_owned(), partition.partition_index), partition.committed_offset)
            })
            .collect();
        let of_group =
            |(place, told): (&Place, &i64)| (place.0 == group).then(|| (place.clone(), *told));
        if response.error_code == 0 {
            for (place, told) in self.told.iter().filter_map(of_group) {
                let offset = fetched.get(&place).copied();
                assert!(offset >= Some(told), "{place:?} is {offset:?} after {told} was told");
            }
        }
    }
}
