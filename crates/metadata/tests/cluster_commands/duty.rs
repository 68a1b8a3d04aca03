//! Nodes that are to lead nothing, or to leave.

use logway_metadata::Duty;

use super::*;

const DUTY: &str = "logway.node.duty";

pub(super) fn set_duty(
    cluster: &mut Cluster,
    resource: ConfigResource,
    duty: Option<&str>,
) -> Result<(), ErrorCode> {
    let kind = if duty.is_some() { OperationKind::Set } else { OperationKind::Delete };
    let (name, value) = (DUTY.to_owned(), duty.map(str::to_owned));
    let operations = vec![ConfigOperation { name, kind, value }];
    let resources = vec![ResourceOperations { resource, operations }];
    let command = IncrementalAlterConfigs { resources, validate_only: false };
    let mut reply = cluster.submit(command).expect("is judged");
    reply.remove(0).map_err(|refusal| refusal.code)
}

fn let_follow(cluster: &mut Cluster, id: i32) {
    set_duty(cluster, ConfigResource::Broker(BrokerId(id)), Some("follow")).expect("is set");
}

/// Has done what the controller does by itself. Says for how many partitions.
fn relieve(cluster: &mut Cluster) -> usize {
    let command = ElectLeaders::of_relieved(&cluster.image);
    let count = command.partitions.len();
    let reply = cluster.submit(command).expect("is judged");
    assert!(reply.iter().all(Result::is_ok), "{reply:?}");
    count
}

#[test]
fn who_is_drained_leads_nothing_and_stays_in_sync() {
    let mut cluster = three();
    let leader = cluster.state().0.expect("leads");
    assert_eq!(relieve(&mut cluster), 0, "all are there to lead");
    let_follow(&mut cluster, leader);
    assert_eq!(relieve(&mut cluster), 1);
    let (other, epoch, isr) = cluster.state();
    assert!(other.is_some_and(|other| other != leader));
    assert_eq!((epoch, isr.len()), (1, 3));
    assert_eq!(relieve(&mut cluster), 0);
    let preferred = ElectLeaders::of_ready_preferred(&cluster.image);
    assert_eq!(preferred.partitions, [], "the preferred leader is not there to lead");
    let command = ElectLeaders { partitions: vec![(TOPIC, PARTITION)], ..preferred };
    let refusal = cluster.submit(command).expect("is judged").remove(0).expect_err("is refused");
    assert_eq!(refusal.code, ErrorCode::PreferredLeaderNotAvailable);
}

#[test]
fn who_is_drained_leads_where_nobody_else_can() {
    let mut cluster = three();
    let leader = cluster.state().0.expect("leads");
    let others: Vec<i32> = (1..=3).filter(|id| *id != leader).collect();
    let_follow(&mut cluster, leader);
    let_follow(&mut cluster, others[0]);
    relieve(&mut cluster);
    assert_eq!(cluster.state().0, Some(others[1]));
    cluster.fence(others[1]);
    assert!(cluster.state().0.is_some(), "better than nobody");
    assert_eq!(relieve(&mut cluster), 0, "nobody else is in sync");
}

#[test]
fn a_start_ends_a_drain_and_no_leaving() {
    let mut cluster = three();
    let_follow(&mut cluster, 1);
    let leaving = ConfigResource::Broker(BrokerId(2));
    set_duty(&mut cluster, leaving, Some("leave")).expect("is set");
    for id in [1, 2] {
        cluster.start(id, None, 9).expect("starts");
    }
    assert_eq!(cluster.image.duty(BrokerId(1)), Duty::All);
    assert_eq!(cluster.image.duty(BrokerId(2)), Duty::Leave);
    let command = RemoveBroker { directory: None, ..removal(2) };
    cluster.submit(command).expect("is removed");
    assert_eq!(cluster.image.duty(BrokerId(2)), Duty::All, "another node may get the number");
}

#[test]
fn who_is_to_leave_gets_no_new_replicas() {
    let mut cluster = Cluster::of(&[(1, None), (2, None), (3, None), (4, None)]);
    let resource = ConfigResource::Broker(BrokerId(4));
    set_duty(&mut cluster, resource, Some("leave")).expect("is set");
    cluster.create(8, 3);
    for number in 0..8 {
        assert!(!cluster.partition(number).replicas.contains(&BrokerId(4)));
    }
}

#[test]
fn a_duty_is_of_one_node() {
    let mut cluster = three();
    let refusal = set_duty(&mut cluster, ConfigResource::BrokerDefault, Some("follow"));
    assert_eq!(refusal, Err(ErrorCode::InvalidConfig));
    let resource = ConfigResource::Broker(BrokerId(1));
    let refusal = set_duty(&mut cluster, resource, Some("sleep"));
    assert_eq!(refusal, Err(ErrorCode::InvalidRequest));
}
