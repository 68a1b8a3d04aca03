//! What the coordinators of this node look after, as metrics: groups, their members and transactions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use logway_coordinator::GroupShard;
use logway_coordinator::transactions::{TransactionShard, TransactionState};
use logway_model::GroupType;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::Node;
use crate::sampled::Sampled;

/// The latest counts.
#[derive(Debug, Default)]
pub(crate) struct CoordinatorCounts(Sampled<Counts>);

#[derive(Debug, Default)]
struct Counts {
    groups: BTreeMap<(&'static str, &'static str), usize>,
    members: BTreeMap<&'static str, usize>,
    transactions: BTreeMap<&'static str, usize>,
}

impl Counts {
    /// Shards that are being loaded look after nothing yet.
    async fn take(node: &Arc<Node>) -> Counts {
        let latest = node.coordinator_counts.0.latest();
        let mut counts = Counts {
            // A state that no group is in any more keeps its line: alerts do not see one that vanishes.
            groups: latest.groups.keys().map(|&labels| (labels, 0)).collect(),
            members: GroupType::ALL.map(|group_type| (group_type.name(), 0)).into(),
            transactions: TransactionState::ALL.map(|state| (state.name(), 0)).into(),
        };
        drop(latest);
        for seen in node.groups.look_at_all(groups_of) {
            let Ok(groups) = seen.await else { continue };
            for (group_type, state, members) in groups {
                *counts.groups.entry((group_type.name(), state)).or_default() += 1;
                *counts.members.entry(group_type.name()).or_default() += members;
            }
        }
        for seen in node.transactions.look_at_all(states_of) {
            let Ok(states) = seen.await else { continue };
            for state in states {
                *counts.transactions.entry(state.name()).or_default() += 1;
            }
        }
        counts
    }
}

/// The groups of a shard, with how many members each has.
fn groups_of(shard: &GroupShard) -> Vec<(GroupType, &'static str, usize)> {
    let all = shard.is_loaded().then(|| shard.groups());
    let groups = all.into_iter().flatten();
    groups.map(|group| (group.group_type(), group.state_name(), group.member_count())).collect()
}

fn states_of(shard: &TransactionShard) -> Vec<TransactionState> {
    let all = shard.is_loaded().then(|| shard.transactions());
    all.into_iter().flatten().map(|(_, transaction)| transaction.state).collect()
}

impl CoordinatorCounts {
    /// Writes what was counted last.
    pub(crate) fn encode(
        &self,
        node: &Node,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), fmt::Error> {
        let latest = self.0.latest();
        let gauge = |count: usize| ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
        let help = "Groups of this coordinator, by type and state";
        let mut family =
            encoder.encode_descriptor("logway_groups", help, None, MetricType::Gauge)?;
        for (&(group_type, state), &count) in &latest.groups {
            let labels = [("type", group_type), ("state", state)];
            gauge(count).encode(family.encode_family(&labels)?)?;
        }
        let help = "Members of the groups of this coordinator, by the groups' type";
        let mut family =
            encoder.encode_descriptor("logway_group_members", help, None, MetricType::Gauge)?;
        for (&group_type, &count) in &latest.members {
            gauge(count).encode(family.encode_family(&[("type", group_type)])?)?;
        }
        let help = "Rebalances that groups of this coordinator have begun, by the groups' type: generations of classic \
            groups, group epochs of others";
        let name = "logway_group_rebalances";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for group_type in GroupType::ALL {
            let counter = ConstCounter::new(node.groups.rebalances.of(group_type));
            counter.encode(family.encode_family(&[("type", group_type.name())])?)?;
        }
        let help = "Transactional ids of this coordinator, by the state of their last transaction: open ones are Ongoing";
        let name = "logway_transactional_ids";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (&state, &count) in &latest.transactions {
            gauge(count).encode(family.encode_family(&[("state", state)])?)?;
        }
        Ok(())
    }
}

impl Node {
    /// Counts what the coordinators look after, unless that was just done. Ends soon, whether that is done or not.
    pub(crate) async fn refresh_coordinator_counts(self: &Arc<Self>) {
        let node = Arc::clone(self);
        let count = async move { Counts::take(&node).await };
        self.coordinator_counts.0.refresh(count).await;
    }
}
