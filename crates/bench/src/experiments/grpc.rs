//! The log service: many appenders over few or many streams, and one sequential reader, as `appends` has them over Kafka's protocol.

use anyhow::ensure;
use clap::Args;
use logway_client::BrokerAddress;

use crate::load::{FetchLoad, GrpcAppendLoad, GrpcReadLoad, Reading};
use crate::measure::Durability;
use crate::session::{Session, SessionArgs, values};
use crate::works;

const EXPERIMENT: &str = "grpc";

/// The experiment `grpc`.
#[derive(Debug, Clone, Args)]
pub(crate) struct GrpcArgs {
    #[command(flatten)]
    pub(super) grpc: Grpc,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// How many appenders share how many streams.
#[derive(Debug, Clone, Args)]
pub(super) struct Grpc {
    /// How many streams the appenders share, each on a connection of its own; one run for each number
    #[arg(long, value_delimiter = ',', value_parser = values::many(), default_value = "1,4,16,64,128")]
    streams: Vec<usize>,
    /// Appenders
    #[arg(long, value_parser = values::many(), default_value_t = 128)]
    appenders: usize,
    /// Bytes of each record's value
    #[arg(long, value_parser = values::size(), default_value_t = 2048)]
    record_bytes: usize,
    /// Whether brokers sync before they acknowledge
    #[arg(long, value_enum, value_delimiter = ',', default_value = "synced")]
    durability: Vec<Durability>,
    /// Where a broker that runs already has its log service
    #[arg(long, value_name = "HOST:PORT")]
    log_service: Option<BrokerAddress>,
    /// Leave out the reads of what --preload-megabytes says, from memory and from the disk
    #[arg(long)]
    no_reads: bool,
}

impl Grpc {
    /// Whether appenders can be dealt out to streams.
    ///
    /// # Errors
    ///
    /// Some would have more than others.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for &streams in &self.streams {
            ensure!(
                self.appenders.is_multiple_of(streams),
                "{} appenders cannot share {streams} streams evenly",
                self.appenders,
            );
        }
        Ok(())
    }
}

pub(super) async fn run(session: &mut Session<'_>, args: &Grpc) -> anyhow::Result<()> {
    for &streams in &args.streams {
        for &durability in &args.durability {
            let load = GrpcAppendLoad {
                given: args.log_service.clone(),
                record_bytes: args.record_bytes,
                streams,
                in_flight: args.appenders / streams,
                durability,
            };
            let work = works::appenders_over_streams(args.appenders, streams);
            session.measure(EXPERIMENT, &work, &load).await?;
        }
    }
    if args.no_reads {
        return Ok(());
    }
    for (reading, state) in [(Reading::Cached, "cached"), (Reading::Uncached, "uncached")] {
        let work = format!("long read, {state}");
        if reading == Reading::Uncached && !session.is_own() {
            for side in session.side_names() {
                let reason = "was running before, and its files are not touched";
                session.omit((EXPERIMENT, &work), &side, reason);
            }
            continue;
        }
        let like = FetchLoad { reading, ..FetchLoad::default() };
        let load = GrpcReadLoad { given: args.log_service.clone(), like };
        session.measure_brokers(EXPERIMENT, &work, &load).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        grpc: Grpc,
    }

    #[test]
    fn appenders_are_dealt_out_evenly() {
        let check = |streams| {
            let line = ["bench", "--appenders", "12", "--streams", streams];
            CommandLine::try_parse_from(line).expect("arguments").grpc.check()
        };
        check("1,3,12").expect("12, 4 and 1 on each");
        let error = check("1,5").expect_err("is uneven").to_string();
        assert!(error.contains("12 appenders cannot share 5 streams"), "{error}");
    }
}
