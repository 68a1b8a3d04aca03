//! `logway kinesis partitioner`.

use clap::Args;

use crate::cli::error::CliError;
use crate::cli::output;

/// Print a partitioner for Kafka producers in Java
///
/// Kafka's own partitioner goes by murmur2, and knows nothing of shards. This one puts a record into the open shard that PutRecord puts
/// its key into. Compile it into a program, and give its producers partitioner.class=io.logway.kinesis.KinesisPartitioner and
/// kinesis.endpoint=http://HOST:PORT. The comment at its class has the other settings. In other languages: take MD5 of the key as a number of 128 bits,
/// and the partition of the shard of ListShards (ShardFilter AT_LATEST) that has this number in its range.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  logway kinesis partitioner > src/main/java/io/logway/kinesis/KinesisPartitioner.java")]
pub(in crate::cli) struct PartitionerArgs {}

const SOURCE: &str = include_str!("../../../java/io/logway/kinesis/KinesisPartitioner.java");

pub(super) fn run(_args: &PartitionerArgs) -> Result<(), CliError> {
    output::print(SOURCE)
}
