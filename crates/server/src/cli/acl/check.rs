//! `logway acl check`: may somebody do something, and which rule says so.

use std::net::IpAddr;

use clap::Args;
use logway_client::{ConfigKind, ConfigResource};
use logway_metadata::MetadataImage;
use logway_metadata::acl::{AclOperation, PatternFilter};
use logway_metadata::image::AclVerdict;
use logway_metadata::record::{AclRecord, MetadataRecord};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ResourceArgs, Row, filter, parse_operation, principal};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// Tell whether a principal may do something, and which rule says so
///
/// Exits with 1 if not.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway acl check alice --topic orders --operation write
  logway acl check alice --group billing --operation read --host 10.0.0.7")]
pub(in crate::cli) struct CheckArgs {
    /// Who, as a user's name or TYPE:NAME
    #[arg(value_name = "USER")]
    principal: String,
    #[command(flatten)]
    resource: ResourceArgs,
    /// What is done
    #[arg(long, value_name = "OPERATION", value_parser = parse_operation)]
    operation: AclOperation,
    /// From which address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    host: IpAddr,
}

/// What the rules say.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Checked {
    is_allowed: bool,
    /// Why, in words
    reason: String,
    /// The ACL that decides, if one does
    acl: Option<Row>,
}

pub(super) async fn run(args: CheckArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let (resource_type, name) = args.resource.required()?;
    let client = global.client()?;
    let who = principal(&args.principal);
    let filter = filter(Some((resource_type, name.clone())), PatternFilter::Match);
    let record = |acl| MetadataRecord::Acl(AclRecord { acl, is_removed: false });
    let records: Vec<_> = client.describe_acls(&filter).await?.into_iter().map(record).collect();
    // The rules are those of the broker: they are read as it reads them.
    let image = MetadataImage::default().apply(&records);
    let image = image.map_err(|error| CliError::Usage(error.to_string()))?;
    let settings = Settings::of(&client).await?;
    let checked = if settings.super_users.split(';').any(|user| user.trim() == who) {
        Checked { is_allowed: true, reason: "it is one of super.users".to_owned(), acl: None }
    } else {
        let host = args.host.to_canonical();
        match image.acls().judge(&who, host, args.operation, resource_type, &name) {
            AclVerdict::Allowed(acl) => Checked {
                is_allowed: true,
                reason: format!("this ACL says so: {acl}"),
                acl: Some(acl.into()),
            },
            AclVerdict::Denied(acl) => Checked {
                is_allowed: false,
                reason: format!("this ACL says so: {acl}"),
                acl: Some(acl.into()),
            },
            AclVerdict::NotAllowed => Checked {
                is_allowed: false,
                reason: "no ACL about it allows that".to_owned(),
                acl: None,
            },
            AclVerdict::NoEntries => Checked {
                is_allowed: settings.allows_where_no_acl,
                reason: "no ACL is about it, and so allow.everyone.if.no.acl.found decides"
                    .to_owned(),
                acl: None,
            },
        }
    };
    match global.format {
        Format::Json => output::print_json(&checked)?,
        Format::Text => {
            let word = if checked.is_allowed { "allowed" } else { "denied" };
            output::print(&format!("{word}: {}\n", checked.reason))?;
        }
    }
    if checked.is_allowed { Ok(()) } else { Err(CliError::NotAllowed { who }) }
}

/// What beside ACLs decides.
struct Settings {
    super_users: String,
    allows_where_no_acl: bool,
}

impl Settings {
    /// As a broker has them; a broker of Kafka does not tell, and then nobody is above the ACLs.
    async fn of(client: &logway_client::Client) -> Result<Settings, CliError> {
        let described = client.describe_cluster().await?;
        let broker = described.brokers.first().map(|broker| broker.id.to_string());
        let name = broker.unwrap_or_default();
        let resource = ConfigResource { kind: ConfigKind::Broker, name };
        let entries = client.describe_configs(&resource).await?;
        let value = |name: &str| {
            let entry = entries.iter().find(|entry| entry.name == name);
            entry.and_then(|entry| entry.value.clone()).unwrap_or_default()
        };
        let allows_where_no_acl = value("allow.everyone.if.no.acl.found") == "true";
        Ok(Settings { super_users: value("super.users"), allows_where_no_acl })
    }
}
