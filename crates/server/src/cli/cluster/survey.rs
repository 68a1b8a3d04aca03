//! Which partitions are where, how large they are, and which are on their way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use logway_client::{Client, ClientError, ConfigKind, ConfigResource, OngoingMove, Placement};
use logway_metadata::balance::{Holder, Placed, Step};
use logway_metadata::settings::broker::{
    CATCH_UP_RATE_DEFAULT, CATCH_UP_RATE_SETTING, NODE_DUTY_SETTING,
};
use logway_model::{BrokerId, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::drain::LEAVE;
use super::state::ClusterState;
use crate::cli::error::CliError;
use crate::cli::output::{self, Table};
use crate::cli::quantity;

/// One request has so many partitions at most.
const MOVES_MAX: usize = 2_000;

/// Progress is looked at and told so often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// So many moves are named in the text.
const SHOWN_MAX: usize = 20;

/// What plans are made of.
pub(super) struct Survey {
    pub(super) state: ClusterState,
    pub(super) ongoing: Vec<OngoingMove>,
    /// Nodes that are decommissioned: they get nothing more.
    leaving: BTreeSet<BrokerId>,
    /// By partition and broker.
    sizes: BTreeMap<TopicPartition, BTreeMap<BrokerId, u64>>,
}

impl Survey {
    pub(super) async fn of(client: &Client) -> Result<Survey, CliError> {
        let survey = Survey::without_sizes(client).await?;
        let all = survey.state.partitions().map(|(name, _)| name).collect();
        let sizes = sizes(client, &survey.state, &all).await?;
        let leaving = leaving(client, &survey.state).await?;
        Ok(Survey { leaving, sizes, ..survey })
    }

    /// For a look at what is on its way: no other partition has a size.
    pub(super) async fn of_ongoing(client: &Client) -> Result<Survey, CliError> {
        let survey = Survey::without_sizes(client).await?;
        let ongoing: BTreeSet<_> = survey.ongoing.iter().map(|it| it.partition.clone()).collect();
        if ongoing.is_empty() {
            return Ok(survey);
        }
        let sizes = sizes(client, &survey.state, &ongoing).await?;
        Ok(Survey { sizes, ..survey })
    }

    async fn without_sizes(client: &Client) -> Result<Survey, CliError> {
        let nodes = ClusterState::without_topics(client).await?;
        let Placement { metadata, ongoing } = client.placement().await?;
        let state = ClusterState { metadata, ..nodes };
        Ok(Survey { state, ongoing, leaving: BTreeSet::new(), sizes: BTreeMap::new() })
    }

    /// The nodes that can take replicas.
    pub(super) fn holders(&self) -> Vec<Holder> {
        let brokers = self.state.cluster.brokers.iter();
        let can_take = |id: BrokerId| self.state.serves(id) && !self.leaving.contains(&id);
        let takers = brokers.filter(|broker| can_take(broker.id));
        takers.map(|broker| Holder { id: broker.id, rack: broker.rack.clone() }).collect()
    }

    /// The partitions, those that are on their way as they are going to be.
    pub(super) fn placed(&self) -> Vec<Placed> {
        let removing: BTreeMap<&TopicPartition, &Vec<BrokerId>> =
            self.ongoing.iter().map(|it| (&it.partition, &it.removing)).collect();
        let placed = self.state.partitions().map(|(partition, known)| {
            let goes = |id: &BrokerId| {
                removing.get(&partition).is_some_and(|removing| removing.contains(id))
            };
            let replicas = known.replicas.iter().copied().filter(|id| !goes(id)).collect();
            let bytes = self.bytes(&partition);
            Placed { partition, replicas, bytes }
        });
        placed.collect()
    }

    /// What a replica takes that has everything.
    fn bytes(&self, partition: &TopicPartition) -> u64 {
        let sizes = self.sizes.get(partition);
        sizes.and_then(|sizes| sizes.values().max()).copied().unwrap_or(0)
    }

    /// How long the slowest leader copies what is its to copy, at the rate that it is bound to.
    pub(super) fn seconds(&self, steps: &[Step], rate: u64) -> u64 {
        let leaders: BTreeMap<TopicPartition, Option<BrokerId>> =
            self.state.partitions().map(|(name, known)| (name, known.leader)).collect();
        let mut bytes: BTreeMap<Option<BrokerId>, u64> = BTreeMap::new();
        for step in steps {
            let leader = leaders.get(&step.partition).copied().flatten();
            *bytes.entry(leader).or_default() += step.bytes;
        }
        bytes.into_values().max().unwrap_or(0).div_ceil(rate.max(1))
    }

    /// What is still to be copied.
    pub(super) fn bytes_left(&self, of: &OngoingMove) -> u64 {
        let (whole, sizes) = (self.bytes(&of.partition), self.sizes.get(&of.partition));
        let has = |id: &BrokerId| sizes.and_then(|sizes| sizes.get(id)).copied().unwrap_or(0);
        of.adding.iter().map(|id| whole.saturating_sub(has(id))).sum()
    }

    /// Why a move does not come to its end, if that can be seen.
    pub(super) fn stuck_because(&self, of: &OngoingMove) -> Option<String> {
        let known = self.state.metadata.partition(&of.partition);
        if known.is_some_and(|known| known.leader.is_none()) {
            return Some("the partition has no leader that could copy".to_owned());
        }
        let down = of.adding.iter().find(|id| !self.state.serves(**id))?;
        Some(format!("node {down}, which is to get a replica, does not serve"))
    }
}

async fn sizes(
    client: &Client,
    state: &ClusterState,
    partitions: &BTreeSet<TopicPartition>,
) -> Result<BTreeMap<TopicPartition, BTreeMap<BrokerId, u64>>, CliError> {
    let mut sizes: BTreeMap<TopicPartition, BTreeMap<BrokerId, u64>> = BTreeMap::new();
    let brokers = state.cluster.brokers.iter().map(|broker| broker.id);
    for broker in brokers.filter(|id| state.serves(*id)) {
        let dirs = match client.describe_log_dirs(broker, partitions).await {
            Ok(dirs) => dirs,
            // It has just gone. What others have is as large.
            Err(ClientError::Connection { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        for (partition, bytes) in dirs.into_iter().flatten().flat_map(|dir| dir.partitions) {
            sizes.entry(partition).or_default().insert(broker, bytes);
        }
    }
    Ok(sizes)
}

/// A plan that cannot be made for want of nodes, with what can be done.
pub(super) fn too_few_nodes(refusal: String) -> CliError {
    CliError::Input(refusal).with_hint(
        "let another node join first, or give the topic fewer replicas: 'logway cluster rebalance --topic TOPIC \
         --replication-factor COUNT --yes' ('__consumer_offsets' and the like are topics, too)",
    )
}

/// The nodes that are to leave, of those that serve.
async fn leaving(client: &Client, state: &ClusterState) -> Result<BTreeSet<BrokerId>, CliError> {
    let mut asked = JoinSet::new();
    let brokers = state.cluster.brokers.iter().map(|broker| broker.id);
    for broker in brokers.filter(|id| state.serves(*id)) {
        let client = client.clone();
        asked.spawn(async move { (broker, duty(&client, broker).await) });
    }
    let mut leaving = BTreeSet::new();
    for (broker, duty) in asked.join_all().await {
        match duty {
            Ok(duty) if duty.as_deref() == Some(LEAVE) => _ = leaving.insert(broker),
            Ok(_) => {}
            // It has just gone, and takes nothing now.
            Err(ClientError::Connection { .. } | ClientError::Connect { .. }) => {
                leaving.insert(broker);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(leaving)
}

/// What a node is there for, if it tells: brokers of Apache Kafka do not.
async fn duty(client: &Client, broker: BrokerId) -> Result<Option<String>, ClientError> {
    let resource = ConfigResource { kind: ConfigKind::Broker, name: broker.to_string() };
    let entries = client.explain_configs(&resource, &[NODE_DUTY_SETTING]).await?;
    let duty = entries.into_iter().find(|entry| entry.name == NODE_DUTY_SETTING);
    Ok(duty.and_then(|entry| entry.value))
}

/// How fast a leader copies, as one of the brokers says: the default where none does.
pub(super) async fn catch_up_rate(client: &Client, survey: &Survey) -> u64 {
    let Some(broker) = survey.holders().first().map(|holder| holder.id) else {
        return CATCH_UP_RATE_DEFAULT;
    };
    let resource = ConfigResource { kind: ConfigKind::Broker, name: broker.to_string() };
    let Ok(entries) = client.explain_configs(&resource, &[CATCH_UP_RATE_SETTING]).await else {
        // Other brokers do not know it.
        return CATCH_UP_RATE_DEFAULT;
    };
    let value = entries.into_iter().find_map(|entry| entry.value);
    value.and_then(|value| value.parse().ok()).unwrap_or(CATCH_UP_RATE_DEFAULT)
}

/// Has all of it moved. Fails with the first that is refused; the others go on.
pub(super) async fn begin(client: &Client, steps: &[Step]) -> Result<(), CliError> {
    let wanted = steps.iter().map(|step| (step.partition.clone(), Some(step.to.clone())));
    reassign(client, wanted.collect()).await
}

/// Gives partitions these replicas, or cancels what is on its way where there are none. Fails with the first that is
/// refused; the others go on.
pub(super) async fn reassign(
    client: &Client,
    wanted: Vec<(TopicPartition, Option<Vec<BrokerId>>)>,
) -> Result<(), CliError> {
    let mut refused = None;
    for some in wanted.chunks(MOVES_MAX) {
        let outcomes = client.reassign(&some.iter().cloned().collect()).await?;
        refused = refused.or(outcomes.into_iter().find_map(|(_, outcome)| outcome.err()));
    }
    refused.map_or(Ok(()), |error| Err(error.into()))
}

/// Waits until nothing of what `is_meant` is on its way, and tells of it on stderr. It can be interrupted: the cluster goes
/// on.
pub(super) async fn wait(
    client: &Client,
    is_meant: impl Fn(&OngoingMove) -> bool,
) -> Result<(), CliError> {
    let mut told = String::new();
    loop {
        // Nodes may come and go meanwhile, also the one that is asked.
        let survey = match Survey::of_ongoing(client).await {
            Ok(survey) => survey,
            Err(error) => {
                tell(&mut told, format!("the cluster cannot be asked now: {error}"));
                sleep(LOOK_INTERVAL).await;
                continue;
            }
        };
        let left: Vec<&OngoingMove> = survey.ongoing.iter().filter(|it| is_meant(it)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let bytes: u64 = left.iter().map(|it| survey.bytes_left(it)).sum();
        let (count, bytes) = (left.len(), quantity::bytes(bytes));
        let stuck = left.iter().find_map(|it| Some((&it.partition, survey.stuck_because(it)?)));
        let stuck = stuck.map(|(name, why)| format!("; {name} waits: {why}")).unwrap_or_default();
        tell(&mut told, format!("{count} partitions on their way, {bytes} to copy{stuck}"));
        sleep(LOOK_INTERVAL).await;
    }
}

/// Tells something on stderr, if it is not what was told last.
pub(super) fn tell(told: &mut String, text: String) {
    if *told != text {
        eprintln!("{text}");
        *told = text;
    }
}

/// A partition that is moved, or would be.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Move {
    topic: String,
    partition: i32,
    /// Numbers of the nodes that have it, the preferred leader first
    from: Vec<i32>,
    to: Vec<i32>,
    /// To be copied, at its present size
    bytes: u64,
}

impl Move {
    pub(super) fn of(step: &Step) -> Move {
        Move {
            topic: step.partition.topic.to_string(),
            partition: step.partition.partition.0,
            from: numbers(&step.from),
            to: numbers(&step.to),
            bytes: step.bytes,
        }
    }
}

/// As JSON has them.
pub(super) fn numbers(ids: &[BrokerId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}

/// The moves as text, not all of very many.
pub(super) fn text(moves: &[Move]) -> String {
    let mut table = Table::new(&["PARTITION", "FROM", "TO", "BYTES"]);
    for it in moves.iter().take(SHOWN_MAX) {
        let name = format!("{}-{}", it.topic, it.partition);
        let (from, to) = (output::list(&it.from), output::list(&it.to));
        table.row([name, from, to, quantity::bytes(it.bytes)]);
    }
    let more = moves.len().saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    format!("{}{more}", table.render())
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::state;
    use super::*;

    #[test]
    fn who_is_to_leave_or_does_not_serve_takes_nothing() {
        let mut state = state(&[(&[1, 2], &[1, 2])]);
        state.silent.insert(BrokerId(3));
        let leaving = BTreeSet::from([BrokerId(2)]);
        let (ongoing, sizes) = (Vec::new(), BTreeMap::new());
        let survey = Survey { state, ongoing, leaving, sizes };
        let ids: Vec<i32> = survey.holders().iter().map(|holder| holder.id.0).collect();
        assert_eq!(ids, [1]);
    }
}
