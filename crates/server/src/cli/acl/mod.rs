//! `logway acl`: who may do what.

mod change;
mod check;
mod list;

use clap::{Args, Subcommand};
use logway_metadata::acl::{
    Acl, AclFilter, AclOperation, CLUSTER_NAME, PatternFilter, PatternType, ResourceType, WILDCARD,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::GlobalArgs;
use super::error::CliError;
use super::output::Table;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum AclCommand {
    Create(change::CreateArgs),
    List(list::ListArgs),
    Delete(change::DeleteArgs),
    Check(check::CheckArgs),
}

/// Carries a command out.
pub(super) async fn run(command: AclCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        AclCommand::Create(args) => change::create(args, global).await,
        AclCommand::List(args) => list::run(args, global).await,
        AclCommand::Delete(args) => change::delete(args, global).await,
        AclCommand::Check(args) => check::run(args, global).await,
    }
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<Vec<Row>>("acl list"),
        Shape::document::<Vec<Row>>("acl create"),
        Shape::document::<Vec<Row>>("acl delete"),
        Shape::document::<check::Checked>("acl check"),
    ]
}

/// What entries are about.
#[derive(Debug, Args)]
#[group(required = false, multiple = false)]
struct ResourceArgs {
    /// A topic, or '*' for all
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// A group, or '*' for all
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// A transactional id, or '*' for all
    #[arg(long, value_name = "NAME")]
    transactional_id: Option<String>,
    /// A delegation token by its id, or '*' for all
    #[arg(long, value_name = "ID")]
    token: Option<String>,
    /// The delegation tokens of a user, or '*' for those of all
    #[arg(long, value_name = "USER")]
    tokens_of: Option<String>,
    /// The cluster as a whole
    #[arg(long)]
    cluster: bool,
}

impl ResourceArgs {
    fn resource(&self) -> Option<(ResourceType, String)> {
        let owner = self.tokens_of.as_deref().map(|owner| match owner {
            WILDCARD => WILDCARD.to_owned(),
            owner => principal(owner),
        });
        let named = [
            (ResourceType::Topic, &self.topic),
            (ResourceType::Group, &self.group),
            (ResourceType::TransactionalId, &self.transactional_id),
            (ResourceType::DelegationToken, &self.token),
            (ResourceType::User, &owner),
        ];
        let named = named.into_iter().find_map(|(kind, name)| Some((kind, name.clone()?)));
        named.or_else(|| self.cluster.then(|| (ResourceType::Cluster, CLUSTER_NAME.to_owned())))
    }

    fn required(&self) -> Result<(ResourceType, String), CliError> {
        self.resource().ok_or_else(|| {
            let message = "say what it is about: --topic, --group, --transactional-id, --token, --tokens-of or --cluster";
            CliError::Usage(message.to_owned())
        })
    }
}

/// One entry.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    permission: &'static str,
    principal: String,
    host: String,
    operation: &'static str,
    resource_type: &'static str,
    /// `LITERAL` for a whole name, `PREFIXED` for the beginning of names
    pattern: &'static str,
    name: String,
}

impl From<Acl> for Row {
    fn from(acl: Acl) -> Row {
        Row {
            permission: acl.permission.name(),
            principal: acl.principal,
            host: acl.host,
            operation: acl.operation.name(),
            resource_type: acl.resource_type.name(),
            pattern: acl.pattern.name(),
            name: acl.name,
        }
    }
}

fn table(rows: Vec<Row>) -> Table {
    let mut table = Table::new(&[
        "PERMISSION",
        "PRINCIPAL",
        "HOST",
        "OPERATION",
        "RESOURCE",
        "PATTERN",
        "NAME",
    ]);
    for row in rows {
        table.row([
            row.permission.to_owned(),
            row.principal,
            row.host,
            row.operation.to_owned(),
            row.resource_type.to_owned(),
            row.pattern.to_owned(),
            row.name,
        ]);
    }
    table
}

fn parse_operation(text: &str) -> Result<AclOperation, String> {
    AclOperation::from_name(text).ok_or_else(|| {
        let names: Vec<String> =
            AclOperation::ALL.iter().map(|it| it.name().to_ascii_lowercase()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// A principal, which is a user where no kind is said.
fn principal(text: &str) -> String {
    match text.contains(':') {
        true => text.to_owned(),
        false => format!("User:{text}"),
    }
}

/// Every entry that these parts fit.
fn filter(resource: Option<(ResourceType, String)>, pattern: PatternFilter) -> AclFilter {
    let (resource_type, name) = resource.unzip();
    AclFilter { resource_type, name, pattern, ..AclFilter::default() }
}

fn pattern_type(is_prefix: bool) -> PatternType {
    if is_prefix { PatternType::Prefixed } else { PatternType::Literal }
}
