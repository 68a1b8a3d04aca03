//! `logway acl create` and `delete`.

use clap::Args;
use logway_metadata::acl::{Acl, AclOperation, PatternFilter, Permission, WILDCARD};

use super::{ResourceArgs, Row, filter, parse_operation, pattern_type, principal};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// Allow or deny something
///
/// A denial wins over whatever is allowed. Who may read, write, delete or alter may describe, too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway acl create --allow alice --topic orders --operation read,write
  logway acl create --allow alice --group billing- --prefix --operation read
  logway acl create --deny '*' --topic secrets --operation all --host 10.0.0.7")]
pub(in crate::cli) struct CreateArgs {
    /// Who may, as a user's name or TYPE:NAME; '*' for everybody
    #[arg(long, value_name = "USER", required_unless_present = "deny", conflicts_with = "deny")]
    allow: Option<String>,
    /// Who may not
    #[arg(long, value_name = "USER")]
    deny: Option<String>,
    #[command(flatten)]
    resource: ResourceArgs,
    /// The name is the beginning of names
    #[arg(long)]
    prefix: bool,
    /// What is done, as OPERATION[,OPERATION...]
    #[arg(long, value_name = "OPERATION", required = true, value_delimiter = ',', value_parser = parse_operation)]
    operation: Vec<AclOperation>,
    /// From which address; '*' for all
    #[arg(long, value_name = "ADDR", default_value = WILDCARD)]
    host: String,
}

/// Delete ACLs
///
/// Those that all of the given options fit; at least one has to be given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway acl delete --principal alice
  logway acl delete --topic orders --operation write")]
pub(in crate::cli) struct DeleteArgs {
    /// Only those of this principal
    #[arg(long, value_name = "USER")]
    principal: Option<String>,
    #[command(flatten)]
    resource: ResourceArgs,
    /// The name is the beginning of names
    #[arg(long)]
    prefix: bool,
    /// Only those of this operation
    #[arg(long, value_name = "OPERATION", value_parser = parse_operation)]
    operation: Option<AclOperation>,
}

pub(super) async fn create(args: CreateArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let (resource_type, name) = args.resource.required()?;
    let permission = if args.deny.is_some() { Permission::Deny } else { Permission::Allow };
    let who = args.allow.or(args.deny).unwrap_or_default();
    let acl = |operation: AclOperation| Acl {
        resource_type,
        pattern: pattern_type(args.prefix),
        name: name.clone(),
        principal: principal(&who),
        host: args.host.clone(),
        operation,
        permission,
    };
    let acls: Vec<Acl> = args.operation.into_iter().map(acl).collect();
    let results = global.client()?.create_acls(&acls).await?;
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for (acl, result) in acls.into_iter().zip(results) {
        match result {
            Ok(()) => {
                eprintln!("created: {acl}");
                rows.push(Row::from(acl));
            }
            Err(error) => errors.push(error),
        }
    }
    if global.format == Format::Json {
        output::print_json(&rows)?;
    }
    CliError::collect(errors)
}

pub(super) async fn delete(args: DeleteArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let resource = args.resource.resource();
    if resource.is_none() && args.principal.is_none() && args.operation.is_none() {
        let message = "say which ACLs: --principal, --operation, or what they are about";
        return Err(CliError::Usage(message.to_owned()));
    }
    let pattern = match resource {
        Some(_) => PatternFilter::Only(pattern_type(args.prefix)),
        None => PatternFilter::Any,
    };
    let mut filter = filter(resource, pattern);
    filter.principal = args.principal.as_deref().map(principal);
    filter.operation = args.operation;
    let removed = global.client()?.delete_acls(&filter).await?;
    for acl in &removed {
        eprintln!("deleted: {acl}");
    }
    if global.format == Format::Json {
        let rows: Vec<Row> = removed.into_iter().map(Row::from).collect();
        output::print_json(&rows)?;
    }
    Ok(())
}
