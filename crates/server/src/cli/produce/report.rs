//! What has been produced, in words and numbers.

use std::time::Duration;

use logway_client::{Acks, ProduceSummary};
use logway_model::TopicName;
use serde::Serialize;

use crate::cli::quantity::{bytes, count};

/// What has been produced, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    topic: &'a TopicName,
    records: u64,
    bytes: u64,
    batches: u64,
    seconds: f64,
    partitions: Vec<PartitionReport>,
}

#[derive(Debug, Serialize)]
struct PartitionReport {
    partition: i32,
    records: u64,
    first_offset: Option<i64>,
    last_offset: Option<i64>,
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
    let records = match summary.records {
        1 => "1 record".to_owned(),
        records => format!("{} records", count(records)),
    };
    let seconds = elapsed.as_secs_f64().max(1e-6);
    let rate = count((summary.records as f64 / seconds) as u64);
    let byte_rate = bytes((summary.bytes as f64 / seconds) as u64);
    format!(
        "{verb} {records} ({}) to '{topic}' in {seconds:.3} s: {rate} records/s, {byte_rate}/s",
        bytes(summary.bytes)
    )
}

/// The same as data.
pub(super) fn json<'a>(
    topic: &'a TopicName,
    summary: &ProduceSummary,
    elapsed: Duration,
) -> Report<'a> {
    let partitions = summary.partitions.iter().map(|(id, partition)| PartitionReport {
        partition: id.0,
        records: partition.records,
        first_offset: partition.first_offset.map(|offset| offset.0),
        last_offset: partition.last_offset.map(|offset| offset.0),
    });
    Report {
        topic,
        records: summary.records,
        bytes: summary.bytes,
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
        let json = serde_json::to_string(&json(&topic, &summary, elapsed)).expect("serializable");
        assert_eq!(
            json,
            r#"{"topic":"t","records":2000,"bytes":4096,"batches":3,"seconds":0.5,"partitions":[{"partition":1,"records":2000,"first_offset":7,"last_offset":2006}]}"#
        );
    }
}
