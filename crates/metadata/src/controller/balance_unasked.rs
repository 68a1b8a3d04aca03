//! The controller moves partitions that nobody has asked it to move.

use logway_model::{BrokerId, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use super::{AlterPartitionReassignments, Command, ControllerError, Decision, PartitionMove};
use crate::balance::Occasion;
use crate::image::MetadataImage;
use crate::record::{ConfigRecord, ConfigResource, MetadataRecord};
use crate::settings::BrokerSettings;
use crate::settings::broker::AUTO_BALANCE_LAST_SETTING;

/// Begins moves, as [`AlterPartitionReassignments`] does, and notes why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceUnasked {
    /// Why.
    pub occasion: Occasion,
    /// Where partitions are to go, the preferred leader first.
    pub moves: Vec<(TopicId, PartitionId, Vec<BrokerId>)>,
    /// What the whole plan copies, in bytes. These moves may be a part of it.
    pub bytes: u64,
}

impl Command for BalanceUnasked {
    type Reply = Vec<Result<(), ControllerError>>;

    /// A partition that is moved makes room where it was.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        settings: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let BalanceUnasked { occasion, moves, bytes } = self;
        let moves = moves.into_iter().map(|(topic_id, partition, replicas)| PartitionMove {
            topic_id,
            partition,
            replicas: Some(replicas),
        });
        let moves = AlterPartitionReassignments { moves: moves.collect(), may_change_count: false };
        let mut decision = moves.evaluate(image, settings)?;
        let count = decision.reply.iter().filter(|outcome| outcome.is_ok()).count();
        if count > 0 {
            let why = format!("{occasion}: {count} partitions to move, {bytes} bytes to copy");
            let (resource, name) = (ConfigResource::BrokerDefault, AUTO_BALANCE_LAST_SETTING);
            let noted = ConfigRecord { resource, name: name.to_owned(), value: Some(why) };
            decision.records.push(MetadataRecord::Config(noted));
        }
        Ok(decision)
    }
}
