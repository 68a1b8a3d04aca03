//! `logway acl list`.

use clap::Args;
use logway_metadata::acl::PatternFilter;

use super::{ResourceArgs, Row, filter, principal, table};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// List ACLs
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway acl list
  logway acl list --topic orders      every ACL that is about it, prefixes and '*' too
  logway acl list --principal alice")]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// Only those of this principal
    #[arg(long, value_name = "USER")]
    principal: Option<String>,
}

pub(super) async fn run(args: ListArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let mut filter = filter(args.resource.resource(), PatternFilter::Match);
    filter.principal = args.principal.as_deref().map(principal);
    let acls = global.client()?.describe_acls(&filter).await?;
    let rows: Vec<Row> = acls.into_iter().map(Row::from).collect();
    match global.format {
        Format::Json => output::print_json(&rows),
        Format::Text => output::print(&table(rows).render()),
    }
}
