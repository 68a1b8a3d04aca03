//! `logway bench`: measure brokers.

use clap::Subcommand;
use logway_bench::{Experiment, NullArgs, Row, TableArgs};
use tokio::signal::unix::{SignalKind, signal};

use super::GlobalArgs;
use super::error::CliError;
use super::output::{Format, json_line, print};

/// The experiments, the table of a finished one, and the broker to compare with that does nothing or
/// only stores.
#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    #[command(flatten)]
    Experiment(Box<Experiment>),
    Table(TableArgs),
    Null(NullArgs),
}

/// Carries an experiment out, printing each result when it is there. On Ctrl-C and SIGTERM the
/// brokers that were started for it are ended first.
pub(super) async fn run(command: BenchCommand, global: &GlobalArgs) -> Result<(), CliError> {
    let experiment = match command {
        BenchCommand::Experiment(experiment) => experiment,
        BenchCommand::Table(args) => return print(&logway_bench::table(&args)?),
        BenchCommand::Null(args) => {
            return Ok(logway_bench::serve_null(&args, |address| {
                // A reader that is gone is no reason not to serve.
                let _ = print(&format!("ready kafka={address}\n"));
            })?);
        }
    };
    let brokers = global.brokers.addresses()?;
    if global.format == Format::Text {
        print(logway_bench::HEADING)?;
    }
    let mut printed = Ok(());
    let mut on_row = |row: &Row| {
        if printed.is_ok() {
            printed = print_row(row, global.format);
        }
    };
    let measuring = logway_bench::run(&experiment, &brokers, &mut on_row);
    let report = tokio::select! {
        report = measuring => report?,
        name = interrupted() => return Err(CliError::Other(anyhow::anyhow!("{name}"))),
    };
    printed?;
    if global.format == Format::Text {
        print(&report.summary())?;
    }
    eprintln!("the report is {}", report.output.join("report.html").display());
    Ok(())
}

fn print_row(row: &Row, format: Format) -> Result<(), CliError> {
    match format {
        Format::Json => print(&json_line(row)?),
        Format::Text => print(&logway_bench::line(row)),
    }
}

/// Completes when the process is asked to end.
async fn interrupted() -> &'static str {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // The system's own handling stays in place.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => "ended by SIGTERM",
        _ = interrupt.recv() => "ended by Ctrl-C",
    }
}
