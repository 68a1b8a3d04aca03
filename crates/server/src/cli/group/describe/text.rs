//! Groups as tables.

use super::group_lag::{GroupLag, Member, Subtopology};
use super::partition_lag::PartitionLag;
use crate::cli::output::{Table, list};
use crate::cli::quantity;

/// A summary and the partitions of each group; in their place, the members in detail and what they process.
pub(super) fn render(groups: &[GroupLag], shows_members: bool) -> String {
    let mut sections = Vec::new();
    for group in groups {
        sections.push(summary(group).render());
        if shows_members {
            sections.extend(details(group).map(|table| table.render()));
            continue;
        }
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
    if let (Some(group_epoch), Some(assignment_epoch)) = (group.group_epoch, group.assignment_epoch)
    {
        row("GROUP EPOCH", group_epoch.to_string());
        row("ASSIGNMENT EPOCH", assignment_epoch.to_string());
    }
    if let Some(topology_epoch) = group.topology_epoch {
        row("TOPOLOGY EPOCH", topology_epoch.to_string());
    }
    row("COORDINATOR", format!("{} ({})", group.coordinator, group.coordinator_address));
    row("MEMBERS", group.members.len().to_string());
    row("LAG", group.lag.map(quantity::count).unwrap_or_default());
    row("LAG SECONDS", seconds(group.lag_seconds));
    table
}

/// The members, and the parts of an application.
fn details(group: &GroupLag) -> impl Iterator<Item = Table> {
    let is_streams = group.members.iter().any(|member| member.processing.is_some());
    let members = (!group.members.is_empty()).then(|| match is_streams {
        true => threads(&group.members),
        false => members(&group.members),
    });
    let parts = (!group.subtopologies.is_empty()).then(|| subtopologies(&group.subtopologies));
    members.into_iter().chain(parts)
}

fn members(members: &[Member]) -> Table {
    let mut table = Table::new(&[
        "MEMBER",
        "INSTANCE",
        "CLIENT",
        "HOST",
        "RACK",
        "PROTOCOL",
        "EPOCH",
        "PARTITIONS",
        "TARGET",
        "SUBSCRIBED",
        "PATTERN",
    ]);
    for member in members {
        table.row([
            member.member_id.clone(),
            member.instance_id.clone().unwrap_or_default(),
            member.client_id.clone(),
            member.host.clone(),
            member.rack.clone().unwrap_or_default(),
            member.protocol.to_owned(),
            number(member.member_epoch),
            member.partition_count.to_string(),
            number(member.target_partition_count),
            list(&member.subscribed_topics),
            member.subscribed_pattern.clone().unwrap_or_default(),
        ]);
    }
    table
}

/// The members of a streams group.
fn threads(members: &[Member]) -> Table {
    let mut table = Table::new(&[
        "MEMBER",
        "PROCESS",
        "CLIENT",
        "HOST",
        "EPOCH",
        "ACTIVE",
        "STANDBY",
        "WARMUP",
        "TARGET ACTIVE",
        "TARGET STANDBY",
    ]);
    for member in members {
        let Some(processing) = &member.processing else { continue };
        table.row([
            member.member_id.clone(),
            processing.process_id.clone(),
            member.client_id.clone(),
            member.host.clone(),
            number(member.member_epoch),
            list(&processing.active),
            list(&processing.standby),
            list(&processing.warmup),
            list(&processing.target_active),
            list(&processing.target_standby),
        ]);
    }
    table
}

fn subtopologies(subtopologies: &[Subtopology]) -> Table {
    let names =
        ["SUBTOPOLOGY", "SOURCES", "REPARTITION SOURCES", "REPARTITION SINKS", "CHANGELOGS"];
    let mut table = Table::new(&names);
    for part in subtopologies {
        table.row([
            part.subtopology.clone(),
            list(&part.source_topics),
            list(&part.repartition_source_topics),
            list(&part.repartition_sink_topics),
            list(&part.changelog_topics),
        ]);
    }
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
    use std::slice;

    use logway_model::BrokerId;

    use super::super::group_lag::Processing;
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
            target_partition_count: None,
            rack: None,
            member_epoch: None,
            protocol: "classic",
            subscribed_topics: Vec::new(),
            subscribed_pattern: None,
            processing: None,
        };
        let group = GroupLag {
            group: "billing".to_owned(),
            state: "Stable".to_owned(),
            group_type: "classic",
            protocol_type: "consumer".to_owned(),
            assignor: "range".to_owned(),
            group_epoch: None,
            assignment_epoch: None,
            topology_epoch: None,
            coordinator: BrokerId(1),
            coordinator_address: "127.0.0.1:9092".to_owned(),
            lag: Some(1400),
            lag_seconds: Some(12.34),
            members: vec![member("c-1", 2), member("c-2", 0)],
            subtopologies: Vec::new(),
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
        assert_eq!(render(slice::from_ref(&group), false), expected);
        let streams = GroupLag {
            group_epoch: Some(5),
            assignment_epoch: Some(4),
            topology_epoch: Some(0),
            members: vec![Member {
                member_epoch: Some(4),
                protocol: "streams",
                processing: Some(Processing {
                    process_id: "p".to_owned(),
                    active: vec!["0_0".to_owned(), "0_1".to_owned()],
                    standby: Vec::new(),
                    warmup: vec!["1_0".to_owned()],
                    target_active: vec!["0_0".to_owned()],
                    target_standby: Vec::new(),
                }),
                ..member("c-1", 2)
            }],
            subtopologies: vec![Subtopology {
                subtopology: "0".to_owned(),
                source_topics: vec!["orders".to_owned()],
                repartition_source_topics: Vec::new(),
                repartition_sink_topics: Vec::new(),
                changelog_topics: vec!["billing-store-changelog".to_owned()],
            }],
            ..group
        };
        let expected = "\
ASSIGNOR          range
GROUP EPOCH       5
ASSIGNMENT EPOCH  4
TOPOLOGY EPOCH    0
COORDINATOR       1 (127.0.0.1:9092)
MEMBERS           1
LAG               1,400
LAG SECONDS       12.3

MEMBER  PROCESS  CLIENT  HOST       EPOCH  ACTIVE   STANDBY  WARMUP  TARGET ACTIVE  TARGET STANDBY
c-1     p        c       127.0.0.1  4      0_0,0_1  -        1_0     0_0            -

SUBTOPOLOGY  SOURCES  REPARTITION SOURCES  REPARTITION SINKS  CHANGELOGS
0            orders   -                    -                  billing-store-changelog
";
        let text = render(&[streams], true);
        assert!(text.ends_with(expected), "{text}");
    }
}
