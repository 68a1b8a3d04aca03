//! Groups as tables.

use super::group_lag::{GroupLag, Member};
use super::partition_lag::PartitionLag;
use crate::cli::output::Table;
use crate::cli::quantity;

/// A summary and the partitions of each group.
pub(super) fn render(groups: &[GroupLag]) -> String {
    let mut sections = Vec::new();
    for group in groups {
        sections.push(summary(group).render());
        let idle: Vec<&Member> = group.members.iter().filter(|m| m.partition_count == 0).collect();
        if !group.partitions.is_empty() || !idle.is_empty() {
            sections.push(partitions(&group.partitions, &idle).render());
        }
    }
    sections.join("\n")
}

fn summary(group: &GroupLag) -> Table {
    let mut table = Table::without_names();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("GROUP", group.group.clone());
    row("STATE", group.state.clone());
    row("TYPE", group.group_type.to_owned());
    row("PROTOCOL", group.protocol_type.clone());
    row("ASSIGNOR", group.assignor.clone());
    row("COORDINATOR", format!("{} ({})", group.coordinator, group.coordinator_address));
    row("MEMBERS", group.members.len().to_string());
    row("LAG", group.lag.map(quantity::count).unwrap_or_default());
    row("LAG SECONDS", seconds(group.lag_seconds));
    table
}

fn partitions(partitions: &[PartitionLag], idle: &[&Member]) -> Table {
    let mut table = Table::new(&[
        "TOPIC",
        "PARTITION",
        "COMMITTED",
        "END",
        "LAG",
        "SECONDS",
        "CLIENT",
        "HOST",
        "MEMBER",
    ]);
    for partition in partitions {
        table.row([
            partition.topic.clone(),
            partition.partition.to_string(),
            number(partition.committed_offset),
            number(partition.end_offset),
            number(partition.lag),
            seconds(partition.lag_seconds),
            partition.client_id.clone().unwrap_or_default(),
            partition.host.clone().unwrap_or_default(),
            partition.member_id.clone().unwrap_or_default(),
        ]);
    }
    // Members without a partition are why some ask.
    for member in idle {
        let nothing = std::iter::repeat_n(String::new(), 6);
        let who = [&member.client_id, &member.host, &member.member_id].map(String::clone);
        table.row(nothing.chain(who));
    }
    table
}

fn number(number: Option<impl ToString>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

fn seconds(seconds: Option<f64>) -> String {
    seconds.map(|seconds| format!("{seconds:.1}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use logway_model::BrokerId;

    use super::*;

    #[test]
    fn lags_members_and_idle_members_are_shown() {
        let partition = |partition, committed_offset: Option<i64>| PartitionLag {
            topic: "orders".to_owned(),
            partition,
            committed_offset,
            start_offset: Some(0),
            end_offset: Some(1500),
            lag: committed_offset.map(|offset| 1500 - offset.unsigned_abs()),
            lag_seconds: committed_offset.map(|_| 12.34),
            client_id: Some("c".to_owned()),
            host: Some("127.0.0.1".to_owned()),
            member_id: Some("c-1".to_owned()),
            ..PartitionLag::default()
        };
        let member = |id: &str, partition_count| Member {
            member_id: id.to_owned(),
            instance_id: None,
            client_id: "c".to_owned(),
            host: "127.0.0.1".to_owned(),
            partition_count,
        };
        let group = GroupLag {
            group: "billing".to_owned(),
            state: "Stable".to_owned(),
            group_type: "classic",
            protocol_type: "consumer".to_owned(),
            assignor: "range".to_owned(),
            coordinator: BrokerId(1),
            coordinator_address: "127.0.0.1:9092".to_owned(),
            lag: Some(1400),
            lag_seconds: Some(12.34),
            members: vec![member("c-1", 2), member("c-2", 0)],
            partitions: vec![partition(0, Some(100)), partition(1, None)],
            warnings: Vec::new(),
        };
        let expected = "\
GROUP        billing
STATE        Stable
TYPE         classic
PROTOCOL     consumer
ASSIGNOR     range
COORDINATOR  1 (127.0.0.1:9092)
MEMBERS      2
LAG          1,400
LAG SECONDS  12.3

TOPIC   PARTITION  COMMITTED  END   LAG   SECONDS  CLIENT  HOST       MEMBER
orders  0          100        1500  1400  12.3     c       127.0.0.1  c-1
orders  1          -          1500  -     -        c       127.0.0.1  c-1
-       -          -          -     -     -        c       127.0.0.1  c-2
";
        assert_eq!(render(&[group]), expected);
    }
}
