//! `logway cluster health`.

use clap::Args;
use logway_model::BrokerId;
use schemars::JsonSchema;
use serde::Serialize;

use super::state::{ClusterState, Partition, is_leaderless, is_under_replicated};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table, yes_or_no};

/// Say whether every partition can be read and written, and every broker serves
///
/// Exits with 1 if something is wrong.
#[derive(Debug, Args)]
pub(in crate::cli) struct HealthArgs {}

/// The state of the cluster; printed also when the exit code is 1 because it is not healthy.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    healthy: bool,
    broker_count: usize,
    #[schemars(with = "Vec<i32>")]
    fenced_brokers: Vec<BrokerId>,
    /// They do not answer at the addresses that they advertise
    #[schemars(with = "Vec<i32>")]
    unreachable_brokers: Vec<BrokerId>,
    /// Voters that are no brokers, and that the leader of the quorum does not hear
    #[schemars(with = "Vec<i32>")]
    unreachable_voters: Vec<BrokerId>,
    /// Whether metadata can be changed; `null` from brokers that do not tell
    has_controller: Option<bool>,
    partition_count: usize,
    leaderless_partitions: Vec<Partition>,
    under_replicated_partitions: Vec<Partition>,
}

pub(super) async fn run(_args: HealthArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let health = health(&ClusterState::of(&global.client()?).await?);
    match global.format {
        Format::Json => output::print_json(&health)?,
        Format::Text => output::print(&table(&health).render())?,
    }
    match health.healthy {
        true => Ok(()),
        false => Err(CliError::Unhealthy),
    }
}

fn health(state: &ClusterState) -> Health {
    Health {
        healthy: state.is_healthy(),
        broker_count: state.cluster.brokers.len(),
        fenced_brokers: state.fenced(),
        unreachable_brokers: state.silent.iter().copied().collect(),
        unreachable_voters: state.unheard_voters(),
        has_controller: state.has_controller(),
        partition_count: state.partitions().count(),
        leaderless_partitions: state.those(is_leaderless),
        under_replicated_partitions: state.those(is_under_replicated),
    }
}

fn table(health: &Health) -> Table {
    let mut table = Table::without_names();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let partitions = |partitions: &[Partition]| {
        partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let brokers =
        |ids: &[BrokerId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    row("HEALTHY", yes_or_no(health.healthy));
    row("CONTROLLER", health.has_controller.map(yes_or_no).unwrap_or_default());
    row("BROKERS", health.broker_count.to_string());
    row("FENCED", brokers(&health.fenced_brokers));
    let unreachable = [&health.unreachable_brokers[..], &health.unreachable_voters].concat();
    row("UNREACHABLE", brokers(&unreachable));
    row("PARTITIONS", health.partition_count.to_string());
    row("LEADERLESS", partitions(&health.leaderless_partitions));
    row("UNDER-REPLICATED", partitions(&health.under_replicated_partitions));
    table
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::{replica, state};
    use super::*;

    #[test]
    fn a_partition_without_a_leader_or_a_replica_is_named() {
        let of = |isr: &[i32]| health(&state(&[(&[1, 2], isr)]));
        assert!(of(&[1, 2]).healthy);
        let lacking = of(&[1]);
        assert!(!lacking.healthy && lacking.leaderless_partitions.is_empty());
        let names = |partitions: &[Partition]| {
            partitions.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(&lacking.under_replicated_partitions), ["t-0"]);
        assert_eq!(names(&of(&[]).leaderless_partitions), ["t-0"]);
        assert!(table(&lacking).render().contains("UNDER-REPLICATED  t-0\n"));
    }

    #[test]
    fn a_broker_that_does_not_answer_is_named_before_it_is_fenced() {
        let mut state = state(&[]);
        state.silent.insert(BrokerId(3));
        let health = health(&state);
        assert!(!health.healthy);
        assert!(table(&health).render().contains("UNREACHABLE       3\n"));
    }

    #[test]
    fn a_voter_that_is_no_broker_and_is_not_heard_is_named() {
        let mut state = state(&[(&[1, 2], &[1, 2])]);
        state.cluster.brokers.pop();
        assert!(health(&state).healthy);
        let quorum = state.quorum.as_mut().expect("it has one");
        quorum.voters = vec![replica(1, 50_000), replica(2, 50_000), replica(3, 20_000)];
        let health = health(&state);
        assert!(!health.healthy);
        assert!(table(&health).render().contains("UNREACHABLE       3\n"));
    }
}
