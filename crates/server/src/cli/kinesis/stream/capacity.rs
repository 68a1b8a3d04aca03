//! `logway kinesis stream capacity`: how many shards a load takes.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// What AWS's shards take in and give out in a second.
const SHARD_RECORDS: u64 = 1_000;
const SHARD_WRITTEN_KIB: u64 = 1_024;
const SHARD_READ_KIB: u64 = 2_048;

/// Say how many shards a load takes
///
/// It is the calculation of AWS's console: a shard takes 1,000 records and 1 MiB a second, and gives out 2 MiB a second to all
/// consumers together. Records are rounded up to whole KiB. Shards here have these limits only where `kinesis.shard.*` sets them.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  logway kinesis stream capacity --records-per-second 5000 --record-bytes 700 --consumers 3")]
pub(in crate::cli) struct CapacityArgs {
    /// Records that are put in a second, at the peak
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records_per_second: u64,
    /// The size of a record, data and key, in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=10 << 20))]
    record_bytes: u64,
    /// Applications that read all of it with GetRecords; those with fan-out have a throughput of their own
    #[arg(long, value_name = "N", default_value_t = 1)]
    consumers: u64,
}

/// The same where the number of shards can be given instead.
#[derive(Debug, Args)]
pub(super) struct ShardsArgs {
    /// How many shards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    shards: Option<u64>,
    /// As many shards as so many records in a second take; needs --record-bytes
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "shards",
        requires = "record_bytes",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    records_per_second: Option<u64>,
    /// The size of a record, data and key, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        requires = "records_per_second",
        value_parser = clap::value_parser!(u64).range(1..=10 << 20)
    )]
    record_bytes: Option<u64>,
    /// Applications that read all of it with GetRecords
    #[arg(long, value_name = "N", requires = "records_per_second", default_value_t = 1)]
    consumers: u64,
}

impl ShardsArgs {
    /// The number of shards, if one is given or follows from the load.
    pub(super) fn count(&self) -> Option<u64> {
        match (self.records_per_second, self.record_bytes) {
            (Some(records), Some(bytes)) => {
                Some(Capacity::of(records, bytes, self.consumers).shards)
            }
            _ => self.shards,
        }
    }
}

/// How many shards a load takes.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Capacity {
    /// As many as the greatest of the others
    shards: u64,
    /// For the number of records
    by_records: u64,
    /// For the bytes that are put
    by_written_bytes: u64,
    /// For the bytes that all consumers read
    by_read_bytes: u64,
}

impl Capacity {
    fn of(records: u64, record_bytes: u64, consumers: u64) -> Capacity {
        let written_kib = records.saturating_mul(record_bytes.div_ceil(1 << 10));
        let by_records = records.div_ceil(SHARD_RECORDS);
        let by_written_bytes = written_kib.div_ceil(SHARD_WRITTEN_KIB);
        let by_read_bytes = written_kib.saturating_mul(consumers).div_ceil(SHARD_READ_KIB);
        let shards = by_records.max(by_written_bytes).max(by_read_bytes).max(1);
        Capacity { shards, by_records, by_written_bytes, by_read_bytes }
    }
}

pub(super) fn run(args: &CapacityArgs, format: Format) -> Result<(), CliError> {
    let capacity = Capacity::of(args.records_per_second, args.record_bytes, args.consumers);
    if format == Format::Json {
        return output::print_json(&capacity);
    }
    let mut table = Table::new(&["SHARDS", "BY RECORDS", "BY WRITTEN BYTES", "BY READ BYTES"]);
    let Capacity { shards, by_records, by_written_bytes, by_read_bytes } = capacity;
    table.row([shards, by_records, by_written_bytes, by_read_bytes].map(|it| it.to_string()));
    output::print(&table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_need_decides() {
        for (records, bytes, consumers, shards) in [
            (1, 1, 1, 1),
            (1_000, 1_000, 2, 1),
            (1_001, 1, 1, 2),
            (5_000, 700, 3, 8),
            (1_000, 1_025, 1, 2),
            (100, 50 << 10, 1, 5),
            (1_000, 1_024, 5, 3),
            (1_000, 1_024, 0, 1),
        ] {
            let capacity = Capacity::of(records, bytes, consumers);
            assert_eq!(capacity.shards, shards, "{records} of {bytes}, {consumers} consumers");
        }
        assert_eq!(Capacity::of(u64::MAX, 1 << 20, u64::MAX).by_read_bytes, (1 << 53));
    }
}
