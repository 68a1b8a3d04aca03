//! Puts numbers into a stream until the program's input ends: tests/cluster/kinesis_writers.py describes it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::error::DisplayErrorContext;
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;

use crate::{Outcome, config};

pub async fn write(arguments: &[String]) -> Outcome {
    let [endpoints, stream, batch, pause_ms] = arguments else {
        return Err("four arguments".into());
    };
    let (batch, pause) = (batch.parse::<usize>()?, Duration::from_millis(pause_ms.parse()?));
    let mut clients = Vec::new();
    for endpoint in endpoints.split(',') {
        clients.push(Client::from_conf(config(endpoint)?.build()));
    }
    let ended: JoinHandle<_> =
        tokio::spawn(async { tokio::io::stdin().read_to_end(&mut Vec::new()).await });
    let (mut number, mut node) = (0, 0);
    while !ended.is_finished() {
        let mut put = clients[node % clients.len()].put_records().stream_name(stream);
        for it in number..number + batch {
            let text = it.to_string();
            let entry =
                PutRecordsRequestEntry::builder().data(Blob::new(&*text)).partition_key(text);
            put = put.records(entry.build()?);
        }
        match put.send().await {
            Err(error) => {
                eprintln!("{}", DisplayErrorContext(&error));
                node += 1;
            }
            Ok(answer) => {
                node += usize::from(answer.failed_record_count.unwrap_or(0) > 0);
                let mut lines = String::new();
                for (it, record) in (number..).zip(answer.records) {
                    if let (Some(shard), Some(sequence)) = (record.shard_id, record.sequence_number)
                    {
                        writeln!(lines, "{shard} {sequence} {it}")?;
                    }
                }
                let mut out = std::io::stdout();
                out.write_all(lines.as_bytes())?;
                out.flush()?;
                tokio::time::sleep(pause).await;
            }
        }
        number += batch;
    }
    // The thread that reads the input does not keep the program.
    std::process::exit(0);
}
