//! `logway bench`: measure a broker.

use clap::Subcommand;
use logway_bench::appends::{self, AppendsArgs, AppendsRow};

use super::GlobalArgs;
use super::error::CliError;
use super::output::{Format, print};

/// The experiments.
#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    Appends(AppendsArgs),
}

/// Carries an experiment out, printing each result when it is there.
pub(super) async fn run(command: BenchCommand, global: &GlobalArgs) -> Result<(), CliError> {
    let BenchCommand::Appends(args) = command;
    let brokers = global.brokers.addresses()?;
    let mut printed = Ok(());
    if global.format == Format::Text {
        print("connections  appends/s  p50 ms  p99 ms   max ms\n")?;
    }
    appends::run(&brokers, &args, |row| {
        if printed.is_ok() {
            printed = print(&line(row, global.format));
        }
    })
    .await?;
    printed
}

fn line(row: &AppendsRow, format: Format) -> String {
    match format {
        Format::Json => {
            let json = serde_json::to_string(row).expect("a row is numbers");
            format!("{json}\n")
        }
        Format::Text => {
            let ms = |us: u64| us as f64 / 1000.0;
            let AppendsRow { connections, appends_per_second, p50_us, p99_us, max_us, .. } = row;
            let (p50_ms, p99_ms, max_ms) = (ms(*p50_us), ms(*p99_us), ms(*max_us));
            format!(
                "{connections:11}  {appends_per_second:9.0}  {p50_ms:6.2}  {p99_ms:6.2}  {max_ms:7.2}\n"
            )
        }
    }
}
