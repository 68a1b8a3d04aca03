//! The command line.
//!
//! stdout carries data, stderr everything else; failures end with an `error:` line, often a `hint:` line, and exit
//! code 1, or 2 for wrong usage.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use logway_client::cli::{BrokerArgs, Format, GLOBAL_OPTIONS, joined_causes};
use tokio::signal::unix::{SignalKind, signal};

use crate::experiments::{self, Experiment, Outcome};
use crate::measure::Row;
use crate::null_broker::{self, NullArgs};
use crate::report::{self, PageArgs, TableArgs};
use crate::senders;

/// Measure Logway, other brokers that speak Kafka's protocol, and some that do not
///
/// With `--own` or `--against` it starts brokers on fresh directories; else it measures the one of `--brokers`.
#[derive(Debug, Parser)]
#[command(name = "logway-bench", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(mut_arg("brokers", |brokers| brokers.help("The broker to measure where none is started, as HOST:PORT")))]
struct GlobalArgs {
    #[command(flatten)]
    brokers: BrokerArgs,
    /// How to print results: as a table, or as a line of JSON for each run
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = GLOBAL_OPTIONS
    )]
    format: Format,
}

/// The experiments, what is printed of a finished one, and the broker to compare with that does nothing or
/// only stores.
#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Experiment(Box<Experiment>),
    Table(TableArgs),
    Page(PageArgs),
    Null(NullArgs),
    /// Be one of the processes that send, for the experiment that started this one
    #[command(hide = true)]
    Sender,
}

/// Why a command did not do what was asked.
enum Failure {
    /// The command makes no sense as given.
    Usage(String),
    /// stdout does not take what is written to it.
    Output(io::Error),
    /// Anything else.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Other(error)
    }
}

/// Does what a command line says, and reports how it went.
pub(crate) fn run(cli: Cli) -> ExitCode {
    match carry_out(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn carry_out(Cli { global, command }: Cli) -> Result<(), Failure> {
    let experiment = match command {
        Command::Experiment(experiment) => experiment,
        Command::Table(args) => return print(&report::table(&args)?),
        Command::Page(args) => return print(&report::page(&args)?),
        Command::Null(args) => {
            let on_ready = |address: &str| {
                // A reader that is gone is no reason not to serve.
                let _ = print(&format!("ready kafka={address}\n"));
            };
            return Ok(null_broker::serve(&args, on_ready)?);
        }
        Command::Sender => {
            // The process that started this one hears how it went. If it is gone, nobody wants to know.
            let _ = senders::serve_sender(io::stdin(), io::stdout());
            return Ok(());
        }
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| anyhow::anyhow!("cannot start the runtime: {error}"))?;
    runtime.block_on(measure(&experiment, &global))
}

/// Carries an experiment out, and prints each result as soon as it is there. When it is asked to end, the brokers that
/// were started for it end first, and what was measured is reported.
async fn measure(experiment: &Experiment, global: &GlobalArgs) -> Result<(), Failure> {
    let brokers = global.brokers.addresses().map_err(Failure::Usage)?;
    let (mut printed, mut is_headed) = (Ok(()), global.format != Format::Text);
    let mut on_row = |row: &Row| {
        if printed.is_ok() && !std::mem::replace(&mut is_headed, true) {
            printed = print(report::HEADING);
        }
        if printed.is_ok() {
            printed = print_row(row, global.format);
        }
    };
    let Outcome { report, ended_early } =
        experiments::run(experiment, &brokers, &mut on_row, interrupted()).await;
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

fn print_row(row: &Row, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => {
            let json = serde_json::to_string(row).map_err(anyhow::Error::from)?;
            print(&format!("{json}\n"))
        }
        Format::Text => print(&report::line(row)),
    }
}

/// Prints text that is complete with its line ends.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::Output)
}

impl Failure {
    /// Says what went wrong on stderr, and returns the process's exit code.
    fn report(self) -> ExitCode {
        match self {
            // Who read our output has seen enough.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            Failure::Usage(text) => {
                complain(text);
                return ExitCode::from(2);
            }
            Failure::Output(error) => complain(format_args!("cannot write to stdout: {error}")),
            Failure::Other(error) => complain(joined_causes(error.chain())),
        }
        ExitCode::FAILURE
    }
}

/// A terminal that is gone is no reason to end otherwise.
fn complain(what: impl Display) {
    let _ = writeln!(io::stderr(), "error: {what}");
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
