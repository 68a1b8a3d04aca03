//! The command line.
//!
//! One file per command. stdout carries data, stderr everything else; failures end with an
//! `error:` line, often a `hint:` line, and exit code 1, or 2 for wrong usage.

mod acl;
mod agent;
mod byte_encoding;
mod bytes_text;
mod cluster;
mod completions;
mod config;
mod connect;
mod consume;
mod delay;
mod deletion;
mod ends;
mod error;
mod escape;
mod group;
mod hint;
mod json_record;
mod kinesis;
mod live;
mod log;
mod man;
mod offset_spec;
mod output;
mod produce;
mod quantity;
mod record_format;
mod setting;
pub(crate) mod shapes;
mod template;
mod timestamp;
mod token;
mod topic;
mod topic_filter;
mod txn;
mod user;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use logway_client::cli::{BrokerArgs, GLOBAL_OPTIONS};

use self::error::CliError;
use self::hint::Subject;
use self::output::Format;
use crate::VERSION;
use crate::log::Style;
use crate::serve::{self, Prepared, ServeArgs};

/// Durable, partitioned log that speaks Kafka's protocol
///
/// Start a broker with `logway serve`; the other commands talk to any Kafka-compatible broker.
#[derive(Debug, Parser)]
#[command(name = "logway", version = VERSION, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
struct GlobalArgs {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    security: connect::SecurityArgs,
    /// How to print data: as tables, or as JSON, one document or a line per record
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

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<ServeArgs>),
    /// Create, list, describe, alter, trim and delete topics
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    Produce(produce::ProduceArgs),
    Consume(consume::ConsumeArgs),
    /// List, describe, move and delete consumer groups
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// List and describe transactions, and abort those that hang
    #[command(subcommand)]
    Txn(txn::TxnCommand),
    /// Show and change the settings of topics, brokers, groups and client metrics
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Create, list and delete users, and give them passwords
    #[command(subcommand)]
    User(user::UserCommand),
    /// Create, list, delete and check ACLs: who may do what
    #[command(subcommand)]
    Acl(acl::AclCommand),
    /// Create, list, renew and expire delegation tokens, which programs log in with for users
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Look at the cluster as a whole, and take nodes out of it
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Look after streams, as Kinesis clients see them
    #[command(subcommand)]
    Kinesis(kinesis::KinesisCommand),
    /// Run agents: events from where they arise to where they are wanted
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Look into a data directory without a broker, and repair it
    #[command(subcommand)]
    Log(log::LogCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// Carries a command out and reports how it went.
pub(crate) fn run(cli: Cli) -> ExitCode {
    let Cli { global, command } = cli;
    let subject = command.subject();
    // A broker's log is set up when its settings are known.
    if !matches!(command, Command::Serve(_))
        && let Err(why) = crate::log::init_for_command()
    {
        return CliError::Usage(why).report(&subject);
    }
    let outcome = match command {
        Command::Serve(args) => return run_broker(*args),
        Command::Topic(command) => in_runtime(topic::run(command, &global)),
        Command::Produce(args) => in_runtime(produce::run(args, &global)),
        Command::Consume(args) => in_runtime(consume::run(args, &global)),
        Command::Group(command) => in_runtime(group::run(command, &global)),
        Command::Txn(command) => in_runtime(txn::run(command, &global)),
        Command::Config(command) => in_runtime(config::run(command, &global)),
        Command::User(command) => in_runtime(user::run(command, &global)),
        Command::Acl(command) => in_runtime(acl::run(command, &global)),
        Command::Token(command) => in_runtime(token::run(command, &global)),
        Command::Cluster(command) => in_runtime(cluster::run(command, &global)),
        Command::Kinesis(command) => in_runtime(kinesis::run(command, &global)),
        Command::Agent(command) => in_runtime(agent::run(command, &global)),
        Command::Log(command) => log::run(command, &global),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(&subject),
    }
}

impl Command {
    /// What a failure would be about.
    fn subject(&self) -> Subject {
        match self {
            Command::Produce(args) => args.subject(),
            Command::Topic(command) => command.subject(),
            Command::Group(command) => command.subject(),
            _ => Subject::default(),
        }
    }
}

/// Of a broker that was removed from its cluster: supervisors need not start it again.
const REMOVED_EXIT_CODE: u8 = 3;

/// Runs a broker. Once its log is set up, what ends the broker is said there, as programs may read it.
fn run_broker(args: ServeArgs) -> ExitCode {
    let prepared = match Prepared::new(args) {
        Ok(prepared) => prepared,
        Err(error) => return with_advice(error).report(&Subject::default()),
    };
    let log_style = prepared.logs.style;
    let Err(error) = prepared.run() else { return ExitCode::SUCCESS };
    let was_removed = serve::was_removed(&error);
    let error = with_advice(error);
    let code = match log_style {
        Style::Text => error.report(&Subject::default()),
        _ => error.log(),
    };
    if was_removed { ExitCode::from(REMOVED_EXIT_CODE) } else { code }
}

/// Why a broker did not run, with what can be done about it.
fn with_advice(error: anyhow::Error) -> CliError {
    let advice = serve::advice(&error);
    let error = CliError::from(error);
    match advice {
        Some(advice) => error.with_hint(advice),
        None => error,
    }
}

/// Runs a command that talks to brokers. Its own future may block the main thread, on stdin or
/// stdout: what must go on meanwhile are tasks on the runtime's threads.
fn in_runtime(command: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| CliError::Io { what: "start the runtime".to_owned(), source })?
        .block_on(command)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
