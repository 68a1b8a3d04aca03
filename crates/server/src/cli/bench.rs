//! `logway bench`: measure brokers.

use std::io::{self, Write};

use clap::Subcommand;
use logway_bench::{Experiment, NullArgs, Outcome, Row, TableArgs};
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
    /// Be one of the processes that send, for the experiment that started this one
    #[command(hide = true)]
    Sender,
}

/// Carries an experiment out, printing each result when it is there. When it is asked to end, the brokers that were
/// started for it end first, and what was measured is reported.
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
        BenchCommand::Sender => {
            // Who started it and does not hear how it went is gone, and with it who would want to know.
            let _ = logway_bench::serve_sender(io::stdin(), io::stdout());
            return Ok(());
        }
    };
    let brokers = global.brokers.addresses()?;
    let (mut printed, mut is_headed) = (Ok(()), global.format != Format::Text);
    let mut on_row = |row: &Row| {
        if printed.is_ok() && !std::mem::replace(&mut is_headed, true) {
            printed = print(logway_bench::HEADING);
        }
        if printed.is_ok() {
            printed = print_row(row, global.format);
        }
    };
    let Outcome { report, ended_early } =
        logway_bench::run(&experiment, &brokers, &mut on_row, interrupted()).await;
    if let Some(report) = report {
        if global.format == Format::Text && printed.is_ok() {
            printed = print(&report.summary());
        }
        let path = report.output.join("report.html");
        // A terminal that is gone is no reason to end otherwise.
        let _ = writeln!(io::stderr(), "the report is {}", path.display());
    }
    match ended_early {
        Some(error) => Err(error.into()),
        None => printed,
    }
}

fn print_row(row: &Row, format: Format) -> Result<(), CliError> {
    match format {
        Format::Json => print(&json_line(row)?),
        Format::Text => print(&logway_bench::line(row)),
    }
}

/// Completes when the process is asked to end, or its terminal is gone.
async fn interrupted() -> &'static str {
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup), Ok(mut quit)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
        signal(SignalKind::quit()),
    ) else {
        // The system's own handling stays in place.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => "ended by SIGTERM",
        _ = interrupt.recv() => "ended by Ctrl-C",
        _ = hangup.recv() => "ended with its terminal",
        _ = quit.recv() => "ended by SIGQUIT",
    }
}
