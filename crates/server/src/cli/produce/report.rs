//! What has been produced, in words and numbers.

use std::time::Duration;

use logway_client::{Acks, CommittedTransactions, ProduceSummary, Unacknowledged};
use logway_model::TopicName;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::quantity::{bytes, count};

/// What was acknowledged; printed after an error as well, if anything was sent.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct Report<'a> {
    topic: &'a str,
    /// Records that were acknowledged
    records: u64,
    /// Records that the broker refused, and whose error says why. After a disk has failed, some may
    /// be there when the broker starts again
    refused_records: u64,
    /// Records that were read and never sent
    unsent_records: u64,
    /// Records that were sent, and no answer says whether they are stored
    unanswered_records: u64,
    /// Records of transactions that were committed; `null` without `--transactional-id`
    committed_records: Option<u64>,
    /// Transactions that were committed; `null` without `--transactional-id`
    committed_transactions: Option<u64>,
    /// Bytes of the batches before compression
    size_bytes: u64,
    batches: u64,
    seconds: f64,
    partitions: Vec<PartitionReport>,
}

/// What was acknowledged in one partition.
#[derive(Debug, Serialize, JsonSchema)]
struct PartitionReport {
    partition: i32,
    records: u64,
    /// `null` with `--acks 0`
    first_offset: Option<i64>,
    /// Inclusive; records of others may lie in between
    last_offset: Option<i64>,
}

/// What a producer has counted.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) summary: ProduceSummary,
    pub(super) unacknowledged: Unacknowledged,
    pub(super) committed: Option<CommittedTransactions>,
}

/// What has been produced, for people.
pub(super) fn line(
    topic: &TopicName,
    acks: Acks,
    summary: &ProduceSummary,
    elapsed: Duration,
) -> String {
    let verb = match acks {
        Acks::None => "sent",
        Acks::Leader | Acks::All => "produced",
    };
    let records = count_of_records(summary.records);
    let seconds = elapsed.as_secs_f64().max(1e-6);
    let rate = count((summary.records as f64 / seconds) as u64);
    let byte_rate = bytes((summary.bytes as f64 / seconds) as u64);
    format!(
        "{verb} {records} ({}) to '{topic}' in {seconds:.3} s: {rate} records/s, {byte_rate}/s",
        bytes(summary.bytes)
    )
}

/// What is known of the rest, for people: a line for each kind that there is.
pub(super) fn unacknowledged_lines(unacknowledged: &Unacknowledged) -> Vec<String> {
    let Unacknowledged { refused_records, unsent_records, unanswered_records } = *unacknowledged;
    [
        (refused_records, "refused by the broker"),
        (unsent_records, "read and never sent"),
        (unanswered_records, "sent and not acknowledged: stored or not, nobody can say"),
    ]
    .into_iter()
    .filter(|(records, _)| *records > 0)
    .map(|(records, what)| {
        let verb = if records == 1 { "was" } else { "were" };
        format!("{} more {verb} {what}", count_of_records(records))
    })
    .collect()
}

/// What has been committed, for people.
pub(super) fn committed_line(committed: &CommittedTransactions) -> String {
    let records = count_of_records(committed.records);
    match committed.transactions {
        1 => format!("committed 1 transaction of {records}"),
        transactions => format!("committed {} transactions of {records}", count(transactions)),
    }
}

fn count_of_records(records: u64) -> String {
    match records {
        1 => "1 record".to_owned(),
        records => format!("{} records", count(records)),
    }
}

/// The same as data.
pub(super) fn json<'a>(topic: &'a TopicName, counted: &Counted, elapsed: Duration) -> Report<'a> {
    let Counted { summary, unacknowledged, committed } = counted;
    let partitions = summary.partitions.iter().map(|(id, partition)| PartitionReport {
        partition: id.0,
        records: partition.records,
        first_offset: partition.first_offset.map(|offset| offset.0),
        last_offset: partition.last_offset.map(|offset| offset.0),
    });
    Report {
        topic: topic.as_str(),
        records: summary.records,
        refused_records: unacknowledged.refused_records,
        unsent_records: unacknowledged.unsent_records,
        unanswered_records: unacknowledged.unanswered_records,
        committed_records: committed.map(|committed| committed.records),
        committed_transactions: committed.map(|committed| committed.transactions),
        size_bytes: summary.bytes,
        batches: summary.batches,
        seconds: elapsed.as_secs_f64(),
        partitions: partitions.collect(),
    }
}

#[cfg(test)]
mod tests {
    use logway_client::PartitionSummary;
    use logway_model::{Offset, PartitionId};

    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let topic = TopicName::new("t").expect("a name");
        let partition = PartitionSummary {
            records: 2000,
            first_offset: Some(Offset(7)),
            last_offset: Some(Offset(2006)),
        };
        let summary = ProduceSummary {
            records: 2000,
            bytes: 4096,
            batches: 3,
            partitions: [(PartitionId(1), partition)].into(),
        };
        let elapsed = Duration::from_millis(500);
        assert_eq!(
            line(&topic, Acks::All, &summary, elapsed),
            "produced 2,000 records (4.0 KiB) to 't' in 0.500 s: 4,000 records/s, 8.0 KiB/s"
        );
        let unacknowledged =
            Unacknowledged { refused_records: 1, unsent_records: 0, unanswered_records: 3000 };
        assert_eq!(
            unacknowledged_lines(&unacknowledged),
            [
                "1 record more was refused by the broker",
                "3,000 records more were sent and not acknowledged: stored or not, nobody can say"
            ]
        );
        let committed = CommittedTransactions { transactions: 2, records: 1500 };
        assert_eq!(committed_line(&committed), "committed 2 transactions of 1,500 records");
        let counted = Counted { summary, unacknowledged, committed: Some(committed) };
        let json = serde_json::to_string(&json(&topic, &counted, elapsed)).expect("serializable");
        assert_eq!(
            json,
            r#"{"topic":"t","records":2000,"refused_records":1,"unsent_records":0,"unanswered_records":3000,"committed_records":1500,"committed_transactions":2,"size_bytes":4096,"batches":3,"seconds":0.5,"partitions":[{"partition":1,"records":2000,"first_offset":7,"last_offset":2006}]}"#
        );
    }
}
