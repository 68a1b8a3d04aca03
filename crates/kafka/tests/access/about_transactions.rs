//! Transactions.

use logway_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use logway_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use logway_wire::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, DescribeTransactionsRequest, DescribeTransactionsResponse,
    EndTxnRequest, EndTxnResponse, ListTransactionsRequest, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
};

use super::common::probe::Probe;
use super::{CLUSTER, TRANSACTIONAL_ID};

const WRITE: &str = "Write TransactionalId(tx)";

pub(crate) async fn refused(probe: &mut Probe) {
    partitions(probe).await;

    let add = |_| AddOffsetsToTxnRequest {
        transactional_id: "tx".into(),
        group_id: "named-group".into(),
        ..Default::default()
    };
    let added = |_, response: AddOffsetsToTxnResponse| vec![response.error_code];
    probe.told(add, added, TRANSACTIONAL_ID, WRITE).await;

    let commit = |_| TxnOffsetCommitRequest {
        transactional_id: "tx".into(),
        group_id: "named-group".into(),
        topics: vec![TxnOffsetCommitRequestTopic {
            name: "named".into(),
            partitions: vec![TxnOffsetCommitRequestPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let committed = |_, response: TxnOffsetCommitResponse| {
        response.topics[0].partitions.iter().map(|partition| partition.error_code).collect()
    };
    probe.told(commit, committed, TRANSACTIONAL_ID, WRITE).await;

    let end = |_| EndTxnRequest { transactional_id: "tx".into(), ..Default::default() };
    let ended = |_, response: EndTxnResponse| vec![response.error_code];
    probe.told(end, ended, TRANSACTIONAL_ID, WRITE).await;

    let describe = |_| DescribeTransactionsRequest {
        transactional_ids: vec!["tx".into()],
        ..Default::default()
    };
    let described = |_, response: DescribeTransactionsResponse| {
        assert!(response.transaction_states[0].transaction_state.is_empty());
        response.transaction_states.iter().map(|state| state.error_code).collect()
    };
    let asked = "Describe TransactionalId(tx)";
    probe.told(describe, described, TRANSACTIONAL_ID, asked).await;

    for version in 0..=2 {
        let (response, _) = probe.ask(&ListTransactionsRequest::default(), version).await;
        assert_eq!((response.error_code, response.transaction_states.len()), (0, 0));
    }
}

async fn partitions(probe: &mut Probe) {
    let topics = || {
        let topic = AddPartitionsToTxnTopic {
            name: "named".into(),
            partitions: vec![0],
            ..Default::default()
        };
        vec![topic]
    };
    let of_client = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: "tx".into(),
        v3_and_below_topics: topics(),
        ..Default::default()
    };
    for version in 0..=3 {
        let (response, asked) = probe.ask(&of_client, version).await;
        let told = &response.results_by_topic_v3_and_below[0].results_by_partition;
        let codes: Vec<i16> = told.iter().map(|told| told.partition_error_code).collect();
        assert_eq!((codes, asked.as_str()), (vec![TRANSACTIONAL_ID.code()], WRITE));
    }
    let of_broker = |_| AddPartitionsToTxnRequest {
        transactions: vec![AddPartitionsToTxnTransaction {
            transactional_id: "tx".into(),
            topics: topics(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let told = |_, response: AddPartitionsToTxnResponse| {
        assert!(response.results_by_transaction.is_empty());
        vec![response.error_code]
    };
    probe.told_from(4, of_broker, told, CLUSTER, "ClusterAction Cluster").await;
}
