//! `logway config`: settings of whatever has some.

mod alter;
mod describe;
mod list;

use clap::{Args, Subcommand};
use logway_client::{ConfigKind, ConfigResource};

use super::GlobalArgs;
use super::error::CliError;
use super::setting::Setting;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    List(list::ListArgs),
    Describe(describe::DescribeArgs),
    Set(alter::SetArgs),
    Delete(alter::DeleteArgs),
}

/// Carries a command out.
pub(super) async fn run(command: ConfigCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        ConfigCommand::List(args) => list::run(args, global).await,
        ConfigCommand::Describe(args) => describe::run(args, global).await,
        ConfigCommand::Set(args) => alter::set(args, global).await,
        ConfigCommand::Delete(args) => alter::delete(args, global).await,
    }
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<Vec<list::Row>>("config list"),
        Shape::document::<Vec<Setting>>("config describe"),
        Shape::document::<alter::Altered>("config set"),
        Shape::document::<alter::Deleted>("config delete"),
    ]
}

/// Whose settings.
#[derive(Debug, Args)]
struct ResourceArgs {
    /// What it is: topic, broker, group or client-metrics
    #[arg(value_parser = parse_kind)]
    kind: ConfigKind,
    /// Its name; a broker's is its number, and 'default' is what all brokers share
    name: String,
}

impl ResourceArgs {
    /// The protocol calls what all brokers share by no name.
    fn resource(self) -> Result<ConfigResource, CliError> {
        let ResourceArgs { kind, name } = self;
        let is_number = name.parse::<u32>().is_ok();
        match (kind, &*name) {
            (ConfigKind::Broker, "default") => Ok(ConfigResource { kind, name: String::new() }),
            (ConfigKind::Broker, _) if !is_number => Err(CliError::Usage(format!(
                "'{name}' is neither a broker's number nor 'default', which is what all brokers share"
            ))),
            _ => Ok(ConfigResource { kind, name }),
        }
    }
}

fn parse_kind(text: &str) -> Result<ConfigKind, String> {
    let kind = ConfigKind::ALL.into_iter().find(|kind| kind.name() == text);
    kind.ok_or_else(|| "expected topic, broker, group or client-metrics".to_owned())
}
